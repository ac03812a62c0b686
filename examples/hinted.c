/* A sweep that helps itself by pagewise.h: it keeps what it may, reads the next piece in ahead and lets the last one go.
 * The same numbers with and without `pagewise apply`, which alone makes the hints count:
 *
 *     pagewise apply empty.toml --memory 128M -- build/examples/hinted 256
 *
 * where empty.toml is a plan without rules (docs/plan.md). */

#include "../include/pagewise.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { PASSES = 3, PIECE = 4 << 20 };

static uint64_t sum_of(const uint64_t *words, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum = sum * 31 + words[i];
    }
    return sum;
}

int main(int count, char **values) {
    const size_t pieces = (count > 1 ? strtoul(values[1], NULL, 10) : 64) / (PIECE >> 20);
    const size_t words = PIECE / sizeof(uint64_t);
    if (count > 2 || pieces < 1 || pieces > 100000) {
        fputs("usage: hinted [MIB]\nSweeps MIB MiB (64) three times, in pieces of 4 MiB.\n", stderr);
        return 2;
    }
    uint64_t *array = malloc(pieces * PIECE);
    if (array == NULL) {
        fputs("hinted: no memory; try fewer MiB\n", stderr);
        return EXIT_FAILURE;
    }
    const size_t kept = pagewise_lock(array, pieces * PIECE / 4);
    for (size_t i = 0; i < pieces * words; i++) {
        array[i] = i * 2654435761u;
    }
    uint64_t sum = 0;
    pagewise_phase_begin("sweep");
    for (size_t pass = 0; pass < PASSES; pass++) {
        for (size_t piece = 0; piece < pieces; piece++) {
            pagewise_prefetch(array + (piece + 1) % pieces * words, PIECE);
            sum += sum_of(array + piece * words, words);
            if (piece * PIECE >= kept) {
                pagewise_release(array + piece * words, PIECE);
            }
        }
    }
    pagewise_phase_end("sweep");
    printf("sum %016" PRIx64 "\n", sum);
    free(array);
    return EXIT_SUCCESS;
}
