/* Preloaded into the test programs: records registers and the top of the stack at each allocation
 * of at least RECORD_MINIMUM bytes, to the file RECORD_FILE. Built as libpagewise_runtime_test.so,
 * so that its frames count as the runtime's.
 *
 * A record is a header followed by the bytes of the stack. At exit /proc/self/maps is appended to
 * RECORD_FILE.maps. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct header {
    uint64_t bytes, ip, sp, fp, lr, length;
};

static int output = -1;
static size_t minimum = 1 << 20, stack_bytes = 16384;
static __thread int busy;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("RECORD_FILE"), *bytes = getenv("RECORD_MINIMUM");
    const char *stack = getenv("RECORD_STACK");
    if (bytes)
        minimum = strtoul(bytes, NULL, 10);
    if (stack)
        stack_bytes = strtoul(stack, NULL, 10);
    if (file)
        output = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

static void record(size_t bytes, uint64_t ip, uint64_t sp, uint64_t fp, uint64_t lr)
{
    if (output < 0 || bytes < minimum || busy)
        return;
    busy = 1;
    int error = errno;
    struct header header = {bytes, ip, sp, fp, lr, 0};
    off_t at = lseek(output, 0, SEEK_CUR);
    if (write(output, &header, sizeof header) == sizeof header) {
        /* Ends early, with what could be read, where the stack ends. */
        ssize_t length = write(output, (void *)sp, stack_bytes);
        header.length = length < 0 ? 0 : length;
        (void)!pwrite(output, &header, sizeof header, at);
    }
    errno = error;
    busy = 0;
}

#if defined(__x86_64__)
#define RECORD(bytes)                                                                             \
    do {                                                                                          \
        uint64_t ip, sp, fp;                                                                      \
        __asm__ volatile("lea 0(%%rip), %0; mov %%rsp, %1; mov %%rbp, %2"                         \
                         : "=&r"(ip), "=&r"(sp), "=&r"(fp));                                      \
        record(bytes, ip, sp, fp, 0);                                                             \
    } while (0)
#elif defined(__aarch64__)
#define RECORD(bytes)                                                                             \
    do {                                                                                          \
        uint64_t ip, sp, fp, lr;                                                                  \
        __asm__ volatile("adr %0, .; mov %1, sp; mov %2, x29; mov %3, x30"                        \
                         : "=&r"(ip), "=&r"(sp), "=&r"(fp), "=&r"(lr));                           \
        record(bytes, ip, sp, fp, lr);                                                            \
    } while (0)
#endif

void *malloc(size_t bytes)
{
    RECORD(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    RECORD(count * bytes);
    return __libc_calloc(count, bytes);
}

void *realloc(void *pointer, size_t bytes)
{
    RECORD(bytes);
    return __libc_realloc(pointer, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    RECORD(bytes);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **pointer, size_t alignment, size_t bytes)
{
    RECORD(bytes);
    *pointer = __libc_memalign(alignment, bytes);
    return *pointer ? 0 : ENOMEM;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "mmap");
    RECORD(bytes);
    return next(address, bytes, protection, flags, file, offset);
}

__attribute__((destructor)) static void finish(void)
{
    const char *file = getenv("RECORD_FILE");
    if (!file || output < 0)
        return;
    close(output);
    output = -1;
    char name[4096], chunk[4096];
    strncpy(name, file, sizeof name - 6);
    name[sizeof name - 6] = 0;
    strcat(name, ".maps");
    int from = open("/proc/self/maps", O_RDONLY), to = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ssize_t length;
    while ((length = read(from, chunk, sizeof chunk)) > 0)
        (void)!write(to, chunk, length);
}
