// Touches each page of a mapped file in order, then some at random, then these by two threads at once; the file is not in the page cache
// each time. Says its own major faults.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096

static volatile char sum;

static long major_faults(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return used.ru_majflt;
}

static char *map_cold(int file, size_t bytes)
{
	fdatasync(file);
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	char *at = mmap(0, bytes, PROT_READ, MAP_SHARED, file, 0);
	if (at == MAP_FAILED) {
		perror("mapread: mmap");
		exit(1);
	}
	return at;
}

__attribute__((noinline)) static void touch_in_order(const char *at, size_t pages)
{
	for (size_t page = 0; page < pages; page++)
		sum += at[page * PAGE];
}

// Each page once, none behind another; a prime that does not divide their number.
__attribute__((noinline)) static void touch_anywhere(const char *at, size_t pages)
{
	for (size_t touch = 0; touch < pages / 16; touch++)
		sum += at[touch * 7919 % pages * PAGE];
}

static atomic_size_t arrived;
static const char *shared;
static size_t shared_pages;

// Both go on within less than a fault takes; who sleeps in a barrier may be woken after that.
static void meet(size_t times)
{
	atomic_fetch_add(&arrived, 1);
	while (atomic_load(&arrived) < 2 * times)
		sched_yield();
}

// Two threads, each page at the same time.
__attribute__((noinline)) static void *touch_together(void *unused)
{
	(void)unused;
	for (size_t touch = 0; touch < shared_pages / 16; touch++) {
		meet(touch + 1);
		sum += shared[touch * 7919 % shared_pages * PAGE];
	}
	return 0;
}

static void two_threads(const char *at, size_t pages)
{
	pthread_t other;

	shared = at;
	shared_pages = pages;
	pthread_create(&other, 0, touch_together, 0);
	touch_together(0);
	pthread_join(other, 0);
}

int main(int argc, char **argv)
{
	int file = argc > 1 ? open(argv[1], O_RDWR) : -1;
	struct stat is;

	if (file < 0 || fstat(file, &is)) {
		perror("mapread: a file, please");
		return 1;
	}
	size_t pages = is.st_size / PAGE;
	long before = major_faults();
	char *at = map_cold(file, is.st_size);
	touch_in_order(at, pages);
	munmap(at, is.st_size);
	long between = major_faults();
	at = map_cold(file, is.st_size);
	madvise(at, is.st_size, MADV_RANDOM);
	touch_anywhere(at, pages);
	long after = major_faults();
	munmap(at, is.st_size);
	at = map_cold(file, is.st_size);
	madvise(at, is.st_size, MADV_RANDOM);
	two_threads(at, pages);
	printf("{\"in_order\": %ld, \"anywhere\": %ld, \"together\": %ld, \"touches\": %zu}\n", between - before,
	       after - between, major_faults() - after, pages / 16);
	return 0;
}
