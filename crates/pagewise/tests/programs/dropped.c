/* Its pages are written to swap, come back by being read, and leave again clean: the second time without a write,
 * where swap keeps them in its cache. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 32 };

static void quiet(void)
{
	usleep(1000000);
}

static char read_all(volatile char *memory)
{
	char sum = 0;

	for (int page = 0; page < PAGES; page++)
		sum = (char)(sum + memory[(size_t)page * PAGE]);
	return sum;
}

/* How many of its pages are in swap: bit 62 of their entries (Documentation/admin-guide/mm/pagemap.rst). */
static int swapped(const char *memory)
{
	uint64_t entries[PAGES];
	int file = open("/proc/self/pagemap", O_RDONLY), count = 0;
	off_t at = (off_t)((uintptr_t)memory / PAGE * sizeof(entries[0]));

	if (file < 0 || pread(file, entries, sizeof(entries), at) != (ssize_t)sizeof(entries))
		return -1;
	close(file);
	for (int page = 0; page < PAGES; page++)
		count += (int)(entries[page] >> 62 & 1);
	return count;
}

/* A page that is being looked at just then stays: ask again. */
static int page_out(char *memory)
{
	for (int attempt = 0; attempt < 100; attempt++) {
		if (madvise(memory, (size_t)PAGES * PAGE, MADV_PAGEOUT) < 0)
			return -1;
		if (swapped(memory) == PAGES)
			return 0;
		usleep(10000);
	}
	return -1;
}

int main(void)
{
	size_t bytes = (size_t)PAGES * PAGE;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	/* Pages that another processor is still to put on a list cannot be paged out. */
	if (sched_setaffinity(0, sizeof(one), &one) < 0)
		return 5;
	char *clean = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (clean == MAP_FAILED || madvise(clean, bytes, MADV_NOHUGEPAGE) < 0)
		return 1;
	memset(clean, 'x', bytes);
	if (page_out(clean) < 0)
		return 2;
	quiet();
	if (read_all(clean) == 1)
		return 3;
	quiet();
	if (page_out(clean) < 0)
		return 4;
	quiet();
	return 0;
}
