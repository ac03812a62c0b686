// A library that makes objects (-DLIBRARY), a program that is linked with it, and one that loads it itself (-DLOADS).
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LIBRARY
char grid_table[1 << 20];

__attribute__((noinline)) char *grid_make(size_t bytes) {
    char *made = malloc(bytes);
    __asm__ volatile("" : "+r"(made) : : "memory");
    return made;
}
#else
extern char *grid_make(size_t bytes);

int main(void) {
    char *(*make)(size_t);
#ifdef LOADS
    void *library = dlopen("./libgrid.so.1", RTLD_NOW);
    if (library == NULL)
        return 2;
    *(void **)&make = dlsym(library, "grid_make");
#else
    make = grid_make;
#endif
    char *made = make(2 << 20);
    memset(made, 1, 2 << 20);
    puts(made[7] == 1 ? "ok" : "wrong");
    free(made);
    return 0;
}
#endif
