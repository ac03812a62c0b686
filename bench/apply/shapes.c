/* Ways to go through memory, one for each word: what plans have to tell apart, and where they could do harm. Each has MIB MiB (192) in
 * all, does the same work in each run, and prints a checksum. */

#include <pthread.h>

#include "words.h"

enum { THREADS = 4 };

/* A large array in order, and for each page of it look-ups at random in a small one, which then is as good as always in use. */
static uint64_t look_up_beside_sweep(size_t count, size_t small, int look_ups) {
    uint64_t *table = allocate(small);
    uint64_t *array = allocate(count - small);
    fill(table, small);
    fill(array, count - small);
    uint64_t sum = 0;
    for (int round = 0; round < 4; round++) {
        for (size_t word = 0; word < count - small; word += PAGE_WORDS) {
            sum += array[word];
            for (int look_up = 0; look_up < look_ups; look_up++) {
                sum += ++table[next_random() % small];
            }
        }
    }
    return sum;
}

static uint64_t join(size_t count) {
    return look_up_beside_sweep(count, count / 3, 2);
}

static uint64_t hot_table(size_t count) {
    return look_up_beside_sweep(count, count / 4, 20);
}

/* Rows of 16 pages, gone through page by page of each. */
static uint64_t columns(size_t count) {
    enum { ROW_WORDS = 16 * PAGE_WORDS };
    uint64_t *matrix = allocate(count);
    fill(matrix, count);
    uint64_t sum = 0;
    for (int round = 0; round < 5; round++) {
        for (size_t column = 0; column < ROW_WORDS; column += PAGE_WORDS) {
            for (size_t row = 0; row + ROW_WORDS <= count; row += ROW_WORDS) {
                sum += sweep(matrix + row + column, PAGE_WORDS);
            }
        }
    }
    return sum;
}

/* Two square matrices: down each column of one, which has 512 of them in a page, along the rows of the other. */
static uint64_t transpose(size_t count) {
    size_t side = PAGE_WORDS;
    while ((side + PAGE_WORDS) * (side + PAGE_WORDS) * 2 < count) {
        side += PAGE_WORDS;
    }
    uint64_t *from = allocate(side * side);
    uint64_t *to = allocate(side * side);
    fill(from, side * side);
    memset(to, 0, side * side * sizeof *to);
    for (int round = 0; round < 2; round++) {
        for (size_t row = 0; row < side; row++) {
            for (size_t column = 0; column < side; column++) {
                to[column * side + row] = from[row * side + column];
            }
        }
        uint64_t *other = from;
        from = to;
        to = other;
    }
    return sweep(from, side * side);
}

/* One half again and again, then the other. */
static uint64_t phases(size_t count) {
    uint64_t *first = allocate(count / 2);
    uint64_t *second = allocate(count / 2);
    fill(first, count / 2);
    fill(second, count / 2);
    uint64_t sum = 0;
    for (int phase = 0; phase < 4; phase++) {
        for (int round = 0; round < 6; round++) {
            sum += sweep(phase % 2 == 0 ? first : second, count / 2);
        }
    }
    return sum;
}

/* A quarter of the memory four times for each time of the rest. */
static uint64_t two_sizes(size_t count) {
    uint64_t *small = allocate(count / 4);
    uint64_t *large = allocate(count / 4 * 3);
    fill(small, count / 4);
    fill(large, count / 4 * 3);
    uint64_t sum = 0;
    for (int round = 0; round < 5; round++) {
        for (int again = 0; again < 4; again++) {
            sum += sweep(small, count / 4);
        }
        sum += sweep(large, count / 4 * 3);
    }
    return sum;
}

static uint64_t stencil(size_t count) {
    size_t half = count / 2;
    uint64_t *from = allocate(half);
    uint64_t *to = allocate(half);
    fill(from, half);
    memset(to, 0, half * sizeof *to);
    for (int round = 0; round < 8; round++) {
        for (size_t word = 1; word + 1 < half; word++) {
            to[word] = (from[word - 1] + from[word] + from[word + 1]) / 3;
        }
        uint64_t *other = from;
        from = to;
        to = other;
    }
    return sweep(from, half);
}

/* Written at one place of a ring and read at another. */
static uint64_t queue(size_t count) {
    uint64_t *ring = allocate(count);
    memset(ring, 0, count * sizeof *ring);
    uint64_t sum = 0;
    size_t behind = count / 4 * 3;
    for (size_t word = 0; word < 5 * count; word += LINE_WORDS) {
        ring[word % count] = word;
        if (word > behind) {
            sum += ring[(word - behind) % count];
        }
    }
    return sum;
}

struct part {
    const uint64_t *words;
    size_t count;
    uint64_t sum;
};

static void *sweep_part(void *argument) {
    struct part *part = argument;
    for (int round = 0; round < 5; round++) {
        part->sum += sweep(part->words, part->count);
    }
    return NULL;
}

static uint64_t threads(size_t count) {
    struct part parts[THREADS];
    pthread_t ids[THREADS];
    for (int at = 0; at < THREADS; at++) {
        uint64_t *words = allocate(count / THREADS);
        fill(words, count / THREADS);
        parts[at] = (struct part){.words = words, .count = count / THREADS};
    }
    for (int at = 0; at < THREADS; at++) {
        if (pthread_create(&ids[at], NULL, sweep_part, &parts[at]) != 0) {
            fputs("shapes: no thread\n", stderr);
            exit(EXIT_FAILURE);
        }
    }
    uint64_t sum = 0;
    for (int at = 0; at < THREADS; at++) {
        pthread_join(ids[at], NULL);
        sum += parts[at].sum;
    }
    return sum;
}

static uint64_t binary_search(size_t count) {
    uint64_t *sorted = allocate(count);
    for (size_t word = 0; word < count; word++) {
        sorted[word] = word * 37 + next_random() % 32;
    }
    uint64_t sum = 0;
    for (int query = 0; query < 400000; query++) {
        uint64_t wanted = next_random() % (count * 37);
        size_t low = 0;
        size_t high = count;
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (sorted[middle] < wanted) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        sum += low;
    }
    return sum;
}

static const struct shape SHAPES[] = {
    {"join", join},           {"hot-table", hot_table}, {"columns", columns},
    {"transpose", transpose}, {"phases", phases},       {"two-sizes", two_sizes},
    {"stencil", stencil},     {"queue", queue},         {"threads", threads},
    {"binary-search", binary_search},
};

int main(int count, char **values) {
    return run_shape(SHAPES, sizeof SHAPES / sizeof *SHAPES, count, values);
}
