/* Ways through memory that are in order only from afar, and of memory that others filled or share, one for each word. As in shapes.c, each has
 * MIB MiB (192) in all, does the same work in each run, and prints a checksum. */

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "words.h"

enum { BAND_PAGES = 80, CHILDREN = 2 };

static void shuffle(uint32_t *order, size_t count) {
    for (size_t at = count; at > 1; at--) {
        size_t other = next_random() % at;
        uint32_t kept = order[at - 1];
        order[at - 1] = order[other];
        order[other] = kept;
    }
}

/* The layers of a graph one after the other, the nodes of each in no order: a breadth-first search. */
static uint64_t bands(size_t count) {
    size_t pages = count / PAGE_WORDS;
    uint64_t *nodes = allocate(count);
    fill(nodes, count);
    uint32_t order[BAND_PAGES];
    uint64_t sum = 0;
    for (int round = 0; round < 5; round++) {
        for (size_t band = 0; band + BAND_PAGES <= pages; band += BAND_PAGES) {
            for (uint32_t at = 0; at < BAND_PAGES; at++) {
                order[at] = at;
            }
            shuffle(order, BAND_PAGES);
            for (size_t at = 0; at < BAND_PAGES; at++) {
                sum += sweep(nodes + (band + order[at]) * PAGE_WORDS, PAGE_WORDS);
            }
        }
    }
    return sum;
}

/* The corners of each cell of a mesh whose nodes are numbered nearly in order. */
static uint64_t mesh(size_t count) {
    enum { NODE_WORDS = 16, CORNERS = 3 };
    size_t cells = count / 16;
    size_t nodes = (count - cells * 2) / NODE_WORDS;
    uint32_t *corners = (uint32_t *)allocate(cells * 2);
    uint64_t *values = allocate(nodes * NODE_WORDS);
    fill(values, nodes * NODE_WORDS);
    size_t apart = nodes / 150;
    for (size_t cell = 0; cell < cells; cell++) {
        size_t first = cell * (nodes - apart) / cells;
        for (int corner = 0; corner < CORNERS; corner++) {
            corners[cell * (CORNERS + 1) + corner] = (uint32_t)(first + next_random() % apart);
        }
        corners[cell * (CORNERS + 1) + CORNERS] = (uint32_t)next_random();
    }
    uint64_t sum = 0;
    for (int round = 0; round < 5; round++) {
        for (size_t cell = 0; cell < cells; cell++) {
            const uint32_t *here = corners + cell * (CORNERS + 1);
            for (int corner = 0; corner < CORNERS; corner++) {
                sum = sum * 31 + values[here[corner] * NODE_WORDS] + here[CORNERS];
            }
        }
    }
    return sum;
}

/* Half of a table again and again, and between that values anywhere in all of it. */
static uint64_t half(size_t count) {
    uint64_t *table = allocate(count);
    fill(table, count);
    uint64_t sum = 0;
    for (int round = 0; round < 4; round++) {
        for (int again = 0; again < 3; again++) {
            sum += sweep(table, count / 2);
        }
        for (size_t look_up = 0; look_up < count / PAGE_WORDS / 2; look_up++) {
            sum = sum * 31 + table[next_random() % count];
        }
    }
    return sum;
}

/* What children find out about memory that their parent filled, so many side by side, each of its part. */
static uint64_t by_children(const uint64_t *words, size_t count, int children) {
    uint64_t sum = 0;
    int ends[CHILDREN];
    for (int child = 0; child < children; child++) {
        int pair[2];
        if (pipe(pair) != 0) {
            perror("pipe");
            exit(EXIT_FAILURE);
        }
        fflush(stdout);
        pid_t pid = fork();
        if (pid < 0) {
            perror("fork");
            exit(EXIT_FAILURE);
        }
        if (pid == 0) {
            size_t part = count / (size_t)children;
            uint64_t found = 0;
            for (int round = 0; round < 5; round++) {
                found = found * 31 + sweep(words + (size_t)child * part, part);
            }
            _exit(write(pair[1], &found, sizeof found) == sizeof found ? EXIT_SUCCESS : EXIT_FAILURE);
        }
        close(pair[1]);
        ends[child] = pair[0];
    }
    for (int child = 0; child < children; child++) {
        uint64_t found = 0;
        int status = 0;
        if (read(ends[child], &found, sizeof found) != sizeof found || wait(&status) < 0 || status != 0) {
            fputs("orders: a child failed\n", stderr);
            exit(EXIT_FAILURE);
        }
        close(ends[child]);
        sum = sum * 31 + found;
    }
    return sum;
}

/* A queue of work: chunks in any order, by one thread or by two. */
enum { CHUNKS = 48, ROUNDS = 6 };

struct work {
    const uint64_t *words;
    size_t count;
    uint32_t order[ROUNDS * CHUNKS];
    unsigned next;
};

struct worker {
    struct work *work;
    uint64_t sum;
};

static void *work_on_chunks(void *argument) {
    struct worker *worker = argument;
    struct work *work = worker->work;
    for (;;) {
        unsigned next = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED);
        if (next >= ROUNDS * CHUNKS) {
            return NULL;
        }
        size_t chunk = work->count / CHUNKS;
        worker->sum += sweep(work->words + work->order[next] * chunk, chunk);
    }
}

static uint64_t by_chunks(size_t count, int threads) {
    static struct work work;
    uint64_t *words = allocate(count);
    fill(words, count);
    work.words = words;
    work.count = count;
    for (unsigned at = 0; at < ROUNDS * CHUNKS; at++) {
        work.order[at] = at % CHUNKS;
    }
    for (int round = 0; round < ROUNDS; round++) {
        shuffle(work.order + round * CHUNKS, CHUNKS);
    }
    struct worker workers[2] = {{.work = &work}, {.work = &work}};
    pthread_t ids[2];
    for (int at = 0; at < threads; at++) {
        if (pthread_create(&ids[at], NULL, work_on_chunks, &workers[at]) != 0) {
            fputs("orders: no thread\n", stderr);
            exit(EXIT_FAILURE);
        }
    }
    for (int at = 0; at < threads; at++) {
        pthread_join(ids[at], NULL);
    }
    return workers[0].sum + workers[1].sum;
}

static uint64_t chunks(size_t count) {
    return by_chunks(count, 1);
}

static uint64_t work_queue(size_t count) {
    return by_chunks(count, 2);
}

/* A table of dynamic programming, and ways back through it from any of its last entries, which soon meet. */
static uint64_t ways_back(size_t count) {
    size_t side = PAGE_WORDS;
    while ((side + PAGE_WORDS) * (side + PAGE_WORDS) < 2 * count) {
        side += PAGE_WORDS;
    }
    uint32_t *table = (uint32_t *)allocate(side * side / 2);
    for (size_t at = 0; at < side; at++) {
        table[at] = (uint32_t)at;
    }
    for (size_t row = 1; row < side; row++) {
        for (size_t column = 0; column < side; column++) {
            uint32_t above = table[(row - 1) * side + column];
            uint32_t left = column > 0 ? table[row * side + column - 1] : (uint32_t)row;
            table[row * side + column] = (above < left ? above : left) + (row * column % 7 == 0);
        }
    }
    uint64_t sum = 0;
    for (int way = 0; way < 300; way++) {
        size_t row = side - 1;
        size_t column = next_random() % side;
        while (row > 0 && column > 0) {
            sum += table[row * side + column];
            row--;
            column -= table[row * side + column] >= table[(row + 1) * side + column - 1];
        }
    }
    return sum;
}

static uint64_t child(size_t count) {
    uint64_t *words = allocate(count);
    fill(words, count);
    return by_children(words, count, 1);
}

static uint64_t children(size_t count) {
    uint64_t *words = allocate(count);
    fill(words, count);
    return by_children(words, count, CHILDREN);
}

static uint64_t *allocate_shared(size_t count) {
    uint64_t *words = mmap(NULL, count * sizeof *words, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (words == MAP_FAILED) {
        perror("mmap");
        exit(EXIT_FAILURE);
    }
    return words;
}

/* What a server's processes have in common: passed through by one, and by two of them at a time. */
static uint64_t shared(size_t count) {
    uint64_t *buffers = allocate_shared(count);
    fill(buffers, count);
    uint64_t sum = 0;
    for (int round = 0; round < 5; round++) {
        sum += sweep(buffers, count);
    }
    return sum;
}

static uint64_t shared_children(size_t count) {
    uint64_t *buffers = allocate_shared(count);
    fill(buffers, count);
    return by_children(buffers, count, CHILDREN);
}

static const struct shape ORDERS[] = {
    {"bands", bands},           {"mesh", mesh},   {"half", half},         {"chunks", chunks},
    {"work-queue", work_queue}, {"child", child}, {"children", children}, {"ways-back", ways_back},
    {"shared", shared},         {"shared-children", shared_children},
};

int main(int count, char **values) {
    return run_shape(ORDERS, sizeof ORDERS / sizeof *ORDERS, count, values);
}
