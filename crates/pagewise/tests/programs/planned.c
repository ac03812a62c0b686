// Programs under a plan: what they hold must stay what it was, whatever they do. usage: planned KIND
#define _GNU_SOURCE
#include "../../../../include/pagewise.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

#ifdef OWN_MALLOC
// Not safe for threads: who runs beside the program must not use it.
static char *pool, *pool_end;

__attribute__((noinline)) void *malloc(size_t bytes) {
    bytes = (bytes + 31) & ~(size_t)15;
    if (pool == NULL || (size_t)(pool_end - pool) < bytes) {
        const size_t mapped = bytes > 64 * MIB ? bytes : 64 * MIB;
        pool = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        pool_end = pool + mapped;
    }
    char *made = pool + 16;
    memcpy(pool, &bytes, sizeof bytes);
    pool += bytes;
    return made;
}

void free(void *address) { (void)address; }

void *calloc(size_t count, size_t each) { return malloc(count * each); }

void *realloc(void *old, size_t bytes) {
    void *made = malloc(bytes);
    if (old != NULL) {
        size_t before;
        memcpy(&before, (char *)old - 16, sizeof before);
        memcpy(made, old, before < bytes ? before - 16 : bytes);
    }
    return made;
}
#endif

// The plan's rules name the one call in each of these.
__attribute__((noinline)) static uint64_t *make(size_t bytes) {
    uint64_t *made = malloc(bytes);
    __asm__ volatile("" : "+r"(made) : : "memory");
    return made;
}

__attribute__((noinline)) static uint64_t *map(size_t bytes) {
    uint64_t *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    __asm__ volatile("" : "+r"(made) : : "memory");
    return made;
}

static void fill(uint64_t *words, size_t bytes) {
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = i * 0x9e3779b97f4a7c15u;
}

static void check(const uint64_t *words, size_t bytes) {
    for (size_t i = 0; i < bytes / 8; i++)
        if (words[i] != i * 0x9e3779b97f4a7c15u) {
            fprintf(stderr, "planned: word %zu is wrong\n", i);
            exit(1);
        }
}

static void plain(size_t bytes) {
    uint64_t *words = make(bytes);
    fill(words, bytes);
    check(words, bytes);
    free(words);
}

static void grow(void) {
    uint64_t *words = make(2 * MIB);
    fill(words, 2 * MIB);
    for (size_t bytes = 3 * MIB; bytes < 12 * MIB; bytes += MIB) {
        words = realloc(words, bytes);
        check(words, bytes - MIB);
        fill(words, bytes);
    }
    free(words);
    uint64_t *mapped = map(2 * MIB);
    fill(mapped, 2 * MIB);
    mapped = mremap(mapped, 2 * MIB, 6 * MIB, MREMAP_MAYMOVE);
    check(mapped, 2 * MIB);
    munmap((char *)mapped + 2 * MIB, MIB);
    check(mapped, 2 * MIB);
    munmap(mapped, 6 * MIB);
}

static void *thread(void *unused) {
    for (int i = 0; i < 20; i++) {
        plain(MIB);
        uint64_t *mapped = map(MIB);
        fill(mapped, MIB);
        munmap(mapped, MIB);
    }
    return unused;
}

static void wait_for(pid_t child) {
    int status = -1;
    if (child < 0 || waitpid(child, &status, __WALL) != child || status != 0)
        exit(2);
}

static void threads_that_fork(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, thread, NULL);
    for (int i = 0; i < 20; i++) {
        const pid_t child = fork();
        if (child == 0) {
            plain(MIB);
            _exit(0);
        }
        wait_for(child);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static int in_clone(void *words) {
    check(words, 2 * MIB);
    return 0;
}

// By system calls alone: no handlers run.
static void clone_directly(void) {
    uint64_t *words = make(2 * MIB);
    fill(words, 2 * MIB);
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        check(words, 2 * MIB);
        plain(MIB);
        _exit(0);
    }
    wait_for(child);
    static char stack[64 << 10];
    wait_for(clone(in_clone, stack + sizeof stack, CLONE_VM | SIGCHLD, words));
    plain(MIB);
    free(words);
}

static void run_by_vfork(const char *self) {
    uint64_t *words = make(2 * MIB);
    fill(words, 2 * MIB);
    for (int i = 0; i < 3; i++) {
        const pid_t child = vfork();
        if (child == 0) {
            execl(self, self, "plain", NULL);
            _exit(127);
        }
        wait_for(child);
    }
    check(words, 2 * MIB);
}

static void lock_all(void) {
    uint64_t *words = make(4 * MIB);
    fill(words, 4 * MIB);
    if (mlockall(MCL_CURRENT) != 0)
        exit(3);
    plain(2 * MIB);
    check(words, 4 * MIB);
    munlockall();
}

// DONTNEED is refused where memory is locked: our locks must not be in the way.
static void advise(void) {
    uint64_t *words = map(4 * MIB);
    fill(words, 4 * MIB);
    if (madvise(words, 4 * MIB, MADV_DONTNEED) != 0 || words[1] != 0)
        exit(4);
    munmap(words, 4 * MIB);
}

static void sweep(void) {
    const size_t bytes = 96 * MIB;
    uint64_t *words = make(bytes);
    fill(words, bytes);
    for (int pass = 0; pass < 3; pass++)
        check(words, bytes);
    free(words);
}

// Where faults may not be told (perf_event_paranoid, containers), perf_event_open is refused like this.
static void forbid_perf_events(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        exit(5);
}

static void hints(void) {
    const size_t bytes = 4 * MIB;
    uint64_t *words = map(bytes);
    pagewise_phase_begin("fill");
    const size_t kept = pagewise_lock(words, bytes / 2);
    fill(words, bytes);
    pagewise_phase_end("fill");
    pagewise_release(words + bytes / 16, bytes / 2);
    pagewise_prefetch(words + bytes / 16, bytes / 2);
    check(words, bytes);
    pagewise_unlock(words, bytes / 2);
    printf("kept %zu\n", kept);
}

int main(int count, char **values) {
    const char *kind = count > 1 ? values[1] : "plain";
    if (strcmp(kind, "plain") == 0)
        plain(8 * MIB);
    else if (strcmp(kind, "grow") == 0)
        grow();
    else if (strcmp(kind, "threads") == 0)
        threads_that_fork();
    else if (strcmp(kind, "clone") == 0)
        clone_directly();
    else if (strcmp(kind, "vfork") == 0)
        run_by_vfork(values[0]);
    else if (strcmp(kind, "lockall") == 0)
        lock_all();
    else if (strcmp(kind, "advise") == 0)
        advise();
    else if (strcmp(kind, "sweep") == 0)
        sweep();
    else if (strcmp(kind, "blind") == 0) {
        forbid_perf_events();
        execl(values[0], values[0], "sweep", NULL);
    } else if (strcmp(kind, "hints") == 0)
        hints();
    else if (strcmp(kind, "closes") == 0) {
        syscall(SYS_close_range, 3, ~0u, 0);
        plain(4 * MIB);
        execl(values[0], values[0], "plain", NULL);
    } else
        return 7;
    puts("ok");
    return 0;
}
