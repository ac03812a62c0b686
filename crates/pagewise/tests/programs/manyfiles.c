// Makes `COUNT` files in `FOLDER`, keeps all of them open, and reads each twice by its descriptor.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	int files = atoi(arguments[2]);
	struct rlimit limit = { files + 64, files + 64 };
	char path[4096], byte;

	if (setrlimit(RLIMIT_NOFILE, &limit)) {
		perror("manyfiles: setrlimit");
		return 1;
	}
	int *open_files = calloc(files, sizeof(*open_files));
	for (int file = 0; file < files; file++) {
		snprintf(path, sizeof(path), "%s/file%d", arguments[1], file);
		open_files[file] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
		if (open_files[file] < 0 || write(open_files[file], "x", 1) != 1) {
			perror(path);
			return 1;
		}
	}
	for (int pass = 0; pass < 2; pass++) {
		for (int file = 0; file < files; file++) {
			if (pread(open_files[file], &byte, 1, 0) != 1)
				return 1;
		}
	}
	return 0;
}
