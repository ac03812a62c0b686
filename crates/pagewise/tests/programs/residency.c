/* Knows where its pages are: brings them into each state, and after each step stays quiet for a while and prints what
 * must be seen then: "end-of-the-quiet-time-ns pid address pages state", a line each. */

#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64 };

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t quiet(void)
{
	usleep(1200000);
	return now();
}

static void must_be(uint64_t time, const char *memory, int first, int end, const char *state)
{
	printf("%llu %d %llu %d %s\n", (unsigned long long)time, getpid(),
	       (unsigned long long)(uintptr_t)(memory + (size_t)first * PAGE), end - first, state);
}

static void touch(volatile char *memory, int first, int end)
{
	for (int page = first; page < end; page++)
		memory[(size_t)page * PAGE] = (char)(page + 1);
}

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static char *map(int pages, int protection)
{
	char *memory = mmap(NULL, (size_t)pages * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(memory == MAP_FAILED, "mmap");
	madvise(memory, (size_t)pages * PAGE, MADV_NOHUGEPAGE);
	return memory;
}

static void child(char *kept)
{
	uint64_t time;

	check(madvise(kept, 2 * PAGE, MADV_DONTNEED), "MADV_DONTNEED");
	time = quiet();
	must_be(time, kept, 0, 2, "absent");
	must_be(time, kept, 2, 4, "resident");
	must_be(time, kept, 12, 24, "swapped");
	fflush(stdout);
	_exit(0);
}

/* Pages that another processor is still to put on a list cannot be paged out. */
static void stay_on_this_processor(void)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	check(sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
}

int main(void)
{
	stay_on_this_processor();
	char *kept = map(PAGES, PROT_READ | PROT_WRITE);
	char *place = map(8, PROT_NONE);
	char *moved;
	uint64_t time;
	pid_t pid;

	touch(kept, 0, 40);
	time = quiet();
	must_be(time, kept, 0, 40, "resident");
	must_be(time, kept, 40, PAGES, "absent");

	check(madvise(kept + 8 * PAGE, 16 * PAGE, MADV_PAGEOUT), "MADV_PAGEOUT");
	time = quiet();
	must_be(time, kept, 0, 8, "resident");
	must_be(time, kept, 8, 24, "swapped");
	must_be(time, kept, 24, 40, "resident");

	check(madvise(kept + 4 * PAGE, 8 * PAGE, MADV_DONTNEED), "MADV_DONTNEED");
	moved = mremap(kept + 24 * PAGE, 8 * PAGE, 8 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	check(moved == MAP_FAILED, "mremap");
	time = quiet();
	must_be(time, kept, 0, 4, "resident");
	must_be(time, kept, 4, 12, "absent");
	must_be(time, kept, 12, 24, "swapped");
	must_be(time, kept, 24, 32, "absent");
	must_be(time, kept, 32, 40, "resident");
	must_be(time, moved, 0, 8, "resident");

	fflush(stdout);
	pid = fork();
	check(pid < 0, "fork");
	if (pid == 0)
		child(kept);
	check(waitpid(pid, NULL, 0) != pid, "waitpid");
	/* The parent's two pages are its own still. */
	must_be(now(), kept, 0, 4, "resident");

	/* Twelve swap-ins. */
	touch(kept, 12, 24);
	time = quiet();
	must_be(time, kept, 12, 24, "resident");
	must_be(time, kept, 40, PAGES, "absent");
	return 0;
}
