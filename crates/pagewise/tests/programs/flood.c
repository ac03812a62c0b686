// Reads by more call paths than anybody can tell apart: each call comes through a function of its own that is made at run time and
// has neither name nor unwind table. usage: flood PATHS FILE [WHEN]. Prints the sum of what it has read. With WHEN it begins once that file is there.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
static const unsigned char CODE[] = {
    0x55,             /* push %rbp */
    0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
    0xff, 0xd7,       /* call *%rdi */
    0x5d,             /* pop %rbp */
    0xc3,             /* ret */
};
#else
#error "no code for this processor yet"
#endif

typedef void (*through)(void (*)(void));

static int file;
static unsigned long sum;

__attribute__((noinline)) static void reads(void) {
    unsigned char byte = 0;
    if (pread(file, &byte, 1, 0) == 1) {
        sum += byte;
    }
}

int main(int count, char **values) {
    const size_t paths = count >= 3 ? strtoul(values[1], NULL, 10) : 0;
    file = count >= 3 ? open(values[2], O_RDONLY) : -1;
    while (count == 4 && access(values[3], F_OK) != 0) {
        usleep(1000);
    }
    unsigned char *code = mmap(NULL, paths * sizeof(CODE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file < 0 || code == MAP_FAILED) {
        return 2;
    }
    for (size_t path = 0; path < paths; path++) {
        memcpy(code + path * sizeof(CODE), CODE, sizeof(CODE));
    }
    if (mprotect(code, paths * sizeof(CODE), PROT_READ | PROT_EXEC) != 0) {
        return 3;
    }
    for (size_t path = 0; path < paths; path++) {
        through call;
        const unsigned char *at = code + path * sizeof(CODE);
        memcpy(&call, &at, sizeof(call));
        call(reads);
    }
    printf("%lu\n", sum);
    return 0;
}
