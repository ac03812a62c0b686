/* Reads at random one line of each page in the hot part of a large memory, and says how fast it is from moment to moment.
 *
 * usage: hot MIB HOT_PERCENT high|low|spread SECONDS base|advised|huge
 *   base      on base pages, as nothing is advised (transparent_hugepage/enabled must be madvise)
 *   advised   touched on base pages, then advised to have huge ones: khugepaged's business
 *   huge      huge pages from the first touch on
 * Prints `ready`, waits for a line, then `MILLISECONDS READS` ten times a second, counted from that line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define REGION (2UL << 20)
#define BATCH 20000

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec * 1e-9;
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
	printf("ready\n");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	double begin = now(), next = begin + 0.1;
	uint64_t state = 88172645463325252UL, reads = 0, said = 0;
	while (next < begin + seconds) {
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
		reads += BATCH;
		double time = now();
		if (time < next)
			continue;
		printf("%.0f %lu\n", (time - begin) * 1e3, (unsigned long)(reads - said));
		said = reads;
		next = time + 0.1;
	}
	return 0;
}
