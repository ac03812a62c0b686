/* Touches fresh memory in order, a byte of each base page. usage: touch MIB [single]. Prints seconds, page faults, and of the slowest
 * of a thousand regions of 2 MiB (p99.9) and the median one how long they took, ns; with `single` besides of the slowest of a thousand
 * touches, which are timed then. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define PAGE 4096UL
#define REGION (2UL << 20)

static uint64_t now_ns(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static long faults(void)
{
	struct rusage usage;
	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int main(int count, char **words)
{
	if (count != 2 && count != 3)
		return 2;
	const size_t bytes = strtoul(words[1], NULL, 10) << 20, regions = bytes / REGION;
	const size_t touches = count == 3 ? bytes / PAGE : 0;
	uint64_t *took = calloc(regions, sizeof *took), *each = calloc(touches + 1, sizeof *each);
	volatile char *memory = malloc(bytes);
	if (took == NULL || each == NULL || memory == NULL)
		return 1;
	/* Not within what is timed. */
	for (size_t touch = 0; touch < touches; touch++)
		each[touch] = 1;
	const long faults_before = faults();
	const uint64_t began = now_ns();
	for (size_t region = 0; region < regions; region++) {
		const uint64_t begin = now_ns();
		for (size_t at = 0; at < REGION; at += PAGE) {
			const uint64_t before = touches ? now_ns() : 0;
			memory[region * REGION + at] = 1;
			if (touches)
				each[(region * REGION + at) / PAGE] = now_ns() - before;
		}
		took[region] = now_ns() - begin;
	}
	const uint64_t all = now_ns() - began;
	const long raised = faults() - faults_before;
	qsort(took, regions, sizeof *took, by_value);
	printf("%.6f %ld %lu %lu", (double)all / 1e9, raised, took[regions * 999 / 1000], took[regions / 2]);
	if (touches) {
		qsort(each, touches, sizeof *each, by_value);
		printf(" %lu %lu", each[touches * 999 / 1000], each[touches - 1]);
	}
	printf("\n");
	return 0;
}
