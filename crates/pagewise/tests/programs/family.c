// Programs whose memory is another process's too, or that come after many others. usage: family many NUMBER | orphan
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, SIZE = 48 << 20, PASSES = 3, STACK = 64 << 10 };

static unsigned char *memory;

static void fill(void) {
    memory = malloc(SIZE); // line of memory
    if (memory == NULL)
        _exit(1);
    for (size_t offset = 0; offset < SIZE; offset += PAGE)
        memset(memory + offset, (int)(1 + offset / PAGE % 251), PAGE / 2);
}

static void sweep(void) {
    volatile unsigned char *bytes = memory;
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t offset = 0; offset < SIZE; offset += PAGE)
            bytes[offset]++;
}

static int wait_for_all(void) {
    int status = 0;
    while (wait(&status) > 0)
        if (status != 0)
            return 1;
    return 0;
}

// Each child has an address space of its own for a moment.
static int after_many(int number) {
    for (int i = 0; i < number; i++) {
        const pid_t child = fork();
        int status = 0;
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }
    const pid_t child = fork();
    if (child == 0) {
        fill();
        sweep();
        _exit(0);
    }
    return wait_for_all();
}

static int sweep_alone(void *pipe_end) {
    char byte;
    // Until the grandparent, which waits for the parent, closes the other end.
    if (read(*(int *)pipe_end, &byte, 1) != 0)
        return 1;
    sweep();
    return 0;
}

// The child goes on in the memory of its parent, which ends.
static int orphan(void) {
    int ends[2];
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || pipe(ends) != 0)
        return 1;
    const pid_t parent = fork();
    if (parent == 0) {
        fill();
        char *stack = malloc(STACK);
        if (stack == NULL || close(ends[1]) != 0)
            _exit(1);
        const pid_t child = clone(sweep_alone, stack + STACK, CLONE_VM | SIGCHLD, &ends[0]);
        _exit(child < 0);
    }
    if (close(ends[0]) != 0 || waitpid(parent, NULL, 0) != parent)
        return 1;
    close(ends[1]);
    return wait_for_all();
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "many") == 0)
        return after_many(atoi(argv[2]));
    if (argc == 2 && strcmp(argv[1], "orphan") == 0)
        return orphan();
    return 2;
}
