/* Four threads sweep a quarter each of one array. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, THREADS = 4, PART = 16 << 20, PASSES = 3 };

static void *sweep(void *part) {
    volatile unsigned char *bytes = part;
    for (int pass = 0; pass < PASSES; pass++) {
        for (size_t offset = 0; offset < PART; offset += PAGE) {
            bytes[offset]++;
        }
    }
    return NULL;
}

int main(void) {
    unsigned char *shared = malloc((size_t)THREADS * PART);
    if (shared == NULL) {
        return 1;
    }
    for (size_t offset = 0; offset < (size_t)THREADS * PART; offset += PAGE) {
        memset(shared + offset, (int)(1 + offset / PAGE % 251), PAGE / 2);
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, sweep, shared + (size_t)i * PART) != 0) {
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    return 0;
}
