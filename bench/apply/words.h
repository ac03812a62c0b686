/* What the programs of this folder are made of: arrays of words, filled the same in each run. */

#ifndef WORDS_H
#define WORDS_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_WORDS = 512, LINE_WORDS = 8 };

static uint64_t state = 88172645463325252;

/* xorshift64*: the same order in every run. */
static inline uint64_t next_random(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

/* Half of each page is random: it compresses by about half. */
static inline void fill(uint64_t *words, size_t count) {
    for (size_t word = 0; word < count; word++) {
        words[word] = word % PAGE_WORDS < PAGE_WORDS / 2 ? next_random() : 0;
    }
}

static inline uint64_t *allocate(size_t count) {
    uint64_t *words = malloc(count * sizeof *words);
    if (words == NULL) {
        perror("malloc");
        exit(EXIT_FAILURE);
    }
    return words;
}

/* One word of each line of the cache. */
static inline uint64_t sweep(const uint64_t *words, size_t count) {
    const volatile uint64_t *from = words;
    uint64_t sum = 0;
    for (size_t word = 0; word < count; word += LINE_WORDS) {
        sum = sum * 31 + from[word];
    }
    return sum;
}

/* A way to go through so many words of memory. */
struct shape {
    const char *name;
    uint64_t (*run)(size_t);
};

/* Runs the one that the first argument names, in as many MiB as the second says (192), and prints its checksum. */
static inline int run_shape(const struct shape *shapes, size_t shapes_count, int count, char **values) {
    size_t mebibytes = count > 2 ? strtoul(values[2], NULL, 10) : 192;
    for (size_t at = 0; count > 1 && mebibytes >= 16 && at < shapes_count; at++) {
        if (strcmp(values[1], shapes[at].name) == 0) {
            printf("%016" PRIx64 "\n", shapes[at].run((mebibytes << 20) / sizeof(uint64_t)));
            return EXIT_SUCCESS;
        }
    }
    fprintf(stderr, "usage: %s WORD [MIB]\n", values[0]);
    return 2;
}

#endif
