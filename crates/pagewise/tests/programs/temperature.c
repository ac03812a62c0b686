/* Three arrays of 8 MiB for some seconds: all pages of `hot` are read again and again, every other page of `half`, none
 * of `cold`. usage: temperature SECONDS */

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { SIZE = 8 << 20, PAGE = 4096 };

/* Accesses by way of a cached translation set no accessed bit. A change of protection of many pages empties the
 * processor's cache of translations. */
static void forget_translations(void) {
    static _Alignas(PAGE) unsigned char other[64 * PAGE];
    for (int at = 0; at < (int)sizeof other; at += PAGE) {
        *(volatile unsigned char *)(other + at) = 1;
    }
    if (mprotect(other, sizeof other, PROT_READ) != 0 || mprotect(other, sizeof other, PROT_READ | PROT_WRITE) != 0) {
        perror("mprotect");
        exit(1);
    }
}

static void read_pages(const unsigned char *array, int step) {
    for (int at = 0; at < SIZE; at += step * PAGE) {
        (void)*(const volatile unsigned char *)(array + at);
    }
}

static unsigned char *filled(unsigned char *array) {
    for (int at = 0; array != NULL && at < SIZE; at += PAGE) {
        array[at] = 1;
    }
    return array;
}

int main(int count, char **values) {
    time_t end = time(NULL) + (count > 1 ? atoi(values[1]) : 1) + 1;
    unsigned char *hot = filled(malloc(SIZE));
    unsigned char *half = filled(malloc(SIZE));
    unsigned char *cold = filled(malloc(SIZE));
    if (hot == NULL || half == NULL || cold == NULL) {
        return 1;
    }
    while (time(NULL) < end) {
        forget_translations();
        read_pages(hot, 1);
        read_pages(half, 2);
        struct timespec pause = {0, 5000000};
        nanosleep(&pause, NULL);
    }
    return cold[0] == 1 ? 0 : 1;
}
