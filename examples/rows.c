/* Sweeps a matrix again and again whose rows are blocks of their own, as many programs make them: the same access pattern as sweep's, in
 * as many allocations as there are rows. The allocator decides which row lies where. */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t *make_row(size_t words, uint64_t seed) {
    uint64_t *row = malloc(words * sizeof *row);
    if (row == NULL) {
        perror("rows");
        exit(EXIT_FAILURE);
    }
    /* Half of it compresses to nothing. */
    for (size_t word = 0; word < words; word++) {
        row[word] = word % 2 == 0 ? (seed = seed * 6364136223846793005u + 1442695040888963407u) : 0;
    }
    return row;
}

static uint64_t sum_of(const uint64_t *row, size_t words) {
    /* volatile: each pass reads memory */
    const volatile uint64_t *values = row;
    uint64_t sum = 0;
    for (size_t word = 0; word < words; word++) {
        sum = sum * 31 + values[word];
    }
    return sum;
}

static size_t number(const char *text, const char *otherwise) {
    return strtoul(text != NULL ? text : otherwise, NULL, 10);
}

int main(int count, char **values) {
    const size_t mebibytes = number(count > 1 ? values[1] : NULL, "256");
    const size_t kibibytes = number(count > 2 ? values[2] : NULL, "128");
    const size_t passes = number(count > 3 ? values[3] : NULL, "3");
    if (count > 4 || mebibytes == 0 || kibibytes == 0 || passes == 0) {
        fputs("usage: rows [MIB [KIB [PASSES]]]\n"
              "Writes a matrix of MIB MiB (256) in rows of KIB KiB (128), and reads it PASSES times (3).\n",
              stderr);
        return 2;
    }
    const size_t words = (kibibytes << 10) / sizeof(uint64_t), rows = (mebibytes << 10) / kibibytes;
    uint64_t **matrix = calloc(rows, sizeof *matrix);
    if (matrix == NULL) {
        perror("rows");
        return EXIT_FAILURE;
    }
    for (size_t row = 0; row < rows; row++) {
        matrix[row] = make_row(words, row);
    }
    uint64_t sum = 0;
    for (size_t pass = 0; pass < passes; pass++) {
        for (size_t row = 0; row < rows; row++) {
            sum = sum * 31 + sum_of(matrix[row], words);
        }
    }
    printf("%zu rows, sum %016" PRIx64 "\n", rows, sum);
    for (size_t row = 0; row < rows; row++) {
        free(matrix[row]);
    }
    free(matrix);
    return EXIT_SUCCESS;
}
