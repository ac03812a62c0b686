// Sweeps through shared memory: `common_memory memfd|system-v|anonymous|children MIB ROUNDS`. The sum that it prints does not depend on what happens to its pages.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char *of_file(int file, size_t bytes)
{
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        exit(1);
    unsigned char *buffers = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return buffers;
}

static unsigned char *of_system_v(size_t bytes)
{
    int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
    unsigned char *buffers = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    return buffers;
}

static unsigned char *without_name(size_t bytes)
{
    unsigned char *buffers = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return buffers;
}

static unsigned long sweep(const unsigned char *buffers, size_t bytes, int rounds)
{
    unsigned long sum = 0;
    for (int round = 0; round < rounds; round++)
        for (size_t at = 0; at < bytes; at++)
            sum += buffers[at];
    return sum;
}

/* Two children go through a half each, side by side. */
static unsigned long sum_of_children(const unsigned char *buffers, size_t bytes, int rounds)
{
    int pipes[2];
    if (pipe(pipes) != 0)
        exit(1);
    for (int child = 0; child < 2; child++) {
        if (fork() != 0)
            continue;
        unsigned long sum = sweep(buffers + child * (bytes / 2), bytes / 2, rounds);
        _exit(write(pipes[1], &sum, sizeof sum) == sizeof sum ? 0 : 1);
    }
    unsigned long sums[2];
    for (int child = 0; child < 2; child++)
        if (read(pipes[0], &sums[child], sizeof sums[child]) != sizeof sums[child])
            exit(1);
    while (wait(NULL) > 0)
        ;
    return sums[0] + sums[1];
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    size_t bytes = strtoul(argv[2], NULL, 10) << 20;
    int is_system_v = strcmp(argv[1], "system-v") == 0;
    unsigned char *buffers;
    if (is_system_v)
        buffers = of_system_v(bytes);
    else if (strcmp(argv[1], "memfd") == 0)
        buffers = of_file(memfd_create("buffers", 0), bytes);
    else
        buffers = without_name(bytes);
    if (buffers == MAP_FAILED)
        return 1;
    for (size_t at = 0; at < bytes; at++)
        buffers[at] = (unsigned char)(at * 2654435761u >> 24);
    int rounds = atoi(argv[3]);
    int has_children = strcmp(argv[1], "children") == 0;
    printf("%lu\n", has_children ? sum_of_children(buffers, bytes, rounds) : sweep(buffers, bytes, rounds));
    if (is_system_v && shmdt(buffers) != 0)
        return 1;
    return 0;
}
