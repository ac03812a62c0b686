/* Goes through two arrays of 24 MiB in turn, three times: of one it only reads each page, of the other it writes each page after it has
 * read it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS (24u << 20 >> 3)
#define PAGE_WORDS 512

int main(void) {
    uint64_t *read = malloc(WORDS * sizeof *read);
    uint64_t *written = malloc(WORDS * sizeof *written);
    uint64_t sum = 0;
    if (read == NULL || written == NULL) {
        return 1;
    }
    for (size_t i = 0; i < WORDS; i++) {
        read[i] = written[i] = i;
    }
    for (int pass = 0; pass < 3; pass++) {
        for (size_t i = 0; i < WORDS; i++) {
            sum += read[i];
        }
        for (size_t page = 0; page < WORDS; page += PAGE_WORDS) {
            for (size_t i = page; i < page + PAGE_WORDS; i++) {
                sum += written[i];
            }
            written[page + sum % PAGE_WORDS] = sum;
        }
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
