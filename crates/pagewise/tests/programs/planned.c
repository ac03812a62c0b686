// Programs under a plan: what they hold must stay what it was, whatever they do. usage: planned KIND [KIB]
#define _GNU_SOURCE
#include "../../../../include/pagewise.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE_BYTES = 4096 };

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

#ifdef MORE_CODE
// As if another source file had got more in it: what follows lies elsewhere.
__attribute__((noinline, used)) static void more(volatile int *count) {
    for (int i = 0; i < 100; i++)
        *count += i;
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

static void check_part(const uint64_t *words, size_t start, size_t bytes) {
    for (size_t i = start / 8; i < (start + bytes) / 8; i++)
        if (words[i] != i * 0x9e3779b97f4a7c15u) {
            fprintf(stderr, "planned: word %zu is wrong\n", i);
            exit(1);
        }
}

static void check(const uint64_t *words, size_t bytes) {
    check_part(words, 0, bytes);
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
        uint64_t *words = make(MIB / 2);
        for (size_t bytes = MIB / 2; bytes < 2 * MIB; bytes += MIB / 8) {
            fill(words, bytes);
            words = realloc(words, bytes + MIB / 8);
            check(words, bytes);
        }
        free(words);
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
    plain(MIB);
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
    static char stack[256 << 10];
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

static size_t locked_kib(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    size_t kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "VmLck: %zu", &kib);
    fclose(file);
    return kib;
}

static void lock_all(void) {
    uint64_t *words = make(4 * MIB);
    fill(words, 4 * MIB);
    if (mlockall(MCL_CURRENT) != 0)
        exit(3);
    // What the plan had locked is locked still: by the program now.
    if (locked_kib() < 4 * MIB / 1024)
        exit(8);
    plain(2 * MIB);
    check(words, 4 * MIB);
    munlockall();
    if (locked_kib() != 0)
        exit(9);
}

// Only what comes from now on: what the plan had locked is to be let go.
static void lock_future(void) {
    uint64_t *words = make(4 * MIB);
    fill(words, 4 * MIB);
    if (mlockall(MCL_FUTURE) != 0)
        exit(3);
    if (locked_kib() >= 4 * MIB / 1024)
        exit(8);
    plain(2 * MIB);
    check(words, 4 * MIB);
}

// More than this user may lock: a call that is refused says nothing.
static void lock_all_in_vain(void) {
    uint64_t *words = make(4 * MIB);
    if (mlockall(MCL_CURRENT) == 0)
        exit(3);
    printf("locked %zu\n", locked_kib());
    free(words);
    words = make(4 * MIB);
    printf("again %zu\n", locked_kib());
    free(words);
}

// The same buffer, for each request anew.
static void serve(void) {
    for (int i = 0; i < 50; i++)
        free(make(4 * MIB));
}

// Descriptors are the program's, also those of who follows its sweeps.
static void sweep_and_close(void) {
    const size_t bytes = 96 * MIB;
    uint64_t *words = make(bytes);
    fill(words, bytes);
    for (int pass = 0; pass < 4; pass++) {
        check(words, bytes);
        syscall(SYS_close_range, 3, ~0u, 0);
    }
    free(words);
}

// A child that shares our memory, and leaves a block in it.
static uint64_t *left_behind;

__attribute__((noinline)) static void leave_by_vfork(void) {
    const pid_t child = vfork();
    if (child == 0) {
        plain(2 * MIB);
        left_behind = make(2 * MIB);
        _exit(0);
    }
    wait_for(child);
}

static void make_in_vfork(void) {
    for (int i = 0; i < 3; i++) {
        leave_by_vfork();
        fill(left_behind, 2 * MIB);
        check(left_behind, 2 * MIB);
        free(left_behind);
    }
    printf("left %zu\n", locked_kib());
}

// Its fixed part is locked later than it is followed.
static void sweep_what_was_grown(void) {
    const size_t bytes = 96 * MIB;
    uint64_t *words = make(32 * MIB);
    fill(words, 32 * MIB);
    words = realloc(words, bytes);
    check(words, 32 * MIB);
    fill(words, bytes);
    for (int pass = 0; pass < 3; pass++)
        check(words, bytes);
    free(words);
}

static void *sweep_part(void *part) {
    const size_t bytes = 12 * MIB;
    uint64_t *words = part;
    for (int pass = 0; pass < 3; pass++)
        check(words, bytes);
    return NULL;
}

// More threads than once were followed, each with a part of its own, as OpenMP shares a loop out.
static void sweep_in_threads(void) {
    enum { THREADS = 8, PART = 12 * MIB };
    char *words = (char *)make(THREADS * PART);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        fill((uint64_t *)(words + i * PART), PART);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, sweep_part, words + i * PART);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    free(words);
}

// DONTNEED is refused where memory is locked: our locks must not be in the way.
static void advise(void) {
    uint64_t *words = map(4 * MIB);
    fill(words, 4 * MIB);
    if (madvise(words, 4 * MIB, MADV_DONTNEED) != 0 || words[1] != 0)
        exit(4);
    munmap(words, 4 * MIB);
}

static void sweep(size_t bytes, int passes) {
    uint64_t *words = make(bytes);
    fill(words, bytes);
    for (int pass = 0; pass < passes; pass++)
        check(words, bytes);
    free(words);
}

// Children of all kinds come and go while it is under way, and sweep a part themselves.
static void sweep_with_family(const char *self) {
    const size_t bytes = 96 * MIB, part = bytes / 4;
    uint64_t *words = make(bytes);
    fill(words, bytes);
    for (int pass = 0; pass < 3; pass++) {
        for (size_t start = 0; start < bytes; start += part) {
            check_part(words, start, part);
            const int how = (int)(start / part) % 3;
            const pid_t child = how == 0 ? fork() : how == 1 ? vfork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
            if (child == 0 && how == 1) {
                execl(self, self, "plain", NULL);
                _exit(127);
            }
            if (child == 0) {
                check_part(words, start, part / 2);
                _exit(0);
            }
            wait_for(child);
        }
    }
    free(words);
}

// A child sweeps what its parent filled and sweeps no more. Another frees it, makes as much anew and sweeps that.
static void sweep_in_children(void) {
    const size_t bytes = 96 * MIB;
    uint64_t *words = make(bytes);
    fill(words, bytes);
    for (int makes_anew = 0; makes_anew < 2; makes_anew++) {
        const pid_t child = fork();
        if (child == 0 && makes_anew) {
            free(words);
            sweep(bytes, 1);
            _exit(0);
        }
        if (child == 0) {
            for (int pass = 0; pass < 3; pass++)
                check(words, bytes);
            _exit(0);
        }
        wait_for(child);
    }
    free(words);
}

// A child whose parent fills memory and ends before the child has begun to sweep it.
static void sweep_as_orphan(void) {
    const size_t bytes = 96 * MIB;
    int ends[2], is_swept = 0;
    if (pipe(ends) != 0)
        exit(30);
    const pid_t parent = fork();
    if (parent == 0) {
        uint64_t *words = make(bytes);
        fill(words, bytes);
        const pid_t filler = getpid();
        if (fork() != 0)
            _exit(0);
        while (getppid() == filler)
            usleep(1000);
        for (int pass = 0; pass < 6; pass++)
            check(words, bytes);
        is_swept = 1;
        _exit(write(ends[1], &is_swept, sizeof is_swept) != sizeof is_swept);
    }
    close(ends[1]);
    wait_for(parent);
    // Until it has ended, too.
    if (read(ends[0], &is_swept, sizeof is_swept) != sizeof is_swept || !is_swept)
        exit(31);
    close(ends[0]);
}

// Takes all there is until it is killed, and whoever kills for memory takes this process first.
static _Noreturn void take_all(void) {
    FILE *first = fopen("/proc/self/oom_score_adj", "w");
    if (first == NULL || fputs("1000", first) < 0 || fclose(first) != 0)
        _exit(3);
    for (;;)
        memset(map(MIB), 1, MIB);
}

// Memory and swap are used up by somebody else while it is under way.
static void sweep_starved(void) {
    const size_t bytes = 96 * MIB;
    uint64_t *words = make(bytes);
    fill(words, bytes);
    check(words, bytes);
    const pid_t hungry = fork();
    if (hungry == 0)
        take_all();
    check(words, bytes);
    int status = 0;
    if (hungry < 0 || waitpid(hungry, &status, 0) != hungry || !WIFSIGNALED(status))
        exit(7);
    check(words, bytes);
    free(words);
}

// Asks for more than there is room for at once, and goes on; then beside locks, and for what they are of.
static void ask_for_all(void) {
    const size_t bytes = 96 * MIB, half = bytes / 2;
    char *words = (char *)make(bytes);
    fill((uint64_t *)words, bytes);
    pagewise_prefetch(words, bytes);
    check((uint64_t *)words, bytes);
    pagewise_lock(words + half, half);
    pagewise_prefetch(words, half);
    pagewise_prefetch(words + half, half);
    check((uint64_t *)words, bytes);
    free(words);
}

// A part of it, again and again, then the part that begins a little further on: each fits, and is wanted soon after it was left.
static void sweep_in_a_window(void) {
    const size_t bytes = 96 * MIB, width = 36 * MIB, step = 6 * MIB;
    uint64_t *words = make(bytes);
    fill(words, bytes);
    for (size_t start = 0; start + width <= bytes; start += step)
        for (int pass = 0; pass < 4; pass++)
            check_part(words, start, width);
    free(words);
}

// So often, anywhere in a table.
static void look_up(volatile uint64_t *table, size_t bytes, int times) {
    static uint64_t place = 1;
    for (; times > 0; times--) {
        place = place * 6364136223846793005u + 1442695040888963407u;
        table[(place >> 20) % (bytes / sizeof *table)]++;
    }
}

// A sweep, whose lock leaves too little for a table that is looked up: after it, and before it goes on, or while it is under way.
static void sweep_and_look_up(int is_beside) {
    const size_t bytes = 96 * MIB, table_bytes = 40 * MIB, parts = 64;
    uint64_t *words = make(bytes), *table = malloc(table_bytes);
    fill(words, bytes);
    for (int pass = 0; pass < 3; pass++)
        check(words, bytes);
    fill(table, table_bytes);
    printf("before %zu\n", locked_kib());
    if (!is_beside) {
        look_up(table, table_bytes, 400000);
        printf("still %zu\n", locked_kib());
    }
    for (size_t part = 0; part < 3 * parts; part++) {
        check_part(words, part % parts * (bytes / parts), bytes / parts);
        if (is_beside)
            look_up(table, table_bytes, 400000 / (int)parts);
    }
    printf("after %zu\n", locked_kib());
    free(table);
    free(words);
}

// Everything is locked while a sweep is followed: first what comes, then what is left of it and fits.
static void sweep_and_lock_all(void) {
    const size_t bytes = 96 * MIB, left = 24 * MIB;
    uint64_t *words = map(bytes);
    fill(words, bytes);
    for (int pass = 0; pass < 3; pass++)
        check(words, bytes);
    if (mlockall(MCL_FUTURE) != 0)
        exit(3);
    check(words, bytes);
    uint64_t *more = map(MIB);
    fill(more, MIB);
    munmap((char *)words + left, bytes - left);
    if (mlockall(MCL_CURRENT) != 0)
        exit(4);
    if (locked_kib() < (left + MIB) / 1024)
        exit(8);
    for (int pass = 0; pass < 3; pass++)
        check(words, left);
    check(more, MIB);
    munlockall();
    if (locked_kib() != 0)
        exit(9);
}

// A system call is refused from here on, in all threads and programs that follow; only where its argument has these bits.
static void forbid(unsigned call, unsigned argument, unsigned bits, unsigned answer) {
    const unsigned offset = offsetof(struct seccomp_data, args) + 8 * argument;
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, bits),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, bits, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        exit(5);
}

// As in some containers, or with a perf_event_paranoid above 2.
static void forbid_perf_events(void) { forbid(SYS_perf_event_open, 0, 0, EACCES); }

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

// What the plan has locked must not be in the way of the program's own locks, be they refused or not.
static void lock_own(void) {
    uint64_t *words = make(4 * MIB);
    static char own[MIB / 2];
    printf("locked %zu\n", locked_kib());
    if (mlock(own, sizeof own) != 0)
        exit(6);
    void *mapped = mmap(NULL, MIB / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
    if (mapped == MAP_FAILED)
        exit(6);
    free(words);
}

// What the program asked for by pagewise.h goes where its memory goes.
static void move(void) {
    char *words = malloc(4 * MIB), *mapped = (char *)map(4 * MIB);
    pagewise_lock(words, 4 * MIB);
    pagewise_lock_part(mapped, 4 * MIB, MIB, 3 * MIB);
    pagewise_lock_part(mapped, 4 * MIB, 3 * MIB + MIB / 2, 4 * MIB);
    const size_t before = locked_kib();
    words = realloc(words, 64 * MIB);
    mapped = mremap(mapped, 4 * MIB, 64 * MIB, MREMAP_MAYMOVE);
    printf("locked %zu %zu\n", before, locked_kib());
    words = realloc(words, 3 * MIB);
    printf("smaller %zu\n", locked_kib());
    free(words);
    munmap(mapped, 64 * MIB);
    printf("gone %zu\n", locked_kib());
}

// Of a block that goes, the locked part goes, too.
static void lock_part(void) {
    char *blocks[3];
    for (int i = 0; i < 3; i++)
        blocks[i] = malloc(8 * MIB);
    for (int i = 0; i < 3; i++) {
        pagewise_lock_part(blocks[i], 8 * MIB, 2 * MIB, 4 * MIB);
        free(blocks[i]);
    }
}

// With something else between two of them.
static void many_rows(void) {
    uint64_t *rows[100];
    for (int i = 0; i < 100; i++) {
        rows[i] = make(MIB);
        mmap(NULL, 3 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    usleep(100000);
    for (int i = 0; i < 100; i++)
        free(rows[i]);
}

// An array in many blocks, which the allocator places one beside the other: from 128 KiB on each below the one before.
struct blocks {
    size_t bytes, count;
    uint64_t **all;
};

static struct blocks make_blocks(size_t whole, size_t bytes) {
    struct blocks made = {bytes, whole / bytes, NULL};
    made.all = calloc(made.count, sizeof *made.all);
    for (size_t i = 0; i < made.count; i++) {
        made.all[i] = make(bytes);
        fill(made.all[i], bytes);
    }
    return made;
}

static void check_blocks(const struct blocks *blocks) {
    for (size_t i = 0; i < blocks->count; i++)
        check(blocks->all[i], blocks->bytes);
}

static void free_blocks(struct blocks *blocks) {
    for (size_t i = 0; i < blocks->count; i++)
        free(blocks->all[i]);
    free(blocks->all);
}

static void sweep_blocks(size_t bytes) {
    struct blocks blocks = make_blocks(96 * MIB, bytes);
    for (int pass = 0; pass < 4; pass++)
        check_blocks(&blocks);
    free_blocks(&blocks);
}

// Some of the blocks go while the array is swept, and others' memory is where they were.
static void sweep_torn_blocks(size_t bytes) {
    struct blocks blocks = make_blocks(96 * MIB, bytes);
    const size_t others = blocks.count / 7;
    uint64_t **all = calloc(others, sizeof *all);
    for (int pass = 0; pass < 4; pass++) {
        check_blocks(&blocks);
        for (size_t i = 0; i < others; i++) {
            free(all[i]);
            free(blocks.all[i * 7 + (size_t)pass]);
            all[i] = malloc(bytes);
            memset(all[i], pass + 1, bytes);
            blocks.all[i * 7 + (size_t)pass] = make(bytes);
            fill(blocks.all[i * 7 + (size_t)pass], bytes);
        }
        check_blocks(&blocks);
        for (size_t i = 0; i < others; i++)
            for (size_t at = 0; at < bytes; at++)
                if (((char *)all[i])[at] != pass + 1)
                    exit(1);
    }
    for (size_t i = 0; i < others; i++)
        free(all[i]);
    free(all);
    free_blocks(&blocks);
}

// Of blocks that go out of the middle the locks go, too, and no others' memory has them.
static void lock_blocks(size_t bytes) {
    struct blocks blocks = make_blocks(8 * MIB, bytes);
    printf("whole %zu\n", locked_kib());
    for (size_t i = 0; i < blocks.count; i += 2)
        free(blocks.all[i]);
    printf("half %zu\n", locked_kib());
    uint64_t **others = calloc(blocks.count, sizeof *others);
    for (size_t i = 0; i < blocks.count; i += 2) {
        others[i] = malloc(bytes);
        memset(others[i], 1, bytes);
    }
    printf("others %zu\n", locked_kib());
    for (size_t i = 0; i < blocks.count; i += 2) {
        free(others[i]);
        blocks.all[i] = make(bytes);
    }
    printf("again %zu\n", locked_kib());
    free(others);
    free_blocks(&blocks);
    printf("gone %zu\n", locked_kib());
}

// Each child has locks of its own, once it allocates.
static char shared[4 * MIB];

static void in_children(void) {
    memset(shared, 1, sizeof shared);
    printf("parent %zu\n", locked_kib());
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        plain(MIB);
        printf("child %zu\n", locked_kib());
        fflush(stdout);
        _exit(0);
    }
    wait_for(child);
}

// As who wants aligned memory does.
// What is mapped over it is another thing, whose locks are nobody's.
static void replace(void) {
    char *mapped = (char *)map(12 * MIB);
    printf("whole %zu\n", locked_kib());
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (mmap(mapped + 4 * MIB, 8 * MIB, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
        exit(1);
    printf("left %zu\n", locked_kib());
    // The budget has room for it again.
    map(8 * MIB);
    printf("again %zu\n", locked_kib());
}

static void trim(void) {
    char *mapped = (char *)map(12 * MIB);
    munmap(mapped, MIB);
    munmap(mapped + 10 * MIB, 2 * MIB);
    printf("edges %zu\n", locked_kib());
    munmap(mapped + 4 * MIB, MIB);
    printf("hole %zu\n", locked_kib());
    munmap(mapped + MIB, 9 * MIB);
    printf("gone %zu\n", locked_kib());
}

// Blocks are told apart by the order in which they are made, whatever becomes of them.
static void in_order(void) {
    char *blocks[6];
    for (int i = 0; i < 6; i++) {
        blocks[i] = (char *)map(MIB);
        printf("made%d %zu\n", i, locked_kib());
    }
    munmap(blocks[1], MIB);
    printf("without %zu\n", locked_kib());
    blocks[1] = (char *)map(MIB);
    printf("another %zu\n", locked_kib());
    blocks[4] = mremap(blocks[4], MIB, 8 * MIB, MREMAP_MAYMOVE);
    // What may move again at once is locked later.
    for (int wait = 0; wait < 200 && locked_kib() == 0; wait++)
        usleep(10000);
    printf("moved %zu\n", locked_kib());
    munmap(blocks[4], 8 * MIB);
    printf("gone %zu\n", locked_kib());
}

// Few faults a second: as from a disk, or where much is computed with each page.
static void crawl(void) {
    const size_t bytes = 96 * MIB;
    uint64_t *words = make(bytes);
    fill(words, bytes);
    uint64_t sum = 0;
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < bytes / 8; i += (64 << 10) / 8) {
            sum += words[i] != i * 0x9e3779b97f4a7c15u;
            usleep(1000);
        }
    if (sum != 0)
        exit(1);
    free(words);
}

// Of all that runs, by the kernel's own count.
static size_t pages_counted(const char *name) {
    FILE *file = fopen("/proc/vmstat", "r");
    char line[256];
    size_t pages = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            pages = strtoull(line + strlen(name), NULL, 10);
    fclose(file);
    return pages;
}

enum { STEP = 64 << 10 };

// A vector that grows by small steps: what it cost in pages unlocked, and what is locked once it rests, waited for so many KiB.
static void grow_slowly(uint64_t *(*resize)(uint64_t *, size_t, size_t), uint64_t *words, size_t end, size_t least) {
    const size_t before = pages_counted("unevictable_pgs_munlocked ");
    int moves = 0;
    for (size_t bytes = MIB; bytes < end; bytes += STEP) {
        uint64_t *resized = resize(words, bytes, bytes + STEP);
        moves += resized != words;
        words = resized;
        for (size_t i = bytes / 8; i < (bytes + STEP) / 8; i++)
            words[i] = i * 0x9e3779b97f4a7c15u;
    }
    check(words, end);
    const size_t unlocked = pages_counted("unevictable_pgs_munlocked ") - before;
    size_t kib = 0;
    for (int wait = 0; wait < 1000 && (kib = locked_kib()) < least; wait++)
        usleep(10000);
    printf("locked %zu\nunlocked %zu\nmoves %d\n", kib, unlocked, moves);
}

static uint64_t *resize_block(uint64_t *words, size_t old, size_t bytes) {
    (void)old;
    return realloc(words, bytes);
}

// Always to another place: what is behind it is not the allocator's.
static uint64_t *move_block(uint64_t *words, size_t old, size_t bytes) {
    (void)old;
    sbrk(PAGE_BYTES);
    uint64_t *moved = realloc(words, bytes);
    malloc_trim(0);
    return moved;
}

static uint64_t *resize_mapping(uint64_t *words, size_t old, size_t bytes) {
    return mremap(words, old, bytes, MREMAP_MAYMOVE);
}

// Blocks come, are resized and go at random, with pauses in which locks that were put off are made.
static void *churn(void *seed) {
    enum { BLOCKS = 4, PART = 128 << 10 };
    unsigned random = (unsigned)(uintptr_t)seed;
    uint64_t *blocks[BLOCKS] = {NULL};
    size_t bytes[BLOCKS];
    for (int i = 0; i < 300; i++) {
        const int at = rand_r(&random) % BLOCKS;
        const size_t wanted = (size_t)(rand_r(&random) % 24 + 1) * PART;
        if (blocks[at] == NULL) {
            blocks[at] = make(wanted);
            fill(blocks[at], wanted);
        } else if (rand_r(&random) % 8 == 0) {
            check(blocks[at], bytes[at]);
            free(blocks[at]);
            blocks[at] = NULL;
            continue;
        } else {
            blocks[at] = realloc(blocks[at], wanted);
            check(blocks[at], wanted < bytes[at] ? wanted : bytes[at]);
            fill(blocks[at], wanted);
        }
        bytes[at] = wanted;
        if (rand_r(&random) % 32 == 0)
            usleep(40000);
        if (rand_r(&random) % 64 == 0) {
            const pid_t child = fork();
            if (child == 0) {
                check(blocks[at], wanted);
                _exit(0);
            }
            wait_for(child);
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return NULL;
}

static void churn_in_threads(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, churn, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("left %zu\n", locked_kib());
    // What comes too fast is not looked at.
    size_t again = 0;
    for (int i = 0; i < 1000 && again == 0; i++) {
        uint64_t *words = make(MIB - 2 * PAGE_BYTES);
        again = locked_kib();
        free(words);
        usleep(10000);
    }
    printf("again %zu\n", again);
}

static int threads_here(void) {
    int found = 0;
    DIR *folder = opendir("/proc/self/task");
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        found += entry->d_name[0] != '.';
    closedir(folder);
    return found;
}

// A forked child has no helper thread until it needs one, and may never call malloc.
static void map_in_child(void) {
    const pid_t child = fork();
    if (child == 0) {
        uint64_t *mapped = map(2 * MIB);
        fill(mapped, 2 * MIB);
        _exit(threads_here() == 2 ? 0 : 1);
    }
    wait_for(child);
}

// In the heap, a block of the plan's other rule among them; then most of it is given back.
static void small_blocks(void) {
    enum { BLOCKS = 64 << 10, BYTES = 112 };
    static uint64_t *blocks[BLOCKS];
    uint64_t *made = NULL;
    // Before them, the block that holds what is printed.
    printf("begun %zu\n", locked_kib());
    for (int i = 0; i < BLOCKS; i++) {
        if (i == BLOCKS / 2) {
            made = make(100 << 10);
            fill(made, 100 << 10);
        }
        blocks[i] = malloc(BYTES);
        fill(blocks[i], BYTES);
    }
    printf("filled %zu\n", locked_kib());
    check(made, 100 << 10);
    free(made);
    printf("released %zu\n", locked_kib());
    for (int i = BLOCKS / 2; i < BLOCKS; i++) {
        check(blocks[i], BYTES);
        free(blocks[i]);
    }
    malloc_trim(0);
    printf("trimmed %zu\n", locked_kib());
    for (int i = BLOCKS / 2; i < BLOCKS; i++) {
        blocks[i] = malloc(BYTES);
        fill(blocks[i], BYTES);
    }
    for (int i = 0; i < BLOCKS; i++)
        check(blocks[i], BYTES);
}

static void *small_blocks_of_thread(void *nothing) {
    small_blocks();
    return nothing;
}

static void thread_blocks(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, small_blocks_of_thread, NULL);
    pthread_join(thread, NULL);
}

int main(int count, char **values) {
    const char *kind = count > 1 ? values[1] : "plain";
    const size_t kib = count > 2 ? strtoull(values[2], NULL, 10) : 0;
    if (strcmp(kind, "plain") == 0)
        plain(8 * MIB);
    else if (strcmp(kind, "grow") == 0)
        grow();
    else if (strcmp(kind, "grows") == 0) {
        uint64_t *words = make(MIB);
        fill(words, MIB);
        grow_slowly(resize_block, words, 32 * MIB, kib);
    } else if (strcmp(kind, "churn") == 0) {
        if (kib > 0)
            mallopt(M_MMAP_THRESHOLD, 1 << 30);
        churn_in_threads();
    } else if (strcmp(kind, "heap") == 0) {
        mallopt(M_MMAP_THRESHOLD, 1 << 30);
        uint64_t *words = make(MIB);
        fill(words, MIB);
        grow_slowly(resize_block, words, 32 * MIB, kib);
    } else if (strcmp(kind, "copied") == 0) {
        mallopt(M_MMAP_THRESHOLD, 1 << 30);
        mallopt(M_TOP_PAD, 0);
        uint64_t *words = make(MIB);
        fill(words, MIB);
        grow_slowly(move_block, words, 8 * MIB, kib);
    } else if (strcmp(kind, "remapped") == 0) {
        uint64_t *mapped = map(MIB);
        fill(mapped, MIB);
        grow_slowly(resize_mapping, mapped, 32 * MIB, kib);
    }
    else if (strcmp(kind, "threads") == 0)
        threads_that_fork();
    else if (strcmp(kind, "clone") == 0)
        clone_directly();
    else if (strcmp(kind, "vfork") == 0)
        run_by_vfork(values[0]);
    else if (strcmp(kind, "lockfollowed") == 0)
        sweep_and_lock_all();
    else if (strcmp(kind, "lockall") == 0)
        lock_all();
    else if (strcmp(kind, "lockfuture") == 0)
        lock_future();
    else if (strcmp(kind, "lockinvain") == 0)
        lock_all_in_vain();
    else if (strcmp(kind, "serve") == 0)
        serve();
    else if (strcmp(kind, "closing") == 0)
        sweep_and_close();
    else if (strcmp(kind, "vforkmakes") == 0)
        make_in_vfork();
    else if (strcmp(kind, "regrown") == 0)
        sweep_what_was_grown();
    else if (strcmp(kind, "shared") == 0)
        sweep_in_threads();
    else if (strcmp(kind, "advise") == 0)
        advise();
    else if (strcmp(kind, "window") == 0)
        sweep_in_a_window();
    else if (strcmp(kind, "lookups") == 0)
        sweep_and_look_up(0);
    else if (strcmp(kind, "lookups-beside") == 0)
        sweep_and_look_up(1);
    else if (strcmp(kind, "sweep") == 0)
        sweep(96 * MIB, 3);
    else if (strcmp(kind, "nearly") == 0)
        sweep(72 * MIB, 40);
    else if (strcmp(kind, "untouched") == 0)
        free(make(200 * MIB));
    else if (strcmp(kind, "starved") == 0)
        sweep_starved();
    else if (strcmp(kind, "ask") == 0)
        ask_for_all();
    else if (strcmp(kind, "heirs") == 0)
        sweep_in_children();
    else if (strcmp(kind, "orphan") == 0)
        sweep_as_orphan();
    else if (strcmp(kind, "family") == 0)
        sweep_with_family(values[0]);
    else if (strcmp(kind, "blind") == 0) {
        forbid_perf_events();
        execl(values[0], values[0], "sweep", NULL);
    } else if (strcmp(kind, "unlockable") == 0) {
        forbid(SYS_mlock2, 0, 0, EPERM);
        plain(4 * MIB);
    } else if (strcmp(kind, "threadless") == 0) {
        forbid(SYS_clone3, 0, 0, EAGAIN);
        forbid(SYS_clone, 0, 0, EAGAIN);
        // Its helper is refused, too.
        execl(values[0], values[0], "plain", NULL);
    } else if (strcmp(kind, "ringless") == 0) {
        // As where there is no memory for the rings in which faults are told.
        forbid(SYS_mmap, 3, MAP_SHARED, ENOMEM);
        sweep(96 * MIB, 3);
    } else if (strcmp(kind, "hints") == 0)
        hints();
    else if (strcmp(kind, "own") == 0)
        lock_own();
    else if (strcmp(kind, "move") == 0)
        move();
    else if (strcmp(kind, "part") == 0)
        lock_part();
    else if (strcmp(kind, "smallblocks") == 0)
        small_blocks();
    else if (strcmp(kind, "threadblocks") == 0)
        thread_blocks();
    else if (strcmp(kind, "rows") == 0)
        many_rows();
    else if (strcmp(kind, "blocks") == 0)
        sweep_blocks(kib << 10);
    else if (strcmp(kind, "torn") == 0)
        sweep_torn_blocks(kib << 10);
    else if (strcmp(kind, "lockedblocks") == 0)
        lock_blocks(kib << 10);
    else if (strcmp(kind, "child") == 0)
        map_in_child();
    else if (strcmp(kind, "children") == 0)
        in_children();
    else if (strcmp(kind, "replace") == 0)
        replace();
    else if (strcmp(kind, "trim") == 0)
        trim();
    else if (strcmp(kind, "order") == 0)
        in_order();
    else if (strcmp(kind, "crawl") == 0)
        crawl();
    else if (strcmp(kind, "leave") == 0)
        fill(make(4 * MIB), 4 * MIB);
    else if (strcmp(kind, "killed") == 0) {
        fill(make(4 * MIB), 4 * MIB);
        raise(SIGKILL);
    } else if (strcmp(kind, "closes") == 0) {
        syscall(SYS_close_range, 3, ~0u, 0);
        plain(4 * MIB);
        execl(values[0], values[0], "plain", NULL);
    } else
        return 7;
    puts("ok");
    return 0;
}
