/* usage: swapped COUNT BYTES EARLY [DEVICE]   makes so many objects with contents as programs have them and touches each at random.
 * With a DEVICE, a zram device that is swap, the kernel swaps all of them out before. Prints, in a line each: objects made; us for
 * making each of the last half, and each before the EARLYth (beyond a limit on memory the last wait for room); us for swapping each
 * out; bytes swapped out; the device's mm_stat; then what touches took that took more than a microsecond, ns. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096UL

static uint64_t seed = 1;

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static uint64_t chance(void)
{
    seed = seed * 6364136223846793005UL + 1442695040888963407UL;
    return seed >> 24;
}

static uint64_t mark_of(long which)
{
    return (uint64_t)which * 0x9e3779b97f4a7c15UL;
}

/* Words as in lists, trees and strings: pointers into the heap, small numbers, text, zeros. The last 4 bytes tell which object it
 * is, and are like no other's. */
static void fill(char *object, size_t bytes, long which)
{
    size_t at = 0;
    for (; at + 8 <= bytes; at += 8) {
        uint64_t word = 0;
        switch (chance() % 4) {
        case 0: word = 0x7f3a00000000UL + chance() % (1UL << 30) * 8; break;
        case 1: word = chance() % 5000; break;
        case 2: for (int i = 0; i < 8; i++) word = word << 8 | "etaoinshrdlucmfw"[chance() % 16]; break;
        default: break;
        }
        memcpy(object + at, &word, 8);
    }
    uint32_t mark = (uint32_t)mark_of(which);
    memcpy(object + bytes - 4, &mark, 4);
}

static int is_whole(const char *object, size_t bytes, long which)
{
    uint32_t mark;
    memcpy(&mark, object + bytes - 4, 4);
    return mark == (uint32_t)mark_of(which);
}

static long kib_of(const char *key)
{
    char line[256];
    long found = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, key, strlen(key)))
            found = atol(line + strlen(key));
    if (file)
        fclose(file);
    return found;
}

static int compare(const void *a, const void *b)
{
    const char *left = *(char *const *)a, *right = *(char *const *)b;
    return (left > right) - (left < right);
}

/* All pages of the objects, 2 MiB of addresses at a time. */
static double swap_out(char **objects, long count)
{
    char **sorted = malloc(count * sizeof *sorted);
    memcpy(sorted, objects, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    double begin = now_us();
    for (long i = 0; i < count;) {
        uintptr_t from = (uintptr_t)sorted[i] & -PAGE, to = from;
        for (; i < count && (uintptr_t)sorted[i] < from + 512 * PAGE; i++)
            to = ((uintptr_t)sorted[i] & -PAGE) + PAGE;
        madvise((void *)from, to - from, MADV_PAGEOUT);
    }
    double took = now_us() - begin;
    free(sorted);
    return took;
}

static void print_file(const char *device)
{
    char path[128], text[256] = "";
    snprintf(path, sizeof path, "/sys/block/%s/mm_stat", device);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file))
        fputs(text, stdout);
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    long count = argc > 3 ? atol(argv[1]) : 0, early = argc > 3 ? atol(argv[3]) : 0;
    size_t bytes = argc > 3 ? (size_t)atol(argv[2]) : 0;
    const char *device = argc > 4 ? argv[4] : NULL;
    char **objects = calloc(count + 1, sizeof *objects);
    uint32_t *took = calloc(count + 1, sizeof *took);
    if (early < 2 || count / 2 < early || bytes < 4 || !objects || !took)
        return 2;
    double from = 0, to = 0, middle = 0;
    for (long i = 0; i < count; i++) {
        /* Of the first ones some take longer, as nothing is ready yet. */
        if (i == early / 2)
            from = now_us();
        if (i == early)
            to = now_us();
        if (i == count / 2)
            middle = now_us();
        if (!(objects[i] = malloc(bytes)))
            return 1;
        fill(objects[i], bytes, i);
    }
    double late_us = (now_us() - middle) / (count - count / 2), early_us = (to - from) / (early - early / 2);
    double out = device ? swap_out(objects, count) : 0;
    printf("%ld\n%f %f\n%f\n%ld\n", count, late_us, early_us, out / count, kib_of("VmSwap:") * 1024);
    if (device)
        print_file(device);
    else
        puts("");
    for (long i = 0; i < count; i++) {
        long which = (long)(chance() % (uint64_t)count);
        double begin = now_us();
        int whole = is_whole(objects[which], bytes, which);
        took[i] = (uint32_t)((now_us() - begin) * 1000);
        if (!whole)
            return 1;
    }
    for (long i = 0; i < count; i++)
        if (took[i] > 1000)
            printf("%u\n", took[i]);
    return 0;
}
