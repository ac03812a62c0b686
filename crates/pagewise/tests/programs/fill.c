/* Writes each page of 64 MiB once: under a smaller limit it must reclaim, and nothing comes back from swap. */

#include <stdio.h>
#include <stdlib.h>

int main(void) {
    size_t size = (size_t)64 << 20;
    unsigned char *filled = malloc(size);
    if (filled == NULL) {
        return 1;
    }
    for (size_t at = 0; at < size; at += 4096) {
        *(volatile unsigned char *)(filled + at) = (unsigned char)(at >> 12 | 1);
    }
    puts("filled");
    return 0;
}
