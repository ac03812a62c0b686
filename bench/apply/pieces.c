/* Objects in several blocks that one call makes, of which some are used more than others, one for each word. As in shapes.c, each has MIB MiB
 * (192) in all, does the same work in each run, and prints a checksum. */

#include <sys/mman.h>

#include "words.h"

enum { ARENAS = 48, PARTITIONS = 160, COLUMNS = 24, MOST_SEGMENTS = 4096 };

/* Of so many words, one in a block that is chosen: of the hot ones nine times out of ten. */
static uint64_t look_up(uint64_t *const *blocks, size_t words, size_t count, int (*is_hot)(size_t), size_t look_ups) {
    static uint32_t hot[MOST_SEGMENTS], cold[MOST_SEGMENTS];
    size_t hot_count = 0, cold_count = 0;
    for (size_t at = 0; at < count; at++) {
        if (is_hot(at)) {
            hot[hot_count++] = (uint32_t)at;
        } else {
            cold[cold_count++] = (uint32_t)at;
        }
    }
    uint64_t sum = 0;
    for (size_t done = 0; done < look_ups; done++) {
        int of_hot = next_random() % 10 != 0;
        uint32_t at = of_hot ? hot[next_random() % hot_count] : cold[next_random() % cold_count];
        sum += ++blocks[at][next_random() % words];
    }
    return sum;
}

/* Blocks of so many words, each a call of its own. */
static void allocate_all(uint64_t **blocks, size_t count, size_t words) {
    for (size_t at = 0; at < count; at++) {
        blocks[at] = allocate(words);
        fill(blocks[at], words);
    }
}

static int is_first_quarter(size_t at) {
    return at < ARENAS / 4;
}

/* Arenas that are mappings of their own, the first of which are used most. */
static uint64_t arenas(size_t count) {
    static uint64_t *blocks[ARENAS];
    size_t words = count / ARENAS;
    for (size_t at = 0; at < ARENAS; at++) {
        blocks[at] = mmap(NULL, words * sizeof *blocks[at], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (blocks[at] == MAP_FAILED) {
            perror("mmap");
            exit(EXIT_FAILURE);
        }
        fill(blocks[at], words);
    }
    return look_up(blocks, words, ARENAS, is_first_quarter, 1500000);
}

static int is_third(size_t at) {
    return at % 3 == 1;
}

/* Partitions of a table, of which here and there one is hot. */
static uint64_t partitions(size_t count) {
    static uint64_t *blocks[PARTITIONS];
    size_t words = count / PARTITIONS;
    allocate_all(blocks, PARTITIONS, words);
    return look_up(blocks, words, PARTITIONS, is_third, 1500000);
}

static size_t segments_count;

static int is_last_third(size_t at) {
    return at >= segments_count / 3 * 2;
}

/* Segments of 128 KiB, as of a log, of which the newest are read most. */
static uint64_t segments(size_t count) {
    static uint64_t *blocks[MOST_SEGMENTS];
    size_t words = 16384 < count / MOST_SEGMENTS ? count / MOST_SEGMENTS : 16384;
    segments_count = count / words;
    allocate_all(blocks, segments_count, words);
    return look_up(blocks, words, segments_count, is_last_third, 1500000);
}

/* Columns of a table, of which a few are passed through by each query, and the others by one in six. */
static uint64_t queries(size_t count) {
    static uint64_t *columns[COLUMNS];
    size_t words = count / COLUMNS;
    allocate_all(columns, COLUMNS, words);
    uint64_t sum = 0;
    for (size_t query = 0; query < 48; query++) {
        for (size_t at = 0; at < COLUMNS; at++) {
            if (at % 4 == 0 || (at + query) % 6 == 0) {
                sum += sweep(columns[at], words);
            }
        }
    }
    return sum;
}

static const struct shape PIECES[] = {
    {"arenas", arenas},
    {"partitions", partitions},
    {"segments", segments},
    {"queries", queries},
};

int main(int count, char **values) {
    return run_shape(PIECES, sizeof PIECES / sizeof *PIECES, count, values);
}
