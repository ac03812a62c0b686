/* Two arrays that one line makes, which the compiler has inlined in two functions, swept in turn: `two_places [MIB [ROUNDS]]`, of both together. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline __attribute__((always_inline)) uint64_t *words_of(size_t words) {
    uint64_t *made = malloc(words * sizeof *made);
    if (made == NULL) {
        abort();
    }
    return made;
}

static __attribute__((noinline)) uint64_t *first_half(size_t words) {
    uint64_t *made = words_of(words);
    for (size_t i = 0; i < words; i++) {
        made[i] = i;
    }
    return made;
}

static __attribute__((noinline)) uint64_t *second_half(size_t words) {
    uint64_t *made = words_of(words);
    for (size_t i = 0; i < words; i++) {
        made[i] = i * i;
    }
    return made;
}

int main(int count, char **values) {
    const size_t mib = count > 1 ? strtoul(values[1], NULL, 10) : 128;
    const size_t rounds = count > 2 ? strtoul(values[2], NULL, 10) : 4;
    const size_t words = (mib << 20) / 2 / sizeof(uint64_t);
    uint64_t *halves[] = {first_half(words), second_half(words)};
    uint64_t sum = 0;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t half = 0; half < 2; half++) {
            for (size_t i = 0; i < words; i += 64) {
                sum += halves[half][i] ^ round;
            }
        }
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
