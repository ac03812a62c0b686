// Reads `FILE` at random places until it is killed, 4 KiB each time.
#include <fcntl.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	char block[4096];
	unsigned random = 1;
	int file = count == 2 ? open(arguments[1], O_RDONLY) : -1;
	long blocks = file < 0 ? 0 : lseek(file, 0, SEEK_END) / (long)sizeof(block);

	if (blocks < 1)
		return 1;
	for (;;) {
		random = random * 1664525 + 1013904223;
		if (pread(file, block, sizeof(block), random / 65536 % blocks * sizeof(block)) != sizeof(block))
			return 1;
		usleep(100);
	}
}
