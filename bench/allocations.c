/* What an allocation and its release cost: ns for each pair, in batches with pauses between, so that a recorder can
 * follow. usage: allocations BYTES BATCH BATCHES PAUSE_US [DEPTH]   DEPTH: calls below main, of 256 bytes of stack each */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ALIVE = 64 };
static void *alive[ALIVE];

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void batch(size_t bytes, long pairs) {
    for (long pair = 0; pair < pairs; pair++) {
        void **place = &alive[pair % ALIVE];
        free(*place);
        *place = malloc(bytes);
        __asm__ volatile("" : : "r"(*place) : "memory");
    }
}

static __attribute__((noinline)) void at_depth(int depth, size_t bytes, long pairs) {
    volatile char room[256];
    room[0] = (char)depth;
    if (depth > 0)
        at_depth(depth - 1, bytes, pairs);
    else
        batch(bytes, pairs);
    room[1] = room[0];
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fprintf(stderr, "usage: allocations BYTES BATCH BATCHES PAUSE_US [DEPTH]\n");
        return 2;
    }
    const size_t bytes = strtoull(argv[1], NULL, 10);
    const long pairs = atol(argv[2]), batches = atol(argv[3]), pause = atol(argv[4]);
    const int depth = argc > 5 ? atoi(argv[5]) : 0;
    double spent = 0;
    for (long i = 0; i < batches; i++) {
        const double begin = now_ns();
        at_depth(depth, bytes, pairs);
        spent += now_ns() - begin;
        if (pause > 0)
            usleep((useconds_t)pause);
    }
    printf("{\"pairs\": %ld, \"ns_per_pair\": %.3f}\n", pairs * batches, spent / ((double)pairs * (double)batches));
}
