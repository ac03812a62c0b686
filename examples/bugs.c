/* Five errors with objects on the heap, one a run: what `pagewise guard` finds. usage: bugs 1..5 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *copy_of(const char *text, size_t bytes)
{
    char *copy = malloc(bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

static void overflow(volatile char *name)
{
    name[24] = 0;
}

static void underflow(volatile char *name)
{
    name[-1] = 0;
    free((char *)name);
}

static char use_after_free(volatile char *name)
{
    free((char *)name);
    return name[3];
}

static void double_free(volatile char *name)
{
    free((char *)name);
    free((char *)name);
}

static ssize_t short_read(volatile char *name)
{
    int file = open("/proc/version", O_RDONLY);
    ssize_t bytes = read(file, (char *)name, 64);
    close(file);
    return bytes;
}

int main(int argc, char **argv)
{
    char *name = copy_of("a name of 23 characters", 24);
    switch (argc > 1 ? atoi(argv[1]) : 0) {
    case 1: overflow(name); break;
    case 2: underflow(name); break;
    case 3: putchar(use_after_free(name)); break;
    case 4: double_free(name); break;
    case 5: printf("%zd\n", short_read(name)); break;
    }
    return 0;
}
