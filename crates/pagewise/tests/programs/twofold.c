/* Goes through an array again and again, in order or not: `twofold swept|written|random|hot [MIB [ROUNDS]]`; written: swept, and each page is
 * written; hot: mostly through its third eighth. Says the same each time. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_WORDS = 512 };

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

int main(int count, char **values) {
    int read_only = count > 1 && strcmp(values[1], "swept") == 0;
    int swept = read_only || (count > 1 && strcmp(values[1], "written") == 0);
    int hot = count > 1 && strcmp(values[1], "hot") == 0;
    size_t pages = (count > 2 ? strtoul(values[2], NULL, 10) : 64) * 256;
    size_t rounds = count > 3 ? strtoul(values[3], NULL, 10) : 4;
    uint64_t *words = malloc(pages * PAGE_WORDS * sizeof *words);
    if (words == NULL) {
        return 1;
    }
    uint64_t state = 1;
    for (size_t i = 0; i < pages * PAGE_WORDS; i++) {
        words[i] = i % 2 == 0 ? next(&state) : i;
    }
    uint64_t sum = 0;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < pages; i++) {
            size_t page = swept ? i : next(&state) % pages;
            if (hot && next(&state) % 8 != 0) {
                page = pages / 4 + page / 8;
            }
            sum += words[page * PAGE_WORDS];
            if (!read_only) {
                words[page * PAGE_WORDS]++;
            }
        }
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
