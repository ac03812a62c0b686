/* Convolution of two channels of sound with long responses, a thread for each: every block of sound goes through all spectra of the response and all
 * blocks before it. A lock of one of the two pushes out the other. */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOG_SIZE = 16,
    SIZE = 1 << LOG_SIZE,
    BLOCK = SIZE / 2,
    PARTS = 66,
    BLOCKS = 120,
    CHANNELS = 2,
};

struct spectrum {
    float real[SIZE], imaginary[SIZE];
};

struct channel {
    struct spectrum *response, *before, *sum;
    float *tail;
    uint32_t random;
    long checksum;
};

static float *cosines, *sines;
static uint32_t *reversed;

static void *allocate(size_t count, size_t bytes) {
    void *memory = calloc(count, bytes);
    if (memory == NULL) {
        perror("calloc");
        exit(EXIT_FAILURE);
    }
    return memory;
}

static uint32_t next_random(struct channel *channel) {
    channel->random = channel->random * 1664525 + 1013904223;
    return channel->random >> 16;
}

static void swap(float *one, float *other) {
    float kept = *one;
    *one = *other;
    *other = kept;
}

static void transform(struct spectrum *values, int back) {
    float *real = values->real, *imaginary = values->imaginary;
    for (uint32_t at = 0; at < SIZE; at++) {
        if (reversed[at] > at) {
            swap(&real[at], &real[reversed[at]]);
            swap(&imaginary[at], &imaginary[reversed[at]]);
        }
    }
    for (int length = 1; length < SIZE; length <<= 1) {
        int step = SIZE / (2 * length);
        for (int begin = 0; begin < SIZE; begin += 2 * length) {
            for (int at = begin; at < begin + length; at++) {
                float cosine = cosines[(at - begin) * step];
                float sine = back ? sines[(at - begin) * step] : -sines[(at - begin) * step];
                int far = at + length;
                float turned_real = real[far] * cosine - imaginary[far] * sine;
                float turned_imaginary = real[far] * sine + imaginary[far] * cosine;
                real[far] = real[at] - turned_real;
                imaginary[far] = imaginary[at] - turned_imaginary;
                real[at] += turned_real;
                imaginary[at] += turned_imaginary;
            }
        }
    }
}

static void add_product(struct spectrum *restrict sum, const struct spectrum *restrict one, const struct spectrum *restrict other) {
    for (int at = 0; at < SIZE; at++) {
        sum->real[at] += one->real[at] * other->real[at] - one->imaginary[at] * other->imaginary[at];
        sum->imaginary[at] += one->real[at] * other->imaginary[at] + one->imaginary[at] * other->real[at];
    }
}

static void make_response(struct channel *channel) {
    for (int part = 0; part < PARTS; part++) {
        struct spectrum *response = &channel->response[part];
        for (int at = 0; at < BLOCK; at++) {
            float fades = expf(-(part * BLOCK + at) / (float)(PARTS * BLOCK / 5));
            response->real[at] = ((float)next_random(channel) - 32768.0F) * 1e-7F * fades;
        }
        transform(response, 0);
    }
}

static void *run(void *argument) {
    struct channel *channel = argument;
    make_response(channel);
    for (int block = 0; block < BLOCKS; block++) {
        struct spectrum *newest = &channel->before[block % PARTS];
        memcpy(newest->real, channel->tail, BLOCK * sizeof(float));
        for (int at = 0; at < BLOCK; at++) {
            channel->tail[at] = (float)next_random(channel) / 65536.0F - 0.5F;
            newest->real[BLOCK + at] = channel->tail[at];
        }
        memset(newest->imaginary, 0, sizeof newest->imaginary);
        transform(newest, 0);
        memset(channel->sum, 0, sizeof *channel->sum);
        for (int part = 0; part < PARTS && part <= block; part++) {
            add_product(channel->sum, &channel->before[(block - part) % PARTS], &channel->response[part]);
        }
        transform(channel->sum, 1);
        for (int at = BLOCK; at < SIZE; at += 17) {
            channel->checksum += lrintf(channel->sum->real[at] * (4096.0F / SIZE) * 100);
        }
    }
    return NULL;
}

static void make_tables(void) {
    cosines = allocate(SIZE / 2, sizeof *cosines);
    sines = allocate(SIZE / 2, sizeof *sines);
    reversed = allocate(SIZE, sizeof *reversed);
    const double turn = 2 * 3.14159265358979323846;
    for (int at = 0; at < SIZE / 2; at++) {
        cosines[at] = (float)cos(turn * at / SIZE);
        sines[at] = (float)sin(turn * at / SIZE);
    }
    for (uint32_t at = 1; at < SIZE; at++) {
        reversed[at] = reversed[at >> 1] >> 1 | (at & 1) << (LOG_SIZE - 1);
    }
}

int main(void) {
    make_tables();
    struct channel channels[CHANNELS];
    pthread_t threads[CHANNELS];
    for (int at = 0; at < CHANNELS; at++) {
        channels[at] = (struct channel){
            .response = allocate(PARTS, sizeof(struct spectrum)),
            .before = allocate(PARTS, sizeof(struct spectrum)),
            .sum = allocate(1, sizeof(struct spectrum)),
            .tail = allocate(BLOCK, sizeof(float)),
            .random = 77 + (uint32_t)at,
        };
        if (pthread_create(&threads[at], NULL, run, &channels[at]) != 0) {
            fprintf(stderr, "a thread could not be made\n");
            return EXIT_FAILURE;
        }
    }
    for (int at = 0; at < CHANNELS; at++) {
        pthread_join(threads[at], NULL);
        printf("%ld\n", channels[at].checksum);
    }
    return EXIT_SUCCESS;
}
