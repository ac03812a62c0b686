/* Programs whose objects take more memory than they may; each checks what it reads, and aborts if that is not what it wrote.
 * The lines that are expected in reports bear a mark: BUG and the name. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT 3000

static char *objects[COUNT];
static volatile char sink;

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s, errno %d\n", __LINE__, #what, errno); \
            abort(); \
        } \
    } while (0)

static size_t size_of(long i)
{
    return 1 + i * 7 % 60;
}

static void fill(char *object, size_t bytes, unsigned seed)
{
    for (size_t at = 0; at < bytes; at++)
        object[at] = (char)(seed * 31 + at);
}

static void check(const char *object, size_t bytes, unsigned seed)
{
    for (size_t at = 0; at < bytes; at++)
        CHECK(object[at] == (char)(seed * 31 + at));
}

static void make_all(void)
{
    for (long i = 0; i < COUNT; i++) {
        objects[i] = malloc(size_of(i));
        fill(objects[i], size_of(i), i);
    }
}

static void check_all(void)
{
    for (long i = 0; i < COUNT; i++)
        check(objects[i], size_of(i), i);
}

static void free_all(void)
{
    for (long i = 0; i < COUNT; i++) {
        free(objects[i]);
        objects[i] = NULL;
    }
}

/* Objects that come after push the first ones out. */
static void make_cold(void)
{
    for (int i = 0; i < 2000; i++)
        free(calloc(1, 16));
    static char *others[1500];
    for (int i = 0; i < 1500; i++)
        others[i] = calloc(1, 24);
    for (int i = 0; i < 1500; i++)
        free(others[i]);
}

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

/* Against a model: what each object holds follows from a number. */
static void model(unsigned seed, int steps, int most)
{
    char **all = calloc(most, sizeof *all);
    size_t *bytes = calloc(most, sizeof *bytes);
    unsigned *seeds = calloc(most, sizeof *seeds);
    for (int step = 0; step < steps; step++) {
        int i = next(&seed) % most;
        size_t wanted = next(&seed) % 8 ? next(&seed) % 100 : next(&seed) % 6000;
        switch (next(&seed) % 6) {
        case 0:
            if (all[i])
                check(all[i], bytes[i], seeds[i]);
            free(all[i]);
            all[i] = NULL;
            break;
        case 1:
            if (all[i] && wanted) {
                all[i] = realloc(all[i], wanted);
                check(all[i], wanted < bytes[i] ? wanted : bytes[i], seeds[i]);
                bytes[i] = wanted;
                fill(all[i], wanted, seeds[i] = step);
            }
            break;
        case 2:
            if (all[i]) {
                CHECK(malloc_usable_size(all[i]) == bytes[i]);
                check(all[i], bytes[i], seeds[i]);
            }
            break;
        case 3:
            if (all[i])
                fill(all[i], bytes[i], seeds[i] = step);
            break;
        default:
            if (!all[i]) {
                all[i] = next(&seed) % 9 ? malloc(wanted) : memalign(64 << next(&seed) % 4, wanted);
                CHECK(all[i]);
                bytes[i] = wanted;
                fill(all[i], wanted, seeds[i] = step);
            }
        }
    }
    for (int i = 0; i < most; i++) {
        if (all[i])
            check(all[i], bytes[i], seeds[i]);
        free(all[i]);
    }
    free(all);
    free(bytes);
    free(seeds);
}

static void *one_of_many(void *seed)
{
    model((unsigned)(uintptr_t)seed, 8000, 700);
    return NULL;
}

static void threads(void)
{
    pthread_t all[4];
    for (uintptr_t i = 0; i < 4; i++)
        CHECK(!pthread_create(&all[i], NULL, one_of_many, (void *)(i + 1)));
    for (int i = 0; i < 4; i++)
        pthread_join(all[i], NULL);
}

/* By a system call that the guard does not look at. */
static int can_read(const char *at)
{
    const struct timespec at_once = {0, 0};
    long status = syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, 0x5a5a5a5a, &at_once);
    return status == 0 || errno != EFAULT;
}

static volatile long racer_at;

static void *reader(void *end)
{
    while (racer_at < (intptr_t)end)
        can_read(objects[racer_at < COUNT - 1 ? racer_at + 1 : COUNT - 1]);
    return NULL;
}

/* One thread gives cold objects back while another touches them: whoever is first, afterwards nobody reads them. */
static void race(void)
{
    pthread_t thread;
    make_all();
    CHECK(!pthread_create(&thread, NULL, reader, (void *)(intptr_t)COUNT));
    for (long i = 0; i < COUNT; i++) {
        racer_at = i - 1;
        free(objects[i]);
    }
    racer_at = COUNT;
    pthread_join(thread, NULL);
    for (long i = 0; i < COUNT; i++)
        CHECK(!can_read(objects[i]));
}

static volatile int is_over;

static void *toucher(void *unused)
{
    for (long i = 0; !is_over; i = (i + 97) % COUNT)
        sink = objects[i][0];
    return unused;
}

static void descend(int depth)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        check_all();
        for (long i = 0; i < COUNT; i++)
            fill(objects[i], size_of(i), i + 1);
        for (long i = 0; i < COUNT; i++)
            check(objects[i], size_of(i), i + 1);
        if (depth) {
            for (long i = 0; i < COUNT; i++)
                fill(objects[i], size_of(i), i);
            descend(depth - 1);
        }
        free_all();
        exit(0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && !status);
    check_all();
}

static void forks(void)
{
    make_all();
    descend(1);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, toucher, NULL));
    for (int i = 0; i < 3; i++)
        descend(0);
    is_over = 1;
    pthread_join(thread, NULL);
    free_all();
}

static void *maker(void *unused)
{
    char *kept[COUNT] = {0};
    for (long i = 0; !is_over; i++) {
        free(kept[i % COUNT]);
        kept[i % COUNT] = malloc(size_of(i));
        fill(kept[i % COUNT], size_of(i), i);
    }
    for (long i = 0; i < COUNT; i++)
        free(kept[i]);
    return unused;
}

static void forks_beside_makers(void) /* all of which go on when the last fork is over */
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&threads[i], NULL, maker, NULL));
    for (int i = 0; i < 200; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child)
            _exit(0);
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && !status);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

static void poor_child(void) /* which may not have a compactor of its own */
{
    make_all();
    CHECK(!setresuid(65534, 65534, 65534));
    descend(0);
    check_all();
    free_all();
}

static void calls(void)
{
    int own[2];
    CHECK(!pipe(own));
    make_all();
    for (long i = 0; i < COUNT; i++) {
        size_t bytes = size_of(i);
        CHECK(write(own[1], objects[i], bytes) == (ssize_t)bytes);
        CHECK(read(own[0], objects[(i + COUNT / 2) % COUNT], 1) == 1);
        fill(objects[(i + COUNT / 2) % COUNT], 1, (i + COUNT / 2) % COUNT);
        char rest[64];
        if (bytes > 1)
            CHECK(read(own[0], rest, bytes - 1) == (ssize_t)bytes - 1);
    }
    check_all();
    int *word = malloc(sizeof *word);
    *word = 5;
    make_cold();
    /* Another value than expected: the kernel has read it. */
    CHECK(syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 6, NULL) == -1 && errno == EAGAIN);
    free(word);
    free_all();
}

static void closed(void)
{
    make_all();
    for (int i = 3; i < 1024; i++)
        close(i);
    check_all();
    free_all();
}

static void unprivileged(void)
{
    CHECK(!setresuid(65534, 65534, 65534));
    make_all();
    check_all();
    free_all();
}

static void tail(void)
{
    char *object = malloc(21);
    make_all();
    make_cold();
    object[21] = 1;
    make_cold();
    free(object); /* BUG tail */
}

static void freed(void)
{
    char *object = malloc(40);
    make_all();
    make_cold();
    free(object);
    sink = object[3]; /* BUG freed */
}

static void chain(int is_good) /* each object points to the one before */
{
    char **last = NULL;
    for (int i = 0; i < COUNT; i++) {
        char **link = malloc(16);
        link[0] = (char *)last;
        last = link;
    }
    static char **volatile root;
    root = last;
    if (!is_good) {
        for (int i = 0; i < 10; i++)
            last = (char **)last[0];
        last[0] = NULL;
    }
}

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "";
    if (!strcmp(name, "model"))
        model(7, 40000, 1500);
    else if (!strcmp(name, "threads"))
        threads();
    else if (!strcmp(name, "race"))
        race();
    else if (!strcmp(name, "forks"))
        forks();
    else if (!strcmp(name, "forks-beside-makers"))
        forks_beside_makers();
    else if (!strcmp(name, "poor-child"))
        poor_child();
    else if (!strcmp(name, "calls"))
        calls();
    else if (!strcmp(name, "closed"))
        closed();
    else if (!strcmp(name, "unprivileged"))
        unprivileged();
    else if (!strcmp(name, "tail"))
        tail();
    else if (!strcmp(name, "freed"))
        freed();
    else if (!strcmp(name, "chain") || !strcmp(name, "broken-chain"))
        chain(name[0] == 'c');
    else
        return 2;
    puts("right");
    return 0;
}
