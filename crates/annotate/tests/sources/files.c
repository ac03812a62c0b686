/* Calls on files. `hint` in a comment: a plan wants that of the call on this line, and its call takes the place of the program's; `refused`: the
 * plan wants something there that the source cannot have. usage: files FILE WRITTEN */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#define READ_SOME(file) read(file, buffer, 4096)
#define CHECKED(result) do { if ((result) < 0) exit(1); } while (0)

static char buffer[1 << 16];
static unsigned long sum;

static void add(ssize_t got)
{
    for (ssize_t i = 0; i < got; i++)
        sum = sum * 31 + (unsigned char)buffer[i];
}

static int opened(const char *path)
{
    int file = open(path, O_RDONLY);
    if (file < 0)
        exit(1);
    return file;
}

static void in_order(const char *path)
{
    int file = opened(path);
    ssize_t got;
    while ((got = read(file, buffer, sizeof buffer)) > 0) /* hint drop */
        add(got);
    close(file);
}

static void in_no_order(const char *path)
{
    int file = opened(path);
    for (off_t at = 0; at < 200; at++) {
        if (pread(file, buffer, 4096, at * 7919 % 500 * 4096) != 4096) /* hint random */
            exit(1);
        add(4096);
    }
    for (off_t run = 0; run < 20; run++)
        for (off_t at = 0; at < 8; at++)
            add(pread(file, buffer, 4096, (run * 37 % 60 * 8 + at) * 4096)); /* hint burst */
    close(file);
}

static void by_parts(const char *path)
{
    int file = opened(path);
    struct iovec parts[2] = {{buffer, 100}, {buffer + 100, 4000}};
    ssize_t got = TEMP_FAILURE_RETRY(readv(file, parts, 2)); /* hint normal */
    add(got);
    got = preadv(file, parts,
                 2, 8192); /* hint drop-sequential */
    add(got);
    close(file);
}

static void by_stream(const char *path)
{
    FILE *stream = fopen(path, "r");
    char *line = NULL;
    size_t size = 0, got;
    if (!stream)
        exit(1);
    while ((got = fread(buffer, 1, sizeof buffer, stream)) > 0) /* hint drop-sequential */
        add((ssize_t)got);
    rewind(stream);
    for (int i = 0; i < 100 && fgets(buffer, 1000, stream); i++) /* hint sequential */
        add(10);
    add(getline(&line, &size, stream) > 0 ? 5 : 6); /* hint sequential */
    free(line);
    fclose(stream);
}

static void written(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    FILE *stream = fopen(path, "r+");
    for (int i = 0; i < 80; i++)
        add(write(file, buffer, sizeof buffer) == sizeof buffer ? 1 : 2); /* hint drop */
    add(pwrite(file, buffer, 5000, 12345)); /* hint normal */
    if (!stream || fwrite(buffer, 10, 300, stream) != 300) /* hint drop */
        exit(1);
    fclose(stream);
    close(file);
}

static void by_hand(const char *path)
{
    int file = opened(path);
    ssize_t (*call)(int, void *, size_t) = read;
    add(READ_SOME(file)); /* refused */
    CHECKED(read(file, buffer, 10)); /* refused */
    add(read(file, buffer, 10)), add(read(file, buffer, 20)); /* refused */
    add(call(file, buffer, 30)); /* refused */
    sum += sum / 3; /* refused */
    close(file);
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    in_order(arguments[1]);
    in_no_order(arguments[1]);
    by_parts(arguments[1]);
    by_stream(arguments[1]);
    written(arguments[2]);
    in_order(arguments[2]);
    by_hand(arguments[1]);
    printf("%lu\n", sum);
    return 0;
}
