/* Two arrays of 64 MiB, in memory as a whole: every page of `dense` is read again and again, the first eighth of `idle` too.
 * usage: dense SECONDS. Writes in the end how many KiB of its memory are in huge pages. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 64 << 20, PAGE = 4096 };

static unsigned char *filled(unsigned char *array) {
    for (int at = 0; array != NULL && at < SIZE; at += PAGE) {
        array[at] = 1;
    }
    return array;
}

static void read_pages(const unsigned char *array, int bytes) {
    for (int at = 0; at < bytes; at += PAGE) {
        (void)*(const volatile unsigned char *)(array + at);
    }
}

static void say_huge(void) {
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "AnonHugePages:", 14) == 0) {
            printf("%ld\n", strtol(line + 14, NULL, 10));
        }
    }
}

int main(int count, char **values) {
    time_t end = time(NULL) + (count > 1 ? atoi(values[1]) : 1) + 1;
    unsigned char *dense = filled(malloc(SIZE));
    unsigned char *idle = filled(malloc(SIZE));
    if (dense == NULL || idle == NULL) {
        return 1;
    }
    while (time(NULL) < end) {
        read_pages(dense, SIZE);
        read_pages(idle, SIZE / 8);
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, NULL);
    }
    say_huge();
    return 0;
}
