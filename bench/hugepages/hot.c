/* Reads at random one line of each page in the hot part of a large memory, and says how fast it is from moment to moment.
 *
 * usage: hot MIB HOT_PERCENT high|low|spread|sweep SECONDS base|advised|huge
 *   base      on base pages, as nothing is advised (transparent_hugepage/enabled must be madvise)
 *   advised   touched on base pages, then advised to have huge ones: khugepaged's business
 *   huge      huge pages from the first touch on
 * `sweep` in place of high, low or spread reads all of the memory in order: a program that has little of huge pages.
 * SECONDS may be a number of reads, as 300M: then it begins at once, ends after these, and prints nothing but the seconds that they took.
 * Prints `ready`, waits for a line, then `MILLISECONDS READS PROCESSOR_MILLISECONDS` ten times a second: when, counted from that line, and
 * what was read and spent since the line before. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define REGION (2UL << 20)
#define BATCH 20000

static double now(clockid_t clock)
{
	struct timespec time;
	clock_gettime(clock, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
}

static void read_at_random(unsigned char *memory, const size_t *order, size_t hot, uint64_t *seed, uint64_t *reads)
{
	uint64_t state = *seed;
	for (int step = 0; step < BATCH; step++) {
		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		size_t region = order[(state >> 20) % hot];
		/* One line of each page, not the same in all, so that they do not contend for cache sets: what is read fits
		 * into the caches, and translations do not. */
		size_t page = (state >> 3) % 512;
		size_t offset = page * 4096 + ((region * 512 + page) * 37 % 64) * 64;
		/* The next place depends on what is read here: latency counts, not bandwidth. */
		state += *(volatile uint64_t *)(memory + region * REGION + offset) >> 62;
	}
	*seed = state;
	*reads += BATCH;
}

/* The next 4 MiB, line by line. */
static void read_in_order(unsigned char *memory, size_t bytes, uint64_t *reads)
{
	static size_t at;
	for (size_t end = at + (4UL << 20); at < end; at += 64)
		(void)*(volatile uint64_t *)(memory + at);
	*reads += (4UL << 20) / 64;
	at = at < bytes ? at : 0;
}

int main(int count, char **words)
{
	if (count != 6)
		return 2;
	size_t regions = strtoul(words[1], NULL, 10) / 2;
	size_t hot = regions * strtoul(words[2], NULL, 10) / 100;
	double seconds = strtod(words[4], NULL);
	int huge = !strcmp(words[5], "huge");
	unsigned char *start = mmap(NULL, (regions + 1) * REGION, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED || !hot)
		return perror("mmap"), 1;
	unsigned char *memory =
		(unsigned char *)(((uintptr_t)start + REGION - 1) & ~(REGION - 1));
	if (huge && madvise(memory, regions * REGION, MADV_HUGEPAGE))
		return perror("madvise"), 1;
	for (size_t page = 0; page < regions * 512; page++)
		*(uint64_t *)(memory + page * 4096) = page;
	if (!strcmp(words[5], "advised") && madvise(memory, regions * REGION, MADV_HUGEPAGE))
		return perror("madvise"), 1;
	size_t *order = malloc(hot * sizeof(*order));
	if (!order)
		return perror("malloc"), 1;
	for (size_t region = 0; region < hot; region++)
		order[region] = !strcmp(words[3], "high")  ? regions - hot + region :
				!strcmp(words[3], "low")   ? region :
							     region * regions / hot;
	const char *millions = strchr(words[4], 'M');
	if (millions) {
		uint64_t seed = 88172645463325252UL, done = 0, wanted = strtoull(words[4], NULL, 10) * 1000000;
		const double started = now(CLOCK_MONOTONIC);
		while (done < wanted)
			read_at_random(memory, order, hot, &seed, &done);
		printf("%.3f\n", now(CLOCK_MONOTONIC) - started);
		return 0;
	}
	printf("ready\n");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	const int sweep = !strcmp(words[3], "sweep");
	double begin = now(CLOCK_MONOTONIC), next = begin + 0.1, spent = now(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t state = 88172645463325252UL, reads = 0, said = 0;
	while (next < begin + seconds) {
		if (sweep)
			read_in_order(memory, regions * REGION, &reads);
		else
			read_at_random(memory, order, hot, &state, &reads);
		double time = now(CLOCK_MONOTONIC);
		if (time < next)
			continue;
		const double processor = now(CLOCK_PROCESS_CPUTIME_ID);
		printf("%.0f %lu %.1f\n", (time - begin) * 1e3, (unsigned long)(reads - said), (processor - spent) * 1e3);
		said = reads;
		spent = processor;
		next = time + 0.1;
	}
	return 0;
}
