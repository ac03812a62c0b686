/* A child sweeps an array that its parent made and filled. */

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SIZE = 48 << 20, PASSES = 3 };

static void fill(unsigned char *bytes) {
    for (size_t offset = 0; offset < SIZE; offset += PAGE) {
        memset(bytes + offset, (int)(1 + offset / PAGE % 251), PAGE / 2);
    }
}

static void sweep(volatile unsigned char *bytes) {
    for (size_t offset = 0; offset < SIZE; offset += PAGE) {
        bytes[offset]++;
    }
}

int main(void) {
    unsigned char *inherited = malloc(SIZE);
    if (inherited == NULL) {
        return 1;
    }
    fill(inherited);
    pid_t child = fork();
    if (child == 0) {
        for (int pass = 0; pass < PASSES; pass++) {
            sweep(inherited);
        }
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status != 0;
}
