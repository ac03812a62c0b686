/* One file of another file system as on a disk that is far away: each read waits for so long, many at a time.
 * usage: far FILE MICROSECONDS FOLDER -f   (FOLDER/file is FILE; ends by fusermount3 -u FOLDER) */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int file;
static struct timespec latency;

static int get_attributes(const char *path, struct stat *facts, struct fuse_file_info *unused) {
    (void)unused;
    if (strcmp(path, "/") == 0) {
        *facts = (struct stat){.st_mode = S_IFDIR | 0755, .st_nlink = 2};
        return 0;
    }
    return strcmp(path, "/file") == 0 ? (fstat(file, facts) == 0 ? 0 : -errno) : -ENOENT;
}

static int open_it(const char *path, struct fuse_file_info *info) {
    info->keep_cache = 1;
    return strcmp(path, "/file") == 0 ? 0 : -ENOENT;
}

static int read_it(const char *path, char *buffer, size_t bytes, off_t offset, struct fuse_file_info *info) {
    (void)path, (void)info;
    nanosleep(&latency, NULL);
    ssize_t got = pread(file, buffer, bytes, offset);
    return got >= 0 ? (int)got : -errno;
}

static const struct fuse_operations operations = {.getattr = get_attributes, .open = open_it, .read = read_it};

int main(int count, char **values) {
    if (count < 4) {
        fputs("usage: far FILE MICROSECONDS FOLDER [OPTIONS OF FUSE]\n", stderr);
        return 2;
    }
    file = open(values[1], O_RDONLY);
    long us = strtol(values[2], NULL, 10);
    latency = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    if (file < 0) {
        perror(values[1]);
        return 1;
    }
    values[2] = values[0];
    return fuse_main(count - 2, values + 2, &operations, NULL);
}
