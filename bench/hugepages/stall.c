/* How long page faults take beside much memory. usage: stall MIB SECONDS. Touches so much, prints `ready`, waits for a line, then maps, touches
 * and unmaps a page all the time. Prints faults, and of them the median, 99.9 % and the longest, ns. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096UL
#define MOST 40000000UL

static uint64_t now_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	const size_t bytes = strtoul(words[1], NULL, 10) << 20;
	const uint64_t length = strtoul(words[2], NULL, 10) * 1000000000;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t *took = mmap(NULL, MOST * sizeof *took, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED || page == MAP_FAILED || took == MAP_FAILED)
		return perror("mmap"), 1;
	for (size_t at = 0; at < bytes; at += PAGE)
		memory[at] = 1;
	printf("ready\n");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	size_t faults = 0;
	for (uint64_t begin = now_ns(), end = begin + length; begin < end && faults < MOST; begin = now_ns()) {
		*(volatile char *)page = 1;
		took[faults++] = (uint32_t)(now_ns() - begin);
		if (madvise(page, PAGE, MADV_DONTNEED))
			return perror("madvise"), 1;
	}
	qsort(took, faults, sizeof *took, by_value);
	printf("%zu %u %u %u\n", faults, took[faults / 2], took[faults * 999 / 1000], took[faults - 1]);
	return 0;
}
