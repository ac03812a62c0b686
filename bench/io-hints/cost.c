/* What a cached pread of 4 KiB takes, ns: through two functions, of which a plan may name either. usage: cost FILE CALLS */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCKS = 1024 };

static char buffer[BLOCK];

__attribute__((noipa)) static ssize_t measured(int file, off_t offset) {
    ssize_t bytes = pread(file, buffer, BLOCK, offset);
    return bytes + buffer[0];
}

__attribute__((noipa)) static ssize_t scan(int file, off_t offset) {
    ssize_t bytes = pread(file, buffer, BLOCK, offset);
    return bytes + buffer[0];
}

int main(int count, char **values) {
    int file = count == 3 ? open(values[1], O_RDONLY) : -1;
    if (file < 0) {
        fputs("usage: cost FILE CALLS\n", stderr);
        return 2;
    }
    long calls = atol(values[2]);
    for (long call = 0; call < BLOCKS; call++) {
        scan(file, call * BLOCK);
    }
    if (getenv("SCAN_STOPS") != NULL) {
        raise(SIGSTOP);
    }
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (long call = 0; call < calls; call++) {
        measured(file, call % BLOCKS * BLOCK);
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    long ns = (ended.tv_sec - began.tv_sec) * 1000000000L + (ended.tv_nsec - began.tv_nsec);
    fprintf(stderr, "{\"ns\": %ld}\n", ns / calls);
    return 0;
}
