// What a cached 4 KiB pread costs: makes FILE of 1 MiB, reads COUNT random blocks of it by a call path of DEPTH frames, at
// most RATE a second (0: as fast as it can), and prints the thread's processor time and the time, both in ns a read.
//
//   preads FILE COUNT DEPTH RATE
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 256
#define BATCH 500

static char block[4096];

static uint64_t ns_of(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static int read_some(int file, int depth, uint64_t *random, long count);
static int (*volatile deeper)(int, int, uint64_t *, long) = read_some; // no compiler makes a loop of it

__attribute__((noinline)) static int read_some(int file, int depth, uint64_t *random, long count)
{
	int read = 0;

	if (depth > 1)
		return deeper(file, depth - 1, random, count) + 1;
	for (long done = 0; done < count; done++) {
		*random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
		read += pread(file, block, sizeof(block), *random % BLOCKS * sizeof(block)) == sizeof(block);
	}
	return read;
}

int main(int count, char **arguments)
{
	if (count != 5)
		return 2;
	int file = open(arguments[1], O_RDWR | O_CREAT, 0644), depth = atoi(arguments[3]);
	long reads = atol(arguments[2]), rate = atol(arguments[4]);
	uint64_t random = 88172645463325252ULL;

	for (int made = 0; made < BLOCKS; made++) {
		if (file < 0 || pwrite(file, block, sizeof(block), made * sizeof(block)) != sizeof(block))
			return 1;
	}
	read_some(file, depth, &random, BATCH); // learns the way
	usleep(50000);
	uint64_t cpu = ns_of(CLOCK_THREAD_CPUTIME_ID), begin = ns_of(CLOCK_MONOTONIC);
	for (long done = 0; done < reads; done += BATCH) {
		if (read_some(file, depth, &random, BATCH) != BATCH + depth - 1)
			return 1;
		while (rate && (ns_of(CLOCK_MONOTONIC) - begin) * (double)rate < (done + BATCH) * 1e9)
			;
	}
	printf("%.1f %.1f\n", (double)(ns_of(CLOCK_THREAD_CPUTIME_ID) - cpu) / reads,
	       (double)(ns_of(CLOCK_MONOTONIC) - begin) / reads);
	return 0;
}
