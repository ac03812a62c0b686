/* Programs that touch fresh memory: it must be zeros, and keep what is written, whoever makes it ready.
 *
 * usage: fresh MODE MIB
 *   map MIB     a mapping, touched in order, a region of 2 MiB a millisecond
 *   block MIB   the same in one block of malloc
 *   heap MIB    the same in blocks of 32 KiB
 *   reserved MIB  as map, for which neither memory nor swap is reserved
 *   vast MIB    a terabyte of that kind, of which so much is touched from the start
 *   sparse MIB  one page in the middle of a mapping
 *   stops MIB   a quarter of a mapping; then it sleeps for three seconds, and touches the rest
 *   forks MIB   half of a mapping, the other half in parent and child, each with contents of its own
 *   cut MIB     a mapping whose ends are given back before it is touched
 *   refuses MIB as map, in memory that wants no huge pages
 *   races MIB   maps, touches and unmaps, and maps a sparse file where the memory was
 *   holes MIB   blocks of which the middle is given back, and which are freed; a sparse file where each was
 *   locks MIB   locks all its memory after that much in blocks of 32 KiB: the heap must end soon behind these
 *   caches MIB  as map, once a file was written and read that is three times as large
 *   leaves MIB  its first thread ends; another touches a mapping and ends
 *   presses MIB  a page of each region in half of a mapping, so much memory besides that little is left of 170 MiB; a page of
 *               each region in the other half; then that memory is given back, and 16 MiB are touched, whose faults it prints
 *   alone MIB   goes into a user namespace, which takes a process of one thread
 * It prints `ok FAULTS`, the page faults that it raised itself while touching, or what was wrong. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define REGION (2 * MIB)
#define PAGE 4096UL
#define BLOCK (32UL << 10)

static uint64_t salt = 1;

static void fail(const char *what)
{
	printf("%s\n", what);
	exit(1);
}

static void sleep_us(long us)
{
	const struct timespec time = { us / 1000000, us % 1000000 * 1000 };
	nanosleep(&time, NULL);
}

static long faults(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

static unsigned char *map(size_t bytes, int more_flags)
{
	unsigned char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);
	if (start == MAP_FAILED)
		fail("mmap failed");
	return start;
}

static uint64_t *word(unsigned char *page)
{
	return (uint64_t *)(((uintptr_t)page + 7) & ~7UL);
}

/* Each page must be zeros before. */
static void touch(unsigned char *start, size_t from, size_t to, long pause_us)
{
	for (size_t at = from; at < to; at += PAGE) {
		if (at % REGION == 0 && pause_us)
			sleep_us(pause_us);
		if (*word(start + at) != 0)
			fail("fresh memory is not zeros");
		*word(start + at) = at + salt;
	}
}

static void check(unsigned char *start, size_t from, size_t to, uint64_t written)
{
	for (size_t at = from; at < to; at += PAGE)
		if (*word(start + at) != at + written)
			fail("a write was lost");
}

static void in_order(unsigned char *start, size_t bytes)
{
	touch(start, 0, bytes, 1000);
	check(start, 0, bytes, salt);
}

static void heap(size_t bytes)
{
	const size_t count = bytes / BLOCK;
	unsigned char **blocks = calloc(count, sizeof *blocks);
	for (size_t i = 0; i < count; i++) {
		if (i % (REGION / BLOCK) == 0)
			sleep_us(1000);
		blocks[i] = calloc(1, BLOCK - 16);
		memset(blocks[i], (int)(i % 255) + 1, BLOCK - 16);
	}
	for (size_t i = 0; i < count; i++)
		for (size_t at = 0; at < BLOCK - 16; at += 64)
			if (blocks[i][at] != i % 255 + 1)
				fail("a write was lost");
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
	free(blocks);
}

static void forks(unsigned char *start, size_t bytes)
{
	int status = -1;
	touch(start, 0, bytes / 2, 1000);
	const pid_t child = fork();
	if (child == 0)
		salt = 7;
	touch(start, bytes / 2, bytes, 1000);
	check(start, 0, bytes / 2, 1);
	check(start, bytes / 2, bytes, salt);
	if (child == 0) {
		/* New memory of its own. */
		in_order(malloc(bytes), bytes);
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || status != 0)
		fail("the child failed");
}

static void stops(unsigned char *start, size_t bytes)
{
	touch(start, 0, bytes / 4, 1000);
	sleep_us(3000000);
	check(start, 0, bytes / 4, salt);
	touch(start, bytes / 4, bytes, 1000);
	check(start, 0, bytes, salt);
}

static int sparse_file(size_t bytes)
{
	char name[] = "./sparse-XXXXXX";
	const int file = mkstemp(name);
	if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
		fail("no file");
	unlink(name);
	return file;
}

static void must_be_sparse(int file)
{
	struct stat told;
	if (fstat(file, &told) != 0 || told.st_blocks != 0)
		fail("the file is no longer sparse");
	close(file);
}

/* The file is mapped by the system call itself, as what nobody tells of. */
static void holes(size_t bytes)
{
	const int file = sparse_file(bytes);
	for (int round = 0; round < 8; round++) {
		unsigned char *block = malloc(bytes);
		unsigned char *first = (unsigned char *)(((uintptr_t)block + REGION - 1) & ~(REGION - 1));
		madvise(first, REGION, MADV_DONTNEED);
		madvise(first + bytes / 2, REGION, MADV_DONTNEED);
		free(block);
		void *there = (void *)syscall(SYS_mmap, first, bytes - REGION, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0L);
		if (there == MAP_FAILED)
			continue;
		/* Somebody is there: what lies behind would be made ready, if it still counted as the block's. */
		(void)*(volatile unsigned char *)(first + REGION);
		sleep_us(50000);
		syscall(SYS_munmap, there, bytes - REGION);
	}
	must_be_sparse(file);
}

static void races(size_t bytes)
{
	const int file = sparse_file(bytes);
	for (int round = 0; round < 100; round++) {
		unsigned char *start = map(bytes, 0);
		touch(start, 0, (size_t)(round % 8 + 1) * REGION, 0);
		check(start, 0, (size_t)(round % 8 + 1) * REGION, salt);
		if (munmap(start, bytes) != 0)
			fail("munmap failed");
		void *there = mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);
		sleep_us(300);
		if (there != MAP_FAILED)
			munmap(there, bytes);
	}
	must_be_sparse(file);
}

static void cache(size_t bytes)
{
	const int file = sparse_file(0);
	unsigned char *piece = calloc(1, MIB);
	for (size_t at = 0; at < bytes; at += MIB)
		if (write(file, piece, MIB) != (ssize_t)MIB)
			fail("no file");
	fsync(file);
	for (size_t at = 0; at < bytes; at += MIB)
		if (pread(file, piece, MIB, (off_t)at) != (ssize_t)MIB)
			fail("no file");
	free(piece);
}

static void locks(size_t bytes)
{
	char *block = NULL;
	for (size_t at = 0; at < bytes; at += BLOCK)
		block = malloc(BLOCK - 16);
	if ((char *)sbrk(0) - block < (long)(4 * MIB))
		fail("the heap grows in small steps");
	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		return;
	for (size_t at = 0; at < 2 * MIB; at += BLOCK)
		block = malloc(BLOCK - 16);
	if ((char *)sbrk(0) - block > (long)MIB)
		fail("what nobody asked for is locked");
}

static void *last(void *bytes)
{
	in_order(map((size_t)bytes, 0), (size_t)bytes);
	printf("ok 0\n");
	return NULL;
}

static void leaves(size_t bytes)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, last, (void *)bytes) != 0)
		fail("no thread");
	pthread_exit(NULL);
}

static long resident_mib(void)
{
	long all = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");
	if (!file || fscanf(file, "%ld %ld", &all, &resident) != 2)
		fail("no statm");
	fclose(file);
	return resident * (long)PAGE / (long)MIB;
}

static void touch_sparsely(unsigned char *start, size_t from, size_t to)
{
	for (size_t at = from; at < to; at += REGION)
		touch(start, at, at + PAGE, 0);
}

static long presses(unsigned char *start, size_t bytes)
{
	touch_sparsely(start, 0, bytes / 2);
	const size_t more = 132 * MIB;
	unsigned char *other = map(more, 0);
	in_order(other, more);
	const long full = resident_mib();
	/* What is zeros in the first half is taken back. */
	for (int round = 0; round < 100 && resident_mib() > 140; round++)
		sleep_us(100000);
	fprintf(stderr, "resident %ld, then %ld MiB\n", full, resident_mib());
	const long before = resident_mib();
	touch_sparsely(start, bytes / 2, bytes);
	if (resident_mib() > before + 4)
		fail("huge pages while memory is short");
	for (size_t at = 0; at < bytes; at += REGION)
		check(start, at, at + PAGE, salt);
	check(other, 0, more, salt);
	munmap(other, more);
	sleep_us(500000);
	unsigned char *last = map(16 * MIB, 0);
	const long faults_before = faults();
	touch(last, 0, 16 * MIB, 0);
	return faults_before;
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	const char *mode = words[1];
	const size_t bytes = strtoul(words[2], NULL, 10) * MIB;
	unsigned char *start = NULL;
	if (!strcmp(mode, "block"))
		start = malloc(bytes);
	else if (!strcmp(mode, "reserved"))
		start = map(bytes, MAP_NORESERVE);
	else if (!strcmp(mode, "vast"))
		start = map(MIB * MIB, MAP_NORESERVE);
	else if (!strcmp(mode, "leaves"))
		leaves(bytes);
	else if (!strcmp(mode, "alone")) {
		if (unshare(CLONE_NEWUSER) != 0 && errno == EINVAL)
			fail("not alone");
	} else if (strcmp(mode, "heap") && strcmp(mode, "locks") && strcmp(mode, "races") && strcmp(mode, "holes"))
		start = map(bytes, 0);
	long before = faults();
	if (!strcmp(mode, "map") || !strcmp(mode, "block") || !strcmp(mode, "reserved") || !strcmp(mode, "vast"))
		in_order(start, bytes);
	else if (!strcmp(mode, "caches")) {
		cache(3 * bytes);
		in_order(start, bytes);
	} else if (!strcmp(mode, "heap"))
		heap(bytes);
	else if (!strcmp(mode, "locks"))
		locks(bytes);
	else if (!strcmp(mode, "alone"))
		;
	else if (!strcmp(mode, "sparse"))
		touch(start, bytes / 2, bytes / 2 + PAGE, 0), sleep_us(50000);
	else if (!strcmp(mode, "stops"))
		stops(start, bytes);
	else if (!strcmp(mode, "presses"))
		before = presses(start, bytes);
	else if (!strcmp(mode, "forks"))
		forks(start, bytes);
	else if (!strcmp(mode, "races"))
		races(bytes);
	else if (!strcmp(mode, "holes"))
		holes(bytes);
	else if (!strcmp(mode, "refuses")) {
		madvise(start, bytes, MADV_NOHUGEPAGE);
		in_order(start, bytes);
	} else if (!strcmp(mode, "cut")) {
		munmap(start, 4 * REGION + PAGE);
		munmap(start + bytes - REGION, REGION);
		touch(start, 4 * REGION + PAGE, bytes - REGION, 1000);
		check(start, 4 * REGION + PAGE, bytes - REGION, salt);
	} else
		return 2;
	printf("ok %ld\n", faults() - before);
	return 0;
}
