// Copies the first MiB of a file to another one by copy_file_range, and once more by writing out of a mapping. Nothing of it is in
// the page cache before each.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES (1 << 20)

static void fails(const char *what)
{
	perror(what);
	exit(1);
}

__attribute__((noinline)) static void copies(int from, int to)
{
	for (loff_t in = 0, out = 0; out < BYTES;) {
		if (copy_file_range(from, &in, to, &out, BYTES - out, 0) <= 0)
			fails("copies: copy_file_range");
	}
}

__attribute__((noinline)) static void writes(const char *from, int to)
{
	if (pwrite(to, from, BYTES, BYTES) != BYTES)
		fails("copies: pwrite");
}

int main(int argc, char **argv)
{
	int from = argc > 2 ? open(argv[1], O_RDONLY) : -1;
	int to = from >= 0 ? open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644) : -1;

	if (to < 0)
		fails("copies: two files, please");
	posix_fadvise(from, 0, 0, POSIX_FADV_RANDOM);
	posix_fadvise(from, 0, 0, POSIX_FADV_DONTNEED);
	copies(from, to);
	posix_fadvise(from, 0, 0, POSIX_FADV_DONTNEED);
	char *mapped = mmap(0, BYTES, PROT_READ, MAP_SHARED, from, 0);
	if (mapped == MAP_FAILED)
		fails("copies: mmap");
	writes(mapped, to);
	return 0;
}
