/* usage: objects COUNT BYTES   makes so many objects, writes to each, counts its mappings, and gives all back. Prints
 * seconds of the three steps, mappings and how many of them came with the objects, and resident memory at the peak, KiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static long count_lines(const char *path, const char *key)
{
    char line[4096];
    long found = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (!key)
            found++;
        else if (!strncmp(line, key, strlen(key)))
            found = atol(line + strlen(key));
    }
    if (file)
        fclose(file);
    return found;
}

int main(int argc, char **argv)
{
    long count = argc > 2 ? atol(argv[1]) : 0;
    size_t bytes = argc > 2 ? (size_t)atol(argv[2]) : 0;
    char **objects = calloc(count + 1, sizeof *objects);
    long made = 0;
    free(malloc(bytes));
    long mappings_before = count_lines("/proc/self/maps", NULL);
    double begin = now();
    for (; made < count && (objects[made] = malloc(bytes)); made++) {
    }
    double allocated = now();
    for (long i = 0; i < made; i++)
        memset(objects[i], 1, bytes);
    double touched = now();
    long mappings = count_lines("/proc/self/maps", NULL);
    long resident = count_lines("/proc/self/status", "VmRSS:");
    double looked = now();
    for (long i = 0; i < made; i++)
        free(objects[i]);
    double freed = now();
    printf("%ld %f %f %f %ld %ld %ld\n", made, allocated - begin, touched - allocated, freed - looked, mappings,
           mappings - mappings_before, resident);
    return 0;
}
