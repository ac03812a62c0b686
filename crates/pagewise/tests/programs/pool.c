// A thread that reads for others. usage: pool marked|plain|sandboxed FILE OTHER
// FILE is read in order and OTHER again and again at a few places, each by a function that only queues it; with `marked` they say so.
// `sandboxed` says so, too, but has forbidden itself the system call that tells a recorder.
// Prints how many pages of FILE are in the page cache at the end, and how many nobody has dropped: those that the kernel itself
// evicts leave a trace.
#define _GNU_SOURCE
#include "../../../../include/pagewise.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PIECE = 64 << 10, PLACES = 64, ROUNDS = 50, TOUCHED = 16, OWN = 10 };

struct job {
    int file;
    size_t bytes;
    off_t at;
    const volatile char *mapped; // to be touched in place of being read
    pagewise_handover_t from;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static const struct job *waiting;
static int is_over, is_marked, own_file;
static char buffer[PIECE];
static uint64_t sum;

static void fail(const char *what) {
    perror(what);
    exit(3);
}

__attribute__((noinline)) static void reads_for_itself(void) {
    if (pread(own_file, buffer, PAGE, 0) != PAGE) {
        fail("own");
    }
}

__attribute__((noinline)) static void does(const struct job *job) {
    if (job->mapped != NULL) {
        for (size_t at = 0; at < job->bytes; at += PAGE) {
            sum += (unsigned char)job->mapped[at];
        }
        return;
    }
    const ssize_t done = pread(job->file, buffer, job->bytes, job->at);
    for (ssize_t at = 0; at < done; at++) {
        sum += (unsigned char)buffer[at];
    }
}

static void *work(void *nothing) {
    for (int own = 0; own < OWN; own++) {
        reads_for_itself();
    }
    pthread_mutex_lock(&lock);
    while (!is_over) {
        if (waiting == NULL) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        if (is_marked) {
            pagewise_on_behalf_of(waiting->from);
        }
        does(waiting);
        if (is_marked) {
            pagewise_done();
        }
        waiting = NULL;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    for (int own = 0; own < OWN; own++) {
        reads_for_itself();
    }
    return nothing;
}

// Waits until it is done, so that jobs are done in order.
static void queue(const struct job *job) {
    pthread_mutex_lock(&lock);
    waiting = job;
    pthread_cond_broadcast(&changed);
    while (waiting != NULL) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) static void queues_scan(int file, off_t bytes) {
    for (off_t at = 0; at < bytes; at += PIECE) {
        struct job job = {.file = file, .bytes = PIECE, .at = at};
        if (is_marked) {
            job.from = pagewise_handover();
        }
        queue(&job);
    }
}

__attribute__((noinline)) static void queues_lookups(int file) {
    for (int round = 0; round < ROUNDS; round++) {
        for (int place = 0; place < PLACES; place++) {
            struct job job = {.file = file, .bytes = PAGE, .at = (off_t)(place * 37 % PLACES) * 16 * PAGE};
            if (is_marked) {
                job.from = pagewise_handover();
            }
            queue(&job);
        }
    }
}

__attribute__((noinline)) static void queues_touches(const volatile char *mapped) {
    struct job job = {.mapped = mapped, .bytes = TOUCHED * PAGE};
    if (is_marked) {
        job.from = pagewise_handover();
    }
    queue(&job);
}

static int opened(const char *path, off_t *bytes) {
    struct stat facts;
    const int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &facts) != 0) {
        fail(path);
    }
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    *bytes = facts.st_size;
    return file;
}

static void enter_sandbox(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        fail("prctl");
    }
}

// cachestat: cached, dirty, being written, evicted, recently evicted.
static void tell_cached(int file) {
    uint64_t range[2] = {0, 1 << 30}, state[5] = {0};
    syscall(451, file, range, state, 0);
    printf("%lu\n%lu\n", state[0], state[0] + state[3]);
}

int main(int count, char **values) {
    if (count != 4) {
        return 2;
    }
    off_t bytes, other_bytes;
    is_marked = strcmp(values[1], "plain") != 0;
    if (strcmp(values[1], "sandboxed") == 0) {
        enter_sandbox();
    }
    own_file = open(values[0], O_RDONLY);
    const int file = opened(values[2], &bytes), other = opened(values[3], &other_bytes);
    const volatile char *end = mmap(NULL, TOUCHED * PAGE, PROT_READ, MAP_SHARED, other, other_bytes - TOUCHED * PAGE);
    if (end == MAP_FAILED) {
        fail("mmap");
    }
    pthread_t worker;
    pthread_create(&worker, NULL, work, NULL);
    queues_scan(file, bytes);
    queues_lookups(other);
    queues_touches(end);
    pthread_mutex_lock(&lock);
    is_over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(worker, NULL);
    close(file);
    const int again = open(values[2], O_RDONLY);
    tell_cached(again);
    printf("sum %lu\n", sum);
    return 0;
}
