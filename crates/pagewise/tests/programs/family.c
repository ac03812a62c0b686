// Processes that come after many others, live in the memory of another, have like numbers, or thousands of mappings; shared
// memory. usage: family many NUMBER | orphan | apart NUMBER | split | shared
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
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
// The kernel frees what ended processes had some time later: on a busy machine the limit may be full of it.
static int after_many(int number) {
    int short_of_memory = 0;
    for (int i = 0; i < number; i++) {
        const pid_t child = fork();
        int status = 0;
        if (child == 0)
            _exit(0);
        if (child >= 0 && waitpid(child, &status, 0) == child && status == 0)
            continue;
        if (short_of_memory++ == 1000)
            return 1;
        usleep(10000);
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

// Like fork, with that number (CAP_SYS_ADMIN).
static pid_t fork_as(pid_t number) {
    struct clone_args arguments = {
        .exit_signal = SIGCHLD,
        .set_tid = (uintptr_t)&number,
        .set_tid_size = 1,
    };
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

static bool are_free(pid_t first, int number) {
    for (int i = 0; i < number; i++)
        if (kill(first + (i << 14), 0) == 0 || errno != ESRCH)
            return false;
    return true;
}

// So many processes sweep at once, with numbers that are 16,384 apart. Prints their major faults.
static int apart(int number) {
    pid_t first = 300;
    while (!are_free(first, number))
        first++;
    for (int i = 0; i < number; i++) {
        const pid_t child = fork_as(first + (i << 14));
        if (child == 0) {
            fill();
            sweep();
            _exit(0);
        }
        if (child < 0)
            return 1;
    }
    const int status = wait_for_all();
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    printf("%ld\n", usage.ru_majflt);
    return status;
}

// Every other page may only be read: each is a mapping of its own, all of the same memory.
static int split(void) {
    fill();
    unsigned char *pages = (unsigned char *)(((uintptr_t)memory + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    for (size_t offset = 0; offset + PAGE < SIZE; offset += 2 * PAGE)
        if (mprotect(pages + offset, PAGE, PROT_READ) != 0)
            return 1;
    unsigned sum = 0;
    for (int pass = 0; pass < PASSES; pass++)
        for (size_t offset = 0; offset < SIZE; offset += PAGE)
            sum += ((volatile unsigned char *)memory)[offset];
    return sum == 0;
}

// Each half of a shared mapping is used in turn and seen to be in memory.
static int shared(void) {
    memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 1;
    for (int turn = 0; turn < 4; turn++) {
        memset(memory + (turn % 2 ? SIZE / 2 : 0), 1 + turn, SIZE / 2);
        sleep(2);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "many") == 0)
        return after_many(atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "apart") == 0)
        return apart(atoi(argv[2]));
    if (argc == 2 && strcmp(argv[1], "shared") == 0)
        return shared();
    if (argc == 2 && strcmp(argv[1], "split") == 0)
        return split();
    if (argc == 2 && strcmp(argv[1], "orphan") == 0)
        return orphan();
    return 2;
}
