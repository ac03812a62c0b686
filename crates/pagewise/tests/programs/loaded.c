// A library that a program loads while it runs.
#include <stdlib.h>
#include <string.h>

void *make(void) {
    char *loaded = calloc(1, 100 << 10); // line of loaded
    if (loaded != NULL)
        memset(loaded, 1, 100 << 10);
    return loaded;
}
