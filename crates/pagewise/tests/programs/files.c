// Calls on files in known numbers, at known places, by functions named after them. `files FOLDER` makes `FOLDER/data` and
// others there. Results are checked, so that what was recorded can be compared with what is written here.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCKS 64

static char blocks[BLOCKS * BLOCK] __attribute__((aligned(BLOCK)));

#define CHECK(call, expected) check(#call, (call), (expected))

static void check(const char *what, long got, long expected)
{
	if (got != expected) {
		fprintf(stderr, "files: %s: %ld, not %ld (%s)\n", what, got, expected, strerror(errno));
		exit(1);
	}
}

static int open_in(const char *folder, const char *name, int flags)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int file = open(path, flags | O_CREAT, 0644);
	if (file < 0) {
		fprintf(stderr, "files: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	return file;
}

__attribute__((noinline)) static void write_all(int file)
{
	for (int block = 0; block < BLOCKS; block++)
		CHECK(write(file, blocks + block * BLOCK, BLOCK), BLOCK);
}

__attribute__((noinline)) static void read_in_order(int file)
{
	CHECK(lseek(file, 0, SEEK_SET), 0);
	for (int block = 0; block < BLOCKS; block++)
		CHECK(read(file, blocks, BLOCK), BLOCK);
	CHECK(read(file, blocks, BLOCK), 0);
}

__attribute__((noinline)) static void read_anywhere(int file)
{
	for (int call = 0; call < 100; call++)
		CHECK(pread(file, blocks, BLOCK, (call * 37 % BLOCKS) * BLOCK), BLOCK);
}

__attribute__((noinline)) static void vectors(int file)
{
	struct iovec parts[2] = { { blocks, BLOCK }, { blocks + BLOCK, BLOCK } };

	CHECK(lseek(file, 0, SEEK_SET), 0);
	CHECK(readv(file, parts, 2), 2 * BLOCK);
	CHECK(preadv(file, parts, 2, 8 * BLOCK), 2 * BLOCK);
	CHECK(preadv2(file, parts, 2, -1, 0), 2 * BLOCK); // where readv has left the file
	CHECK(pwritev(file, parts, 2, 16 * BLOCK), 2 * BLOCK);
	CHECK(pwrite(file, blocks, BLOCK, 20 * BLOCK), BLOCK);
	CHECK(writev(file, parts, 2), 2 * BLOCK); // at 4 blocks
}

__attribute__((noinline)) static void transfers(int file, int copy)
{
	off_t from = 8 * BLOCK;
	loff_t source = 4 * BLOCK, target = 32 * BLOCK;
	int pipes[2];

	CHECK(sendfile(copy, file, &from, 3 * BLOCK), 3 * BLOCK);
	CHECK(copy_file_range(file, &source, copy, &target, 2 * BLOCK, 0), 2 * BLOCK);
	CHECK(pipe(pipes), 0);
	source = 10 * BLOCK;
	CHECK(splice(file, &source, pipes[1], NULL, BLOCK, 0), BLOCK);
	target = 40 * BLOCK;
	CHECK(splice(pipes[0], NULL, copy, &target, BLOCK, 0), BLOCK);
	close(pipes[0]);
	close(pipes[1]);
}

__attribute__((noinline)) static void append(int file)
{
	for (int line = 0; line < 10; line++)
		CHECK(write(file, blocks, 100), 100);
	CHECK(fdatasync(file), 0);
	CHECK(fsync(file), 0);
}

// Not files: of these nothing is recorded.
__attribute__((noinline)) static void not_files(void)
{
	int pipes[2], sockets[2];

	CHECK(pipe(pipes), 0);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	for (int call = 0; call < 20; call++) {
		CHECK(write(pipes[1], blocks, 64), 64);
		CHECK(read(pipes[0], blocks, 64), 64);
		CHECK(write(sockets[1], blocks, 64), 64);
		CHECK(read(sockets[0], blocks, 64), 64);
	}
	CHECK(read(-1, blocks, 64), -1);
	CHECK(read(1 << 20, blocks, 64), -1);
}

__attribute__((noinline)) static void fails(int write_only, int file)
{
	CHECK(read(write_only, blocks, BLOCK), -1);	// EBADF
	CHECK(pread(file, blocks, BLOCK, -1), -1);	// EINVAL
	char *volatile nowhere = (char *)1; // not for the compiler to see
	CHECK(pread(file, nowhere, BLOCK, 0), -1); // EFAULT
}

__attribute__((noinline)) static void in_memory(void)
{
	int file = memfd_create("scratch", 0);

	CHECK(pwrite(file, blocks, BLOCK, 0), BLOCK);
	CHECK(pread(file, blocks, BLOCK, 0), BLOCK);
	close(file);
}

__attribute__((noinline)) static void without_a_name(const char *folder)
{
	char path[4096];
	int file = open_in(folder, "gone", O_RDWR);

	snprintf(path, sizeof(path), "%s/gone", folder);
	CHECK(unlink(path), 0);
	CHECK(pwrite(file, blocks, BLOCK, 0), BLOCK);
	close(file);
}

// 1: it was done; 0: this file system cannot.
__attribute__((noinline)) static int past_the_cache(const char *folder)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/data", folder);
	int file = open(path, O_RDONLY | O_DIRECT);
	if (file < 0 || pread(file, blocks, BLOCK, BLOCK) != BLOCK)
		return 0;
	close(file);
	return 1;
}

__attribute__((noinline)) static long touch_mapping(int file)
{
	// First out of the page cache, or nothing has to be brought in.
	CHECK(fsync(file), 0);
	CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
	volatile char *bytes = mmap(NULL, BLOCKS * BLOCK, PROT_READ, MAP_SHARED, file, 0);
	long sum = 0;

	for (int block = 0; block < BLOCKS; block++)
		sum += bytes[block * BLOCK];
	munmap((void *)bytes, BLOCKS * BLOCK);
	return sum;
}

__attribute__((noinline)) static void traced(int file)
{
	for (int call = 0; call < 10; call++)
		CHECK(pread(file, blocks, BLOCK, call * BLOCK), BLOCK);
}

// Another tracer stops the child at the begin and the end of each call.
static void under_a_tracer(int file)
{
	int status;
	pid_t child = fork();

	if (!child) {
		CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0), 0);
		raise(SIGSTOP);
		traced(file);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0), child);
	while (!WIFEXITED(status)) {
		CHECK(ptrace(PTRACE_SYSCALL, child, 0, 0), 0);
		CHECK(waitpid(child, &status, 0), child);
	}
}

int main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	const char *folder = arguments[1];
	int file = open_in(folder, "data", O_RDWR | O_TRUNC), copy = open_in(folder, "copy", O_RDWR | O_TRUNC);
	int log = open_in(folder, "log", O_WRONLY | O_APPEND | O_TRUNC);

	write_all(file);
	read_in_order(file);
	read_anywhere(file);
	vectors(file);
	transfers(file, copy);
	append(log);
	not_files();
	fails(log, file);
	in_memory();
	without_a_name(folder);
	under_a_tracer(file);
	int direct = past_the_cache(folder);
	long sum = touch_mapping(file);
	printf("{\"direct\":%d,\"sum\":%ld}\n", direct, sum);
	return 0;
}
