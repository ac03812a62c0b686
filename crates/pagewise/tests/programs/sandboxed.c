/* A child forbids itself what it does not need, and allocates: sandboxed [nested]; nested: a child of that child does.
 * Ends by 1 if that ended otherwise than by its own will. */

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void enter(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mprotect), ALLOW(SYS_brk),
        ALLOW(SYS_futex), ALLOW(SYS_madvise), ALLOW(SYS_mremap), ALLOW(SYS_clone), ALLOW(SYS_set_robust_list),
        ALLOW(SYS_rseq), ALLOW(SYS_wait4), ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_getrandom),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        _exit(2);
    }
}

static char *volatile kept; /* or the compiler would leave it all out */

static void allocate(void) {
    for (int time = 0; time < 200; time++) {
        kept = malloc(1 << 18);
        memset(kept, 1, 1 << 18);
        free(kept);
    }
}

static int ended_well(pid_t child) {
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int count, char **values) {
    int is_nested = count > 1 && strcmp(values[1], "nested") == 0;
    pid_t child = fork();
    if (child == 0) {
        enter();
        pid_t inner = is_nested ? fork() : 0;
        if (inner == 0) {
            allocate();
            _exit(0);
        }
        _exit(!ended_well(inner));
    }
    return !ended_well(child);
}
