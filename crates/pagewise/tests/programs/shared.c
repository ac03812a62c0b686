// Reads by two at once. usage: shared KIND FILE
//   position: two threads by one descriptor, whose position both move
//   numbers: two processes whose numbers are 16,384 apart; prints how many calls they made, or 0 if that cannot be had
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, CALLS = 2000, APART = 16384 };

static int file;

// Each call is made there, and is no jump.
#define AND_BACK __asm__ volatile("" ::: "memory")

__attribute__((noinline)) static long reads(char *buffer) {
    long bytes = read(file, buffer, MIB);
    AND_BACK;
    return bytes;
}

__attribute__((noinline)) static long reads_begin(char *buffer) {
    long bytes = pread(file, buffer, MIB, 0);
    AND_BACK;
    return bytes;
}

static void *read_all(void *unused) {
    char *buffer = malloc(MIB);
    while (reads(buffer) > 0) {
    }
    free(buffer);
    return unused;
}

static void read_often(void) {
    char *buffer = malloc(MIB);
    for (int call = 0; call < CALLS; call++) {
        reads_begin(buffer);
    }
    free(buffer);
}

static pid_t fork_as(pid_t number) {
    pid_t numbers[] = {number};
    struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)numbers, .set_tid_size = 1};
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
}

int main(int count, char **values) {
    if (count != 3) {
        return 2;
    }
    file = open(values[2], O_RDONLY);
    if (strcmp(values[1], "position") == 0) {
        pthread_t second;
        pthread_create(&second, NULL, read_all, NULL);
        read_all(NULL);
        pthread_join(second, NULL);
        return 0;
    }
    pid_t own = getpid(), child = fork_as(own > APART ? own - APART : own + APART);
    if (child < 0) {
        printf("0\n");
        return 0;
    }
    read_often();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, NULL, 0);
    printf("%d\n", 2 * CALLS);
    return 0;
}
