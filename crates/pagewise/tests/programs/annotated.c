/* Patched by a test: a table that stays, and an array that is swept. usage: annotated */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MIB = 1 << 20, PASSES = 4 };

int main(void) {
    const size_t words = 96 * MIB / sizeof(uint64_t);
    uint64_t *table = calloc(4 * MIB, 1);
    uint64_t *array = malloc(words * sizeof *array);
    if (table == NULL || array == NULL)
        return 1;
    for (size_t i = 0; i < words; i++)
        array[i] = i * 0x9e3779b97f4a7c15u;
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t i = 0; i < words; i++) {
            sum = sum * 31 + array[i];
            table[i % (4 * MIB / 8)] += sum;
        }
    printf("%llx\n", (unsigned long long)(sum + table[77]));
    return 0;
}
