/* Leaves free memory in pieces: takes so much, and gives back all but some base pages of each 2 MiB, which it keeps until it is killed.
 * What is kept can be moved by compaction, as page cache can be. usage: fragment MIB. Prints `ready`, then waits. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL
#define REGION (2UL << 20)
#define KEPT 8UL

int main(int count, char **words)
{
	if (count != 2)
		return 2;
	const size_t bytes = strtoul(words[1], NULL, 10) << 20;
	char *memory = mmap(NULL, bytes + REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return perror("mmap"), 1;
	memory = (char *)(((uintptr_t)memory + REGION - 1) & ~(REGION - 1));
	/* A huge page of which parts are given back would stay whole until memory is short. The kernel hands base pages out
	 * in order, so that neighbours here are mostly neighbours in the machine's memory. */
	if (madvise(memory, bytes, MADV_NOHUGEPAGE))
		return perror("madvise"), 1;
	for (size_t at = 0; at < bytes; at += PAGE)
		memory[at] = 1;
	for (size_t at = 0; at < bytes; at += REGION)
		for (size_t page = 0; page < 512; page += 512 / KEPT)
			if (madvise(memory + at + (page + 1) * PAGE, (512 / KEPT - 1) * PAGE, MADV_DONTNEED))
				return perror("madvise"), 1;
	printf("ready\n");
	fflush(stdout);
	pause();
	return 0;
}
