/* What the guard has a hard time with: threads at work while the process ends, sandboxes, handlers, children, arguments that
 * the kernel refuses. Lines that are expected in reports bear a mark: BUG and the name. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <dirent.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <wchar.h>

static volatile char sink;

static void *churn(void *unused)
{
    char *volatile objects[512] = {0};
    for (unsigned i = 0;; i++) {
        free(objects[i % 512]);
        objects[i % 512] = malloc(1 + i % 3000);
    }
    return unused;
}

static void exiting(void) /* threads give objects back while those that are alive are looked at */
{
    pthread_t thread;
    for (int i = 0; i < 20000; i++)
        *(char *volatile *)malloc(240) = 0;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, churn, NULL);
    usleep(100000);
}

static void hidden(void) /* an object whose page nobody may read at the end */
{
    static char *object;
    object = memalign(4096, 4000);
    mprotect(object, 4096, PROT_NONE);
}

static void damage_one(void)
{
    char *object = malloc(24);
    object[-1] = 2;
}

static void damage_another(void)
{
    char *object = malloc(24);
    object[-2] = 2;
}

static void damaged(void) /* of two paths, seen at the end; what was printed is not lost */
{
    puts("printed");
    damage_one();
    for (int i = 0; i < 2; i++)
        damage_another();
}

static void inherited(void) /* what the parent did is its affair, not its children's */
{
    damage_one();
    for (int i = 0; i < 3; i++) {
        int status;
        pid_t child = fork();
        if (child == 0)
            exit(0);
        waitpid(child, &status, 0);
        puts(status == 0 ? "fine" : "killed");
        fflush(stdout);
    }
}

static void leaked_before(void) /* a leak of the parent's, which its children have, too */
{
    char *volatile object = malloc(1234);
    object = NULL;
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0)
            exit(0);
        waitpid(child, NULL, 0);
    }
}

static void leaked_without_descriptors(void)
{
    char *volatile object = malloc(1234);
    object = NULL;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
}

static void aligned(void) /* to more than a page: there is a guard before it, too */
{
    char *volatile object = memalign(4 * 4096, 100);
    object[0] = object[99] = 1;
    puts("aligned");
    fflush(stdout);
    sink = object[-1]; /* BUG aligned */
}

static void limited_data(void) /* objects leave the program some of what it may have */
{
    for (int i = 0; i < 60000; i++) {
        char *volatile object = malloc(3000 + i % 100);
        *object = 1;
        free(object);
    }
    void *more = mmap(NULL, 100 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    puts(more == MAP_FAILED ? "nothing left" : "some left");
    fflush(stdout);
}

static void sparse(void) /* much memory of which little is touched */
{
    long pages = 0;
    char *volatile first = malloc(512 << 20), *volatile second = calloc(512, 1 << 20);
    first[1 << 20] = second[1 << 20] = 1;
    FILE *file = fopen("/proc/self/statm", "r");
    int is_known = fscanf(file, "%*d %ld", &pages) == 1;
    puts(is_known && pages < 16384 && second[1000] == 0 ? "sparse" : "dense");
    fflush(stdout);
}

static void too_many(void) /* more objects without a guard than are remembered */
{
    enum { COUNT = 900000 };
    static char *all[COUNT];
    for (int i = 0; i < COUNT; i++)
        if ((all[i] = malloc(16)) == NULL) {
            puts("refused");
            exit(0);
        }
    all[COUNT - 1] = realloc(all[COUNT - 1], 1000);
    int is_long = malloc_usable_size(all[COUNT - 1]) >= 1000;
    for (int i = 0; i < COUNT; i++)
        free(all[i]);
    puts(is_long ? "made" : "short");
}

#define ALLOW(number) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
enum how { BY_PRCTL, BY_NUMBER, BY_NUMBER_OF_PRCTL };
static void enter_sandbox_by(enum how how) /* in which threads can be made and wait, and memory be had */
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_exit_group), ALLOW(SYS_exit), ALLOW(SYS_mmap), ALLOW(SYS_munmap),
        ALLOW(SYS_mprotect), ALLOW(SYS_brk), ALLOW(SYS_futex), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_rt_sigprocmask),
        ALLOW(SYS_madvise), ALLOW(SYS_mremap), ALLOW(SYS_fstat), ALLOW(SYS_newfstatat), ALLOW(SYS_clone),
        ALLOW(SYS_clone3), ALLOW(SYS_set_robust_list), ALLOW(SYS_rseq), ALLOW(SYS_sigaltstack), ALLOW(SYS_rt_sigaction),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    long status = 0;
    switch (how) {
    case BY_PRCTL:
        status = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
        break;
    case BY_NUMBER:
        status = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
        break;
    case BY_NUMBER_OF_PRCTL:
        status = syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
        break;
    }
    if (status)
        abort();
}

static void enter_sandbox(void)
{
    enter_sandbox_by(BY_PRCTL);
}

static void move_vector(void *to)
{
#ifdef __x86_64__
    __asm__ volatile("pxor %%xmm0, %%xmm0\n\tmovaps %%xmm0, (%0)" : : "r"(to) : "xmm0", "memory");
#else
    memset(to, 0, 16);
#endif
}

static void sandboxed_vector(void) /* an aligned move to an object that is not, in a sandbox */
{
    enter_sandbox();
    char *object = malloc(24);
    move_vector(object);
    puts(object[15] == 0 ? "moved" : "not moved");
    fflush(stdout);
    object[24] = 1; /* BUG sandboxed-vector */
}

static void err_in_sandbox(void)
{
    for (int i = 0; i < 3000; i++)
        free(malloc(1 + i % 5000));
    puts("done");
    fflush(stdout);
    char *object = malloc(24);
    object[24] = 1; /* BUG sandboxed-by-number */
}

static void sandboxed_by_number(void) /* through the C library's syscall() */
{
    free(malloc(24));
    enter_sandbox_by(BY_NUMBER);
    err_in_sandbox();
}

static void sandboxed_by_number_of_prctl(void)
{
    free(malloc(24));
    enter_sandbox_by(BY_NUMBER_OF_PRCTL);
    err_in_sandbox();
}

static void probed_by_number(void) /* the kernel has filters, and refuses these: no sandbox */
{
    struct sock_fprog none = {0, NULL};
    free(malloc(24));
    int before = fcntl(1000, F_GETFD);
    int refused = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT;
    int is_same = before == fcntl(1000, F_GETFD);
    refused += syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &none) == -1 && errno == EINVAL;
    printf("%d %d\n", refused, is_same);
    fflush(stdout);
}

static void probed(void) /* programs ask so whether the kernel has filters */
{
    free(malloc(24));
    errno = 0;
    int refused = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) == -1 && errno == EFAULT;
    struct sock_fprog none = {0, NULL};
    refused += prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none) == -1;
    printf("%d\n", refused);
    fflush(stdout);
}

static void unprobed(void) /* its descriptor stays */
{
    free(malloc(24));
    int before = fcntl(1000, F_GETFD);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL);
    printf("%d\n", before == fcntl(1000, F_GETFD));
    fflush(stdout);
}

static void *allocate_much(void *unused)
{
    for (int i = 0; i < 20000; i++)
        *(char *volatile *)malloc(16) = 0;
    return unused;
}

static void *err(void *unused)
{
    char *object = malloc(24);
    object[24] = 1; /* BUG sandboxed-threads */
    return unused;
}

static void sandboxed_threads(void) /* threads that are made in a sandbox, and contend */
{
    pthread_t all[6];
    free(malloc(24));
    enter_sandbox();
    for (int i = 0; i < 6; i++)
        pthread_create(&all[i], NULL, allocate_much, NULL);
    for (int i = 0; i < 6; i++)
        pthread_join(all[i], NULL);
    puts("done");
    fflush(stdout);
    pthread_create(&all[0], NULL, err, NULL);
    pthread_join(all[0], NULL);
}

static void buffers(void) /* each call with a buffer that is too short, one after the other */
{
    char *small = malloc(8);
    struct iovec part = {small, 16};
    struct msghdr named = {.msg_name = small, .msg_namelen = 16}, ruled = {.msg_control = small, .msg_controllen = 16};
    struct mmsghdr many[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}, {.msg_hdr = named}};
    socklen_t length = 16;
    FILE *none = fopen("/dev/null", "r+");
    preadv64(-1, &part, 1, 0);
    pwritev64(-1, &part, 1, 0);
    preadv2(-1, &part, 1, 0, 0);
    pwritev2(-1, &part, 1, 0, 0);
    recvmmsg(-1, many, 1, 0, NULL);
    sendmmsg(-1, many + 1, 1, 0);
    recvmsg(-1, &named, 0);
    sendmsg(-1, &ruled, 0);
    recvfrom(-1, NULL, 0, 0, (struct sockaddr *)small, &length);
    sendto(-1, NULL, 0, 0, (struct sockaddr *)small, 16);
    accept(-1, (struct sockaddr *)small, &length);
    getsockopt(-1, 0, 0, small, &length);
    setsockopt(-1, 0, 0, small, 16);
    fread_unlocked(small, 4, 4, none);
    fwrite_unlocked(small, 4, 4, none);
    syscall(SYS_getpid);
    getdents64(-1, small, 16);
    getxattr("/nowhere", "user.none", small, 16);
    poll((struct pollfd *)small, 2, 0);
    epoll_wait(-1, (struct epoll_event *)small, 1, 0);
    ppoll((struct pollfd *)small, 2, &(struct timespec){0, 0}, NULL);
    epoll_pwait(-1, (struct epoll_event *)small, 1, 0, NULL);
    setxattr("/nowhere", "user.none", small, 16, 0);
    listxattr("/nowhere", small, 16);
    getgroups(4, (gid_t *)small);
    getentropy(small, 16);
    msgrcv(-1, small, 8, 0, IPC_NOWAIT);
    mq_receive(-1, small, 16, NULL);
    __readlink_chk("/nowhere", small, 16, 16);
    __recvfrom_chk(-1, small, 16, 16, 0, NULL, NULL);
    __pread64_chk(-1, small, 16, 0, 16);
    fd_set *sets = malloc(8);
    struct epoll_event *volatile none_such = malloc(4);
    char *path = strdup("/nowhere");
    memset(sets, 0, 8);
    select(65, sets, NULL, NULL, &(struct timeval){0, 0});
    pselect(65, NULL, sets, NULL, &(struct timespec){0, 0}, NULL);
    __ppoll_chk((struct pollfd *)small, 2, &(struct timespec){0, 0}, NULL, 16);
    bind(-1, (struct sockaddr *)small, 16);
    connect(-1, (struct sockaddr *)small, 16);
    pipe((int *)none_such);
    socketpair(-1, 0, 0, (int *)none_such);
    epoll_ctl(-1, EPOLL_CTL_ADD, 0, none_such);
    stat("/nowhere", (struct stat *)small);
    fstat(-1, (struct stat *)small);
    free(path);
    open(path, O_RDONLY);
    openat(-1, path, O_RDONLY);
    fopen(path, "r");
    access(path, 0);
    unlink(path);
    rename("/nowhere", path);
    mkdir(path, 0);
    chdir(path);
    char *end = malloc(1);
    stpncpy(end + 8, "text", 1);
    __stpcpy_chk(end + 8, "", 8);
    free(end);
}

static void numbered(void) /* the same by their numbers, as far as they have any */
{
    char *small = malloc(8);
    struct iovec part = {small, 16};
    struct msghdr named = {.msg_name = small, .msg_namelen = 16};
    struct mmsghdr many = {.msg_hdr = named};
    socklen_t length = 16;
    int none = open("/dev/null", O_RDWR);
    memset(small, 0, 8);
    syscall(SYS_read, -1, small, 16);
    syscall(SYS_pread64, -1, small, 16, 0);
    syscall(SYS_write, none, small, 16);
    syscall(SYS_pwrite64, -1, small, 16, 0);
    syscall(SYS_readv, -1, &part, 1);
    syscall(SYS_writev, -1, &part, 1);
    syscall(SYS_preadv2, -1, &part, 1, 0, 0, 0);
    syscall(SYS_recvfrom, -1, small, 16, 0, NULL, NULL);
    syscall(SYS_sendto, -1, small, 16, 0, NULL, 0);
    syscall(SYS_recvmsg, -1, &named, 0);
    syscall(SYS_sendmmsg, -1, &many, 1, 0);
    syscall(SYS_getrandom, small, 16, 0);
    syscall(SYS_getdents64, -1, small, 16);
    syscall(SYS_getcwd, small, 16);
    syscall(SYS_readlinkat, -1, "/nowhere", small, 16);
    syscall(SYS_getxattr, "/nowhere", "user.none", small, 16);
    syscall(SYS_getsockname, -1, small, &length);
    syscall(SYS_getsockopt, -1, 0, 0, small, &length);
    syscall(SYS_setsockopt, -1, 0, 0, small, 16);
    syscall(SYS_connect, -1, small, 16);
    syscall(SYS_getgroups, 4, small);
    syscall(SYS_ppoll, small, 2, &(struct timespec){0, 0}, NULL, 0);
    syscall(SYS_pselect6, 65, small, NULL, NULL, &(struct timespec){0, 0}, NULL);
    syscall(SYS_epoll_pwait, -1, small, 1, 0, NULL, 0);
    struct epoll_event *volatile none_such = malloc(4);
    char *path = strdup("/nowhere");
    syscall(SYS_recvfrom, -1, NULL, 0, 0, small, &length);
    syscall(SYS_sendto, -1, NULL, 0, 0, small, 16);
    syscall(SYS_bind, -1, small, 16);
    syscall(SYS_pipe2, none_such, 0);
    syscall(SYS_socketpair, -1, 0, 0, none_such);
    syscall(SYS_epoll_ctl, -1, EPOLL_CTL_ADD, 0, none_such);
    syscall(SYS_epoll_ctl, -1, EPOLL_CTL_DEL, 0, none_such);
    syscall(SYS_newfstatat, AT_FDCWD, "/nowhere", small, 0);
    syscall(SYS_fstat, -1, small);
    syscall(SYS_msgrcv, -1, small, 8, 0, IPC_NOWAIT);
    syscall(SYS_mq_timedreceive, -1, small, 16, NULL, NULL);
    free(path);
    syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
    syscall(SYS_chdir, path);
}

static void good_numbered(void) /* and as they should be */
{
    char *small = malloc(16), *sets = calloc(1, 128);
    int ends[2], zero = open("/dev/zero", O_RDONLY);
    if (pipe(ends))
        abort();
    memset(small, 1, 16);
    int done = syscall(SYS_write, ends[1], small, 16) == 16;
    done += syscall(SYS_read, ends[0], small, 16) == 16;
    done += syscall(SYS_read, zero, small, 8) == 8 && small[7] == 0 && small[8] == 1;
    done += syscall(SYS_read, -1, small, 16) == -1 && errno == EBADF;
    done += syscall(SYS_gettid) == getpid();
    done += syscall(SYS_pselect6, ends[0] + 1, sets, NULL, NULL, &(struct timespec){0, 0}, NULL) == 0;
    done += syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, zero, 0) != -1;
    /* More than there can be: the kernel looks at as many as its table has room for. */
    done += select(1 << 24, (fd_set *)sets, NULL, NULL, &(struct timeval){0, 0}) == 0;
    done += syscall(-1) == -1 && errno == ENOSYS;
    pid_t child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        free(malloc(24));
        syscall(SYS_exit_group, 5);
    }
    int status = 0;
    waitpid(child, &status, 0);
    done += WIFEXITED(status) && WEXITSTATUS(status) == 5;
    printf("%d\n", done);
    fflush(stdout);
}

static void good_buffers(void) /* the same calls as they should be, and some that nobody may take for wrong */
{
    char *small = malloc(16);
    struct iovec part = {small, 16};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    socklen_t length = 16;
    int pair[2];
    socketpair(AF_UNIX, SOCK_DGRAM, 0, pair);
    memset(small, 1, 16);
    sendmsg(pair[0], &message, 0);
    recvmsg(pair[1], &message, 0);
    recvfrom(pair[1], small, 16, MSG_DONTWAIT, NULL, NULL);
    accept(pair[0], NULL, NULL);
    getsockname(pair[0], (struct sockaddr *)small, &length);
    poll(NULL, 0, 0);
    getxattr("/", "user.none", NULL, 0);
    getcwd(NULL, 0);
    puts(small[15] == 1 ? "sent" : "lost");
    fflush(stdout);
}

static void terminated(void) /* by a signal, of which all looks as ever before */
{
    struct sigaction now;
    sigaction(SIGTERM, NULL, &now);
    int as_ever = now.sa_handler == SIG_DFL && signal(SIGINT, SIG_IGN) == SIG_DFL && sigset(SIGHUP, SIG_IGN) == SIG_DFL;
    printf("%d\n", as_ever);
    fflush(stdout);
    damage_one();
    kill(getpid(), SIGTERM);
}

static void clean_up(int number) /* and go as if there were no handler */
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(number, &action, NULL);
    raise(number);
}

static void terminated_well(void)
{
    free(malloc(24));
    signal(SIGTERM, clean_up);
    kill(getpid(), SIGTERM);
}

static void aborted(void)
{
    damage_one();
    assert(sink);
}

static void quick(void)
{
    damage_one();
    quick_exit(0);
}

static void onto_themselves(void)
{
    char *text = malloc(32);
    wchar_t *wide = malloc(64);
    memset(wide, 0, 64);
    strcpy(text, "0123456789");
    strcpy(text + 16, text + 1);
    strcpy(text, text + 1);
    stpcpy(text, text + 1);
    mempcpy(text, text + 1, 4);
    wmemcpy(wide, wide + 1, 4);
    wmempcpy(wide, wide + 1, 4);
    wmempcpy(wide, wide + 8, 8);
}

static void reused(void) /* with little address space */
{
    for (int i = 0; i < 60000; i++) {
        char *volatile object = malloc(3000 + i % 100);
        *object = 1;
        free(object);
    }
}

static int is_full_of(unsigned char *bytes, size_t count, int value)
{
    while (count-- > 0)
        if (bytes[count] != value)
            return 0;
    return 1;
}

static void filled(void) /* what new objects are full of: of malloc, of calloc, where realloc made one longer, and so again */
{
    for (int i = 0; i < 2; i++) {
        unsigned char *fresh = malloc(100), *zeros = calloc(1, 100), *large = malloc(1 << 20);
        printf("%d %d %d ", is_full_of(fresh, 100, 0xaa), is_full_of(zeros, 100, 0), is_full_of(large, 1 << 20, 0xaa));
        zeros = realloc(zeros, 200);
        printf("%d\n", is_full_of(zeros, 100, 0) && is_full_of(zeros + 100, 100, 0xaa));
        free(fresh);
        free(zeros);
        free(large);
    }
    fflush(stdout);
}

static void stopped(void)
{
    char *object = malloc(24);
    FILE *file = fopen("pid", "w");
    fprintf(file, "%d\n", getpid());
    fclose(file);
    object[24] = 1; /* BUG stopped */
}

static void refused(void) /* what the kernel refuses, it refuses */
{
    struct msghdr message = {.msg_iov = (struct iovec *)8, .msg_iovlen = 1};
    struct iovec part = {malloc(8), 8};
    int pair[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    struct iovec *volatile no_list = NULL;
    struct msghdr *volatile no_message = (struct msghdr *)16;
    int refusals = 0;
    refusals += readv(pair[0], no_list, 1) == -1 && errno == EFAULT;
    refusals += writev(pair[0], no_list + 1, 3) == -1 && errno == EFAULT;
    refusals += writev(pair[0], &part, INT_MAX) == -1 && errno == EINVAL;
    refusals += writev(pair[0], &part, -1) == -1 && errno == EINVAL;
    refusals += recvmsg(pair[0], &message, MSG_DONTWAIT) == -1 && errno == EFAULT;
    refusals += sendmsg(pair[0], no_message, MSG_DONTWAIT) == -1 && errno == EFAULT;
    printf("%d\n", refusals);
    fflush(stdout);
}

typedef void handler_type(int);
extern handler_type *bsd_signal(int, handler_type *), *ssignal(int, handler_type *);
static volatile int handled;
static sigjmp_buf back;

static void handler(int number)
{
    handled++;
    siglongjmp(back, number);
}

static void other_signals(void) /* handlers by all names there are for that; what comes after them is told */
{
    handler_type *(*const all[])(int, handler_type *) = {ssignal, sysv_signal, sigset};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        all[i](SIGSEGV, handler);
        if (sigsetjmp(back, 1) == 0)
            *(volatile char *)8 = 1;
    }
    printf("%d\n", handled);
    fflush(stdout);
    signal(SIGSEGV, SIG_DFL);
    sigset(SIGSEGV, SIG_DFL);
    char *object = malloc(24);
    object[24] = 1; /* BUG other-signals */
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {
        {"exiting", exiting},
        {"leaked-before", leaked_before},
        {"leaked-without-descriptors", leaked_without_descriptors},
        {"aligned", aligned},
        {"limited-data", limited_data},
        {"sparse", sparse},
        {"too-many", too_many},
        {"hidden", hidden},
        {"damaged", damaged},
        {"inherited", inherited},
        {"sandboxed-by-number", sandboxed_by_number},
        {"sandboxed-by-number-of-prctl", sandboxed_by_number_of_prctl},
        {"probed-by-number", probed_by_number},
        {"numbered", numbered},
        {"good-numbered", good_numbered},
        {"sandboxed-vector", sandboxed_vector},
        {"probed", probed},
        {"unprobed", unprobed},
        {"sandboxed-threads", sandboxed_threads},
        {"buffers", buffers},
        {"good-buffers", good_buffers},
        {"terminated", terminated},
        {"terminated-well", terminated_well},
        {"aborted", aborted},
        {"quick", quick},
        {"onto-themselves", onto_themselves},
        {"reused", reused},
        {"filled", filled},
        {"stopped", stopped},
        {"refused", refused},
        {"other-signals", other_signals},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (argc > 1 && strcmp(all[i].name, argv[1]) == 0) {
            all[i].run();
            return 0;
        }
    return 2;
}
