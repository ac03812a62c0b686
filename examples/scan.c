/* Reads a file in one of the ways that programs read files: whole, in short runs at random places, or both on one descriptor.
 * Each way is a function of its own, so that a plan can name it by its call path. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20, RUN = 4, PIECE = 16 << 10, ROW = 4096, LOOK_UPS_PER_MIB = 16 };

static char buffer[MIB];
static uint64_t sum;

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void use(ssize_t bytes) {
    for (ssize_t at = 0; at < bytes; at += 64) {
        sum += (unsigned char)buffer[at];
    }
}

/* The next MiB of a scan. */
__attribute__((noipa)) static ssize_t scan(int file) {
    ssize_t bytes = read(file, buffer, MIB);
    use(bytes);
    return bytes;
}

/* A piece of a short run. */
__attribute__((noipa)) static ssize_t burst(int file, off_t offset) {
    ssize_t bytes = pread(file, buffer, PIECE, offset);
    use(bytes);
    return bytes;
}

/* A row at a random place. */
__attribute__((noipa)) static ssize_t look_up(int file, off_t offset) {
    ssize_t bytes = pread(file, buffer, ROW, offset);
    use(bytes);
    return bytes;
}

static void bursts(int file, uint64_t bytes, uint64_t count) {
    uint64_t state = 88172645463325252, places = bytes / (RUN * PIECE);
    for (uint64_t run = 0; run < count; run++) {
        off_t offset = (off_t)(next_random(&state) % places * (RUN * PIECE));
        for (int piece = 0; piece < RUN; piece++) {
            burst(file, offset + piece * PIECE);
        }
    }
}

/* A scan, with look-ups in between, on one descriptor. */
static void mixed(int file, uint64_t bytes) {
    uint64_t state = 88172645463325252;
    while (scan(file) > 0) {
        for (int row = 0; row < LOOK_UPS_PER_MIB; row++) {
            look_up(file, (off_t)(next_random(&state) % (bytes / ROW) * ROW));
        }
    }
}

int main(int count, char **values) {
    const char *kind = count > 1 ? values[1] : "";
    uint64_t number = count > 3 ? strtoull(values[3], NULL, 10) : 1;
    if (count < 3 || count > 4 || (strcmp(kind, "whole") && strcmp(kind, "bursts") && strcmp(kind, "mixed"))) {
        fputs("usage: scan whole FILE [TIMES]   reads it from its beginning to its end\n"
              "       scan bursts FILE [RUNS]   runs of 4 x 16 KiB at random places\n"
              "       scan mixed FILE           a scan, with 16 rows at random places after each MiB\n"
              "The file is evicted from the page cache first. With SCAN_STOPS=1 in the environment it then stops until SIGCONT,\n"
              "so that there is time to attach to it.\n",
              stderr);
        return 2;
    }
    int file = open(values[2], O_RDONLY);
    struct stat facts;
    if (file < 0 || fstat(file, &facts) != 0 || facts.st_size < MIB) {
        fprintf(stderr, "scan: cannot use %s: %s\n", values[2], strerror(errno));
        return 1;
    }
    /* On a descriptor of its own: whoever advises one speaks for it. */
    int other = open(values[2], O_RDONLY);
    posix_fadvise(other, 0, 0, POSIX_FADV_DONTNEED);
    close(other);
    if (getenv("SCAN_STOPS") != NULL) {
        raise(SIGSTOP);
    }
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    if (!strcmp(kind, "bursts")) {
        bursts(file, (uint64_t)facts.st_size, number);
    } else if (!strcmp(kind, "mixed")) {
        mixed(file, (uint64_t)facts.st_size);
    } else {
        for (uint64_t time = 0; time < number; time++) {
            lseek(file, 0, SEEK_SET);
            while (scan(file) > 0) {
            }
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &ended);
    int64_t ns = (ended.tv_sec - began.tv_sec) * INT64_C(1000000000) + (ended.tv_nsec - began.tv_nsec);
    fprintf(stderr, "{\"ns\": %" PRId64 "}\n", ns);
    printf("sum %016" PRIx64 "\n", sum);
    close(file);
    return 0;
}
