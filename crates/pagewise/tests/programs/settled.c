/* Fills 64 MiB, and then for two seconds reads pages of the first 24 in no order: with enough memory for these, nothing swaps any more. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 4096, ALL = 16384, USED = 6144 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(void) {
    unsigned char *array = malloc((size_t)ALL * PAGE);
    if (array == NULL) {
        return 1;
    }
    for (int page = 0; page < ALL; page++) {
        /* What compresses to nothing would not swap. */
        for (int at = 0; at < PAGE; at += 64) {
            array[(size_t)page * PAGE + at] = (unsigned char)(page + at / 64);
        }
    }
    unsigned number = 1, sum = 0;
    for (double end = now() + 2; now() < end;) {
        for (int read = 0; read < 1000; read++) {
            number = number * 1664525 + 1013904223;
            sum += array[(size_t)((number >> 8) % USED) * PAGE];
        }
    }
    return sum == 1;
}
