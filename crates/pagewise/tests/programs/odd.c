// Programs that do unusual things and allocate all the same. usage: odd KIND [NUMBER]
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 100 << 10, SMALL = 200, SMALLS = 1000 };

static char *early;

// The compiler is not to leave out what nobody looks at.
static void keep(void *memory) {
    __asm__ volatile("" : : "r"(memory) : "memory");
}

// Before main, and before the constructors of nothing else that could prepare us.
__attribute__((constructor)) static void at_start(void) {
    early = malloc(LARGE); // line of early
    memset(early, 1, LARGE);
}

static void work(void) {
    char *kept = malloc(LARGE); // line of kept
    memset(kept, 1, LARGE);
    keep(kept);
    char *smalls[SMALLS];
    for (int i = 0; i < SMALLS; i++) {
        smalls[i] = malloc(SMALL); // line of smalls
        memset(smalls[i], 1, SMALL);
        keep(smalls[i]);
    }
    for (int i = 0; i < SMALLS; i++)
        free(smalls[i]);
    free(kept);
}

static int fork_many(int number, void (*each)(void)) {
    for (int i = 0; i < number; i++) {
        const pid_t child = fork();
        if (child == 0) {
            each();
            _exit(0);
        }
        int status = 0;
        // So that twenty are alive at once.
        if (i >= 20 && (wait(&status) < 0 || status != 0))
            return 1;
    }
    int status = 0;
    while (wait(&status) > 0)
        if (status != 0)
            return 1;
    return 0;
}

static void *thread(void *unused) {
    work();
    return unused;
}

static int start_threads(int number) {
    pthread_t threads[1000];
    for (int i = 0; i < number; i++)
        if (pthread_create(&threads[i], NULL, thread, NULL) != 0)
            return 1;
    for (int i = 0; i < number; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

// Two threads of which neither has been told before the other.
static pthread_barrier_t both;

static void *meet_and_work(void *unused) {
    pthread_barrier_wait(&both);
    work();
    return unused;
}

static void work_twice_at_once(void) {
    pthread_t other;
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&other, NULL, meet_and_work, NULL) != 0)
        _exit(1);
    meet_and_work(NULL);
    pthread_join(other, NULL);
}

static int cloned(void *unused) {
    (void)unused;
    work();
    return 0;
}

// Shares our memory and, wrongly, our thread-local storage, or has a copy.
static int clone_directly(int flags) {
    const size_t bytes = 256 << 10;
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return 1;
    const pid_t child = clone(cloned, stack + bytes, flags | SIGCHLD, NULL);
    int status = -1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        return 1;
    work();
    return 0;
}

// Forks while other threads allocate: the child finds no lock of ours taken.
static volatile int stop;
static void *allocate_on(void *unused) {
    while (!stop)
        for (int i = 0; i < 100; i++) {
            char *churn = malloc(LARGE); // line of churn
            keep(churn);
            free(churn);
        }
    return unused;
}

static int fork_among_threads(int number) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, allocate_on, NULL);
    const int failed = fork_many(number, work);
    stop = 1;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return failed;
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "plain";
    const int number = argc > 2 ? atoi(argv[2]) : 1;
    if (strcmp(kind, "plain") == 0)
        return work(), early == NULL;
    if (strcmp(kind, "slow") == 0)
        return work(), usleep(300000);
    if (strcmp(kind, "forks") == 0)
        return fork_many(number, work);
    if (strcmp(kind, "at-once") == 0)
        return fork_many(number, work_twice_at_once);
    if (strcmp(kind, "threads") == 0)
        return start_threads(number);
    if (strcmp(kind, "closes") == 0)
        return close_range(0, ~0u, 0), work(), 0;
    if (strcmp(kind, "clone-vm") == 0)
        return clone_directly(CLONE_VM);
    if (strcmp(kind, "clone") == 0)
        return clone_directly(0);
    if (strcmp(kind, "fork-among-threads") == 0)
        return fork_among_threads(number);
    if (strcmp(kind, "sbrk") == 0) {
        char *own = sbrk(LARGE);
        return memset(own, 1, LARGE) == NULL;
    }
    return 2;
}
