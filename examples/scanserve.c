// A scanner and a server that share the page cache: the scanner reads a big file once, from its begin to its end; the
// server reads random blocks of a small file, and says how long these reads took. What the scanner leaves in the page
// cache nobody needs, and it pushes out what the server does.
//
//   scanserve [-m BIG,HOT] [-r READS] [-s SCANS] [-w US] BIG_FILE HOT_FILE
//     -m  first make the files, of so many MiB
//     -r  so many reads by the server [0: until the scanner has ended]
//     -s  so many scans of the big file [1]; 0: only the server runs
//     -w  the server waits so many microseconds after each read [0]
//
// The last line is one of JSON: {"scan_seconds":..,"serve_reads":..,"serve_p50_ns":..,"serve_p99_ns":..,"serve_max_ns":..}
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SCAN_BYTES (128 << 10)
#define BLOCK_BYTES 4096
#define MOST_LATENCIES (1 << 22)

static const char *big_path, *hot_path;
static long scans = 1, reads_wanted, wait_us;
static atomic_bool scan_has_ended;
static double scan_seconds;
static uint64_t *latencies;
static long reads_done;

static void fail(const char *what)
{
	fprintf(stderr, "scanserve: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void make_file(const char *path, long mebibytes)
{
	static char block[1 << 20];
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (file < 0)
		fail(path);
	for (long done = 0; done < mebibytes; done++) {
		memset(block, (int)(done + 1), sizeof(block));
		if (write(file, block, sizeof(block)) != (ssize_t)sizeof(block))
			fail(path);
	}
	if (fsync(file))
		fail(path);
	// What was just written shall not be in the page cache already.
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	close(file);
}

__attribute__((noinline)) static uint64_t scan_file(int file)
{
	static char buffer[SCAN_BYTES];
	uint64_t sum = 0;
	ssize_t got;

	while ((got = read(file, buffer, sizeof(buffer))) > 0) {
		for (ssize_t at = 0; at < got; at += 512)
			sum += (unsigned char)buffer[at];
	}
	if (got < 0)
		fail(big_path);
	return sum;
}

__attribute__((noinline)) static unsigned char serve_block(int file, uint64_t block)
{
	char buffer[BLOCK_BYTES];

	if (pread(file, buffer, sizeof(buffer), block * BLOCK_BYTES) != BLOCK_BYTES)
		fail(hot_path);
	return buffer[block % BLOCK_BYTES];
}

static void *scanner(void *sum)
{
	uint64_t begin = now_ns();

	for (long scan = 0; scan < scans; scan++) {
		int file = open(big_path, O_RDONLY);
		if (file < 0)
			fail(big_path);
		*(uint64_t *)sum += scan_file(file);
		close(file);
	}
	scan_seconds = (now_ns() - begin) / 1e9;
	scan_has_ended = true;
	return NULL;
}

static void *server(void *sum)
{
	int file = open(hot_path, O_RDONLY);
	uint64_t random = 88172645463325252ULL;

	if (file < 0)
		fail(hot_path);
	uint64_t blocks = lseek(file, 0, SEEK_END) / BLOCK_BYTES;
	if (!blocks)
		fail(hot_path);
	while (reads_wanted ? reads_done < reads_wanted : !scan_has_ended) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		uint64_t begin = now_ns();
		*(uint64_t *)sum += serve_block(file, random % blocks);
		latencies[reads_done++ % MOST_LATENCIES] = now_ns() - begin;
		if (wait_us)
			usleep(wait_us);
	}
	close(file);
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static uint64_t quantile(long count, double share)
{
	return count ? latencies[(long)((count - 1) * share)] : 0;
}

int main(int count, char **arguments)
{
	long big_mebibytes = 0, hot_mebibytes = 0;
	int option;

	while ((option = getopt(count, arguments, "m:r:s:w:")) != -1) {
		if (option == 'm' && sscanf(optarg, "%ld,%ld", &big_mebibytes, &hot_mebibytes) == 2)
			continue;
		if (option == 'r')
			reads_wanted = atol(optarg);
		else if (option == 's')
			scans = atol(optarg);
		else if (option == 'w')
			wait_us = atol(optarg);
		else
			return 2;
	}
	if (count - optind != 2) {
		fprintf(stderr, "usage: scanserve [-m BIG,HOT] [-r READS] [-s SCANS] [-w US] BIG_FILE HOT_FILE\n");
		return 2;
	}
	big_path = arguments[optind];
	hot_path = arguments[optind + 1];
	if (big_mebibytes) {
		make_file(big_path, big_mebibytes);
		make_file(hot_path, hot_mebibytes);
	}
	latencies = malloc(MOST_LATENCIES * sizeof(*latencies));
	if (!latencies)
		fail("memory");
	pthread_t threads[2];
	uint64_t sums[2] = { 0, 0 };
	if (pthread_create(&threads[0], NULL, scanner, &sums[0]) || pthread_create(&threads[1], NULL, server, &sums[1]))
		fail("threads");
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	long kept = reads_done < MOST_LATENCIES ? reads_done : MOST_LATENCIES;
	qsort(latencies, kept, sizeof(*latencies), by_size);
	fprintf(stderr, "scanserve: sums %llu %llu\n", (unsigned long long)sums[0], (unsigned long long)sums[1]);
	printf("{\"scan_seconds\":%.3f,\"serve_reads\":%ld,\"serve_p50_ns\":%llu,\"serve_p99_ns\":%llu,\"serve_max_ns\":%llu}\n",
	       scan_seconds, reads_done, (unsigned long long)quantile(kept, 0.5), (unsigned long long)quantile(kept, 0.99),
	       (unsigned long long)quantile(kept, 1.0));
	return 0;
}
