/* What goes wrong with heap objects, one thing a run, by the definitions of the Common Weakness Enumeration; each name with
 * "good-" in front does the same rightly. The lines that are expected in reports bear a mark: BUG and the name. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static int is_good;
static volatile char sink;

static char *make(size_t bytes)
{
    char *object = malloc(bytes);
    memset(object, 1, bytes);
    return object;
}

static void cwe122(void) /* a write behind the end */
{
    char *object = make(24);
    for (int i = 0; i < (is_good ? 24 : 25); i++)
        object[i] = 2; /* BUG cwe122 */
    free(object);
}

static void cwe122_tail(void) /* the same where the end is not at the guard: seen later */
{
    char *object = make(21);
    object[is_good ? 20 : 21] = 2;
    free(object); /* BUG cwe122-tail */
}

static void cwe124(void) /* a write before the begin */
{
    char *object = make(24);
    object[is_good ? 0 : -1] = 2;
    free(object); /* BUG cwe124 */
}

static void cwe126(void) /* a read behind the end */
{
    char *object = make(32);
    sink = object[is_good ? 31 : 32]; /* BUG cwe126 */
    free(object);
}

static void cwe127(void) /* a read before the begin, far enough for the guard of the object before */
{
    char *object = make(4096);
    sink = object[is_good ? 0 : -8]; /* BUG cwe127 */
    free(object);
}

static void before(void) /* a read that meets the guard of an object that begins at one */
{
    char *object = make(24);
    sink = object[is_good ? 0 : -8]; /* BUG before */
    free(object);
}

static void onto_itself(void)
{
    char *object = make(24);
    volatile size_t bytes = 12;
    memcpy(object, object + (is_good ? 12 : 1), bytes); /* BUG onto-itself */
    free(object);
}

static void unmapped(void)
{
    *(volatile char *)(is_good ? &sink : (volatile char *)8) = 1; /* BUG unmapped */
}

static void cwe415(void)
{
    char *object = make(10);
    free(object);
    if (!is_good)
        free(object); /* BUG cwe415 */
}

static void cwe416(void)
{
    char *object = make(40);
    if (is_good)
        sink = object[3];
    free(object);
    if (!is_good)
        object[3] = 1; /* BUG cwe416 */
}

static void cwe590(void) /* what is not on the heap */
{
    char local[16];
    char *volatile object = is_good ? make(16) : local;
    free(object); /* BUG cwe590 */
}

static void cwe761(void) /* not at its begin */
{
    char *object = make(32);
    char *at = is_good ? object : object + 8;
    free(at); /* BUG cwe761 */
}

static void short_read(void)
{
    char *object = make(16);
    int file = open("/dev/zero", O_RDONLY);
    if (read(file, object, is_good ? 16 : 32) < 0) /* BUG short-read */
        puts("failed");
    close(file);
    free(object);
}

static void large(void)
{
    size_t bytes = 3 << 20;
    char *object = make(bytes);
    object[is_good ? bytes - 1 : bytes] = 2; /* BUG large */
    free(object);
}

static void moved(void) /* realloc leaves the old place */
{
    char *old = make(100);
    char *grown = realloc(old, 200);
    for (int i = 0; i < 100; i++)
        if (grown[i] != 1)
            abort();
    sink = is_good ? grown[0] : old[0]; /* BUG moved */
    free(grown);
}

static void wipe(void) /* what calls left on the stack */
{
    char room[4096];
    memset(room, 0, sizeof room);
    sink = room[is_good];
}

static void leaked(void)
{
    static char *kept;
    char *object = make(50); /* BUG leaked */
    if (is_good)
        kept = object;
    sink = kept != NULL;
    memset(&object, 0, sizeof object);
    wipe();
}

static void twice(void) /* with --keep-going: two places, each several times */
{
    for (int i = 0; i < 3 && !is_good; i++) {
        char *object = make(64);
        object[64] = 1; /* BUG twice */
        free(object);
        free(object);
    }
}

static void in_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        char *object = make(8);
        sink = object[is_good ? 7 : 8]; /* BUG in-child */
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
}

static sigjmp_buf back;
static void handler(int number)
{
    write(1, "handled\n", 8);
    siglongjmp(back, number);
}

static void own_handler(void) /* its own faults and ours come to it */
{
    signal(SIGSEGV, handler);
    if (sigsetjmp(back, 1) == 0)
        *(volatile char *)8 = 1;
    if (sigsetjmp(back, 1) == 0) {
        char *object = make(8);
        object[is_good ? 7 : 8] = 1; /* BUG own-handler */
    }
}

static void *blocked_thread(void *unused)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    char *object = make(8);
    object[is_good ? 7 : 8] = 1; /* BUG blocked */
    free(object);
    return unused;
}

static void blocked(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, blocked_thread, NULL);
    pthread_join(thread, NULL);
}

static char *in_handler;

static void touch(int unused)
{
    (void)unused;
    in_handler[is_good ? 7 : 8] = 1; /* BUG masked */
}

static void masked(void) /* in a handler that blocks all signals, which wait with others blocked */
{
    struct sigaction action = {.sa_handler = touch};
    sigfillset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    in_handler = make(8);
    sigset_t all_others;
    sigfillset(&all_others);
    sigdelset(&all_others, SIGALRM);
    alarm(1);
    sigsuspend(&all_others);
}

static ucontext_t outside, inside;

static void on_small_stack(void)
{
    char *object = make(24);
    free(make(100));
    free(realloc(object, 48));
}

static void coroutine(void) /* allocations on a stack of 8 KiB that is itself an object */
{
    char *stack = malloc(8192);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = 8192;
    inside.uc_link = &outside;
    makecontext(&inside, on_small_stack, 0);
    swapcontext(&outside, &inside);
    stack[is_good ? 8191 : 8192] = 1; /* BUG coroutine */
}

static void overflowing(void) /* a handler's stack is too small for any report: an end, not a loop */
{
    static char stack[4096];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&own, NULL);
    struct sigaction action = {.sa_handler = touch, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    in_handler = make(8);
    raise(SIGUSR1);
}

static void *on_least_stack(void *object)
{
    ((char *)object)[is_good ? 23 : 24] = 1; /* BUG small-stack */
    return NULL;
}

static void small_stack(void) /* a thread with the smallest stack there is */
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    if (pthread_create(&thread, &attributes, on_least_stack, make(24)) == 0)
        pthread_join(thread, NULL);
}

static volatile int timer_signals;
static volatile long kept_sum;
static void on_timer(int signal)
{
    (void)signal;
    timer_signals++;
}

/* What lies on the stack must be there yet after an error, though signals come on the same stack meanwhile. */
static void err_on_own_stack(int signal)
{
    volatile long kept[256];
    (void)signal;
    for (int i = 0; i < 256; i++)
        kept[i] = i;
    free(in_handler); /* BUG on-alternate */
    for (int i = 0; i < 256; i++)
        kept_sum += kept[i];
}

static void on_alternate(void)
{
    static char stack[128 << 10];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&own, NULL);
    struct sigaction timer = {.sa_handler = on_timer, .sa_flags = SA_ONSTACK | SA_RESTART};
    struct sigaction action = {.sa_handler = err_on_own_stack, .sa_flags = SA_ONSTACK};
    sigaction(SIGALRM, &timer, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct itimerval often = {{0, 100}, {0, 100}};
    setitimer(ITIMER_REAL, &often, NULL);
    in_handler = make(24);
    if (!is_good)
        free(in_handler);
    raise(SIGUSR1);
    printf("kept %ld\n", kept_sum);
}

static void sandboxed(void) /* a filter that ends the program at system calls that other allocators do not make */
{
    for (int i = 0; i < 1000; i++)
        free(make(20));
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_exit), ALLOW(SYS_mmap), ALLOW(SYS_munmap),
        ALLOW(SYS_mprotect), ALLOW(SYS_brk), ALLOW(SYS_futex), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_madvise), ALLOW(SYS_mremap), ALLOW(SYS_fstat), ALLOW(SYS_newfstatat),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    for (int i = 0; i < 5000; i++)
        free(make(20));
    free(realloc(make(30), 100000));
    char *object = make(24);
    object[is_good ? 23 : 24] = 1; /* BUG sandboxed */
    puts("done");
    fflush(stdout);
}

static void closed(void) /* all descriptors gone, and another folder and root */
{
    for (int file = 3; file < 1024; file++)
        close(file);
    char *object = make(8);
    object[is_good ? 7 : 8] = 1; /* BUG closed */
}

static void *churn(void *seed)
{
    unsigned state = (unsigned)(size_t)seed * 2654435761u + 1;
    char *objects[32] = {0};
    for (int i = 0; i < 60; i++) {
        state = state * 1664525 + 1013904223;
        unsigned place = state >> 27;
        free(objects[place]);
        size_t bytes = 1 + (state >> 8) % 3000;
        objects[place] = calloc(1, bytes);
        for (size_t at = 0; at < bytes; at++)
            if (objects[place][at])
                abort();
        memset(objects[place], 0xff, bytes);
    }
    for (int i = 0; i < 32; i++)
        free(objects[i]);
    return NULL;
}

static void threads(void)
{
    pthread_t all[200];
    for (size_t i = 0; i < 200; i++)
        pthread_create(&all[i], NULL, churn, (void *)i);
    for (int i = 0; i < 6; i++) { /* forks meanwhile, whose children allocate */
        pid_t child = fork();
        if (child == 0) {
            churn((void *)7);
            _exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        if (status)
            abort();
    }
    for (size_t i = 0; i < 200; i++)
        pthread_join(all[i], NULL);
}

static void limited(void) /* little address space: unguarded objects rather than none */
{
    for (int i = 0; i < 200; i++)
        make(300 << 10);
}

static void many(void) /* more than there may be mappings */
{
    for (int i = 0; i < 33000; i++)
        if (!malloc(1))
            abort();
}

static void locked(void)
{
    mlockall(MCL_CURRENT | MCL_FUTURE);
    char *object = make(24);
    free(object);
    object = make(24);
    object[is_good ? 23 : 24] = 1; /* BUG locked */
}

static void family(void)
{
    void *place;
    if (malloc_usable_size(make(13)) != 13 || malloc(0) == NULL)
        abort();
    for (size_t alignment = 8; alignment <= 1 << 16; alignment *= 2) {
        if (posix_memalign(&place, alignment, 100) || (size_t)place % alignment)
            abort();
        memset(place, 1, 100);
        free(place);
        place = aligned_alloc(alignment, 3 * alignment);
        if ((size_t)place % alignment)
            abort();
        free(place);
    }
    if (posix_memalign(&place, 24, 8) == 0 || calloc(1ul << 40, 1ul << 40) || malloc(-1) || reallocarray(NULL, -1, 16))
        abort();
    if ((size_t)valloc(10) % 4096 || (size_t)malloc(160) % 16)
        abort();
    free(NULL);
    if (realloc(make(5), 0))
        abort();
    puts(strdup("fine"));
}



int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"cwe122", cwe122}, {"cwe122-tail", cwe122_tail}, {"cwe124", cwe124}, {"cwe126", cwe126},
        {"cwe127", cwe127}, {"before", before}, {"onto-itself", onto_itself}, {"unmapped", unmapped}, {"cwe415", cwe415}, {"cwe416", cwe416}, {"cwe590", cwe590}, {"cwe761", cwe761},
        {"short-read", short_read}, {"large", large}, {"moved", moved}, {"leaked", leaked}, {"twice", twice},
        {"in-child", in_child}, {"own-handler", own_handler}, {"blocked", blocked}, {"masked", masked}, {"coroutine", coroutine}, {"overflowing", overflowing}, {"small-stack", small_stack}, {"on-alternate", on_alternate}, {"sandboxed", sandboxed}, {"closed", closed},
        {"threads", threads}, {"limited", limited}, {"many", many}, {"locked", locked}, {"family", family},
    };
    const char *name = argc > 1 ? argv[1] : "";
    is_good = strncmp(name, "good-", 5) == 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name + 5 * is_good) == 0) {
            all[i].run();
            return 0;
        }
    return 2;
}
