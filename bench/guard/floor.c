/* usage: floor COUNT   touches missing pages at random that a bare handler of userfaultfd(2) on the same processor fills: what
 * no restore can be faster than. Prints the time of each touch in ns. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L

static char source[PAGE] __attribute__((aligned(4096)));
static int file;

static long now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void stay_on(int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *serve(void *unused)
{
    struct uffd_msg fault;
    while (read(file, &fault, sizeof fault) == sizeof fault) {
        struct uffdio_copy copy = {.dst = fault.arg.pagefault.address, .src = (unsigned long)source, .len = PAGE};
        ioctl(file, UFFDIO_COPY, &copy);
    }
    return unused;
}

int main(int argc, char **argv)
{
    long count = argc > 1 ? atol(argv[1]) : 0;
    long *took = calloc(count + 1, sizeof *took);
    char *pages = mmap(NULL, count * 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stay_on(sched_getcpu());
    file = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register all = {{(unsigned long)pages, count * 2 * PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
    pthread_t thread;
    if (!took || pages == MAP_FAILED || file < 0 || ioctl(file, UFFDIO_API, &api) || ioctl(file, UFFDIO_REGISTER, &all) ||
        pthread_create(&thread, NULL, serve, NULL))
        return 1;
    for (long i = 0; i < count; i++) {
        volatile char *page = pages + i * 7919 % count * 2 * PAGE;
        long start = now_ns();
        (void)*page;
        took[i] = now_ns() - start;
    }
    for (long i = 0; i < count; i++)
        printf("%ld\n", took[i]);
    return 0;
}
