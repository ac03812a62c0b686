/* What a video encoder does to memory: frames wait in a queue, of which each step looks at all in half their resolution, before one of them is searched
 * for in four older ones. A plan made from its recording may keep frames, and push out what each step looks at. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 1920,
    HEIGHT = 1088,
    HALF_WIDTH = WIDTH / 2,
    BLOCK = 16,
    BLOCKS_WIDE = WIDTH / BLOCK,
    BLOCKS_HIGH = HEIGHT / BLOCK,
    WAITING = 38,
    OLDER = 4,
    FRAMES = 115,
    TEXTURE = 1 << 18,
};

struct frame {
    uint8_t *luma, *chroma, *half;
    uint16_t *cost;
};

static struct frame waiting[WAITING], older[OLDER];
static uint8_t texture[TEXTURE];
static uint64_t checksum;

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) {
        perror("malloc");
        exit(EXIT_FAILURE);
    }
    return memory;
}

static struct frame new_frame(void) {
    return (struct frame){
        .luma = allocate(WIDTH * HEIGHT),
        .chroma = allocate(WIDTH * HEIGHT / 2),
        .half = allocate(WIDTH * HEIGHT / 4),
        .cost = allocate(BLOCKS_WIDE * BLOCKS_HIGH * sizeof(uint16_t)),
    };
}

static void capture(struct frame *frame, int number) {
    for (int row = 0; row < HEIGHT; row++) {
        const uint8_t *from = texture + ((row * 37 + number * 3) & 0xffff);
        uint8_t *to = frame->luma + row * WIDTH;
        for (int column = 0; column < WIDTH; column++) {
            to[column] = from[column + ((row >> 6) * number & 127)] + ((column ^ number) & 3);
        }
    }
    for (int row = 0; row < HEIGHT / 2; row++) {
        memcpy(frame->chroma + row * WIDTH, texture + ((row * 91 + number * 5) & 0xffff), WIDTH);
    }
    for (int row = 0; row < HEIGHT / 2; row++) {
        for (int column = 0; column < HALF_WIDTH; column++) {
            const uint8_t *from = frame->luma + 2 * row * WIDTH + 2 * column;
            frame->half[row * HALF_WIDTH + column] = (from[0] + from[1] + from[WIDTH] + from[WIDTH + 1] + 2) >> 2;
        }
    }
}

/* Sum of absolute differences, of each second row. */
static int difference(const uint8_t *one, const uint8_t *other, int stride, int size) {
    int sum = 0;
    for (int row = 0; row < size; row += 2, one += 2 * stride, other += 2 * stride) {
        for (int column = 0; column < size; column++) {
            sum += abs(one[column] - other[column]);
        }
    }
    return sum;
}

static void rate(struct frame *frame, const struct frame *before) {
    for (int row = 0; row < BLOCKS_HIGH; row++) {
        for (int column = 0; column < BLOCKS_WIDE; column++) {
            long at = (long)row * 8 * HALF_WIDTH + column * 8;
            frame->cost[row * BLOCKS_WIDE + column] = difference(frame->half + at, before->half + at, HALF_WIDTH, 8);
        }
    }
}

/* How much later frames depend on the first, by each eighth row of all that wait. */
static int importance(int first) {
    static int of_block[BLOCKS_WIDE * BLOCKS_HIGH];
    memset(of_block, 0, sizeof of_block);
    for (int after = WAITING - 1; after > 0; after--) {
        const struct frame *frame = &waiting[(first + after) % WAITING];
        for (int row = 0; row < BLOCKS_HIGH; row++) {
            for (int column = 0; column < BLOCKS_WIDE; column++) {
                const uint8_t *from = frame->half + (long)(row * 8 + 3) * HALF_WIDTH + column * 8;
                int at = row * BLOCKS_WIDE + column;
                of_block[at] = (of_block[at] * 3 >> 2) + frame->cost[at] + from[0] + from[7];
            }
        }
    }
    int sum = 0;
    for (int at = 0; at < BLOCKS_WIDE * BLOCKS_HIGH; at++) {
        sum += of_block[at] >> 4;
    }
    return sum;
}

/* Where the block is most alike in three of the older frames. */
static const uint8_t *search(const struct frame *frame, const uint8_t *block, int number) {
    static const int right[9] = {0, 4, -4, 0, 0, 3, -3, 3, -3}, down[9] = {0, 0, 0, 2, -2, 2, 2, -2, -2};
    int least = 1 << 30;
    const uint8_t *found = block;
    for (int back = 1; back < OLDER; back++) {
        const uint8_t *same = older[(number - back + OLDER * 8) % OLDER].luma + (block - frame->luma);
        for (int move = 0; move < (back == 1 ? 9 : 4); move++) {
            const uint8_t *moved = same + down[move] * WIDTH + right[move];
            int differs = difference(block, moved, WIDTH, BLOCK);
            if (differs < least) {
                least = differs;
                found = moved;
            }
        }
    }
    checksum = checksum * 33 + (uint64_t)least;
    return found;
}

static void encode(const struct frame *frame, int number, int step) {
    static uint8_t rows[WIDTH * BLOCK];
    struct frame *oldest = &older[number % OLDER];
    for (int row = 1; row < BLOCKS_HIGH - 1; row++) {
        for (int column = 1; column < BLOCKS_WIDE - 1; column++) {
            const uint8_t *block = frame->luma + (long)row * BLOCK * WIDTH + column * BLOCK;
            const uint8_t *like = search(frame, block, number);
            for (int y = 0; y < BLOCK; y++) {
                for (int x = 0; x < BLOCK; x++) {
                    int differs = block[y * WIDTH + x] - like[y * WIDTH + x];
                    rows[y * WIDTH + column * BLOCK + x] = like[y * WIDTH + x] + differs / step * step;
                }
            }
        }
        memcpy(oldest->luma + (long)row * BLOCK * WIDTH, rows, sizeof rows);
    }
    for (int at = 0; at < WIDTH * HEIGHT / 2; at++) {
        oldest->chroma[at] = (frame->chroma[at] & 0xfc) + 1;
    }
}

int main(void) {
    uint32_t random = 7;
    for (int at = 0; at < TEXTURE; at++) {
        random = random * 1664525 + 1013904223;
        texture[at] = (at ? texture[at - 1] * 7 : 0) / 8 + (random >> 29);
    }
    for (int at = 0; at < OLDER; at++) {
        older[at] = new_frame();
        memset(older[at].luma, 128, WIDTH * HEIGHT);
        memset(older[at].chroma, 128, WIDTH * HEIGHT / 2);
    }
    for (int at = 0; at < WAITING; at++) {
        waiting[at] = new_frame();
        capture(&waiting[at], at);
        rate(&waiting[at], &waiting[at ? at - 1 : 0]);
    }
    for (int number = 0; number < FRAMES; number++) {
        int first = number % WAITING;
        encode(&waiting[first], number, 2 + (importance(first) & 3));
        capture(&waiting[first], number + WAITING);
        rate(&waiting[first], &waiting[(first + WAITING - 1) % WAITING]);
    }
    printf("%016llx\n", (unsigned long long)checksum);
    return EXIT_SUCCESS;
}
