/* Blocked product of n x n matrices of doubles: c = c + a * b, as in BLAS. Three objects with different
 * patterns: for each row of blocks, a and c stay within that row, while b is swept whole. */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_usage(FILE *stream) {
    fputs("usage: matmul [N [BLOCK]]\n"
          "Computes c = c + a * b of N x N matrices of doubles (1024), in blocks of BLOCK x BLOCK (64).\n"
          "Memory: 24 * N * N bytes.\n",
          stream);
}

static bool parse_number(const char *text, size_t most, size_t *number) {
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < 1 || value > most) {
        return false;
    }
    *number = value;
    return true;
}

static size_t smaller(size_t left, size_t right) { return left < right ? left : right; }

/* Small whole numbers: every sum is exact, so the checksum does not depend on the block size. */
static void fill(double *matrix, size_t n, size_t factor) {
    for (size_t i = 0; i < n * n; i++) {
        matrix[i] = (double)(i * factor % 17) - 8.0;
    }
}

static void multiply_block(double *c, const double *a, const double *b, size_t n, size_t row, size_t inner,
                           size_t column, size_t block) {
    size_t last_row = smaller(row + block, n);
    size_t last_inner = smaller(inner + block, n);
    size_t last_column = smaller(column + block, n);
    for (size_t i = row; i < last_row; i++) {
        for (size_t k = inner; k < last_inner; k++) {
            double factor = a[i * n + k];
            for (size_t j = column; j < last_column; j++) {
                c[i * n + j] += factor * b[k * n + j];
            }
        }
    }
}

static void multiply(double *c, const double *a, const double *b, size_t n, size_t block) {
    for (size_t row = 0; row < n; row += block) {
        for (size_t inner = 0; inner < n; inner += block) {
            for (size_t column = 0; column < n; column += block) {
                multiply_block(c, a, b, n, row, inner, column, block);
            }
        }
    }
}

static double checksum_of(const double *matrix, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n * n; i++) {
        sum += matrix[i] * (double)(i % 7 + 1);
    }
    return sum;
}

int main(int count, char **values) {
    size_t n = 1024;
    size_t block = 64;
    if (count == 2 && strcmp(values[1], "--help") == 0) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (count > 3 || (count > 1 && !parse_number(values[1], 100000, &n)) ||
        (count > 2 && !parse_number(values[2], 100000, &block))) {
        print_usage(stderr);
        return 2;
    }
    double *a = malloc(n * n * sizeof *a);
    double *b = malloc(n * n * sizeof *b);
    double *c = malloc(n * n * sizeof *c);
    if (a == NULL || b == NULL || c == NULL) {
        fprintf(stderr, "matmul: no memory for three matrices of %zu x %zu: %s; try a smaller N\n", n, n,
                strerror(errno));
        free(a);
        free(b);
        free(c);
        return EXIT_FAILURE;
    }
    fill(a, n, 3);
    fill(b, n, 5);
    fill(c, n, 7);
    multiply(c, a, b, n, block);
    printf("n %zu, block %zu, checksum %.0f\n", n, block, checksum_of(c, n));
    free(a);
    free(b);
    free(c);
    return EXIT_SUCCESS;
}
