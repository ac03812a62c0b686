// Reads a file in order and at random places, both by a function that the compiler puts into its callers. usage: inlined FILE
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { BLOCK = 4096, BLOCKS = 256 };

static inline __attribute__((always_inline)) ssize_t read_block(int file, long number) {
    char block[BLOCK];
    ssize_t bytes = pread(file, block, BLOCK, number * BLOCK);
    __asm__ volatile("" ::"r"(block) : "memory");
    return bytes;
}

__attribute__((noinline)) static ssize_t scan(int file) {
    ssize_t sum = 0;
    for (long number = 0; number < BLOCKS; number++) {
        sum += read_block(file, number);
    }
    return sum;
}

__attribute__((noinline)) static ssize_t look_up(int file) {
    ssize_t sum = 0;
    for (long number = 0; number < BLOCKS; number++) {
        sum += read_block(file, number * 97 % BLOCKS);
    }
    return sum;
}

int main(int count, char **values) {
    int file = count == 2 ? open(values[1], O_RDONLY) : -1;
    return file >= 0 && scan(file) == BLOCKS * BLOCK && look_up(file) == BLOCKS * BLOCK ? 0 : 1;
}
