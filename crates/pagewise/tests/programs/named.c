// Two buffers of one line, which the program tells apart by names of its own, and passes over in turn.
#define _GNU_SOURCE
#include "../../../../include/pagewise.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIB = 1 << 20, BUFFERS = 2 };

int main(void) {
    static const char *const names[BUFFERS] = {"prices", "quantities"};
    const size_t words = 64 * MIB / sizeof(uint64_t);
    uint64_t *buffers[BUFFERS];
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = malloc(words * sizeof(uint64_t));
        pagewise_name(buffers[i], names[i]);
    }
    uint64_t sum = 0;
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < BUFFERS; i++)
            for (size_t at = 0; at < words; at++)
                sum += buffers[i][at] += at;
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
