/* Calls that read and write files, with what the kernel is told of them, in C and C++: `pagewise annotate` puts them in place of the
 * program's own, by a plan's rules about I/O. Each does what the call of its name does, with the same result and errno, and evaluates
 * its arguments once. Nothing is linked, and no runtime is needed; where it is not Linux nothing is told.
 *
 *     got = pagewise_read(PAGEWISE_DROP, file, to, bytes);               never used again: dropped from the page cache behind the calls
 *     got = pagewise_fread(PAGEWISE_DROP | PAGEWISE_SEQUENTIAL, ...);    and read further ahead until then
 *     got = pagewise_pread(PAGEWISE_RANDOM, file, to, bytes, at);        in no order: nothing is read ahead
 *     got = pagewise_pread(PAGEWISE_BURST(65536), file, to, bytes, at);  neither, but runs of 64 KiB, each asked for at its first call
 *
 * PAGEWISE_DROP, as `pagewise apply` has it: dropped are whole chunks of 2 MiB, as to drop a part of a large folio does nothing, and what is
 * left at the end of the file. A chunk of which anything was cached before the calls came near it is another's, and is left alone (of a
 * file that this user neither owns nor may write the kernel does not tell, so all of it). What is written is written back first, and
 * dropped 16 MiB later. A run of calls is followed by thread and descriptor, four at a time; before each drop it is made sure that the
 * descriptor still means the same file.
 *
 * PAGEWISE_SEQUENTIAL and PAGEWISE_NORMAL are told every 16 calls, and after a call that got less than it asked for, as the next one may be
 * on another file; they stay with the open file. PAGEWISE_RANDOM and PAGEWISE_BURST are told before each call and taken back after it.
 *
 * Whether it helps is not looked at: `pagewise compare` tells. */
#ifndef PAGEWISE_IO_H
#define PAGEWISE_IO_H

#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGEWISE_SEQUENTIAL 1ul
#define PAGEWISE_RANDOM 2ul
#define PAGEWISE_NORMAL 3ul
#define PAGEWISE_DROP 4ul
/* In pages, beside PAGEWISE_RANDOM. */
#define PAGEWISE_BURST(bytes) (PAGEWISE_RANDOM | ((bytes) + 4095ul) / 4096ul << 3)

/* Of the whole, so that the C library's own checks see the buffer's size. */
#ifdef __GNUC__
#define PAGEWISE_IO_INLINE static __inline__ __attribute__((always_inline))
#else
#define PAGEWISE_IO_INLINE static inline
#endif

#if defined __linux__ && defined __GNUC__

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* Strict C (-std=c11) hides what POSIX has. */
#if !defined __cplusplus && defined __STRICT_ANSI__ && !defined _GNU_SOURCE && !defined _DEFAULT_SOURCE
extern int mincore(void *, size_t, unsigned char *);
extern long syscall(long, ...);
#ifndef _POSIX_C_SOURCE
extern int fileno(FILE *);
#endif
#ifndef POSIX_FADV_DONTNEED
extern int posix_fadvise(int, off_t, off_t, int);
#define POSIX_FADV_NORMAL 0
#define POSIX_FADV_RANDOM 1
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_WILLNEED 3
#define POSIX_FADV_DONTNEED 4
#endif
#endif

/* As large as the largest folio. */
#define PAGEWISE_CHUNK ((off_t)1 << 21)
/* Chunks that are known at once. */
#define PAGEWISE_CHUNKS 64
/* The kernel reads no further ahead. */
#define PAGEWISE_REACH ((off_t)32 << 20)
/* A run goes on if no more than this is left out, or read again. */
#define PAGEWISE_SLACK ((off_t)1 << 18)
/* What was just written is dropped so much later. */
#define PAGEWISE_LAG ((off_t)16 << 20)
#define PAGEWISE_RUNS 4
#define PAGEWISE_TELL_EVERY 16

/* What a thread's calls do on one descriptor. */
struct pagewise_run {
    int file;           /* the descriptor plus one; 0: none */
    int is_followed;    /* what is below is known */
    unsigned untold;    /* calls until reading ahead is told again */
    unsigned long used; /* when a call used it last */
    dev_t device;
    ino_t inode;
    off_t size;
    off_t at;      /* where the call under way begins */
    off_t begin;   /* what is before it is done; a multiple of the chunk */
    off_t end;     /* so far have the calls got */
    off_t written; /* so far it is being written back */
    off_t looked;  /* so far it was looked whether others have it */
    unsigned char others[PAGEWISE_CHUNKS];
};

/* The run of a descriptor, or one that is given up for it. */
static __inline__ struct pagewise_run *pagewise_run_of(int file) {
    static __thread struct pagewise_run runs[PAGEWISE_RUNS];
    static __thread unsigned long calls;
    struct pagewise_run *oldest = runs;
    int index;
    calls++;
    for (index = 0; index < PAGEWISE_RUNS; index++) {
        struct pagewise_run *run = &runs[index];
        if (run->file == file + 1) {
            run->used = calls;
            return run;
        }
        if (run->used < oldest->used) {
            oldest = run;
        }
    }
    memset(oldest, 0, sizeof *oldest);
    oldest->file = file + 1;
    oldest->used = calls;
    return oldest;
}

/* Whether anything of a chunk, or of the start of one, is in the page cache; 1 also where the kernel does not tell. */
static __inline__ int pagewise_is_cached(int file, off_t start, size_t bytes) {
    unsigned char pages[PAGEWISE_CHUNK / 4096];
    uint64_t range[2], counts[5];
    struct statfs system;
    size_t index;
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, start);
    if (mapped != MAP_FAILED) {
        int told;
        memset(pages, 0, sizeof pages);
        told = mincore(mapped, bytes, pages);
        munmap(mapped, bytes);
        for (index = 0; index < sizeof pages; index++) {
            if (pages[index] & 1) {
                return 1;
            }
        }
        return told != 0;
    }
    /* Open for writing only: cachestat tells since Linux 6.5, but nothing of overlayfs. */
    if (errno != EACCES || fstatfs(file, &system) != 0 || system.f_type == 0x794c7630) {
        return 1;
    }
    range[0] = (uint64_t)start;
    range[1] = bytes;
    return syscall(451, file, range, counts, 0) != 0 || counts[0] != 0;
}

static __inline__ int pagewise_is_same(const struct pagewise_run *run, int file) {
    struct stat now;
    return fstat(file, &now) == 0 && now.st_dev == run->device && now.st_ino == run->inode;
}

/* Tells the kernel to drop the chunks of a range, but for those that others have. */
static __inline__ void pagewise_drop_range(const struct pagewise_run *run, int file, off_t from, off_t to) {
    for (; from < to; from += PAGEWISE_CHUNK) {
        if (from < run->looked && !run->others[from / PAGEWISE_CHUNK % PAGEWISE_CHUNKS]) {
            (void)posix_fadvise(file, from, PAGEWISE_CHUNK, POSIX_FADV_DONTNEED);
        }
    }
}

/* Follows the calls from here on. */
static __inline__ void pagewise_run_begin(struct pagewise_run *run, int file, off_t at) {
    struct stat now;
    run->is_followed = 0;
    if (fstat(file, &now) != 0 || !S_ISREG(now.st_mode)) {
        return;
    }
    run->device = now.st_dev;
    run->inode = now.st_ino;
    run->size = now.st_size;
    run->begin = run->looked = run->written = at / PAGEWISE_CHUNK * PAGEWISE_CHUNK;
    run->end = at;
    run->is_followed = 1;
}

/* Looks what is cached before the call, or reading ahead of it, brings more. */
static __inline__ void pagewise_run_look(struct pagewise_run *run, int file, size_t bytes) {
    off_t most = run->begin + PAGEWISE_CHUNKS * PAGEWISE_CHUNK;
    off_t wanted = run->at + PAGEWISE_REACH;
    /* One call may read more than can be known. */
    run->looked = run->looked < run->begin ? run->begin : run->looked;
    wanted = bytes < (size_t)(most - wanted) ? wanted + (off_t)bytes : most;
    while (run->looked < wanted && run->looked < most) {
        const off_t left = run->size - run->looked;
        const size_t part = (size_t)(left < PAGEWISE_CHUNK ? left : PAGEWISE_CHUNK);
        /* Beyond the end there is nothing. */
        run->others[run->looked / PAGEWISE_CHUNK % PAGEWISE_CHUNKS] =
            left > 0 && pagewise_is_cached(file, run->looked, part);
        run->looked += PAGEWISE_CHUNK;
    }
}

static __inline__ void pagewise_drop_before(struct pagewise_run *run, int file, off_t at, size_t bytes) {
    const int is_cursor = at < 0;
    if (is_cursor) {
        /* Where the descriptor is, is asked once a chunk only. */
        at = run->is_followed ? run->end : lseek(file, 0, SEEK_CUR);
    }
    if (run->is_followed && (at < run->end - PAGEWISE_SLACK || at < run->begin || at > run->end + PAGEWISE_SLACK)) {
        if (pagewise_is_same(run, file)) {
            pagewise_drop_range(run, file, run->begin, run->end);
        }
        run->is_followed = 0;
    }
    if (!run->is_followed && at >= 0) {
        pagewise_run_begin(run, file, at);
    }
    if (run->is_followed) {
        run->at = at;
        pagewise_run_look(run, file, bytes);
    }
}

static __inline__ void pagewise_drop_after(struct pagewise_run *run, int file, off_t at, ssize_t got, int is_write) {
    const off_t lag = is_write ? PAGEWISE_LAG : 0;
    off_t end;
    int is_over;
    if (!run->is_followed || got < 0) {
        return;
    }
    end = run->at + (off_t)got;
    run->end = end > run->end ? end : run->end;
    is_over = !is_write && (got == 0 || run->end >= run->size);
    if (run->end / PAGEWISE_CHUNK == (run->end - (off_t)got) / PAGEWISE_CHUNK && !is_over) {
        return;
    }
    if (at < 0) {
        const off_t real = lseek(file, 0, SEEK_CUR);
        if (real < run->end - PAGEWISE_SLACK || real > run->end + PAGEWISE_SLACK) {
            /* It was moved meanwhile, or another thread has read by it. */
            run->is_followed = 0;
            return;
        }
        run->end = real;
    }
    if (!pagewise_is_same(run, file)) {
        run->is_followed = 0;
        return;
    }
    if (is_write) {
        /* Of what is dirty this begins to write it back. */
        end = run->end / PAGEWISE_CHUNK * PAGEWISE_CHUNK;
        pagewise_drop_range(run, file, run->written, end);
        run->written = end > run->written ? end : run->written;
    }
    end = is_over ? run->end : (run->end - lag) / PAGEWISE_CHUNK * PAGEWISE_CHUNK;
    pagewise_drop_range(run, file, run->begin, end);
    run->begin = end > run->begin ? end : run->begin;
    run->is_followed = !is_over;
}

static __inline__ void pagewise_tell(struct pagewise_run *run, unsigned long hint, int file) {
    if (run->untold == 0) {
        const int is_normal = (hint & 3) == PAGEWISE_NORMAL;
        (void)posix_fadvise(file, 0, 0, is_normal ? POSIX_FADV_NORMAL : POSIX_FADV_SEQUENTIAL);
        run->untold = PAGEWISE_TELL_EVERY;
    }
    run->untold--;
}

/* A run that begins is asked for as a whole. */
static __inline__ void pagewise_ask(struct pagewise_run *run, unsigned long hint, int file, off_t at, size_t bytes) {
    const off_t burst = (off_t)(hint >> 3) * 4096;
    run->at = at >= 0 ? at : lseek(file, 0, SEEK_CUR);
    if (run->at >= 0 && (run->at != run->end || !run->is_followed) && (off_t)bytes < burst) {
        (void)posix_fadvise(file, run->at, burst, POSIX_FADV_WILLNEED);
    }
}

static __inline__ void pagewise_before(unsigned long hint, int file, off_t at, size_t bytes) {
    const int kept = errno;
    struct pagewise_run *run = pagewise_run_of(file);
    if ((hint & 3) == PAGEWISE_RANDOM) {
        (void)posix_fadvise(file, 0, 0, POSIX_FADV_RANDOM);
    } else if (hint & 3) {
        pagewise_tell(run, hint, file);
    }
    if (hint & PAGEWISE_DROP) {
        pagewise_drop_before(run, file, at, bytes);
    } else if (hint >> 3) {
        pagewise_ask(run, hint, file, at, bytes);
    }
    errno = kept;
}

static __inline__ void pagewise_after(unsigned long hint, int file, off_t at, size_t bytes, ssize_t got, int is_write) {
    const int kept = errno;
    struct pagewise_run *run = pagewise_run_of(file);
    if (got <= 0 || (size_t)got < bytes) {
        run->untold = 0;
    }
    if (hint & PAGEWISE_DROP) {
        pagewise_drop_after(run, file, at, got, is_write);
    } else if (hint >> 3) {
        run->end = run->at + (got > 0 ? (off_t)got : 0);
        run->is_followed = got > 0;
    }
    if ((hint & 3) == PAGEWISE_RANDOM) {
        (void)posix_fadvise(file, 0, 0, POSIX_FADV_NORMAL);
    }
    errno = kept;
}

#define PAGEWISE_FILE_OF(stream) fileno(stream)

#else

PAGEWISE_IO_INLINE void pagewise_before(unsigned long hint, int file, off_t at, size_t bytes) {
    (void)hint, (void)file, (void)at, (void)bytes;
}

PAGEWISE_IO_INLINE void pagewise_after(unsigned long hint, int file, off_t at, size_t bytes, ssize_t got, int is_write) {
    (void)hint, (void)file, (void)at, (void)bytes, (void)got, (void)is_write;
}

#define PAGEWISE_FILE_OF(stream) (-1)

#endif

PAGEWISE_IO_INLINE size_t pagewise_bytes_of(const struct iovec *parts, int count) {
    size_t bytes = 0;
    int index;
    for (index = 0; index < count; index++) {
        bytes += parts[index].iov_len;
    }
    return bytes;
}

PAGEWISE_IO_INLINE ssize_t pagewise_read(unsigned long hint, int file, void *to, size_t bytes) {
    ssize_t got;
    pagewise_before(hint, file, -1, bytes);
    got = read(file, to, bytes);
    pagewise_after(hint, file, -1, bytes, got, 0);
    return got;
}

PAGEWISE_IO_INLINE ssize_t pagewise_write(unsigned long hint, int file, const void *from, size_t bytes) {
    ssize_t done;
    pagewise_before(hint, file, -1, bytes);
    done = write(file, from, bytes);
    pagewise_after(hint, file, -1, bytes, done, 1);
    return done;
}

PAGEWISE_IO_INLINE ssize_t pagewise_readv(unsigned long hint, int file, const struct iovec *parts, int count) {
    const size_t bytes = pagewise_bytes_of(parts, count);
    ssize_t got;
    pagewise_before(hint, file, -1, bytes);
    got = readv(file, parts, count);
    pagewise_after(hint, file, -1, bytes, got, 0);
    return got;
}

PAGEWISE_IO_INLINE ssize_t pagewise_writev(unsigned long hint, int file, const struct iovec *parts, int count) {
    const size_t bytes = pagewise_bytes_of(parts, count);
    ssize_t done;
    pagewise_before(hint, file, -1, bytes);
    done = writev(file, parts, count);
    pagewise_after(hint, file, -1, bytes, done, 1);
    return done;
}

PAGEWISE_IO_INLINE size_t pagewise_fread(unsigned long hint, void *to, size_t size, size_t count, FILE *stream) {
    size_t got;
    pagewise_before(hint, PAGEWISE_FILE_OF(stream), -1, size * count);
    got = fread(to, size, count, stream);
    pagewise_after(hint, PAGEWISE_FILE_OF(stream), -1, size * count, (ssize_t)(got * size), 0);
    return got;
}

PAGEWISE_IO_INLINE size_t pagewise_fwrite(unsigned long hint, const void *from, size_t size, size_t count, FILE *stream) {
    size_t done;
    pagewise_before(hint, PAGEWISE_FILE_OF(stream), -1, size * count);
    done = fwrite(from, size, count, stream);
    pagewise_after(hint, PAGEWISE_FILE_OF(stream), -1, size * count, (ssize_t)(done * size), 1);
    return done;
}

PAGEWISE_IO_INLINE char *pagewise_fgets(unsigned long hint, char *to, int size, FILE *stream) {
    char *got;
    pagewise_before(hint, PAGEWISE_FILE_OF(stream), -1, 0);
    got = fgets(to, size, stream);
    pagewise_after(hint, PAGEWISE_FILE_OF(stream), -1, 0, got != NULL ? (ssize_t)strlen(got) : 0, 0);
    return got;
}

#if !defined __GLIBC__ || defined __USE_XOPEN2K8 || defined __USE_UNIX98
PAGEWISE_IO_INLINE ssize_t pagewise_pread(unsigned long hint, int file, void *to, size_t bytes, off_t at) {
    ssize_t got;
    pagewise_before(hint, file, at, bytes);
    got = pread(file, to, bytes, at);
    pagewise_after(hint, file, at, bytes, got, 0);
    return got;
}

PAGEWISE_IO_INLINE ssize_t pagewise_pwrite(unsigned long hint, int file, const void *from, size_t bytes, off_t at) {
    ssize_t done;
    pagewise_before(hint, file, at, bytes);
    done = pwrite(file, from, bytes, at);
    pagewise_after(hint, file, at, bytes, done, 1);
    return done;
}
#endif

#if !defined __GLIBC__ || defined __USE_XOPEN2K8
PAGEWISE_IO_INLINE ssize_t pagewise_getline(unsigned long hint, char **line, size_t *size, FILE *stream) {
    ssize_t got;
    pagewise_before(hint, PAGEWISE_FILE_OF(stream), -1, 0);
    got = getline(line, size, stream);
    pagewise_after(hint, PAGEWISE_FILE_OF(stream), -1, 0, got > 0 ? got : 0, 0);
    return got;
}
#endif

#if !defined __GLIBC__ || defined __USE_MISC
PAGEWISE_IO_INLINE ssize_t pagewise_preadv(unsigned long hint, int file, const struct iovec *parts, int count, off_t at) {
    const size_t bytes = pagewise_bytes_of(parts, count);
    ssize_t got;
    pagewise_before(hint, file, at, bytes);
    got = preadv(file, parts, count, at);
    pagewise_after(hint, file, at, bytes, got, 0);
    return got;
}

PAGEWISE_IO_INLINE ssize_t pagewise_pwritev(unsigned long hint, int file, const struct iovec *parts, int count, off_t at) {
    const size_t bytes = pagewise_bytes_of(parts, count);
    ssize_t done;
    pagewise_before(hint, file, at, bytes);
    done = pwritev(file, parts, count, at);
    pagewise_after(hint, file, at, bytes, done, 1);
    return done;
}
#endif

#ifdef __USE_LARGEFILE64
PAGEWISE_IO_INLINE ssize_t pagewise_pread64(unsigned long hint, int file, void *to, size_t bytes, off64_t at) {
    ssize_t got;
    pagewise_before(hint, file, (off_t)at, bytes);
    got = pread64(file, to, bytes, at);
    pagewise_after(hint, file, (off_t)at, bytes, got, 0);
    return got;
}

PAGEWISE_IO_INLINE ssize_t pagewise_pwrite64(unsigned long hint, int file, const void *from, size_t bytes, off64_t at) {
    ssize_t done;
    pagewise_before(hint, file, (off_t)at, bytes);
    done = pwrite64(file, from, bytes, at);
    pagewise_after(hint, file, (off_t)at, bytes, done, 1);
    return done;
}
#endif

#endif
