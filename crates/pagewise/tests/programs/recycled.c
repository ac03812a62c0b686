/* usage: recycled CASE   objects whose pages go from one to the next. First prints whether the process has a userfaultfd. A line
 * with an error bears the mark of its case. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
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

#define MANY 2000
static volatile char sink;

/* So many that slots are opened ahead and pages move. */
static void warm_up(void)
{
    for (int round = 0; round < 20; round++) {
        char *some[MANY / 20];
        for (int i = 0; i < MANY / 20; i++)
            some[i] = malloc(24);
        for (int i = 0; i < MANY / 20; i++)
            free(some[i]);
    }
}

static void tell_whether_pages_move(void)
{
    char name[64], target[64];
    int found = 0;
    for (int file = 0; file < 4096; file++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", file);
        long length = readlink(name, target, sizeof target - 1);
        if (length > 0) {
            target[length] = 0;
            found += strstr(target, "userfaultfd") != NULL;
        }
    }
    printf("%d\n", found);
    fflush(stdout);
}

/* Freed objects, each of whose pages went elsewhere. */
static char *freed(void)
{
    char *object = malloc(40);
    free(object);
    char *other = malloc(40);
    sink = other[3];
    return object;
}

static int status_of(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static int used_after(void)
{
    char *object = freed();
    sink = object[5]; /* BUG used-after */
    return 0;
}

static int in_child(void)
{
    char *object = freed();
    pid_t child = fork();
    if (child == 0) {
        sink = object[5]; /* BUG in-child */
        _exit(0);
    }
    return WIFSIGNALED(status_of(child)) ? 1 : 0;
}

static int in_parent(void)
{
    char *object = freed();
    pid_t child = fork();
    if (child == 0) {
        warm_up();
        _exit(0);
    }
    status_of(child);
    warm_up();
    sink = object[5]; /* BUG in-parent */
    return 0;
}

static int closed(void)
{
    syscall(SYS_close_range, 3, ~0U, 0);
    warm_up();
    char *object = freed();
    sink = object[5]; /* BUG closed */
    return 0;
}

/* From now on the kernel refuses two system calls. */
static void refuse(unsigned first, unsigned second)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        _exit(3);
}

static int refused(void)
{
    char *before = freed();
    refuse(SYS_ioctl, SYS_userfaultfd);
    warm_up();
    char *object = freed();
    warm_up();
    if (object == before)
        return 2;
    sink = before[5]; /* BUG refused */
    return 0;
}

static int one_by_one(void)
{
    refuse(SYS_process_madvise, SYS_process_madvise);
    warm_up();
    char *object = freed();
    sink = object[5]; /* BUG one-by-one */
    return 0;
}

static int nothing(void)
{
    char *object = malloc(0);
    object[0] = 1; /* BUG nothing */
    return 0;
}

/* With --keep-going: one object's padding, and nobody else's. */
static int damaged(void)
{
    char *object = malloc(12);
    object[12] = 1;
    free(object); /* BUG damaged */
    warm_up();
    return 0;
}

/* The program gives up an object's memory by itself, and finds zeros. */
static int given_up(void)
{
    char *object = aligned_alloc(4096, 4096);
    memset(object, 7, 4096);
    if (madvise(object, 4096, MADV_DONTNEED))
        return 2;
    int sum = 0;
    for (int i = 0; i < 4096; i++)
        sum += object[i];
    object[9] = 1;
    sum += object[9] - 1;
    free(object);
    puts(sum == 0 ? "zeros" : "others");
    return 0;
}

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* Objects that come and go, each filled with its own byte. Returns how many were found changed or not zeroed. */
static long churn(unsigned seed, int steps)
{
    enum { SLOTS = 500 };
    static __thread unsigned char *objects[SLOTS];
    static __thread unsigned sizes[SLOTS], fills[SLOTS];
    long wrong = 0;
    for (int step = 0; step < steps; step++) {
        unsigned at = next(&seed) % SLOTS;
        if (objects[at]) {
            for (unsigned i = 0; i < sizes[at]; i++)
                wrong += objects[at][i] != fills[at];
            free(objects[at]);
        }
        sizes[at] = next(&seed) % 16 ? next(&seed) % 200 + 1 : next(&seed) % 9000 + 1;
        fills[at] = next(&seed) % 255 + 1;
        objects[at] = calloc(1, sizes[at]);
        for (unsigned i = 0; i < sizes[at]; i++)
            wrong += objects[at][i] != 0;
        memset(objects[at], fills[at], sizes[at]);
    }
    return wrong;
}

static void *churn_in_thread(void *seed)
{
    return (void *)churn((unsigned)(size_t)seed, 20000);
}

/* Threads make and free objects while this one forks in every way; nobody's objects change. */
static int intact(void)
{
    pthread_t threads[3];
    for (size_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, churn_in_thread, (void *)(i + 1));
    long wrong = churn(77, 5000);
    for (int round = 0; round < 10; round++) {
        pid_t child = fork();
        if (child == 0)
            _exit(churn(77, 3000) != 0);
        wrong += status_of(child) != 0;
        child = vfork();
        if (child == 0) {
            /* Its own descriptors, its parent's memory. */
            syscall(SYS_close_range, 3, ~0U, 0);
            free(malloc(50));
            _exit(0);
        }
        wrong += status_of(child) != 0;
        wrong += churn(78 + round, 1000);
    }
    for (int i = 0; i < 3; i++) {
        void *found;
        pthread_join(threads[i], &found);
        wrong += (long)found;
    }
    /* Without the C library's knowledge. */
    for (int round = 0; round < 10; round++) {
        pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0)
            _exit(churn(5, 3000) != 0);
        wrong += status_of(child) != 0;
        wrong += churn(178 + round, 1000);
    }
    printf("%ld wrong\n", wrong);
    return 0;
}

/* What an object should hold: so many bytes, all but these the same one. */
struct object {
    unsigned bytes, fill;
    unsigned char rest[];
};

/* Where threads leave objects for others, which look at them and give them back. */
static _Atomic(struct object *) shared[64];

/* Counts the bytes that are others than they should be, as far as `bytes`. */
static long wrong_in(struct object *object, unsigned bytes)
{
    long wrong = malloc_usable_size(object) < bytes;
    for (unsigned i = 0; i < bytes - sizeof *object; i++)
        wrong += object->rest[i] != (unsigned char)object->fill;
    return wrong;
}

static unsigned some_bytes(unsigned *seed)
{
    unsigned most = next(seed) % 64 == 0 ? 300000 : next(seed) % 8 == 0 ? 20000 : 300;
    return next(seed) % most + sizeof(struct object);
}

/* By one of all functions that make objects; adds what is wrong with it. */
static struct object *made(unsigned *seed, long *wrong)
{
    unsigned bytes = some_bytes(seed), alignment = 16u << next(seed) % 12;
    void *object = NULL;
    switch (next(seed) % 6) {
    case 0:
        object = malloc(bytes);
        break;
    case 1:
        object = calloc(1, bytes);
        for (unsigned i = 0; i < bytes; i++)
            *wrong += ((char *)object)[i] != 0;
        break;
    case 2:
        object = aligned_alloc(alignment, bytes);
        *wrong += (uintptr_t)object % alignment != 0;
        break;
    case 3:
        *wrong += posix_memalign(&object, alignment, bytes) != 0 || (uintptr_t)object % alignment != 0;
        break;
    case 4:
        object = reallocarray(NULL, 1, bytes);
        break;
    default:
        object = memalign(alignment, bytes);
        *wrong += (uintptr_t)object % alignment != 0;
    }
    ((struct object *)object)->bytes = bytes;
    return object;
}

/* The same in another size, with as much of what it held as fits. */
static struct object *resized(struct object *object, unsigned *seed, long *wrong)
{
    unsigned before = object->bytes, bytes = some_bytes(seed);
    object = realloc(object, bytes);
    *wrong += object->bytes != before || wrong_in(object, bytes < before ? bytes : before) != 0;
    object->bytes = bytes;
    return object;
}

/* Takes an object from where it is shared, puts another one there. */
static long exchange(unsigned seed, int steps)
{
    long wrong = 0;
    for (int step = 0; step < steps; step++) {
        struct object *object = atomic_exchange(&shared[next(&seed) % 64], NULL);
        if (object)
            wrong += wrong_in(object, object->bytes);
        if (object && next(&seed) % 3 == 0) {
            object = resized(object, &seed, &wrong);
        } else {
            free(object);
            object = made(&seed, &wrong);
        }
        object->fill = next(&seed);
        memset(object->rest, object->fill, object->bytes - sizeof *object);
        struct object *other = atomic_exchange(&shared[next(&seed) % 64], object);
        if (other)
            wrong += wrong_in(other, other->bytes);
        free(other);
    }
    return wrong;
}

static void *exchange_in_thread(void *seed)
{
    return (void *)exchange((unsigned)(size_t)seed, 4000);
}

/* Objects made by every function, in other sizes, given back by other threads and in children: nobody's change. */
static int every_way(void)
{
    pthread_t threads[3];
    long wrong = exchange(1, 100);
    for (size_t i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, exchange_in_thread, (void *)(i + 2));
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0)
            _exit(exchange(50 + round, 300) != 0);
        wrong += status_of(child) != 0;
        wrong += exchange(90 + round, 100);
    }
    for (int i = 0; i < 3; i++) {
        void *found;
        pthread_join(threads[i], &found);
        wrong += (long)found;
    }
    printf("%ld wrong\n", wrong);
    return 0;
}

static sigjmp_buf back;

static void go_back(int number)
{
    siglongjmp(back, number);
}

/* The slot of a freed object that was used has a guard; when it has waited long enough it serves again, as others do. */
static int guarded_again(void)
{
    struct sigaction action = {.sa_handler = go_back};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    char *volatile object = freed();
    if (sigsetjmp(back, 1) == 0)
        sink = object[5]; /* BUG guarded-again */
    int is_served = 0, wrong = 0;
    for (int i = 0; i < 200000; i++) {
        char *other = malloc(40);
        wrong += other[0] | other[39];
        memset(other, 1, 40);
        is_served |= other == object;
        free(other);
    }
    if (wrong || !is_served)
        printf("%d wrong, %d\n", wrong, is_served);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } all[] = {
        {"used-after", used_after}, {"in-child", in_child}, {"in-parent", in_parent}, {"closed", closed},
        {"refused", refused},       {"given-up", given_up}, {"one-by-one", one_by_one}, {"nothing", nothing}, {"damaged", damaged}, {"intact", intact},
        {"every-way", every_way},   {"guarded-again", guarded_again},
    };
    warm_up();
    tell_whether_pages_move();
    for (size_t i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, argv[1]) == 0)
            return all[i].run();
    return 2;
}
