/* Goes through an array again and again, in order or not: `twofold swept|written|random|hot|hot-worked|hot-pieces|listed|listed-aside [MIB [ROUNDS]]`; written:
 * swept, and each page is written; hot: mostly through its third eighth; hot-worked: the same, with some work for each, and its major faults at the end; hot-pieces: the same, in blocks of a MiB; listed: a list of small blocks; listed-aside: of a thread's. Says the same each time. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { PAGE_WORDS = 512, PIECE_PAGES = 256, MOST_PIECES = 1024 };

static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

struct node {
    struct node *next;
    uint64_t words[12];
};

struct list {
    size_t pages;
    struct node *head;
};

static void *make_list(void *made) {
    struct list *list = made;
    struct node **last = &list->head;
    uint64_t state = 1;
    for (size_t i = 0; i < list->pages * PAGE_WORDS / 14; i++) {
        struct node *node = malloc(sizeof *node);
        if (node == NULL) {
            abort();
        }
        for (size_t word = 0; word < 12; word++) {
            node->words[word] = word % 2 == 0 ? next(&state) : i;
        }
        node->next = NULL;
        *last = node;
        last = &node->next;
    }
    return NULL;
}

static int go_through_list(size_t pages, size_t rounds, int aside) {
    struct list list = {pages, NULL};
    pthread_t thread;
    if (!aside) {
        make_list(&list);
    } else if (pthread_create(&thread, NULL, make_list, &list) != 0 || pthread_join(thread, NULL) != 0) {
        return 1;
    }
    uint64_t sum = 0;
    for (size_t round = 0; round < rounds; round++) {
        for (struct node *node = list.head; node != NULL; node = node->next) {
            sum += node->words[round % 12];
        }
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}

int main(int count, char **values) {
    int read_only = count > 1 && strcmp(values[1], "swept") == 0;
    int swept = read_only || (count > 1 && strcmp(values[1], "written") == 0);
    int in_pieces = count > 1 && strcmp(values[1], "hot-pieces") == 0;
    int worked = count > 1 && strcmp(values[1], "hot-worked") == 0;
    int hot = in_pieces || worked || (count > 1 && strcmp(values[1], "hot") == 0);
    size_t pages = (count > 2 ? strtoul(values[2], NULL, 10) : 64) * 256;
    size_t rounds = count > 3 ? strtoul(values[3], NULL, 10) : 4;
    int aside = count > 1 && strcmp(values[1], "listed-aside") == 0;
    if (aside || (count > 1 && strcmp(values[1], "listed") == 0)) {
        return go_through_list(pages, rounds, aside);
    }
    size_t piece_pages = in_pieces ? PIECE_PAGES : pages;
    static uint64_t *pieces[MOST_PIECES];
    uint64_t state = 1;
    for (size_t first = 0; first < pages && first / piece_pages < MOST_PIECES; first += piece_pages) {
        uint64_t *words = malloc(piece_pages * PAGE_WORDS * sizeof *words);
        if (words == NULL) {
            return 1;
        }
        for (size_t i = 0; i < piece_pages * PAGE_WORDS; i++) {
            words[i] = i % 2 == 0 ? next(&state) : i;
        }
        pieces[first / piece_pages] = words;
    }
    uint64_t sum = 0;
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < pages; i++) {
            size_t page = swept ? i : next(&state) % pages;
            if (hot && next(&state) % 8 != 0) {
                page = pages / 4 + page / 8;
            }
            uint64_t *words = pieces[page / piece_pages] + page % piece_pages * PAGE_WORDS;
            sum += *words;
            if (!read_only) {
                ++*words;
            }
            for (int step = 0; worked && step < 1000; step++) {
                sum = sum * 31 + (uint64_t)step;
            }
        }
    }
    if (worked) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        printf("majors %ld\n", usage.ru_majflt);
    }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
