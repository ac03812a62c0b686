/* Kernels as programs have them, one for each word: they were written to see what plans make of what nobody had in mind. Each has MIB MiB
 * (192) in all, does the same work in each run, and prints a checksum. */

#include <pthread.h>
#include <stdatomic.h>

#include "words.h"

static double *numbers(size_t count) {
    return (double *)allocate(count);
}

/* A sparse matrix of 64 values a row, by rows, times a vector. `reach`: how far from the diagonal a row's columns lie, in parts of all
 * columns; 1: anywhere. */
static uint64_t multiply_sparse(size_t count, size_t reach) {
    enum { IN_ROW = 64 };
    size_t values_count = count / 2;
    size_t rows = values_count / IN_ROW;
    size_t columns = count / 4;
    double *values = numbers(values_count);
    uint32_t *places = (uint32_t *)allocate(values_count / 2);
    double *from = numbers(columns);
    double *to = numbers(rows);
    for (size_t at = 0; at < values_count; at++) {
        size_t diagonal = reach == 1 ? 0 : at / IN_ROW * columns / rows;
        values[at] = (double)(next_random() % 1000);
        places[at] = (uint32_t)((diagonal + next_random() % (columns / reach)) % columns);
    }
    for (size_t column = 0; column < columns; column++) {
        from[column] = (double)(column % 7);
    }
    for (int round = 0; round < 5; round++) {
        for (size_t row = 0; row < rows; row++) {
            double sum = 0;
            for (size_t at = row * IN_ROW; at < (row + 1) * IN_ROW; at++) {
                sum += values[at] * from[places[at]];
            }
            to[row] = sum;
        }
        for (size_t row = 0; row < rows; row++) {
            from[row] = to[row] / 1e6 + 1;
        }
    }
    uint64_t hash = 0;
    for (size_t row = 0; row < rows; row++) {
        hash = hash * 31 + (uint64_t)to[row];
    }
    return hash;
}

static uint64_t sparse(size_t count) {
    return multiply_sparse(count, 1);
}

static uint64_t banded(size_t count) {
    return multiply_sparse(count, 50);
}

/* A sparse matrix by rows, to which entries are appended: its arrays grow, and are cut to length at last. */
struct matrix {
    size_t rows, entries, room;
    uint32_t *starts, *columns;
    double *values;
};

static void *resized(void *block, size_t bytes) {
    void *other = realloc(block, bytes);
    if (other == NULL) {
        perror("realloc");
        exit(EXIT_FAILURE);
    }
    return other;
}

static void append(struct matrix *matrix, size_t column, double value) {
    if (matrix->entries == matrix->room) {
        matrix->room += matrix->room / 2 + 4096;
        matrix->columns = resized(matrix->columns, matrix->room * sizeof *matrix->columns);
        matrix->values = resized(matrix->values, matrix->room * sizeof *matrix->values);
    }
    matrix->columns[matrix->entries] = (uint32_t)column;
    matrix->values[matrix->entries++] = value;
}

/* Each point of a grid and its eight neighbours. */
static struct matrix neighbours_of_grid(size_t side) {
    struct matrix matrix = {.rows = side * side};
    matrix.starts = resized(NULL, (matrix.rows + 1) * sizeof *matrix.starts);
    for (size_t row = 0; row < matrix.rows; row++) {
        matrix.starts[row] = (uint32_t)matrix.entries;
        for (size_t place = 0; place < 9; place++) {
            size_t y = row / side + place / 3;
            size_t x = row % side + place % 3;
            if (y >= 1 && y <= side && x >= 1 && x <= side) {
                size_t column = (y - 1) * side + x - 1;
                append(&matrix, column, place == 4 ? 9 : -1 + 1e-4 * (double)((row + column) * (row + column) % 97));
            }
        }
    }
    matrix.starts[matrix.rows] = (uint32_t)matrix.entries;
    matrix.columns = resized(matrix.columns, matrix.entries * sizeof *matrix.columns);
    matrix.values = resized(matrix.values, matrix.entries * sizeof *matrix.values);
    return matrix;
}

static double product(const double *one, const double *other, size_t count) {
    double sum = 0;
    for (size_t at = 0; at < count; at++) {
        sum += one[at] * other[at];
    }
    return sum;
}

static void multiply(const struct matrix *matrix, const double *from, double *to) {
    for (size_t row = 0; row < matrix->rows; row++) {
        double sum = 0;
        for (size_t at = matrix->starts[row]; at < matrix->starts[row + 1]; at++) {
            sum += matrix->values[at] * from[matrix->columns[at]];
        }
        to[row] = sum;
    }
}

/* Conjugate gradients: the matrix is gone through once a round, vectors several times. */
static uint64_t gradient(size_t count) {
    enum { ROW_WORDS = 20, ROUNDS = 15 };
    size_t side = 1;
    while ((side + 1) * (side + 1) * ROW_WORDS <= count) {
        side++;
    }
    struct matrix matrix = neighbours_of_grid(side);
    size_t rows = matrix.rows;
    double *found = numbers(rows);
    double *wrong = numbers(rows);
    double *scaled = numbers(rows);
    double *way = numbers(rows);
    double *image = numbers(rows);
    double *scale = numbers(rows);
    for (size_t row = 0; row < rows; row++) {
        found[row] = 0;
        wrong[row] = (double)(next_random() % 1000);
        scale[row] = 1 / (9 + 1e-3 * (double)(row % 13));
        scaled[row] = way[row] = wrong[row] * scale[row];
    }
    double square = product(wrong, scaled, rows);
    for (int round = 0; round < ROUNDS; round++) {
        multiply(&matrix, way, image);
        double step = square / product(way, image, rows);
        for (size_t row = 0; row < rows; row++) {
            found[row] += step * way[row];
            wrong[row] -= step * image[row];
        }
        for (size_t row = 0; row < rows; row++) {
            scaled[row] = wrong[row] * scale[row];
        }
        double before = square;
        square = product(wrong, scaled, rows);
        for (size_t row = 0; row < rows; row++) {
            way[row] = scaled[row] + square / before * way[row];
        }
    }
    return (uint64_t)product(found, found, rows);
}

/* Of each sweep the start is left out, more each time, as where a matrix is eliminated. */
static uint64_t triangle(size_t count) {
    uint64_t *words = allocate(count);
    fill(words, count);
    uint64_t sum = 0;
    for (size_t from = 0; from < count; from += count / 12) {
        for (size_t word = from; word < count; word += LINE_WORDS) {
            words[word] += words[from + word % 4096 % (count - from)];
            sum += words[word];
        }
    }
    return sum;
}

/* Pairs as far apart as half of the array, then a quarter, and so on. */
static uint64_t butterflies(size_t count) {
    size_t power = 1;
    while (2 * power <= count) {
        power *= 2;
    }
    uint64_t *words = allocate(power);
    fill(words, power);
    for (size_t half = power / 2; half >= power / 64; half /= 2) {
        for (size_t block = 0; block < power; block += 2 * half) {
            for (size_t word = block; word < block + half; word += LINE_WORDS) {
                uint64_t first = words[word];
                words[word] = first + words[word + half];
                words[word + half] = first - words[word + half];
            }
        }
    }
    return sweep(words, power);
}

static void merge(const uint64_t *from, uint64_t *to, size_t middle, size_t count) {
    size_t left = 0;
    size_t right = middle;
    for (size_t at = 0; at < count; at++) {
        int is_left = right == count || (left < middle && from[left] <= from[right]);
        to[at] = from[is_left ? left++ : right++];
    }
}

static void sort_by_halves(uint64_t *words, uint64_t *other, size_t count) {
    if (count < 2) {
        return;
    }
    sort_by_halves(words, other, count / 2);
    sort_by_halves(words + count / 2, other + count / 2, count - count / 2);
    memcpy(other, words, count * sizeof *words);
    merge(other, words, count / 2, count);
}

static uint64_t merge_sort(size_t count) {
    uint64_t *words = allocate(count / 2);
    uint64_t *other = allocate(count / 2);
    for (size_t word = 0; word < count / 2; word++) {
        words[word] = next_random();
    }
    sort_by_halves(words, other, count / 2);
    return sweep(words, count / 2);
}

/* The last passes of a sort, from one array into the other and back. */
static uint64_t merge_passes(size_t count) {
    size_t half = count / 2;
    uint64_t *from = allocate(half);
    uint64_t *to = allocate(half);
    for (size_t word = 0; word < half; word++) {
        from[word] = next_random();
    }
    for (size_t run = half / 32; run < half; run *= 2) {
        for (size_t start = 0; start < half; start += 2 * run) {
            size_t left = half - start;
            merge(from + start, to + start, run < left ? run : left, 2 * run < left ? 2 * run : left);
        }
        uint64_t *other = from;
        from = to;
        to = other;
    }
    return sweep(from, half);
}

/* An array that doubles as it grows, then is gone through. */
static uint64_t growing(size_t count) {
    size_t room = 1024;
    uint64_t *words = allocate(room);
    for (size_t word = 0; word < count / 3 * 2; word++) {
        if (word == room) {
            room *= 2;
            words = realloc(words, room * sizeof *words);
            if (words == NULL) {
                perror("realloc");
                exit(EXIT_FAILURE);
            }
        }
        words[word] = next_random();
    }
    uint64_t sum = 0;
    for (int round = 0; round < 4; round++) {
        sum += sweep(words, count / 3 * 2);
    }
    return sum;
}

/* Up and down by turns. */
static uint64_t zigzag(size_t count) {
    uint64_t *words = allocate(count);
    fill(words, count);
    uint64_t sum = 0;
    for (int round = 0; round < 3; round++) {
        sum += sweep(words, count);
        for (size_t word = count / LINE_WORDS * LINE_WORDS; word > 0; word -= LINE_WORDS) {
            sum = sum * 31 + words[word - LINE_WORDS];
        }
    }
    return sum;
}

/* The fields of structures, in as many arrays. */
static uint64_t sum_fields(size_t count, size_t fields) {
    size_t each = count / fields;
    uint64_t *words = allocate(count);
    fill(words, count);
    uint64_t sum = 0;
    for (int round = 0; round < 6; round++) {
        for (size_t word = 0; word < each; word += LINE_WORDS) {
            uint64_t structure = 0;
            for (size_t field = 0; field < fields; field++) {
                structure += words[field * each + word];
            }
            sum = sum * 31 + structure;
        }
    }
    return sum;
}

static uint64_t fields_3(size_t count) {
    return sum_fields(count, 3);
}

static uint64_t fields_12(size_t count) {
    return sum_fields(count, 12);
}

static uint64_t fields_24(size_t count) {
    return sum_fields(count, 24);
}

/* A third of the memory twice, then the third that begins a sixth of that further on. */
static uint64_t window(size_t count) {
    uint64_t *words = allocate(count);
    fill(words, count);
    size_t width = count / 3;
    uint64_t sum = 0;
    for (size_t start = 0; start + width <= count; start += width / 6) {
        sum += sweep(words + start, width);
        sum += sweep(words + start, width);
    }
    return sum;
}

/* Of each 48 pages in order, the last 32. */
static uint64_t gaps(size_t count) {
    uint64_t *words = allocate(count);
    fill(words, count);
    uint64_t sum = 0;
    for (int round = 0; round < 10; round++) {
        for (size_t block = 16 * PAGE_WORDS; block + 32 * PAGE_WORDS <= count; block += 48 * PAGE_WORDS) {
            sum += sweep(words + block, 32 * PAGE_WORDS);
        }
    }
    return sum;
}

/* One half twice, then anywhere in a quarter, then the first half twice again. */
static uint64_t three_phases(size_t count) {
    uint64_t *first = allocate(count / 2);
    uint64_t *second = allocate(count / 2);
    fill(first, count / 2);
    fill(second, count / 2);
    uint64_t sum = sweep(first, count / 2) + sweep(first, count / 2);
    for (int look_up = 0; look_up < 400000; look_up++) {
        sum += ++second[next_random() % (count / 4)];
    }
    return sum + sweep(first, count / 2) + sweep(first, count / 2);
}

/* Each point to the nearest of eight centres, which move. */
static uint64_t clusters(size_t count) {
    enum { DIMENSIONS = 16, CENTRES = 8 };
    size_t points = count / (DIMENSIONS + 1);
    uint64_t *places = allocate(points * DIMENSIONS);
    uint64_t *nearest = allocate(points);
    for (size_t at = 0; at < points * DIMENSIONS; at++) {
        places[at] = next_random() % 1000;
    }
    uint64_t centres[CENTRES][DIMENSIONS];
    memcpy(centres, places, sizeof centres);
    for (int round = 0; round < 4; round++) {
        uint64_t sums[CENTRES][DIMENSIONS] = {{0}};
        uint64_t members[CENTRES] = {0};
        for (size_t point = 0; point < points; point++) {
            const uint64_t *place = places + point * DIMENSIONS;
            uint64_t least = UINT64_MAX;
            for (size_t centre = 0; centre < CENTRES; centre++) {
                uint64_t distance = 0;
                for (size_t at = 0; at < DIMENSIONS; at++) {
                    uint64_t apart = place[at] - centres[centre][at];
                    distance += apart * apart;
                }
                if (distance < least) {
                    least = distance;
                    nearest[point] = centre;
                }
            }
            members[nearest[point]]++;
            for (size_t at = 0; at < DIMENSIONS; at++) {
                sums[nearest[point]][at] += place[at];
            }
        }
        for (size_t centre = 0; centre < CENTRES; centre++) {
            for (size_t at = 0; at < DIMENSIONS && members[centre] > 0; at++) {
                centres[centre][at] = sums[centre][at] / members[centre];
            }
        }
    }
    return sweep(nearest, points);
}

static atomic_int is_over;

struct table {
    uint64_t *words;
    size_t count;
};

static void *look_up_always(void *argument) {
    const struct table *table = argument;
    uint64_t place = 12345;
    while (!is_over) {
        place = place * UINT64_C(6364136223846793005) + 1442695040888963407;
        table->words[(place >> 20) % table->count]++;
    }
    return NULL;
}

/* One thread sweeps, another looks up in a fifth of the memory. */
static uint64_t beside_look_ups(size_t count) {
    struct table table = {.words = allocate(count / 5), .count = count / 5};
    size_t rest = count / 5 * 4;
    uint64_t *words = allocate(rest);
    fill(table.words, table.count);
    fill(words, rest);
    pthread_t thread;
    if (pthread_create(&thread, NULL, look_up_always, &table) != 0) {
        fputs("kernels: no thread\n", stderr);
        exit(EXIT_FAILURE);
    }
    uint64_t sum = 0;
    for (int round = 0; round < 4; round++) {
        sum += sweep(words, rest);
    }
    is_over = 1;
    pthread_join(thread, NULL);
    return sum;
}

static const struct shape KERNELS[] = {
    {"sparse", sparse},
    {"banded", banded},
    {"gradient", gradient},
    {"triangle", triangle},
    {"butterflies", butterflies},
    {"merge-sort", merge_sort},
    {"merge-passes", merge_passes},
    {"growing", growing},
    {"zigzag", zigzag},
    {"fields-3", fields_3},
    {"fields-12", fields_12},
    {"fields-24", fields_24},
    {"window", window},
    {"gaps", gaps},
    {"three-phases", three_phases},
    {"clusters", clusters},
    {"beside-look-ups", beside_look_ups},
};

int main(int count, char **values) {
    return run_shape(KERNELS, sizeof KERNELS / sizeof *KERNELS, count, values);
}
