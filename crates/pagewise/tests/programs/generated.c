/* usage: generated [PASSES]   touches an array from code made at run time, which it names for profilers as such programs
   do. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, BYTES = 48 << 20, PASSES = 3 };

#if defined(__x86_64__)
static const unsigned char CODE[] = {
    0x55,             /* push %rbp */
    0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
    0x80, 0x07, 0x01, /* addb $1, (%rdi) */
    0x5d,             /* pop %rbp */
    0xc3,             /* ret */
};
#else
#error "no code for this processor yet"
#endif

typedef void (*touch_function)(unsigned char *);

int main(int count, char **arguments) {
    int passes = count > 1 ? atoi(arguments[1]) : PASSES;
    unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *bytes = malloc(BYTES);
    if (code == MAP_FAILED || bytes == NULL) {
        return 1;
    }
    memcpy(code, CODE, sizeof CODE);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    if (map == NULL || fprintf(map, "%lx %zx made_at_run_time\n", (unsigned long)code, sizeof CODE) < 0 ||
        fclose(map) != 0) {
        return 1;
    }
    puts(path);
    touch_function touch;
    memcpy(&touch, &code, sizeof touch);
    for (size_t offset = 0; offset < BYTES; offset += PAGE) {
        memset(bytes + offset, (int)(offset / PAGE % 251), PAGE / 2);
    }
    for (int pass = 0; pass < passes; pass++) {
        for (size_t offset = 0; offset < BYTES; offset += PAGE) {
            touch(bytes + offset);
        }
    }
    return 0;
}
