/* Most accesses go to a hot part of an array, the others anywhere in it: a program whose working set is smaller than its
 * memory. Each access reads and writes one word of a page. Prints how long that took and its major faults, as JSON. */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { COLD_ONE_IN = 64 };

static void print_usage(FILE *stream) {
    fputs("usage: hotcold [MIB [HOT_MIB [ACCESSES]]]\n"
          "Fills an array of MIB MiB (600), then accesses a page ACCESSES times (20000000): one time in 64 any page,\n"
          "else one of the first HOT_MIB MiB (160).\n",
          stream);
}

static bool parse_number(const char *text, uint64_t most, uint64_t *number) {
    char *end = NULL;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *text < '0' || *text > '9' || *end != '\0' || value < 1 || value > most) {
        return false;
    }
    *number = value;
    return true;
}

/* xorshift64*: the same order in every run. */
static uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t major_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_majflt;
}

/* Half of each page is random: it compresses by about half. */
static void fill(uint64_t *array, size_t words, size_t page_words, uint64_t *state) {
    for (size_t word = 0; word < words; word++) {
        array[word] = word % page_words < page_words / 2 ? next_random(state) : 0;
    }
}

int main(int count, char **values) {
    uint64_t numbers[] = {600, 160, 20000000};
    const uint64_t most[] = {1 << 20, 1 << 20, UINT64_C(1) << 40};
    for (int i = 1; i < count; i++) {
        if (i > 3 || !parse_number(values[i], most[i - 1], &numbers[i - 1])) {
            print_usage(stderr);
            return 2;
        }
    }
    if (numbers[1] > numbers[0]) {
        print_usage(stderr);
        return 2;
    }
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    size_t page_words = page_size / sizeof(uint64_t);
    size_t pages = (numbers[0] << 20) / page_size;
    size_t hot_pages = (numbers[1] << 20) / page_size;
    uint64_t *array = malloc(pages * page_size);
    if (array == NULL) {
        perror("hotcold: malloc");
        return 1;
    }
    uint64_t state = 88172645463325252;
    fill(array, pages * page_words, page_words, &state);
    uint64_t begin = now_ns();
    uint64_t faults = major_faults();
    for (uint64_t access = 0; access < numbers[2]; access++) {
        uint64_t random = next_random(&state);
        size_t range = random % COLD_ONE_IN == 0 ? pages : hot_pages;
        ++*(volatile uint64_t *)(array + random / COLD_ONE_IN % range * page_words);
    }
    uint64_t took = now_ns() - begin;
    faults = major_faults() - faults;
    /* Apart: what differs from run to run is no part of the output. */
    fprintf(stderr, "{\"ns\": %" PRIu64 ", \"major_faults\": %" PRIu64 "}\n", took, faults);
    uint64_t sum = 0;
    for (size_t page = 0; page < hot_pages; page++) {
        sum += array[page * page_words];
    }
    printf("sum of the hot pages %016" PRIx64 "\n", sum);
    free(array);
    return 0;
}
