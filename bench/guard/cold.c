/* usage: cold COUNT BYTES TOUCHES   makes so many objects and writes to each, then touches some at random, one after the other.
 * Prints objects made; seconds for them; resident memory, page tables and resident memory of the list of objects, KiB;
 * touches that took more than a microsecond, in a line of their own each, in ns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static long status(const char *key)
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

int main(int argc, char **argv)
{
    long count = argc > 3 ? atol(argv[1]) : 0;
    size_t bytes = argc > 3 ? (size_t)atol(argv[2]) : 0;
    long touches = argc > 3 ? atol(argv[3]) : 0;
    char **objects = malloc(count * sizeof *objects);
    long *took = calloc(touches + 1, sizeof *took);
    if (!objects || !took)
        return 1;
    memset(objects, 1, count * sizeof *objects);
    long before = status("VmRSS:"), tables_before = status("VmPTE:");
    long begin = now_ns(), made = 0;
    for (; made < count && (objects[made] = malloc(bytes)); made++)
        memset(objects[made], (int)(made % 251), bytes);
    double seconds = (now_ns() - begin) / 1e9;
    printf("%ld %f %ld %ld\n", made, seconds, status("VmRSS:") - before, status("VmPTE:") - tables_before);
    unsigned long seed = 1;
    for (long i = 0; i < touches; i++) {
        seed = seed * 6364136223846793005UL + 1442695040888963407UL;
        long which = (long)((seed >> 20) % (unsigned long)made);
        volatile char *object = objects[which];
        long start = now_ns();
        char found = object[bytes - 1];
        took[i] = now_ns() - start;
        if (found != (char)(which % 251))
            return 1;
    }
    for (long i = 0; i < touches; i++)
        if (took[i] > 1000)
            printf("%ld\n", took[i]);
    return 0;
}
