// Programs whose I/O is hinted: whatever they do, they read what is there, and only their own pages go. usage: hints KIND FILE OTHER
// With HINTS_WAIT=FILE in the environment hints come from outside: it begins when that file is there, and lets hints come.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PIECE = 64 << 10, MIB = 1 << 20 };

static char *buffer;
static uint64_t sum;

static ssize_t use(ssize_t bytes) {
    for (ssize_t at = 0; at < bytes; at++) {
        sum += (unsigned char)buffer[at];
    }
    return bytes;
}

// The plan's rules name the one call in each of these.
__attribute__((noinline)) static ssize_t reads_some(int file, size_t bytes) { return use(read(file, buffer, bytes)); }

__attribute__((noinline)) static ssize_t reads(int file) { return use(read(file, buffer, PIECE)); }

__attribute__((noinline)) static ssize_t reads_at(int file, off_t at) { return use(pread(file, buffer, PAGE, at)); }

__attribute__((noinline)) static ssize_t reads_vector(int file, off_t at) {
    struct iovec halves[] = {{buffer, PAGE / 2}, {buffer + PAGE / 2, PAGE / 2}};
    return use(preadv(file, halves, 2, at));
}

__attribute__((noinline)) static ssize_t reads_halves(int file) {
    struct iovec halves[] = {{buffer, PIECE / 2}, {buffer + PIECE / 2, PIECE / 2}};
    return use(readv(file, halves, 2));
}

__attribute__((noinline)) static ssize_t writes_at(int file, off_t at) { return pwrite(file, buffer, PAGE, at); }

__attribute__((noinline)) static size_t reads_stream(FILE *stream) {
    return (size_t)use((ssize_t)fread(buffer, 1, 900, stream));
}

__attribute__((noinline)) static ssize_t writes(int file) { return use(write(file, buffer, PIECE)); }

// No rule names this one.
__attribute__((noinline)) static ssize_t other(int file, size_t bytes, off_t at) { return pread(file, buffer, bytes, at); }

static const char *begin_when;

static void wait_for(const char *path) {
    while (access(path, F_OK) != 0) {
        usleep(1000);
    }
}

// Hints from outside come behind the calls.
static void let_hints_come(void) {
    if (begin_when != NULL) {
        usleep(200000);
    }
}

struct cachestat {
    uint64_t cached, dirty, under_way, evicted, recently_evicted;
};

static struct cachestat state_of(int file, uint64_t from, uint64_t bytes) {
    uint64_t range[2] = {from, bytes};
    struct cachestat state = {0};
    if (syscall(451, file, range, &state, 0) != 0) {
        state.cached = (uint64_t)-1;
    }
    return state;
}

// Pages of a range that are in the page cache.
static long cached(int file, uint64_t from, uint64_t bytes) { return (long)state_of(file, from, bytes).cached; }

static int opened(const char *path, int flags) {
    int file = open(path, flags | O_RDWR | O_CREAT, 0600);
    if (file < 0) {
        perror(path);
        exit(3);
    }
    return file;
}

// By system calls of its own, which no hook sees.
static void evict(const char *path) {
    int file = opened(path, 0);
    fsync(file);
    syscall(SYS_fadvise64, file, 0L, 0L, POSIX_FADV_DONTNEED);
    close(file);
}

// Just this, and nothing ahead of it.
static void warm(const char *path, off_t from, off_t to) {
    int file = opened(path, 0);
    syscall(SYS_fadvise64, file, 0L, 0L, POSIX_FADV_RANDOM);
    for (off_t at = from; at < to; at += MIB) {
        other(file, MIB, at);
    }
    close(file);
}

static void read_all(int file) {
    while (reads(file) > 0) {
    }
}

static void tell(const char *path, off_t from, off_t to) {
    let_hints_come();
    int file = opened(path, 0);
    printf("%ld\n", cached(file, (uint64_t)from, (uint64_t)(to - from)));
    close(file);
}

// Pages that nobody has dropped. Those that the kernel itself evicts, short of memory or ahead of that (DAMON), leave a trace.
static void tell_kept(const char *path, off_t from, off_t to) {
    let_hints_come();
    int file = opened(path, 0);
    struct cachestat state = state_of(file, (uint64_t)from, (uint64_t)(to - from));
    printf("%ld\n", (long)(state.cached + state.evicted));
    close(file);
}

static void tell_all(const char *path) { tell(path, 0, 1 << 30); }

static int shared_file;

// 8 MiB of the file, from here.
static void *read_part(void *from) {
    for (off_t at = 0; at < 8 * MIB; at += PAGE) {
        reads_at(shared_file, (off_t)(intptr_t)from + at);
    }
    return NULL;
}

static int is_enough;

static void *cut_again_and_again(void *nothing) {
    while (!__atomic_load_n(&is_enough, __ATOMIC_RELAXED)) {
        if (ftruncate(shared_file, 3 * MIB + 5) != 0 || ftruncate(shared_file, 24 * MIB) != 0) {
            exit(3);
        }
        usleep(100);
    }
    return nothing;
}

static pthread_barrier_t turn;

// 64 KiB of the file, from here, a page a turn.
static void *read_run(void *from) {
    for (off_t at = 0; at < PIECE; at += PAGE) {
        pthread_barrier_wait(&turn);
        reads_at(shared_file, (off_t)(intptr_t)from + at);
    }
    return NULL;
}

// So many pages are locked.
static void tell_locked(void) {
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    long kib = -1;
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        sscanf(line, "VmLck: %ld", &kib);
    }
    fclose(status);
    printf("%ld\n", kib / 4);
}

static void read_pages(int file, off_t from, off_t to) {
    for (off_t at = from; at < to; at += PAGE) {
        reads_at(file, at);
    }
}

// Runs of 16 pages, far from each other, and each time from the disk.
static void read_bursts(const char *path, int file, int bursts) {
    const int slots = 96;
    for (int burst = 0; burst < bursts; burst++) {
        evict(path);
        const off_t slot = (off_t)(burst * 37 % slots) * 64 * PAGE;
        read_pages(file, slot, slot + 16 * PAGE);
    }
}

static int silent[2];

static void *waits_for_ever(void *unused) {
    char byte;
    (void)unused;
    return read(silent[0], &byte, 1) == 1 ? silent : NULL;
}

int main(int count, char **values) {
    if (count != 4) {
        return 2;
    }
    const char *kind = values[1], *path = values[2], *second = values[3];
    buffer = aligned_alloc(PAGE, MIB);
    memset(buffer, 1, MIB);
    begin_when = getenv("HINTS_WAIT");
    if (begin_when != NULL) {
        wait_for(begin_when);
    }
#define IS(name) (strcmp(kind, name) == 0)
    if (IS("pipe") || IS("socket")) {
        int ends[2];
        if ((IS("pipe") ? pipe(ends) : socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) != 0 || writes(ends[1]) != PIECE) {
            return 3;
        }
        close(ends[1]);
        read_all(ends[0]);
    } else if (IS("cancelled")) {
        pthread_t thread;
        void *result = NULL;
        if (pipe(silent) != 0 || pthread_create(&thread, NULL, waits_for_ever, NULL) != 0) {
            return 3;
        }
        pthread_cancel(thread);
        pthread_join(thread, &result);
        printf("%d\n", result == PTHREAD_CANCELED);
        evict(path);
        int file = opened(path, 0);
        read_all(file);
    } else if (IS("keep")) {
        // Twice, but for the last 8 MiB: then others' pages go.
        evict(path);
        int file = opened(path, 0);
        read_pages(file, 0, 24 * MIB);
        read_pages(file, 0, 16 * MIB);
        tell_locked();
        evict(path);
        tell(path, 0, 16 * MIB);
        tell(path, 16 * MIB, 1 << 30);
        // The program's own word wins.
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        tell_locked();
        tell_all(path);
        read_pages(file, 0, 16 * MIB);
        tell_locked();
        close(file);
        tell_locked();
        unlink(path);
    } else if (IS("keep-ends")) {
        // Locks are not a child's, and the program's own calls about all of them win.
        evict(path);
        int file = opened(path, 0);
        read_pages(file, 0, 16 * MIB);
        read_pages(file, 0, 16 * MIB);
        tell_locked();
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            tell_locked();
            read_pages(file, 0, 16 * MIB);
            fflush(stdout);
            _exit(0);
        }
        int status = -1;
        waitpid(child, &status, 0);
        printf("%d\n", status);
        munlockall();
        tell_locked();
        // Cut, while it is kept, and made long again.
        close(file);
        file = opened(path, 0);
        if (ftruncate(file, 3 * MIB + 5) != 0 || ftruncate(file, 24 * MIB) != 0) {
            return 3;
        }
        read_pages(file, 0, 16 * MIB);
    } else if (IS("keep-cut")) {
        shared_file = opened(path, 0);
        pthread_t cutter;
        pthread_create(&cutter, NULL, cut_again_and_again, NULL);
        for (int pass = 0; pass < 4; pass++) {
            read_pages(shared_file, 0, 24 * MIB);
        }
        __atomic_store_n(&is_enough, 1, __ATOMIC_RELAXED);
        pthread_join(cutter, NULL);
        close(shared_file);
        tell_locked();
        sum = 0;
    } else if (IS("keep-short")) {
        // In no order, more than fits, and nothing is read ahead of it.
        evict(path);
        int file = opened(path, 0);
        posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
        uint64_t random = 1;
        for (int call = 0; call < 30000; call++) {
            random = random * 6364136223846793005u + 1;
            reads_at(file, (off_t)((random >> 33) % (24 * MIB / PAGE)) * PAGE);
        }
        sum = 0;
    } else if (IS("evicted-bursts")) {
        read_bursts(path, opened(path, 0), 400);
    } else if (IS("direct")) {
        int file = opened(path, O_DIRECT);
        read_all(file);
    } else if (IS("half")) {
        // A part is another's already, and stays.
        evict(path);
        warm(path, 8 * MIB, 12 * MIB);
        int file = opened(path, 0);
        read_all(file);
        close(file);
        tell_kept(path, 8 * MIB, 12 * MIB);
        tell(path, 0, 8 * MIB);
        tell(path, 14 * MIB, 1 << 30);
    } else if (IS("nowhere")) {
        // Before the file begins nothing can be written, wherever the descriptor is.
        int file = opened(path, 0);
        printf("%zd\n", writes_at(file, -1));
        printf("%zd\n", reads_at(file, -1));
        printf("%ld\n", (long)lseek(file, 0, SEEK_CUR));
        printf("%zd\n", pread(file, buffer, 1, 0) == 1 ? buffer[0] : (ssize_t)-1);
        // Nor can this be, which is no fault of the hint's.
        printf("%zd\n", writes_at(file, INT64_MAX - PAGE / 2));
        buffer[0] = 1;
        printf("%zd\n", writes_at(file, 0));
    } else if (IS("vectors")) {
        // Two runs of 64 KiB.
        int file = opened(path, 0);
        for (off_t at = 0; at < PIECE; at += PAGE) {
            reads_vector(file, 4 * MIB + at);
        }
        for (off_t at = 0; at < PIECE; at += PAGE) {
            reads_vector(file, 12 * MIB + at);
        }
    } else if (IS("bursts")) {
        // Two threads in turn, each in a run of its own.
        shared_file = opened(path, 0);
        pthread_barrier_init(&turn, NULL, 2);
        pthread_t later_run;
        pthread_create(&later_run, NULL, read_run, (void *)(intptr_t)(12 * MIB));
        read_run((void *)0);
        pthread_join(later_run, NULL);
    } else if (IS("threads")) {
        // By one descriptor, far from each other.
        evict(path);
        shared_file = opened(path, 0);
        pthread_t later_part;
        pthread_create(&later_part, NULL, read_part, (void *)(intptr_t)(16 * MIB));
        read_part((void *)0);
        pthread_join(later_part, NULL);
        close(shared_file);
        tell_all(path);
    } else if (IS("mapped-too")) {
        // What is mapped cannot be dropped.
        evict(path);
        int file = opened(path, 0);
        const volatile char *map = mmap(NULL, 24 * MIB, PROT_READ, MAP_SHARED, file, 0);
        if (map == MAP_FAILED) {
            return 3;
        }
        for (off_t at = 0; reads(file) > 0; at += PIECE) {
            for (off_t page = at; page < at + PIECE; page += PAGE) {
                (void)map[page];
            }
        }
        let_hints_come();
        close(file);
        tell_kept(path, 0, 1 << 30);
    } else if (IS("tree")) {
        // Leaves in order, and between them inner pages, of which some are another's. At last a short run elsewhere.
        evict(path);
        warm(path, 20 * MIB, 22 * MIB);
        int file = opened(path, 0);
        for (int leaf = 0; leaf < 2048; leaf++) {
            reads_at(file, (off_t)leaf * PAGE);
            if (leaf % 50 == 49) {
                reads_at(file, 16 * MIB + (off_t)(leaf / 50) * (2 * PIECE));
            }
            if (leaf % 100 == 99) {
                reads_at(file, 20 * MIB + (off_t)(leaf / 100) * PIECE);
            }
        }
        for (int page = 0; page < 4; page++) {
            reads_at(file, 12 * MIB + page * PAGE);
        }
        // What is just being read ahead cannot go.
        usleep(100000);
        close(file);
        tell(path, 0, 20 * MIB);
        tell_kept(path, 20 * MIB, 22 * MIB);
    } else if (IS("two-rules")) {
        // The same by calls of two kinds.
        evict(path);
        int file = opened(path, 0);
        for (off_t at = 0; at < 8 * MIB; at += PIECE) {
            reads(file);
            for (off_t page = 0; page < PIECE; page += PAGE) {
                reads_at(file, 16 * MIB + at + page);
            }
        }
        close(file);
        tell_all(path);
    } else if (IS("unlinked")) {
        evict(path);
        int file = opened(path, 0);
        unlink(path);
        read_all(file);
        let_hints_come();
        printf("%ld\n", cached(file, 0, 1 << 30));
    } else if (IS("replaced")) {
        evict(path);
        warm(second, 0, 24 * MIB);
        int file = opened(path, 0);
        reads(file);
        rename(second, path);
        read_all(file);
        close(file);
        tell_kept(path, 0, 1 << 30);
    } else if (IS("truncated")) {
        evict(path);
        int file = opened(path, 0);
        for (int piece = 0; piece < 100; piece++) {
            reads(file);
        }
        if (ftruncate(file, 3 * MIB) != 0) {
            return 3;
        }
        read_all(file);
        lseek(file, 0, SEEK_SET);
        read_all(file);
        close(file);
        tell_all(path);
    } else if (IS("shrinks") || IS("shrinks-at")) {
        // Somebody else cuts it, by another open file, while it is read, and makes it long again: what is there then is zeros.
        evict(path);
        int file = opened(path, 0);
        for (int part = 0; part < 3; part++) {
            for (int piece = 0; piece < 40; piece++) {
                off_t at = (off_t)(part * 40 + piece) * PIECE;
                IS("shrinks") ? reads(file) : reads_at(file, at);
            }
            let_hints_come();
            if (truncate(path, MIB + PAGE / 2) != 0 || truncate(path, part < 2 ? 24 * MIB : MIB) != 0) {
                return 3;
            }
        }
        printf("%zd\n", IS("shrinks") ? reads(file) : reads_at(file, 10 * MIB));
        let_hints_come();
        printf("%ld\n", cached(file, MIB, 1 << 30));
        close(file);
        tell_all(path);
    } else if (IS("last-run")) {
        // A run that goes on up to the end of a file, but for one byte less than three pages of it.
        if (truncate(path, 24 * MIB - PIECE + 2 * PAGE + 1) != 0) {
            return 3;
        }
        evict(path);
        int file = opened(path, 0);
        reads_at(file, 24 * MIB - PIECE);
        let_hints_come();
        printf("%ld\n", cached(file, 24 * MIB - PIECE, 1 << 30));
        // Cut before the next run is asked for: there is nothing to ask for there.
        if (truncate(path, 4 * MIB) != 0) {
            return 3;
        }
        printf("%zd\n", reads_at(file, 8 * MIB));
        let_hints_come();
        printf("%ld\n", cached(file, 4 * MIB, 1 << 30));
    } else if (IS("races")) {
        // Cut and made long again all the time, by a thread that nobody waits for.
        shared_file = opened(path, 0);
        pthread_t cutter;
        pthread_create(&cutter, NULL, cut_again_and_again, NULL);
        for (int times = 0; times < 20; times++) {
            lseek(shared_file, 0, SEEK_SET);
            for (off_t at = 0; at < 24 * MIB; at += PIECE) {
                reads(shared_file);
                reads_at(shared_file, 24 * MIB - at);
                writes_at(shared_file, at / 2);
            }
        }
        __atomic_store_n(&is_enough, 1, __ATOMIC_RELAXED);
        pthread_join(cutter, NULL);
        printf("%d\n", sum > 0);
    } else if (IS("reused") || IS("over")) {
        // The descriptor comes to mean the other file behind the hooks' back, or by dup2.
        evict(path);
        warm(second, 0, 24 * MIB);
        int file = opened(path, 0), victim = opened(second, 0);
        for (int piece = 0; piece < 40; piece++) {
            reads(file);
        }
        let_hints_come();
        if (IS("reused")) {
            syscall(SYS_dup3, victim, file, 0);
        } else {
            dup2(victim, file);
        }
        other(file, PAGE, 0);
        // Goes on where the first file was left, so that to the eye the run goes on.
        lseek(file, 40 * PIECE, SEEK_SET);
        for (int piece = 0; piece < 100; piece++) {
            reads(file);
        }
        close(file);
        close(victim);
        tell_kept(second, 0, 1 << 30);
    } else if (IS("given-back")) {
        // The unhinted call reads ahead as ever, the hinted ones do not.
        evict(path);
        int file = opened(path, 0);
        reads_at(file, 4 * MIB);
        printf("%ld\n", cached(file, 0, 1 << 30));
        other(file, PAGE, 16 * MIB);
        other(file, PAGE, 16 * MIB + PAGE);
        printf("%d\n", cached(file, 15 * MIB, 1 << 30) > 2);
        reads_at(file, 10 * MIB);
        printf("%ld\n", cached(file, 10 * MIB, MIB));
    } else if (IS("shared")) {
        evict(path);
        int file = opened(path, 0), same = fcntl(file, F_DUPFD, 100);
        reads_at(file, 4 * MIB);
        other(same, PAGE, 16 * MIB);
        other(same, PAGE, 16 * MIB + PAGE);
        printf("%d\n", cached(file, 15 * MIB, 1 << 30) > 2);
    } else if (IS("forks")) {
        // What was told before is taken back for the child, and so is what is told after; also of what was not used before.
        evict(path);
        int file = opened(path, 0), unused = opened(path, 0), ends[2];
        char byte = 0;
        reads_at(file, 4 * MIB);
        fflush(stdout);
        if (pipe(ends) != 0) {
            return 3;
        }
        if (fork() == 0) {
            syscall(SYS_read, ends[0], &byte, 1L);
            int files[] = {file, unused};
            for (int index = 0; index < 2; index++) {
                evict(path);
                other(files[index], PAGE, 16 * MIB);
                other(files[index], PAGE, 16 * MIB + PAGE);
                printf("%d\n", cached(file, 15 * MIB, 1 << 30) > 2);
            }
            fflush(stdout);
            _exit(0);
        }
        reads_at(file, 5 * MIB);
        reads_at(unused, 5 * MIB);
        syscall(SYS_write, ends[1], &byte, 1L);
        wait(NULL);
    } else if (IS("stays-open")) {
        // Told to read nothing ahead, it stays open through calls that close nothing, and reads ahead as ever for who comes next.
        int file = opened(path, 0);
        for (int way = 0; way < 4; way++) {
            evict(path);
            reads_at(file, 4 * MIB);
            switch (way) {
            case 0: close_range((unsigned)file, (unsigned)file, CLOSE_RANGE_CLOEXEC); break;
            case 1: dup3(file, file, 0); break;
            case 2: dup2(-1, file); break;
            default: close_range((unsigned)file, (unsigned)file, 1 << 20); break;
            }
            other(file, PAGE, 16 * MIB);
            other(file, PAGE, 16 * MIB + PAGE);
            printf("%d\n", cached(file, 15 * MIB, 1 << 30) > 2);
        }
    } else if (IS("seeks")) {
        // By the descriptor's own position, which it moves.
        evict(path);
        int file = opened(path, 0);
        reads(file);
        lseek(file, 16 * MIB, SEEK_SET);
        reads(file);
        close(file);
        tell_all(path);
    } else if (IS("halves")) {
        evict(path);
        int file = opened(path, 0);
        while (reads_halves(file) > 0) {
        }
        close(file);
        tell_all(path);
    } else if (IS("write-only")) {
        int file = open(second, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        for (int piece = 0; piece < 24 * MIB / PIECE; piece++) {
            writes(file);
        }
        close(file);
    } else if (IS("starts")) {
        // Another program reads by our open file, and ends.
        int file = opened(path, 0);
        pid_t child = fork();
        if (child == 0) {
            dup2(file, 0);
            execl("/proc/self/exe", "hints", "input", path, second, (char *)NULL);
            _exit(3);
        }
        waitpid(child, NULL, 0);
        evict(path);
        other(file, PAGE, 16 * MIB);
        other(file, PAGE, 16 * MIB + PAGE);
        printf("%d\n", cached(file, 15 * MIB, 1 << 30) > 2);
    } else if (IS("input")) {
        reads_at(0, 4 * MIB);
    } else if (IS("own") || IS("once")) {
        // Its own advice: how to read ahead, or that nothing is used again.
        evict(path);
        int file = opened(path, 0);
        posix_fadvise(file, 0, 0, IS("own") ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_NOREUSE);
        read_all(file);
        printf("%d\n", cached(file, 0, 1 << 30) > 5000);
    } else if (IS("asks")) {
        evict(path);
        int file = opened(path, 0);
        posix_fadvise(file, 0, MIB, POSIX_FADV_WILLNEED);
        readahead(file, 0, MIB);
        posix_fadvise(file, 8 * MIB, MIB, POSIX_FADV_DONTNEED);
        read_all(file);
        printf("%d\n", cached(file, 4 * MIB, 1 << 30) > 0);
    } else if (IS("again")) {
        // Each time from the disk, if it is dropped each time.
        evict(path);
        int file = opened(path, 0);
        for (int times = 0; times < 60; times++) {
            read_all(file);
            lseek(file, 0, SEEK_SET);
        }
        close(file);
        tell_all(path);
    } else if (IS("twice")) {
        // All of it, and again at once.
        evict(path);
        int file = opened(path, 0);
        for (int times = 0; times < 4; times++) {
            lseek(file, 0, SEEK_SET);
            read_all(file);
            let_hints_come();
        }
        close(file);
        tell_all(path);
    } else if (IS("raw-close") || IS("pclose") || IS("freopen")) {
        // The descriptor of what has no page cache comes to mean a file, in ways that are hooked or not.
        evict(path);
        FILE *stream = IS("freopen") ? fopen("/proc/self/maps", "r") : popen("head -c 65536 /dev/zero", "r");
        int number = fileno(stream), file = number;
        reads(number);
        if (IS("freopen")) {
            file = fileno(freopen(path, "r", stream));
        } else {
            if (IS("pclose")) {
                pclose(stream);
            } else {
                syscall(SYS_close, number);
            }
            file = opened(path, 0);
        }
        if (file != number) {
            return 3;
        }
        // What is read before that is noticed stays: then nothing ahead of it shall.
        syscall(SYS_fadvise64, file, 0L, 0L, POSIX_FADV_RANDOM);
        read_all(file);
        tell(path, 4 * MIB, 1 << 30);
        tell(path, 0, 4 * MIB);
    } else if (IS("left-alone")) {
        // Single pages; then two in a row, of which the kernel makes more.
        int file = opened(path, 0);
        for (off_t at = 0; at < 16 * MIB; at += MIB) {
            reads_at(file, at);
        }
        let_hints_come();
        evict(path);
        reads_at(file, 4 * MIB);
        reads_at(file, 4 * MIB + PAGE);
    } else if (IS("ends-beside")) {
        // One reads on, and another one comes to the end: what is read ahead for the first one stays.
        evict(path);
        int file = opened(path, 0), last = opened(path, 0);
        for (int piece = 0; piece < 4; piece++) {
            reads(file);
        }
        long before = cached(file, 0, 16 * MIB);
        lseek(last, 24 * MIB - PIECE, SEEK_SET);
        read_all(last);
        let_hints_come();
        printf("%ld\n%ld\n", before, cached(file, 0, 16 * MIB));
    } else if (IS("asks-nothing")) {
        // To ask for nothing is not to be at the end.
        evict(path);
        int file = opened(path, 0);
        for (int piece = 0; piece < 4; piece++) {
            reads(file);
        }
        long before = cached(file, 0, 16 * MIB);
        reads_some(file, 0);
        let_hints_come();
        printf("%ld\n%ld\n", before, cached(file, 0, 16 * MIB));
    } else if (IS("foreign")) {
        // Another user's, of which the kernel does not tell what is cached; then one of one's own.
        int file = open(path, O_RDONLY);
        read_all(file);
        close(file);
        evict(second);
        file = opened(second, 0);
        read_all(file);
        close(file);
        tell_all(second);
    } else if (IS("stream")) {
        evict(path);
        FILE *stream = fopen(path, "r");
        while (stream != NULL && reads_stream(stream) > 0) {
        }
        fclose(stream);
        tell_all(path);
    } else if (IS("told")) {
        // Told at its first calls to read nothing ahead, until somebody else uses it, or the end of the telling.
        int file = opened(path, 0);
        reads_at(file, 4 * MIB);
        let_hints_come();
        evict(path);
        reads_at(file, 4 * MIB);
        printf("%ld\n", cached(file, 0, 1 << 30));
        other(file, PAGE, 16 * MIB);
        let_hints_come();
        other(file, PAGE, 16 * MIB + PAGE);
        printf("%d\n", cached(file, 15 * MIB, 1 << 30) > 2);
        reads_at(file, 6 * MIB);
        let_hints_come();
        evict(path);
        reads_at(file, 10 * MIB);
        printf("%ld\n", cached(file, 0, 1 << 30));
        fflush(stdout);
        close(opened("ready", 0));
        wait_for(second);
        evict(path);
        reads_at(file, 4 * MIB);
        reads_at(file, 4 * MIB + PAGE);
        printf("%d\n", cached(file, 0, 1 << 30) > 2);
    } else if (IS("told-by-another")) {
        // Told by one descriptor, used by another one that means the same open file.
        int file = opened(path, 0), same = fcntl(file, F_DUPFD, 100);
        reads_at(file, 4 * MIB);
        let_hints_come();
        other(same, PAGE, 16 * MIB);
        let_hints_come();
        evict(path);
        other(same, PAGE, 16 * MIB);
        other(same, PAGE, 16 * MIB + PAGE);
        printf("%d\n", cached(file, 15 * MIB, 1 << 30) > 2);
    } else if (IS("worker")) {
        // A child uses its parent's open file, and ends before the hints do.
        int file = opened(path, 0);
        pid_t child = fork();
        if (child == 0) {
            reads_at(file, 4 * MIB);
            let_hints_come();
            evict(path);
            reads_at(file, 4 * MIB);
            printf("%ld\n", cached(file, 0, 1 << 30));
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, NULL, 0);
        close(opened("ready", 0));
        wait_for(second);
        evict(path);
        reads_at(file, 4 * MIB);
        reads_at(file, 4 * MIB + PAGE);
        printf("%d\n", cached(file, 0, 1 << 30) > 2);
    } else if (IS("advised")) {
        // Its own advice, which a rule would change.
        evict(path);
        int file = opened(path, 0);
        posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
        read_all(file);
        let_hints_come();
        evict(path);
        reads_at(file, 4 * MIB);
        reads_at(file, 4 * MIB + PAGE);
        printf("%d\n", cached(file, 0, 1 << 30) > 2);
    } else if (IS("for-ever")) {
        // Until it is killed.
        for (;;) {
            int file = opened(path, 0);
            read_all(file);
            close(file);
        }
    } else if (IS("written")) {
        int file = opened(path, O_TRUNC);
        for (int piece = 0; piece < 40 * MIB / PIECE; piece++) {
            writes(file);
        }
        fsync(file);
        writes(file);
        close(file);
        // From outside, when it is on the disk and nobody has used it for a second.
        for (int times = 0; times < 15; times++) {
            let_hints_come();
        }
        tell(path, 0, 16 * MIB);
    } else if (IS("files")) {
        // Each is closed long before the kernel writes it back by itself. Prints whether the kernel tells what is written.
        struct cachestat state = {0};
        for (int number = 0; number < 24; number++) {
            char name[64];
            snprintf(name, sizeof name, "%s-%d", second, number);
            int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
            for (int piece = 0; piece < MIB / PIECE; piece++) {
                writes(file);
            }
            state = state_of(file, 0, MIB);
            close(file);
        }
        printf("%d\n", state.cached > 0);
    } else if (IS("short")) {
        // Ends at once, and leaves what is not on the disk yet.
        int file = opened(path, O_TRUNC);
        for (int piece = 0; piece < 9 * MIB / PIECE; piece++) {
            writes(file);
        }
    } else if (IS("forked")) {
        evict(path);
        int file = opened(path, 0);
        reads(file);
        fflush(stdout);
        pid_t child = fork();
        read_all(file);
        close(file);
        if (child == 0) {
            _exit(0);
        }
        waitpid(child, NULL, 0);
    } else if (IS("many")) {
        struct rlimit most = {11000, 11000};
        if (setrlimit(RLIMIT_NOFILE, &most) != 0) {
            getrlimit(RLIMIT_NOFILE, &most);
            most.rlim_cur = most.rlim_max;
            setrlimit(RLIMIT_NOFILE, &most);
        }
        int files = 0;
        for (; files < 10000; files++) {
            int file = open(path, O_RDONLY);
            if (file < 0) {
                break;
            }
            reads(file);
        }
        let_hints_come();
        printf("%d\n", files);
    } else if (IS("shuts-itself")) {
        // From the middle on, nobody without the right to trace everything takes its descriptors.
        evict(path);
        int file = opened(path, 0);
        while (lseek(file, 0, SEEK_CUR) < 12 * MIB && reads(file) > 0) {
        }
        let_hints_come();
        if (prctl(PR_SET_DUMPABLE, 0) != 0) {
            return 3;
        }
        read_all(file);
        let_hints_come();
    } else if (IS("whole")) {
        evict(path);
        int file = opened(path, 0);
        read_all(file);
        close(file);
        tell_all(path);
    } else {
        return 2;
    }
    printf("sum %lu\n", sum);
    return 0;
}
