/* usage: calls COUNT   calls that the guard stands before: system calls by their numbers, through the C library's syscall(), copies,
 * and an object made and given back. For each a line: its name, the instructions of one call outside of the kernel (told by
 * the processor's trap flag; 0 where there is none; each byte of `rep stosb` is one), and ns, the kernel's part included. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static volatile long steps;
static int zero, none;
static char *object;

static long no_call(void)
{
    return 0;
}

static long no_buffer(void)
{
    return syscall(SYS_getppid);
}

static long read_bytes(void)
{
    return syscall(SYS_read, zero, object, 16L);
}

static long write_bytes(void)
{
    return syscall(SYS_write, none, object, 16L);
}

static long write_elsewhere(void)
{
    static char bytes[16];
    return syscall(SYS_write, none, bytes, 16L);
}

static long write_list(void)
{
    struct iovec parts[4] = {{object, 4}, {object + 4, 4}, {object + 8, 4}, {object + 12, 4}};
    return syscall(SYS_writev, none, parts, 4L);
}

static long copy(void)
{
    static char bytes[16];
    memcpy(object, bytes, sizeof bytes);
    return 0;
}

static long copy_elsewhere(void)
{
    static char from[16], to[16];
    memcpy(to, from, sizeof to);
    return 0;
}

static long make_and_free(void)
{
    free(malloc(24));
    return 0;
}

static void count(int number)
{
    (void)number;
    steps++;
}

/* Steps of a call and of what surrounds it, the third time that it is made from here. */
static long steps_of(long (*call)(void))
{
    for (int i = 0; i < 3; i++) {
        steps = 0;
#ifdef __x86_64__
        __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
        call();
        __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
#endif
    }
    return steps;
}

static double ns_of(long (*call)(void), long times)
{
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < times; i++)
        call();
    clock_gettime(CLOCK_MONOTONIC, &end);
    return ((end.tv_sec - begin.tv_sec) * 1e9 + (end.tv_nsec - begin.tv_nsec)) / times;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        long (*call)(void);
    } all[] = {
        {"getppid", no_buffer},
        {"read", read_bytes},
        {"write", write_bytes},
        {"write-elsewhere", write_elsewhere},
        {"writev", write_list},
        {"memcpy", copy},
        {"memcpy-elsewhere", copy_elsewhere},
        {"malloc-free", make_and_free},
    };
    long times = argc > 1 ? atol(argv[1]) : 100000;
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGTRAP, &action, NULL);
    zero = open("/dev/zero", O_RDONLY);
    none = open("/dev/null", O_WRONLY);
    object = calloc(1, 16);
    /* So many that pages are passed on. */
    for (int i = 0; i < 3000; i++)
        make_and_free();
    long around = steps_of(no_call);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        long own = steps_of(all[i].call) - around;
        printf("%s %ld %.1f\n", all[i].name, own, ns_of(all[i].call, times));
    }
    return 0;
}
