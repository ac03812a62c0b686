// One function writes two kinds of files: logs, which nobody reads, and tables, which are read back at once.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE (128 << 10)
#define LOGS 8
#define PIECES_OF_LOG 128
#define TABLES 2
#define PIECES_OF_TABLE 448

static char piece[PIECE];

/* Logs are on the disk when they are written: pages that are not stay in the page cache, however fast somebody would let them go. */
static int opened(const char *kind, int number, int how)
{
	char name[32];

	snprintf(name, sizeof(name), "%s.%d", kind, number);
	int file = open(name, O_RDWR | O_CREAT | O_TRUNC | how, 0644);
	if (file < 0)
		exit(1);
	return file;
}

__attribute__((noinline)) static void put(int file, int at)
{
	if (pwrite(file, piece, PIECE, (off_t)at * PIECE) != PIECE)
		exit(1);
}

__attribute__((noinline)) static void get_back(int file, int at)
{
	if (pread(file, piece, PIECE, (off_t)at * PIECE) != PIECE)
		exit(1);
}

/* Its two jobs come from one place of the code. */
int main(void)
{
	const char *const kinds[] = { "log", "table" };
	const int how[] = { O_DSYNC, 0 };
	const int numbers[] = { LOGS, TABLES }, pieces[] = { PIECES_OF_LOG, PIECES_OF_TABLE };

	for (volatile int kind = 0; kind < 2; kind++) {
		for (int number = 0; number < numbers[kind]; number++) {
			int file = opened(kinds[kind], number, how[kind]);

			for (int at = 0; at < pieces[kind]; at++)
				put(file, at);
			for (int at = 0; kind == 1 && at < pieces[kind]; at++)
				get_back(file, at);
			close(file);
		}
	}
	return 0;
}
