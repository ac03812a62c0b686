// Attaches to a process as a debugger does, lets it go on, and ends with it. usage: tracer PID
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int main(int count, char **values) {
    pid_t pid = count == 2 ? atoi(values[1]) : 0;
    if (pid <= 0 || ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0) {
        perror("tracer");
        return 1;
    }
    for (;;) {
        int status = 0;
        if (waitpid(pid, &status, __WALL) != pid) {
            return 2;
        }
        if (!WIFSTOPPED(status)) {
            return 0;
        }
        ptrace(PTRACE_CONT, pid, NULL, (void *)(long)WSTOPSIG(status));
    }
}
