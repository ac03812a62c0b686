/* A list with a node in each page of an array, in an order that has nothing to do with where they lie, followed from its first node to
 * its last, again and again: which page comes next is known to the program only. Prints how long that took and its major faults. */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The first word of each page; the others hold what compresses by about half. */
struct node {
    struct node *next;
    uint64_t visits;
};

static void print_usage(FILE *stream) {
    fputs("usage: list [MIB [ROUNDS]]\n"
          "Makes a list of one node in each page of MIB MiB (256), and follows it ROUNDS times (8).\n",
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

static struct node *node_at(unsigned char *array, size_t page, size_t page_size) {
    return (struct node *)(void *)(array + page * page_size);
}

/* Sattolo's shuffle leaves one cycle through all pages. */
static void link_nodes(unsigned char *array, uint32_t *order, size_t pages, size_t page_size) {
    uint64_t state = 88172645463325252;
    for (size_t page = 0; page < pages; page++) {
        order[page] = (uint32_t)page;
    }
    for (size_t last = pages - 1; last > 0; last--) {
        size_t other = next_random(&state) % last;
        uint32_t kept = order[last];
        order[last] = order[other];
        order[other] = kept;
    }
    for (size_t page = 0; page < pages; page++) {
        struct node *node = node_at(array, page, page_size);
        uint64_t *words = (uint64_t *)(void *)node;
        for (size_t word = sizeof *node / sizeof *words; word < page_size / sizeof *words / 2; word++) {
            words[word] = next_random(&state);
        }
        node->next = node_at(array, order[page], page_size);
        node->visits = 0;
    }
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t major_faults(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_majflt;
}

int main(int count, char **values) {
    uint64_t numbers[] = {256, 8};
    const uint64_t most[] = {1 << 20, 1000000};
    for (int i = 1; i < count; i++) {
        if (i > 2 || !parse_number(values[i], most[i - 1], &numbers[i - 1])) {
            print_usage(stderr);
            return 2;
        }
    }
    size_t page_size = (size_t)sysconf(_SC_PAGESIZE);
    size_t pages = (numbers[0] << 20) / page_size;
    unsigned char *array = malloc(pages * page_size);
    uint32_t *order = malloc(pages * sizeof *order);
    if (array == NULL || order == NULL) {
        perror("list: malloc");
        return EXIT_FAILURE;
    }
    link_nodes(array, order, pages, page_size);
    free(order);
    double begin = seconds_now();
    uint64_t faults = major_faults();
    struct node *node = node_at(array, 0, page_size);
    for (uint64_t left = numbers[1] * pages; left > 0; left--) {
        node->visits++;
        node = node->next;
    }
    /* Apart: what differs from run to run is no part of the output. */
    fprintf(stderr, "%.3f seconds, %" PRIu64 " major faults\n", seconds_now() - begin, major_faults() - faults);
    uint64_t visits = 0;
    for (size_t page = 0; page < pages; page++) {
        visits += node_at(array, page, page_size)->visits;
    }
    printf("%" PRIu64 " visits of %zu nodes\n", visits, pages);
    free(array);
    return EXIT_SUCCESS;
}
