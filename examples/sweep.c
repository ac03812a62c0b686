/* Sweeps an array again and again: three nested loops, over the passes, the pages and the words of a page.
 * The smallest program with a loop access pattern. The last step of a sweep is the first to be needed
 * again, so a least-recently-used policy misses on every page once memory is one page too small. */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum kind { KIND_SAME, KIND_HALF, KIND_RANDOM };

struct arguments {
    size_t mebibytes;
    size_t passes;
    enum kind kind;
    bool one_word_per_page;
};

static void print_usage(FILE *stream) {
    fputs("usage: sweep [--kind same|half|random] [--pages] [MIB [PASSES]]\n"
          "Writes an array of MIB MiB (256), then reads it PASSES times (3).\n"
          "  --kind same    every page holds one repeated value, different from page to page\n"
          "  --kind half    half of each page is random, the rest zero (default)\n"
          "  --kind random  pages that do not compress\n"
          "  --pages        read one word per page instead of all\n",
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

static bool parse_kind(const char *text, enum kind *kind) {
    static const char *const names[] = {"same", "half", "random"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            *kind = (enum kind)i;
            return true;
        }
    }
    return false;
}

static bool parse(int count, char **values, struct arguments *arguments) {
    size_t *const places[] = {&arguments->mebibytes, &arguments->passes};
    size_t given = 0;
    for (int i = 1; i < count; i++) {
        if (strcmp(values[i], "--pages") == 0) {
            arguments->one_word_per_page = true;
        } else if (strcmp(values[i], "--kind") == 0) {
            if (++i == count || !parse_kind(values[i], &arguments->kind)) {
                return false;
            }
        } else if (given == 2 || !parse_number(values[i], 1000000, places[given++])) {
            return false;
        }
    }
    return true;
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void fill(uint64_t *array, size_t pages, size_t words_per_page, enum kind kind) {
    uint64_t state = 1;
    for (size_t page = 0; page < pages; page++) {
        uint64_t *words = array + page * words_per_page;
        size_t random_words = kind == KIND_RANDOM ? words_per_page : kind == KIND_HALF ? words_per_page / 2 : 0;
        for (size_t word = 0; word < words_per_page; word++) {
            words[word] = kind == KIND_SAME ? page + 1 : word < random_words ? next_random(&state) : 0;
        }
    }
}

static uint64_t sweep(const uint64_t *array, size_t passes, size_t pages, size_t words_per_page, size_t step) {
    uint64_t checksum = 0;
    for (size_t pass = 0; pass < passes; pass++) {
        for (size_t page = 0; page < pages; page++) {
            /* volatile: each pass reads memory, none is computed from the one before */
            const volatile uint64_t *words = array + page * words_per_page;
            for (size_t word = 0; word < words_per_page; word += step) {
                checksum = checksum * 31 + words[word];
            }
        }
    }
    return checksum;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int count, char **values) {
    struct arguments arguments = {.mebibytes = 256, .passes = 3, .kind = KIND_HALF, .one_word_per_page = false};
    if (count == 2 && strcmp(values[1], "--help") == 0) {
        print_usage(stdout);
        return EXIT_SUCCESS;
    }
    if (!parse(count, values, &arguments)) {
        print_usage(stderr);
        return 2;
    }
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = arguments.mebibytes << 20;
    size_t words_per_page = page_bytes / sizeof(uint64_t);
    uint64_t *array = malloc(bytes);
    if (array == NULL) {
        fprintf(stderr, "sweep: no memory for %zu MiB: %s; try fewer\n", arguments.mebibytes, strerror(errno));
        return EXIT_FAILURE;
    }
    fill(array, bytes / page_bytes, words_per_page, arguments.kind);
    double begin = seconds_now();
    uint64_t checksum = sweep(array, arguments.passes, bytes / page_bytes, words_per_page,
                              arguments.one_word_per_page ? words_per_page : 1);
    double seconds = seconds_now() - begin;
    /* Apart: what differs from run to run is no part of the output. */
    fprintf(stderr, "%.3f seconds\n", seconds);
    printf("%zu passes, checksum %016" PRIx64 "\n", arguments.passes, checksum);
    free(array);
    return EXIT_SUCCESS;
}
