/* Reads a file at random places, over and over, and prints how long single reads took: the victim of a program that spoils the
 * page cache. It evicts the file first and warms it by reading it all in random order, so that its pages are charged to
 * its own cgroup; then it reads until its time is over or it is told to end (SIGTERM). */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Latencies are counted in steps of an eighth of a power of two. */
enum { BLOCK = 4096, STEPS = 8, CELLS = 64 * STEPS };

static volatile sig_atomic_t is_over;

static void end(int signal_number) {
    (void)signal_number;
    is_over = 1;
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static unsigned cell_of(uint64_t ns) {
    unsigned power = 63 - (unsigned)__builtin_clzll(ns | STEPS);
    return power * STEPS + (unsigned)(ns >> (power - 3) & (STEPS - 1));
}

/* The upper end of a cell. */
static uint64_t ns_of(unsigned cell) {
    unsigned power = cell / STEPS;
    return ((uint64_t)(STEPS + cell % STEPS + 1) << power) / STEPS;
}

static uint64_t quantile(const uint64_t *cells, uint64_t count, double share) {
    uint64_t wanted = (uint64_t)((double)count * share), seen = 0;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        seen += cells[cell];
        if (seen > wanted) {
            return ns_of(cell);
        }
    }
    return 0;
}

static bool read_block(int file, uint64_t block) {
    char buffer[BLOCK];
    return pread(file, buffer, sizeof buffer, (off_t)(block * BLOCK)) > 0;
}

/* Every block once, in an order without runs: a step that has no divisor in common with a power of two. */
static bool warm(int file, uint64_t blocks) {
    uint64_t power = 1;
    while (power < blocks) {
        power *= 2;
    }
    for (uint64_t step = 0, block = 0; step < power; step++) {
        block = (block + 0x9e3779b1) % power;
        if (block < blocks && !read_block(file, block)) {
            return false;
        }
    }
    return true;
}

int main(int count, char **values) {
    if (count < 2 || count > 5) {
        fputs("usage: probe FILE [SECONDS [MICROSECONDS BETWEEN READS [SECONDS BEFORE]]]\n"
              "Reads 4 KiB at random places of FILE, for SECONDS (600) or until SIGTERM; SECONDS BEFORE (0) do not count.\n",
              stderr);
        return 2;
    }
    double seconds = count > 2 ? strtod(values[2], NULL) : 600;
    long pause_us = count > 3 ? strtol(values[3], NULL, 10) : 0;
    double before = count > 4 ? strtod(values[4], NULL) : 0;
    int file = open(values[1], O_RDONLY);
    struct stat facts;
    if (file < 0 || fstat(file, &facts) != 0 || facts.st_size < BLOCK) {
        fprintf(stderr, "probe: cannot use %s: %s\n", values[1], strerror(errno));
        return 1;
    }
    uint64_t blocks = (uint64_t)facts.st_size / BLOCK;
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGTERM, &action, NULL);
    if (!warm(file, blocks)) {
        fprintf(stderr, "probe: cannot read %s: %s\n", values[1], strerror(errno));
        return 1;
    }
    /* From here on it reads as programs do that advise nothing. */
    posix_fadvise(file, 0, 0, POSIX_FADV_NORMAL);
    static uint64_t cells[CELLS];
    uint64_t reads = 0, most = 0, state = 88172645463325252;
    for (uint64_t end = now_ns() + (uint64_t)(before * 1e9); now_ns() < end && !is_over;) {
        if (!read_block(file, next_random(&state) % blocks)) {
            break;
        }
    }
    fputs("ready\n", stdout);
    fflush(stdout);
    uint64_t until = now_ns() + (uint64_t)(seconds * 1e9);
    const struct timespec pause = {.tv_nsec = pause_us % 1000000 * 1000};
    while (!is_over) {
        uint64_t block = next_random(&state) % blocks;
        uint64_t began = now_ns();
        if (!read_block(file, block)) {
            break;
        }
        uint64_t ended = now_ns();
        cells[cell_of(ended - began)]++;
        most = ended - began > most ? ended - began : most;
        reads++;
        if (ended > until) {
            break;
        }
        if (pause_us > 0) {
            nanosleep(&pause, NULL);
        }
    }
    printf("reads=%" PRIu64 " p50_ns=%" PRIu64 " p99_ns=%" PRIu64 " p999_ns=%" PRIu64 " max_ns=%" PRIu64 "\n", reads,
           quantile(cells, reads, 0.5), quantile(cells, reads, 0.99), quantile(cells, reads, 0.999), most);
    return 0;
}
