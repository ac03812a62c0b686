/* Sweeps memory and ends in a given way: ends MEBIBYTES PASSES WAY [CODE]
 * WAY: code, sparse (touches a page in each 2 MiB: the page tables take as much and cannot be swapped), abort, segfault, forever (never), stubborn (never, and not by SIGTERM or SIGINT either).
 * Prints its process id first, and with `forever` and `stubborn` goes on sweeping whatever PASSES is. */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void fill(unsigned char *bytes, size_t size) {
    uint64_t state = 1;
    for (size_t offset = 0; offset < size; offset += sizeof state) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        memcpy(bytes + offset, &state, sizeof state);
    }
}

static void sweep(unsigned char *bytes, size_t size) {
    for (size_t offset = 0; offset < size; offset += PAGE) {
        ((volatile unsigned char *)bytes)[offset]++;
    }
}

static void touch_sparsely(size_t size) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    unsigned char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (bytes == MAP_FAILED) {
        exit(4);
    }
    for (size_t offset = 0; offset < size; offset += 2 << 20) {
        bytes[offset] = 1;
    }
}

int main(int count, char **values) {
    if (count < 4) {
        return 2;
    }
    size_t size = strtoul(values[1], NULL, 10) << 20;
    unsigned long passes = strtoul(values[2], NULL, 10);
    const char *way = values[3];
    if (strcmp(way, "stubborn") == 0) {
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
    }
    printf("%d\n", (int)getpid());
    fflush(stdout);
    if (strcmp(way, "sparse") == 0) {
        touch_sparsely(size);
        return 0;
    }
    unsigned char *buffer = malloc(size);
    if (buffer == NULL) {
        return 3;
    }
    fill(buffer, size);
    int endless = strcmp(way, "forever") == 0 || strcmp(way, "stubborn") == 0;
    for (unsigned long pass = 0; endless || pass < passes; pass++) {
        sweep(buffer, size);
    }
    if (strcmp(way, "abort") == 0) {
        abort();
    }
    if (strcmp(way, "segfault") == 0) {
        raise(SIGSEGV);
    }
    return count > 4 ? atoi(values[4]) : 0;
}
