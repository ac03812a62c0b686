/* usage: cached evict|count FILE   Drops a file from the page cache, or prints how many percent of it are there. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    int file = count == 3 ? open(arguments[2], O_RDONLY) : -1;
    struct stat stat;
    if (file < 0 || fstat(file, &stat) || fsync(file))
        return 1;
    if (!strcmp(arguments[1], "evict"))
        return posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    size_t pages = ((size_t)stat.st_size + 4095) / 4096, there = 0;
    unsigned char *found = calloc(pages, 1);
    void *mapped = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (!found || mapped == MAP_FAILED || mincore(mapped, (size_t)stat.st_size, found))
        return 1;
    for (size_t page = 0; page < pages; page++)
        there += found[page] & 1;
    printf("%zu\n", there * 100 / pages);
    return 0;
}
