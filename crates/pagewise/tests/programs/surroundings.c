/* Bad surroundings of the guard: no memory, no descriptors, other roots, stacks that are used up, handlers, children of all
 * kinds, threads that are cancelled, bookkeeping that was written over. Lines that are expected in reports bear a mark: BUG and
 * the name; each name with "good-" in front does the same without the error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static int is_good;
static volatile char sink;

static char *freed(void)
{
    char *object = malloc(24);
    free(object);
    return object;
}

static void say(const char *text)
{
    puts(text);
    fflush(stdout);
}

static void limit(__rlimit_resource_t resource, size_t bytes)
{
    struct rlimit now;
    getrlimit(resource, &now);
    now.rlim_cur = bytes;
    if (setrlimit(resource, &now))
        abort();
}

/* Objects of this size until there is no memory: what comes then is NULL and ENOMEM, and after a release there is some again. */
static void use_up(size_t bytes)
{
    enum { MOST = 100000 };
    static char *all[MOST];
    int count = 0;
    errno = 0;
    while (count < MOST && (all[count] = malloc(bytes)) != NULL)
        memset(all[count++], 1, bytes);
    int is_told = count < MOST && errno == ENOMEM && calloc(1, bytes) == NULL;
    is_told &= count > 0 && realloc(all[0], 64 * bytes) == NULL && all[0][bytes - 1] == 1;
    for (int i = 0; i < count; i++)
        free(all[i]);
    char *volatile again = malloc(bytes);
    say(is_told && again ? "told" : "not told");
}

static void out_of_memory(void) /* a limit that comes when the guard has its addresses already */
{
    limit(RLIMIT_DATA, 256 << 20);
    use_up(1 << 20);
}

static void many(void) /* objects at once */
{
    static char *all[10000];
    for (int i = 0; i < 10000; i++) {
        all[i] = malloc(24);
        all[i][23] = 1;
    }
    for (int i = 0; i < 10000; i++)
        free(all[i]);
    puts("made");
    fflush(stdout);
}

static void limited_later(void) /* of addresses: objects need no further ones */
{
    free(malloc(24));
    limit(RLIMIT_AS, 1 << 20);
    for (int i = 0; i < 20000; i++)
        if (malloc(1 + i % 5000) == NULL)
            exit(4);
    say("made");
    char *object = malloc(24);
    object[is_good ? 23 : 24] = 1; /* BUG limited-later */
}

static void no_descriptors(void) /* not even one to look at one's own mappings */
{
    limit(RLIMIT_NOFILE, 0);
    char *object = freed();
    if (!is_good)
        sink = object[5]; /* BUG no-descriptors */
}

static void chrooted(void) /* to where nothing is */
{
    if (mkdir("empty", 0755) || chroot("empty") || chdir("/"))
        exit(3);
    char *object = freed();
    if (!is_good)
        sink = object[5]; /* BUG chrooted */
}

static void chrooted_child(void) /* which asks for a ring of its own from there */
{
    pid_t child = fork();
    if (child == 0) {
        if (mkdir("empty-of-child", 0755) || chroot("empty-of-child"))
            _exit(3);
        char *object = freed();
        if (!is_good)
            sink = object[5]; /* BUG chrooted-child */
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
}

static void loaded_in_sandbox(void) /* a library that comes where nobody asks any more what lies where */
{
    struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    char path[4096];
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) || realpath("liblate.so", path) == NULL)
        abort();
    void *library = dlopen(path, RTLD_NOW);
    void (*err)(void) = dlsym(library, "err");
    err();
}

/* Stacks. */

static sigjmp_buf back;
static volatile int depth;
static char *alternate;
enum { ALTERNATE = 64 << 10 };

static int is_on_alternate(void)
{
    char here;
    uintptr_t at = (uintptr_t)&here - (uintptr_t)alternate;
    return alternate && at < ALTERNATE;
}

static void use_alternate_stack(void)
{
    alternate = mmap(NULL, ALTERNATE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t own = {.ss_sp = alternate, .ss_size = ALTERNATE};
    sigaltstack(&own, NULL);
}

__attribute__((noinline)) static int recurse(int level)
{
    volatile char room[4096];
    room[level % 4096] = (char)level;
    depth = level;
    return recurse(level + 1) + room[level % 4096];
}

static void on_overflow(int number)
{
    (void)number;
    write(1, is_on_alternate() ? "alternate\n" : "own\n", is_on_alternate() ? 10 : 4);
    siglongjmp(back, 1);
}

static void overflow_with(int flags)
{
    struct sigaction action = {.sa_handler = on_overflow, .sa_flags = flags};
    sigaction(SIGSEGV, &action, NULL);
    for (int i = 0; i < 3; i++)
        if (sigsetjmp(back, 1) == 0)
            recurse(0);
    say("survived");
}

static void overflow_on_alternate(void)
{
    use_alternate_stack();
    overflow_with(SA_ONSTACK);
    char *object = freed();
    if (!is_good && sigsetjmp(back, 1) == 0)
        sink = object[5]; /* BUG overflow-on-alternate */
}

static void overflow_on_own(void) /* there is another stack, and the handler does not want it */
{
    use_alternate_stack();
    overflow_with(0);
}

static void overflow_on_only(void)
{
    overflow_with(SA_ONSTACK);
}

static void overflow_without_handler(void)
{
    use_alternate_stack();
    recurse(0); /* BUG overflow-without-handler */
}

static void *overflow_in(void *unused)
{
    use_alternate_stack();
    overflow_with(SA_ONSTACK);
    return unused;
}

static void overflow_in_thread(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, overflow_in, NULL);
    pthread_join(thread, NULL);
}

__attribute__((noinline)) static void use_much_stack(void)
{
    volatile char much[1 << 20];
    for (size_t at = 0; at < sizeof much; at += 512)
        much[at] = 1;
    sink = much[100];
}

static void on_own_stack(int number) /* needs more than the other stack has */
{
    (void)number;
    use_much_stack();
    write(1, is_on_alternate() ? "alternate\n" : "own\n", is_on_alternate() ? 10 : 4);
    siglongjmp(back, 1);
}

static void handler_on_own(void) /* which its handler asks for, though there is another */
{
    use_alternate_stack();
    struct sigaction action = {.sa_handler = on_own_stack}, now;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGSEGV, NULL, &now);
    if (now.sa_handler != on_own_stack || now.sa_flags & SA_ONSTACK)
        say("other flags");
    if (sigsetjmp(back, 1) == 0)
        *(volatile char *)8 = 1;
    char *object = freed();
    if (sigsetjmp(back, 1) == 0 && !is_good)
        sink = object[5]; /* BUG handler-on-own */
    say("over");
}

static volatile int arrived;
static void note(int number)
{
    (void)number;
    arrived++;
}

static void *send_soon(void *thread)
{
    for (int i = 0; i < 3; i++) {
        usleep(100000);
        pthread_kill(*(pthread_t *)thread, SIGSEGV);
    }
    return NULL;
}

static void restarted(void) /* a call that is interrupted by a SIGSEGV that was sent goes on if the handler wants that */
{
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigaction(SIGSEGV, &action, NULL);
    int ends[2];
    char byte;
    pthread_t self = pthread_self(), other;
    if (pipe(ends))
        abort();
    pthread_create(&other, NULL, send_soon, &self);
    pid_t child = fork();
    if (child == 0) {
        usleep(600000);
        write(ends[1], "x", 1);
        _exit(0);
    }
    ssize_t got = read(ends[0], &byte, 1);
    pthread_join(other, NULL);
    say(got == 1 && arrived == 3 ? "restarted" : "interrupted");
}

/* Children. */

static void vforked(void) /* which allocate in their parent's memory, or close what it needs, before they run another program */
{
    for (int i = 0; i < 200; i++) {
        pid_t child = vfork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            signal(SIGTERM, SIG_IGN);
            if (i % 2)
                syscall(SYS_close_range, 3, ~0U, 0);
            else
                free(malloc(24)); /* the first of all, in the first child */
            execl("/bin/true", "true", NULL);
            _exit(127);
        }
        int status = -1;
        waitpid(child, &status, 0);
        if (status)
            say("failed");
        free(malloc(24));
    }
    say("done");
    char *object = freed();
    if (!is_good)
        sink = object[5]; /* BUG vforked */
}

static void vforked_failing(void) /* the child ends without running anything: that is no end of the parent's */
{
    pid_t child = vfork();
    if (child == 0) {
        execl("/nonexistent", "nonexistent", NULL);
        _exit(7);
    }
    int status = -1;
    waitpid(child, &status, 0);
    say(WIFEXITED(status) && WEXITSTATUS(status) == 7 ? "7" : "other");
    char *object = malloc(24);
    object[is_good ? 0 : -1] = 1; /* seen at the end, which is yet to come */
}

static void in_spawned(void)
{
    char *object = freed();
    if (!is_good)
        sink = object[5]; /* BUG spawned */
}

static void spawned(void)
{
    char *arguments[] = {"surroundings", is_good ? "good-in-spawned" : "in-spawned", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addclose(&actions, 1000);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &all);
    pid_t child;
    int status = -1;
    if (posix_spawn(&child, "./surroundings", &actions, &attributes, arguments, environ) == 0)
        waitpid(child, &status, 0);
    say(status == 0 ? "fine" : "ended");
}

/* Threads that are cancelled where they wait, in functions that the guard stands before. */

static int silent[2];

static void clean_up(void *object)
{
    free(object);
    free(malloc(100));
}

static void *wait_in_read(void *unused)
{
    char *object = malloc(64);
    pthread_cleanup_push(clean_up, object);
    read(silent[0], object, 64);
    pthread_cleanup_pop(1);
    return unused;
}

static void *wait_in_select(void *unused)
{
    fd_set *set = calloc(1, sizeof *set);
    pthread_cleanup_push(clean_up, set);
    FD_SET(silent[0], set);
    select(silent[0] + 1, set, NULL, NULL, NULL);
    pthread_cleanup_pop(1);
    return unused;
}

static void *wait_in_sigsuspend(void *unused)
{
    sigset_t none;
    sigemptyset(&none);
    void *object = malloc(10);
    pthread_cleanup_push(clean_up, object);
    sigsuspend(&none);
    pthread_cleanup_pop(1);
    return unused;
}

static void *allocate_for_ever(void *unused) /* ended at a point of its own, between objects */
{
    for (unsigned i = 0;; i++) {
        free(malloc(1 + i % 3000));
        pthread_testcancel();
    }
    return unused;
}

static void *compute_for_ever(void *unused) /* ended anywhere */
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;)
        depth++;
    return unused;
}

static void cancelled(void)
{
    void *(*const all[])(void *) = {wait_in_read, wait_in_select, wait_in_sigsuspend, allocate_for_ever, compute_for_ever};
    enum { COUNT = sizeof all / sizeof *all };
    int ended = 0;
    if (pipe(silent))
        abort();
    for (int round = 0; round < 10; round++) {
        pthread_t threads[COUNT];
        for (int i = 0; i < COUNT; i++)
            pthread_create(&threads[i], NULL, all[i], NULL);
        usleep(5000);
        for (int i = 0; i < COUNT; i++)
            pthread_cancel(threads[i]);
        for (int i = 0; i < COUNT; i++) {
            void *how = NULL;
            pthread_join(threads[i], &how);
            ended += how == PTHREAD_CANCELED;
        }
    }
    printf("%d cancelled\n", ended);
    fflush(stdout);
    char *object = freed();
    if (!is_good)
        sink = object[5]; /* BUG cancelled */
}

static void *err_and_go(void *unused)
{
    char *object = freed();
    pthread_cancel(pthread_self()); /* as soon as it opens something or waits: not in between */
    sink = object[5]; /* BUG cancelled-while-erring */
    pthread_testcancel();
    return unused;
}

static void cancelled_while_erring(void) /* the error is told all the same, and so is another thread's */
{
    pthread_t thread;
    void *how = NULL;
    pthread_create(&thread, NULL, err_and_go, NULL);
    pthread_join(thread, &how);
    say(how == PTHREAD_CANCELED ? "cancelled" : "returned");
    char *object = freed();
    sink = object[5]; /* BUG after-one-was-cancelled */
}

/* Memory that is the guard's own. */

typedef void visit_type(char *begin, char *end, const char *line);

static void visit_mappings(visit_type *visit)
{
    static char text[1 << 20];
    size_t length = 0;
    ssize_t got;
    int file = open("/proc/self/maps", O_RDONLY);
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0)
        length += got;
    close(file);
    text[length] = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *begin, *end;
        if (sscanf(line, "%p-%p", &begin, &end) == 2)
            visit(begin, end, line);
    }
}

static void unmap_shared(char *begin, char *end, const char *line)
{
    if (strstr(line, "rw-s"))
        munmap(begin, end - begin);
}

static void without_ring(void) /* what errors are told by is gone: an end, and no loop */
{
    visit_mappings(unmap_shared);
    say("gone");
    char *object = freed();
    sink = object[5];
}

static char *ours, *last_end;

static void overwrite_words(char *begin, char *end, const char *line)
{
    int is_of_module = begin == last_end; /* its variables without contents */
    int is_file = strchr(line, '/') != NULL;
    last_end = is_file || is_of_module ? end : NULL;
    if (is_of_module || !strstr(line, "rw-p 00000000 00:00 0") || strchr(line, '[') || end - begin < 1 << 20)
        return;
    if (ours < begin - (64 << 20) || end + (64 << 20) <= ours)
        for (char *at = begin; at < begin + (256 << 10); at++)
            *at = (char)((at - begin) * 37 | 1);
}

static void overwritten(void) /* bookkeeping is: whatever comes of that, it comes to an end */
{
    char *objects[200];
    for (int i = 0; i < 200; i++)
        ours = objects[i] = malloc(24);
    for (int i = 0; i < 100; i++)
        free(objects[i]);
    say("overwritten");
    visit_mappings(overwrite_words);
    for (int i = 100; i < 200; i++)
        free(objects[i]);
    for (int i = 0; i < 1000; i++)
        free(malloc(1 + i % 3000));
    sink = objects[3][5];
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"out-of-memory", out_of_memory},
        {"many", many},
        {"limited-later", limited_later},
        {"no-descriptors", no_descriptors},
        {"chrooted", chrooted},
        {"chrooted-child", chrooted_child},
        {"loaded-in-sandbox", loaded_in_sandbox},
        {"overflow-on-alternate", overflow_on_alternate},
        {"overflow-on-own", overflow_on_own},
        {"overflow-on-only", overflow_on_only},
        {"overflow-without-handler", overflow_without_handler},
        {"overflow-in-thread", overflow_in_thread},
        {"handler-on-own", handler_on_own},
        {"restarted", restarted},
        {"vforked", vforked},
        {"vforked-failing", vforked_failing},
        {"in-spawned", in_spawned},
        {"spawned", spawned},
        {"cancelled", cancelled},
        {"cancelled-while-erring", cancelled_while_erring},
        {"without-ring", without_ring},
        {"overwritten", overwritten},
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
