/* Reads a few pages of a file that is not cached, by calls whose range is told by something in the program's memory. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096
#define MIB (1 << 20)

static char pages[2][PAGE];

static int without_cache(const char *path)
{
	int file = open(path, O_RDONLY);

	if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		exit(1);
	return file;
}

__attribute__((noinline)) static void by_vector(int file)
{
	struct iovec vectors[2] = { { pages[0], PAGE }, { pages[1], PAGE } };

	if (preadv(file, vectors, 2, 0) != 2 * PAGE) /* from the begin: the kernel reads ahead */
		exit(2);
}

__attribute__((noinline)) static void by_sendfile(int file, int to)
{
	off_t offset = 2 * MIB;

	if (sendfile(to, file, &offset, 3 * PAGE) != 3 * PAGE)
		exit(3);
}

int main(int count, char **arguments)
{
	int to = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (count < 2 || to < 0)
		return 1;
	by_vector(without_cache(arguments[1]));
	by_sendfile(without_cache(arguments[1]), to);
	return 0;
}
