/* Keeps memory resident and maps, touches and unmaps a page over and over: what waits for the lock of an address space
 * while someone looks at its page tables. Prints JSON: ns a round, and the longest round. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void *map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return memory;
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: churn MIB SECONDS\n");
		return 2;
	}
	size_t bytes = strtoul(argv[1], NULL, 10) << 20;
	if (bytes > 0) {
		void *resident = map(bytes);

		madvise(resident, bytes, MADV_NOHUGEPAGE);
		memset(resident, 1, bytes);
	}
	uint64_t begin = now(), end = begin + (uint64_t)(strtod(argv[2], NULL) * 1e9);
	uint64_t rounds = 0, longest = 0, last = begin;
	while (last < end) {
		char *page = map(4096);

		*page = 1;
		munmap(page, 4096);
		uint64_t time = now();
		if (time - last > longest)
			longest = time - last;
		last = time;
		rounds++;
	}
	printf("{\"rounds\": %llu, \"ns_per_round\": %.1f, \"longest_ns\": %llu}\n", (unsigned long long)rounds,
	       (double)(last - begin) / (double)rounds, (unsigned long long)longest);
	return 0;
}
