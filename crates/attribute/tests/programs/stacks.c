/* Allocations at the end of known call paths; the number of bytes says which. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE void keep(void *pointer)
{
    __asm__ volatile("" : : "r"(pointer) : "memory");
}

NOINLINE int allocate(size_t bytes)
{
    void *pointer = malloc(bytes);
    keep(pointer);
    free(pointer);
    return pointer != NULL;
}

NOINLINE int third(void)
{
    return allocate(100001) + 1;
}

NOINLINE int second(void)
{
    return third() + 1;
}

NOINLINE int first(void)
{
    return second() + 1;
}

NOINLINE int descend(int depth)
{
    char local[64];
    keep(local);
    return depth == 0 ? allocate(100002) : descend(depth - 1) + 1;
}

/* The stack pointer moves by an amount unknown to the compiler: found by the frame pointer. */
NOINLINE int variable(size_t bytes)
{
    char *local = __builtin_alloca(bytes);
    memset(local, 1, bytes);
    keep(local);
    return allocate(100003) + local[0];
}

static void *thread(void *unused)
{
    (void)unused;
    allocate(100004);
    return NULL;
}

static int compare(const void *left, const void *right)
{
    static int done;
    if (!done++)
        allocate(100005);
    return *(const int *)left - *(const int *)right;
}

/* Calls through code made at run time that keeps no frame pointer and no unwind information. */
NOINLINE int generated(void)
{
#if defined(__x86_64__)
    /* push rbx; xor ebp, ebp; call rsi; pop rbx; ret, after saving and restoring rbp in rbx. */
    static const unsigned char code[] = {0x53, 0x48, 0x89, 0xeb, 0x31, 0xed, 0xff, 0xd6,
                                         0x48, 0x89, 0xdd, 0x5b, 0xc3};
    unsigned char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, sizeof code);
    mprotect(memory, 4096, PROT_READ | PROT_EXEC);
    return ((int (*)(size_t, int (*)(size_t)))(uintptr_t)memory)(100006, allocate) + 1;
#else
    return allocate(100006) + 1;
#endif
}

/* The call is the function's last instruction: the return address is the next function's. */
NOINLINE __attribute__((noreturn)) static void finish(void)
{
    allocate(100007);
    exit(0);
}

NOINLINE __attribute__((noreturn)) static void last_call(void)
{
    finish();
}

static void on_signal(int number)
{
    allocate(100008);
    signal(number, SIG_DFL);
}

int main(void)
{
    first();
    descend(50);
    variable((size_t)first() * 16);
    pthread_t id;
    pthread_create(&id, NULL, thread, NULL);
    pthread_join(id, NULL);
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof *numbers, compare);
    generated();
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    last_call();
}
