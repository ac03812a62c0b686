// An allocator of its own kind: memory by sbrk and brk, given back and taken anew.
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BYTES ((intptr_t)32 << 20)
#define PASSES 3

static void sweep(volatile char *memory)
{
	for (int pass = 0; pass < PASSES; pass++)
		for (intptr_t at = 0; at < BYTES; at += 4096)
			memory[at]++;
}

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

int main(void)
{
	char *kept = sbrk(BYTES); // line of kept
	check(kept == (void *)-1, "sbrk");
	char *given_back = sbrk(BYTES); // line of given_back
	check(given_back == (void *)-1, "sbrk");
	sweep(kept);
	sweep(given_back);
	check(brk(given_back) != 0, "brk");
	char *reborn = sbrk(BYTES); // line of reborn
	check(reborn != given_back, "sbrk elsewhere");
	sweep(reborn);
	sweep(kept);
	return 0;
}
