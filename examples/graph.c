/* Page-rank over a graph that is larger than memory, in the manner of GraphChi (A. Kyrola and others, OSDI 2012): parallel sliding windows.
 *
 * Vertices are in intervals. A shard has the edges into one interval, sorted by source: its links (source, target) and the values of
 * its edges in a file each. Interval by interval, its own shard is read as a whole, which gives all edges into it, and of each other
 * shard the window of edges that come from it, whose values are written anew. So each iteration reads most edges twice: once in
 * their shard, once in a window. Each way of reading or writing is a function of its own, so that a plan can name it by its call path. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FEWEST_SHARDS = 4, MOST_SHARDS = 16, SHARD_MIB = 32, MEAN_DEGREE = 16, PIECE_EDGES = 1 << 17 };

struct link {
    uint32_t source, target;
};

struct vertex {
    float rank;
    uint32_t degree;
};

/* The file "shape": how the folder is divided. windows[s][i]: the first edge of shard s that comes from interval i. */
struct head {
    uint32_t vertices, shards;
    uint64_t windows[MOST_SHARDS][MOST_SHARDS + 1];
};

static struct head head;
static const char *folder;
static int links[MOST_SHARDS], values[MOST_SHARDS], vertices_file;
static struct link *own_links, window_links[PIECE_EDGES];
static float *own_values, window_values[PIECE_EDGES];
static struct vertex *vertices;

static void fail(const char *what) {
    fprintf(stderr, "graph: %s/%s: %s\n", folder, what, errno != 0 ? strerror(errno) : "ends too early");
    exit(1);
}

static void *memory(uint64_t bytes) {
    void *start = malloc(bytes);
    if (start == NULL) {
        fail("memory");
    }
    return start;
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int open_file(const char *kind, int shard, int flags) {
    char path[4096];
    if (shard < 0) {
        snprintf(path, sizeof(path), "%s/%s", folder, kind);
    } else {
        snprintf(path, sizeof(path), "%s/%s.%d", folder, kind, shard);
    }
    int file = open(path, flags, 0644);
    if (file < 0) {
        fail(path + strlen(folder) + 1);
    }
    return file;
}

static void open_shards(int flags) {
    for (uint32_t shard = 0; shard < head.shards; shard++) {
        links[shard] = open_file("links", (int)shard, flags);
        values[shard] = open_file("values", (int)shard, flags);
    }
    vertices_file = open_file("vertices", -1, flags);
}

/* On the disk, and not in the page cache any more. */
static void finish(int file) {
    if (fsync(file) != 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0) {
        fail("fsync");
    }
    close(file);
}

/* Interval i has the vertices from first_of(i) to first_of(i + 1). */
static uint32_t first_of(uint32_t interval) {
    return (uint32_t)((uint64_t)head.vertices * interval / head.shards);
}

static void write_all(int file, const void *data, uint64_t bytes) {
    if (write(file, data, bytes) != (ssize_t)bytes) {
        fail("write");
    }
}

static void put_link(uint32_t shard, struct link link, struct link (*buffer)[PIECE_EDGES]) {
    uint64_t *edges = &head.windows[shard][head.shards];
    buffer[shard][*edges % PIECE_EDGES] = link;
    if (++*edges % PIECE_EDGES == 0) {
        write_all(links[shard], buffer[shard], sizeof(buffer[shard]));
    }
}

/* As sources come in order, each shard is sorted by itself. Within an interval the first vertices have most edges. */
static void make_links(void) {
    struct link(*buffer)[PIECE_EDGES] = memory(head.shards * sizeof(*buffer));
    uint64_t state = 88172645463325252;
    for (uint32_t interval = 0; interval < head.shards; interval++) {
        for (uint32_t shard = 0; shard < head.shards; shard++) {
            head.windows[shard][interval] = head.windows[shard][head.shards];
        }
        for (uint32_t source = first_of(interval); source < first_of(interval + 1); source++) {
            struct vertex vertex = {1, 1 + next_random(&state) % (2 * MEAN_DEGREE - 1)};
            for (uint32_t edge = 0; edge < vertex.degree; edge++) {
                uint64_t random = next_random(&state);
                uint32_t shard = random % head.shards, length = first_of(shard + 1) - first_of(shard);
                double place = (double)(random >> 32) / 4294967296.0;
                put_link(shard, (struct link){source, first_of(shard) + (uint32_t)(place * place * length)}, buffer);
            }
            vertices[source] = vertex;
        }
    }
    for (uint32_t shard = 0; shard < head.shards; shard++) {
        uint64_t edges = head.windows[shard][head.shards];
        write_all(links[shard], buffer[shard], edges % PIECE_EDGES * sizeof(struct link));
        if (ftruncate(values[shard], (off_t)(edges * sizeof(float))) != 0) {
            fail("values");
        }
    }
    free(buffer);
}

static void make(uint64_t mebibytes) {
    uint64_t shards = mebibytes / SHARD_MIB, edges = (mebibytes << 20) / (sizeof(struct link) + sizeof(float));
    head.shards = (uint32_t)(shards < FEWEST_SHARDS ? FEWEST_SHARDS : shards > MOST_SHARDS ? MOST_SHARDS : shards);
    head.vertices = (uint32_t)(edges / MEAN_DEGREE);
    vertices = memory(head.vertices * sizeof(*vertices));
    open_shards(O_RDWR | O_CREAT | O_TRUNC);
    make_links();
    write_all(vertices_file, vertices, head.vertices * sizeof(*vertices));
    int file = open_file("shape", -1, O_WRONLY | O_CREAT | O_TRUNC);
    write_all(file, &head, sizeof(head));
    finish(file);
    finish(vertices_file);
    for (uint32_t shard = 0; shard < head.shards; shard++) {
        finish(links[shard]);
        finish(values[shard]);
    }
}

/* A part of a file, a MiB at a time: what the files' names say is told apart by the functions below. */
static inline __attribute__((always_inline)) void read_part(int file, void *data, uint64_t bytes, uint64_t offset) {
    for (uint64_t done = 0; done < bytes;) {
        uint64_t piece = bytes - done < 1 << 20 ? bytes - done : 1 << 20;
        errno = 0;
        ssize_t got = pread(file, (char *)data + done, piece, (off_t)(offset + done));
        if (got <= 0) {
            fail("read");
        }
        done += (uint64_t)got;
    }
}

__attribute__((noipa)) static void read_shard_links(uint32_t shard, uint64_t edges) {
    read_part(links[shard], own_links, edges * sizeof(struct link), 0);
}

__attribute__((noipa)) static void read_shard_values(uint32_t shard, uint64_t edges) {
    read_part(values[shard], own_values, edges * sizeof(float), 0);
}

__attribute__((noipa)) static void read_window_links(uint32_t shard, uint64_t first, uint64_t edges) {
    read_part(links[shard], window_links, edges * sizeof(struct link), first * sizeof(struct link));
}

__attribute__((noipa)) static void write_window_values(uint32_t shard, uint64_t first, uint64_t edges) {
    uint64_t bytes = edges * sizeof(float);
    if (pwrite(values[shard], window_values, bytes, (off_t)(first * sizeof(float))) != (ssize_t)bytes) {
        fail("values");
    }
}

__attribute__((noipa)) static void read_vertices(uint32_t first, uint32_t count) {
    read_part(vertices_file, vertices, count * sizeof(*vertices), first * sizeof(*vertices));
}

__attribute__((noipa)) static void write_vertices(uint32_t first, uint32_t count) {
    uint64_t bytes = count * sizeof(*vertices);
    if (pwrite(vertices_file, vertices, bytes, (off_t)(first * sizeof(*vertices))) != (ssize_t)bytes) {
        fail("vertices");
    }
}

/* All edges into an interval: its vertices' new ranks. */
static void gather(uint32_t interval) {
    uint64_t edges = head.windows[interval][head.shards];
    uint32_t first = first_of(interval), count = first_of(interval + 1) - first;
    read_shard_links(interval, edges);
    read_shard_values(interval, edges);
    for (uint32_t at = 0; at < count; at++) {
        vertices[at].rank = 0.15f;
    }
    for (uint64_t edge = 0; edge < edges; edge++) {
        vertices[own_links[edge].target - first].rank += 0.85f * own_values[edge];
    }
}

/* All edges from an interval: what its vertices give to others, in the windows of all shards. Its own shard may be there already. */
static void scatter(uint32_t interval, bool has_own) {
    uint32_t origin = first_of(interval);
    for (uint32_t shard = 0; shard < head.shards; shard++) {
        uint64_t end = head.windows[shard][interval + 1];
        for (uint64_t first = head.windows[shard][interval]; first < end; first += PIECE_EDGES) {
            uint64_t edges = end - first < PIECE_EDGES ? end - first : PIECE_EDGES;
            const struct link *window = has_own && shard == interval ? own_links + first : window_links;
            if (window == window_links) {
                read_window_links(shard, first, edges);
            }
            for (uint64_t edge = 0; edge < edges; edge++) {
                const struct vertex *vertex = &vertices[window[edge].source - origin];
                window_values[edge] = vertex->rank / (float)vertex->degree;
            }
            write_window_values(shard, first, edges);
        }
    }
}

static uint64_t checksum(void) {
    uint64_t sum = 14695981039346656037u;
    for (uint32_t interval = 0; interval < head.shards; interval++) {
        uint32_t first = first_of(interval), count = first_of(interval + 1) - first;
        read_vertices(first, count);
        for (uint32_t at = 0; at < count; at++) {
            uint32_t bits;
            memcpy(&bits, &vertices[at].rank, sizeof(bits));
            sum = (sum ^ bits) * 1099511628211u;
        }
    }
    return sum;
}

/* Iteration 0 gives every edge the value that a rank of 1 does. */
static void iterate(uint64_t iteration) {
    for (uint32_t interval = 0; interval < head.shards; interval++) {
        uint32_t first = first_of(interval), count = first_of(interval + 1) - first;
        read_vertices(first, count);
        if (iteration > 0) {
            gather(interval);
        } else {
            for (uint32_t at = 0; at < count; at++) {
                vertices[at].rank = 1;
            }
        }
        scatter(interval, iteration > 0);
        write_vertices(first, count);
    }
}

static void rank(uint64_t iterations) {
    int file = open_file("shape", -1, O_RDONLY);
    if (read(file, &head, sizeof(head)) != sizeof(head) || head.shards < FEWEST_SHARDS || head.shards > MOST_SHARDS) {
        fail("shape");
    }
    close(file);
    open_shards(O_RDWR);
    uint64_t most = 0;
    for (uint32_t shard = 0; shard < head.shards; shard++) {
        most = head.windows[shard][head.shards] > most ? head.windows[shard][head.shards] : most;
    }
    own_links = memory(most * sizeof(*own_links));
    own_values = memory(most * sizeof(*own_values));
    vertices = memory((head.vertices / head.shards + 1) * sizeof(*vertices));
    for (uint64_t iteration = 0; iteration <= iterations; iteration++) {
        iterate(iteration);
    }
    /* What was computed is kept. */
    for (uint32_t shard = 0; shard < head.shards; shard++) {
        if (fsync(values[shard]) != 0) {
            fail("values");
        }
    }
}

int main(int count, char **words) {
    const char *kind = count > 2 ? words[1] : "";
    uint64_t number = count > 3 ? strtoull(words[3], NULL, 10) : 0;
    if (count > 4 || (strcmp(kind, "make") != 0 && strcmp(kind, "rank") != 0) || (count == 4 && (number == 0 || number > 1 << 14))) {
        fputs("usage: graph make FOLDER [MIB]          a graph of so many MiB of edges [64], in 4 to 16 shards, into an existing folder\n"
              "       graph rank FOLDER [ITERATIONS]   page-rank over it [4]\n"
              "rank prints a checksum of all ranks, and on standard error the time it took.\n",
              stderr);
        return 2;
    }
    folder = words[2];
    if (!strcmp(kind, "make")) {
        make(number > 0 ? number : 64);
        return 0;
    }
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    rank(number > 0 ? number : 4);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    int64_t ns = (ended.tv_sec - began.tv_sec) * INT64_C(1000000000) + (ended.tv_nsec - began.tv_nsec);
    fprintf(stderr, "{\"ns\": %" PRId64 "}\n", ns);
    printf("ranks %016" PRIx64 "\n", checksum());
    return 0;
}
