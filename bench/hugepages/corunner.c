/* What zeroing on one processor costs a program on another one, whose memory fits into the caches.
 *
 * usage: corunner SECONDS ZEROED_MIB_A_SECOND CACHED_MIB
 * Prints, for each way of zeroing, its name, reads a second of the program, and MiB zeroed a second:
 *   idle          nothing is zeroed
 *   kernel        huge pages are made ready by madvise(MADV_POPULATE_WRITE) and given back, as `prezero` does
 *   ordinary      memory that is there is zeroed by ordinary stores
 *   nontemporal   by stores that go around the caches */
#include <emmintrin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define REGION (2UL << 20)
#define REGIONS 64UL
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static char *zeroed;
static atomic_int over;
static atomic_ulong done;
static double regions_a_second;

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void by_kernel(char *region)
{
	if (madvise(region, REGION, MADV_POPULATE_WRITE) || madvise(region, REGION, MADV_DONTNEED))
		perror("madvise"), exit(1);
}

static void by_ordinary_stores(char *region)
{
	memset(region, 0, REGION);
	__asm__ volatile("" ::: "memory");
}

static void by_nontemporal_stores(char *region)
{
	const __m128i zero = _mm_setzero_si128();
	for (size_t at = 0; at < REGION; at += sizeof zero)
		_mm_stream_si128((__m128i *)(region + at), zero);
	_mm_sfence();
}

static void *zero_all_the_time(void *way)
{
	void (*zero)(char *) = (void (*)(char *))way;
	const double began = now();
	for (unsigned long count = 0; !over; count++) {
		zero(zeroed + count % REGIONS * REGION);
		done = count + 1;
		const double early = began + (double)(count + 1) / regions_a_second - now();
		if (early > 0) {
			struct timespec wait = { 0, (long)(early * 1e9) };
			nanosleep(&wait, NULL);
		}
	}
	return NULL;
}

static double reads_a_second(const uint64_t *memory, size_t lines, double seconds)
{
	uint64_t state = 88172645463325252UL, reads = 0;
	const double began = now();
	double time;
	do {
		for (int step = 0; step < 20000; step++) {
			state ^= state << 13, state ^= state >> 7, state ^= state << 17;
			state += *(volatile const uint64_t *)(memory + state % lines * 8) >> 62;
		}
		reads += 20000;
		time = now();
	} while (time < began + seconds);
	return (double)reads / (time - began);
}

int main(int count, char **words)
{
	if (count != 4)
		return 2;
	const double seconds = strtod(words[1], NULL);
	regions_a_second = strtod(words[2], NULL) / 2;
	const size_t bytes = strtoul(words[3], NULL, 10) << 20;
	static const struct {
		const char *name;
		void (*zero)(char *);
	} ways[] = { { "idle", NULL }, { "kernel", by_kernel }, { "ordinary", by_ordinary_stores }, { "nontemporal", by_nontemporal_stores } };

	uint64_t *memory = aligned_alloc(REGION, bytes);
	zeroed = aligned_alloc(REGION, REGIONS * REGION);
	if (!memory || !zeroed || madvise(memory, bytes, MADV_HUGEPAGE) || madvise(zeroed, REGIONS * REGION, MADV_HUGEPAGE))
		return perror("memory"), 1;
	memset(memory, 1, bytes);
	for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
		pthread_t thread;
		over = 0;
		done = 0;
		memset(zeroed, 1, REGIONS * REGION);
		if (ways[way].zero == by_kernel && madvise(zeroed, REGIONS * REGION, MADV_DONTNEED))
			return perror("madvise"), 1;
		reads_a_second(memory, bytes / 64, 0.2);
		const double began = now();
		if (ways[way].zero && pthread_create(&thread, NULL, zero_all_the_time, (void *)ways[way].zero))
			return 1;
		const double speed = reads_a_second(memory, bytes / 64, seconds);
		over = 1;
		if (ways[way].zero)
			pthread_join(thread, NULL);
		printf("%s %.0f %.0f\n", ways[way].name, speed, (double)done * 2 / (now() - began));
	}
	return 0;
}
