/* Memory for the huge page manager to find, of known contents and use.
 *
 * usage: regions MODE MIB...
 *   hot MIB HOT     MIB of base pages, of which the last HOT are read all the time
 *   sparse MIB      as MIB of base pages, of which every eighth holds something and the others zeros
 *   huge MIB        as sparse, in huge pages
 *   twins MIB       as huge, and the memory belongs to a child too
 *   gripped MIB     as huge, and pinned
 *   shared MIB      as sparse, and half of the memory belongs to a child too
 *   locked MIB      as sparse, locked
 *   moved MIB       as sparse, and moved by mremap, with a hole in each region
 *   remade MIB      as moved, and in huge pages before that
 *   pinned MIB      as sparse, and a pipe holds a page of each region, whose later writes must be seen through it
 *   watched MIB     as sparse in huge pages, watched by a userfaultfd that nobody answers
 *   guarded MIB     as watched, of which only writes are told
 *   interleaved MIB as sparse, with a policy that spreads it over the nodes of memory
 *   forbidden MIB   as hot, with huge pages switched off for the process
 *   many MIB NUMBER as sparse, and so many children have as much memory of their own
 *   writers MIB     writes and checks words at random
 *   storm MIB       as writers, and forks and unmaps meanwhile
 * It prints `ready ADDRESS`, runs until its standard input ends, checks every byte, and prints `bad N`. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REGION (2UL << 20)
#define PAGE 4096UL
#define WORDS (PAGE / sizeof(uint64_t))

static unsigned char *memory;
static size_t bytes;
static volatile uint64_t sink;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static unsigned char *reserve(size_t size)
{
	unsigned char *start = mmap(NULL, size + REGION, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED)
		fail("mmap");
	return (unsigned char *)(((uintptr_t)start + REGION - 1) & ~(REGION - 1));
}

static int input_ended(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	return poll(&input, 1, 0) > 0;
}

/* Every eighth page holds its number in each word; the others are zeros. */
static uint64_t expected(size_t page)
{
	return page % 8 ? 0 : page + 1;
}

static void fill(void)
{
	for (size_t page = 0; page < bytes / PAGE; page++) {
		volatile uint64_t *words = (volatile uint64_t *)(memory + page * PAGE);
		for (size_t word = 0; word < WORDS; word++)
			words[word] = expected(page);
	}
}

static size_t bad_pages(void)
{
	size_t bad = 0;
	for (size_t page = 0; page < bytes / PAGE; page++) {
		uint64_t *words = (uint64_t *)(memory + page * PAGE);
		size_t word = 0;
		while (word < WORDS && words[word] == expected(page))
			word++;
		bad += word < WORDS;
	}
	return bad;
}

static void ready(void)
{
	printf("ready %lx\n", (unsigned long)(uintptr_t)memory);
	fflush(stdout);
}

static size_t hold(void)
{
	ready();
	while (!input_ended())
		usleep(10000);
	return bad_pages();
}

static size_t read_hot(size_t hot)
{
	ready();
	while (!input_ended())
		for (size_t offset = bytes - hot; offset < bytes; offset += PAGE)
			sink += memory[offset];
	return 0;
}

static size_t share(void)
{
	int end[2];
	if (pipe(end))
		fail("pipe");
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		char none;
		close(end[1]);
		if (read(end[0], &none, 1))
			_exit(1);
		_exit(bad_pages() != 0);
	}
	size_t bad = hold();
	int status = 0;
	close(end[1]);
	waitpid(child, &status, 0);
	return bad + (status != 0);
}

/* Children end with their parent. */
static size_t multiply(size_t number)
{
	int end[2], filled[2];
	if (pipe(end) || pipe(filled))
		fail("pipe");
	for (size_t child = 0; child < number; child++) {
		const pid_t pid = fork();
		if (pid < 0)
			fail("fork");
		if (pid == 0) {
			char none = 0;
			close(end[1]);
			fill();
			if (write(filled[1], &none, 1) != 1 || read(end[0], &none, 1))
				_exit(1);
			_exit(bad_pages() != 0);
		}
	}
	for (size_t child = 0; child < number; child++) {
		char none;
		if (read(filled[0], &none, 1) != 1)
			fail("read");
	}
	size_t bad = hold();
	close(end[1]);
	for (size_t child = 0; child < number; child++) {
		int status = 0;
		wait(&status);
		bad += status != 0;
	}
	return bad;
}

/* The hole is a page of zeros, so that it reads as one again when it is mapped anew. */
static size_t move_with_holes(void)
{
	unsigned char *target = reserve(bytes);
	unsigned char *moved =
		mremap(memory, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, target);
	if (moved == MAP_FAILED)
		fail("mremap");
	memory = moved;
	for (size_t region = 0; region < bytes; region += 2 * REGION)
		if (munmap(memory + region + 3 * PAGE, PAGE))
			fail("munmap");
	ready();
	while (!input_ended())
		usleep(10000);
	for (size_t region = 0; region < bytes; region += 2 * REGION)
		if (mmap(memory + region + 3 * PAGE, PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			fail("mmap");
	return bad_pages();
}

/* Were a page that the pipe holds moved, what is written to it later would not be seen through the pipe. */
static size_t pin(void)
{
	int end[2];
	size_t regions = bytes / REGION, bad = 0;
	if (pipe(end) || fcntl(end[1], F_SETPIPE_SZ, (int)(regions * PAGE)) < 0)
		fail("pipe");
	for (size_t region = 0; region < regions; region++) {
		struct iovec page = { memory + region * REGION, PAGE };
		if (vmsplice(end[1], &page, 1, 0) != (ssize_t)PAGE)
			fail("vmsplice");
	}
	bad += hold();
	for (size_t region = 0; region < regions; region++)
		*(volatile uint64_t *)(memory + region * REGION + 8) = ~region;
	for (size_t region = 0; region < regions; region++) {
		static uint64_t seen[WORDS];
		for (size_t got = 0; got < PAGE;) {
			ssize_t step = read(end[0], (char *)seen + got, PAGE - got);
			if (step <= 0)
				fail("read");
			got += (size_t)step;
		}
		bad += seen[1] != ~region;
	}
	return bad;
}

/* A page that is freed behind its back would be waited for forever. */
static size_t watch(uint64_t kind, uint64_t features)
{
	int watcher = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	struct uffdio_register area = { .range = { (uintptr_t)memory, bytes }, .mode = kind };
	if (watcher < 0 || ioctl(watcher, UFFDIO_API, &api) || ioctl(watcher, UFFDIO_REGISTER, &area))
		fail("userfaultfd");
	return hold();
}

static void interleave(void)
{
	unsigned long nodes = 1;
	if (syscall(SYS_mbind, memory, bytes, MPOL_INTERLEAVE, &nodes, 8 * sizeof nodes, 0))
		fail("mbind");
}

/* Writes words at random, zeros among them, and checks each before: none may be lost. */
static size_t write_and_check(int storm)
{
	size_t pages = bytes / PAGE, bad = 0, writes = 0;
	uint64_t *shadow = calloc(pages, sizeof(*shadow)), state = 88172645463325252UL;
	if (!shadow)
		fail("calloc");
	memset(memory, 0, bytes);
	ready();
	while (!input_ended()) {
		for (int step = 0; step < 20000; step++) {
			state ^= state << 13, state ^= state >> 7, state ^= state << 17;
			size_t page = state % pages;
			volatile uint64_t *word = (volatile uint64_t *)(memory + page * PAGE + 64);
			bad += *word != shadow[page];
			shadow[page] = *word = (state >> 33) % 3 ? 0 : state;
			writes++;
		}
		if (!storm)
			continue;
		size_t page = state % pages;
		if (madvise(memory + page * PAGE, PAGE, MADV_DONTNEED))
			fail("madvise");
		shadow[page] = 0;
		pid_t child = fork();
		if (child == 0) {
			for (size_t at = 0; at < pages; at++)
				if (*(uint64_t *)(memory + at * PAGE + 64) != shadow[at])
					_exit(1);
			_exit(0);
		}
		int status = 0;
		if (child < 0 || waitpid(child, &status, 0) < 0)
			fail("fork");
		bad += status != 0;
	}
	for (size_t page = 0; page < pages; page++)
		bad += *(uint64_t *)(memory + page * PAGE + 64) != shadow[page];
	fprintf(stderr, "writes %zu\n", writes);
	return bad;
}

int main(int count, char **words)
{
	if (count < 3)
		return 2;
	const char *mode = words[1];
	bytes = strtoul(words[2], NULL, 10) << 20;
	memory = reserve(bytes);
	size_t bad;
	if (!strcmp(mode, "forbidden") && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0))
		fail("prctl");
	if (!strcmp(mode, "interleaved"))
		interleave();
	const char *in_huge_pages[] = { "huge", "twins", "gripped", "watched", "guarded", "remade" };
	int is_huge = 0;
	for (size_t at = 0; at < sizeof in_huge_pages / sizeof *in_huge_pages; at++)
		is_huge |= !strcmp(mode, in_huge_pages[at]);
	if (is_huge && madvise(memory, bytes, MADV_HUGEPAGE))
		fail("madvise");
	if (strcmp(mode, "writers") && strcmp(mode, "storm"))
		fill();
	if (!strcmp(mode, "hot") || !strcmp(mode, "forbidden"))
		bad = read_hot(count > 3 ? strtoul(words[3], NULL, 10) << 20 : bytes);
	else if (!strcmp(mode, "sparse") || !strcmp(mode, "interleaved") || !strcmp(mode, "huge"))
		bad = hold();
	else if (!strcmp(mode, "pinned") || !strcmp(mode, "gripped"))
		bad = pin();
	else if (!strcmp(mode, "watched"))
		bad = watch(UFFDIO_REGISTER_MODE_MISSING, 0);
	else if (!strcmp(mode, "guarded"))
		bad = watch(UFFDIO_REGISTER_MODE_WP, UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	else if (!strcmp(mode, "many") && count > 3)
		bad = multiply(strtoul(words[3], NULL, 10));
	else if (!strcmp(mode, "shared") || !strcmp(mode, "twins"))
		bad = share();
	else if (!strcmp(mode, "locked")) {
		if (mlock(memory, bytes))
			fail("mlock");
		bad = hold();
	} else if (!strcmp(mode, "moved") || !strcmp(mode, "remade"))
		bad = move_with_holes();
	else
		bad = write_and_check(!strcmp(mode, "storm"));
	printf("bad %zu\n", bad);
	return bad != 0;
}
