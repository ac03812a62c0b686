/* What a store of columns does to memory: rows of a few columns and a comment each, an index by customer, and rounds of queries, each of which passes through
 * some of the columns: a sum over all rows, a join with the customers, a search in the comments, look-ups by the index, and updates. No column is used
 * much more than others; the comments are as long as half of the rest, so that what is missing seems to be theirs. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 2600000,
    CUSTOMERS = 160000,
    PARTS = 130000,
    COMMENT = 18,
    ROUNDS = 13,
    LOOK_UPS = 60000,
    UPDATES = 200000,
    KINDS = 64,
};

struct customer {
    char name[40];
    int64_t balance;
};

struct part {
    char name[40];
    uint32_t kind;
};

struct rows {
    uint32_t *order, *customer, *part, *comment;
    uint16_t *date, *supplier;
    uint8_t *quantity, *discount;
    int32_t *price;
    char *text;
};

static uint64_t state = 88172645463325252u;

static uint64_t draw(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static uint32_t below(uint32_t limit) { return (uint32_t)(draw() >> 16) % limit; }

static void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        perror("calloc");
        exit(EXIT_FAILURE);
    }
    return memory;
}

static void load(struct rows *rows) {
    uint32_t order = 0, customer = 0, written = 0;
    for (uint32_t row = 0; row < ROWS; row++) {
        if (row == 0 || below(4) == 0) {
            order++;
            customer = below(CUSTOMERS);
        }
        rows->order[row] = order;
        rows->customer[row] = customer;
        rows->part[row] = below(PARTS);
        rows->date[row] = (uint16_t)(row / (ROWS / 2500) + below(30));
        rows->supplier[row] = (uint16_t)below(1000);
        rows->quantity[row] = (uint8_t)(1 + below(50));
        rows->discount[row] = (uint8_t)below(11);
        rows->price[row] = (int32_t)below(100000);
        rows->comment[row] = written;
        uint32_t length = 1 + below(2 * COMMENT - 2);
        for (uint32_t at = 0; at + 1 < length; at++) {
            rows->text[written++] = (char)('a' + below(26));
        }
        rows->text[written++] = 0;
    }
}

static void index_rows(const struct rows *rows, uint32_t *first, uint32_t *of_customer) {
    for (uint32_t row = 0; row < ROWS; row++) {
        first[rows->customer[row] + 1]++;
    }
    for (uint32_t customer = 0; customer < CUSTOMERS; customer++) {
        first[customer + 1] += first[customer];
    }
    uint32_t *next = allocate(CUSTOMERS, sizeof *next);
    memcpy(next, first, CUSTOMERS * sizeof *next);
    for (uint32_t row = 0; row < ROWS; row++) {
        of_customer[next[rows->customer[row]]++] = row;
    }
    free(next);
}

static int64_t sum(const struct rows *rows, uint16_t before) {
    int64_t sum = 0;
    for (uint32_t row = 0; row < ROWS; row++) {
        if (rows->date[row] < before) {
            sum += (int64_t)rows->price[row] * rows->quantity[row] * (100 - rows->discount[row]);
        }
    }
    return sum;
}

/* The largest sum of an order by customers of a kind; orders come one after the other. */
static int64_t join(const struct rows *rows, const struct customer *customers, uint16_t after, char kind) {
    int64_t most = 0, of_order = 0;
    uint32_t order = 0;
    for (uint32_t row = 0; row < ROWS; row++) {
        if (rows->date[row] <= after || customers[rows->customer[row]].name[0] != kind) {
            continue;
        }
        of_order = rows->order[row] == order ? of_order : 0;
        order = rows->order[row];
        of_order += rows->price[row];
        most = of_order > most ? of_order : most;
    }
    return most;
}

static int64_t search(const struct rows *rows, const struct part *parts, const char *wanted) {
    int64_t of_kinds[KINDS] = {0}, all = 0;
    for (uint32_t row = 0; row < ROWS; row++) {
        if (rows->supplier[row] < 500 && strstr(rows->text + rows->comment[row], wanted) != NULL) {
            of_kinds[parts[rows->part[row]].kind] += rows->price[row];
        }
    }
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        all = all * 31 + of_kinds[kind];
    }
    return all;
}

static int64_t look_up(const struct rows *rows, const uint32_t *first, const uint32_t *of_customer) {
    int64_t sum = 0;
    for (uint32_t number = 0; number < LOOK_UPS; number++) {
        uint32_t one = below(CUSTOMERS), other = below(CUSTOMERS);
        uint32_t customer = one < other ? one : other;
        for (uint32_t at = first[customer]; at < first[customer + 1]; at++) {
            sum += (int64_t)rows->price[of_customer[at]] * rows->quantity[of_customer[at]];
        }
    }
    return sum;
}

static void update(struct rows *rows, struct customer *customers) {
    for (uint32_t number = 0; number < UPDATES; number++) {
        uint32_t row = below(ROWS);
        rows->price[row] += (int32_t)below(100);
        customers[rows->customer[row]].balance -= rows->price[row];
    }
}

int main(void) {
    struct customer *customers = allocate(CUSTOMERS, sizeof *customers);
    struct part *parts = allocate(PARTS, sizeof *parts);
    for (uint32_t number = 0; number < CUSTOMERS; number++) {
        snprintf(customers[number].name, sizeof customers->name, "%c customer %u", 'A' + (char)below(5), number);
    }
    for (uint32_t number = 0; number < PARTS; number++) {
        snprintf(parts[number].name, sizeof parts->name, "part %u", number);
        parts[number].kind = below(KINDS);
    }
    struct rows rows = {
        .order = allocate(ROWS, sizeof *rows.order),
        .customer = allocate(ROWS, sizeof *rows.customer),
        .part = allocate(ROWS, sizeof *rows.part),
        .comment = allocate(ROWS, sizeof *rows.comment),
        .date = allocate(ROWS, sizeof *rows.date),
        .supplier = allocate(ROWS, sizeof *rows.supplier),
        .quantity = allocate(ROWS, sizeof *rows.quantity),
        .discount = allocate(ROWS, sizeof *rows.discount),
        .price = allocate(ROWS, sizeof *rows.price),
        .text = allocate((size_t)ROWS * 2, COMMENT),
    };
    load(&rows);
    uint32_t *first = allocate(CUSTOMERS + 1, sizeof *first);
    uint32_t *of_customer = allocate(ROWS, sizeof *of_customer);
    index_rows(&rows, first, of_customer);
    const char *wanted[] = {"stars", "moon", "sun"};
    int64_t all = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        all = all * 31 + sum(&rows, (uint16_t)(2400 - round * 100));
        all = all * 31 + join(&rows, customers, (uint16_t)(200 + round % 8 * 250), (char)('A' + round % 5));
        all = all * 31 + search(&rows, parts, wanted[round % 3]);
        all = all * 31 + look_up(&rows, first, of_customer);
        update(&rows, customers);
    }
    for (uint32_t number = 0; number < CUSTOMERS; number++) {
        all += customers[number].balance;
    }
    printf("%lld\n", (long long)all);
    return 0;
}
