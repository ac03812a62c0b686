/* A call path, a static function and globals, to be built twice: with and without what moves them. */
#include <stdlib.h>

char table[100000];

#ifdef MOVED
__attribute__((noinline)) int before(int x) { return x * 3 + 1; }
#endif

#ifdef REBUILT
__attribute__((noinline)) void *make(size_t bytes) { return bytes > 7 ? (bytes > 99 ? malloc(bytes) : table) : NULL; }
#else
__attribute__((noinline)) void *make(size_t bytes) {
    char *made = malloc(bytes);
    return made == NULL ? table : made;
}
#endif

int main(int count, char **values) {
    (void)values;
#ifdef MOVED
    count = before(count);
#endif
    return make((size_t)count) == NULL;
}
