// Requests of io_uring in known numbers, at known places, submitted by functions named after them; by system calls alone. `uring FILE`
// reads and writes the file, which has at least 64 blocks; `uring FILE polled` lets a thread of the kernel submit. Says `no io_uring`
// where the kernel refuses one.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCKS 64
#define ENTRIES 64

static char blocks[BLOCKS * BLOCK] __attribute__((aligned(BLOCK)));

static struct ring {
	int descriptor;
	unsigned flags;
	unsigned *tail, *mask, *array, *wakeup;
	unsigned *results_head, *results_tail, *results_mask;
	struct io_uring_sqe *requests;
	struct io_uring_cqe *results;
	unsigned queued;
} ring;

static void fails(const char *what)
{
	fprintf(stderr, "uring: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *map(size_t bytes, off_t what)
{
	void *at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.descriptor, what);

	if (at == MAP_FAILED)
		fails("mmap");
	return at;
}

static void make_ring(unsigned flags)
{
	struct io_uring_params made = { .flags = flags, .sq_thread_idle = 2000 };

	ring.descriptor = syscall(__NR_io_uring_setup, ENTRIES, &made);
	if (ring.descriptor < 0) {
		printf("no io_uring\n");
		exit(0);
	}
	ring.flags = flags;
	char *queue = map(made.sq_off.array + made.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	char *results =
		map(made.cq_off.cqes + made.cq_entries * sizeof(struct io_uring_cqe), IORING_OFF_CQ_RING);
	ring.tail = (unsigned *)(queue + made.sq_off.tail);
	ring.mask = (unsigned *)(queue + made.sq_off.ring_mask);
	ring.array = (unsigned *)(queue + made.sq_off.array);
	ring.wakeup = (unsigned *)(queue + made.sq_off.flags);
	ring.results_head = (unsigned *)(results + made.cq_off.head);
	ring.results_tail = (unsigned *)(results + made.cq_off.tail);
	ring.results_mask = (unsigned *)(results + made.cq_off.ring_mask);
	ring.results = (struct io_uring_cqe *)(results + made.cq_off.cqes);
	ring.requests = map(made.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
}

static struct io_uring_sqe *queue(int opcode, int file, void *buffer, unsigned length, uint64_t offset)
{
	unsigned at = *ring.tail & *ring.mask;
	struct io_uring_sqe *request = &ring.requests[at];

	memset(request, 0, sizeof(*request));
	request->opcode = opcode;
	request->fd = file;
	request->addr = (uintptr_t)buffer;
	request->len = length;
	request->off = offset;
	ring.array[at] = at;
	__atomic_store_n(ring.tail, *ring.tail + 1, __ATOMIC_RELEASE);
	ring.queued++;
	return request;
}

static unsigned submitted(void)
{
	unsigned number = ring.queued;

	ring.queued = 0;
	return number;
}

static unsigned how_to_enter(void)
{
	bool sleeps = ring.flags & IORING_SETUP_SQPOLL &&
		      __atomic_load_n(ring.wakeup, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP;

	return IORING_ENTER_GETEVENTS | (sleeps ? IORING_ENTER_SQ_WAKEUP : 0);
}

static void take_results(unsigned number, long entered, long expected)
{
	if (entered < 0)
		fails("io_uring_enter");
	for (; number; number--) {
		unsigned head = *ring.results_head;

		if (head == __atomic_load_n(ring.results_tail, __ATOMIC_ACQUIRE))
			fails("a result is missing");
		long result = ring.results[head & *ring.results_mask].res;
		if (result != expected) {
			fprintf(stderr, "uring: %ld, not %ld\n", result, expected);
			exit(1);
		}
		__atomic_store_n(ring.results_head, head + 1, __ATOMIC_RELEASE);
	}
}

// Submits what is queued, and takes as many results: each as expected. No function, so that who calls it is who submits.
#define submit(expected)                                                                                                      \
	do {                                                                                                                  \
		unsigned number = submitted();                                                                                \
		take_results(number,                                                                                          \
			     syscall(__NR_io_uring_enter, ring.descriptor, number, number, how_to_enter(), 0, 0), expected); \
	} while (0)

__attribute__((noinline)) static void read_in_order(int file)
{
	for (int block = 0; block < BLOCKS; block++) {
		queue(IORING_OP_READ, file, blocks, BLOCK, (uint64_t)block * BLOCK);
		submit(BLOCK);
	}
}

// Eight at a time.
__attribute__((noinline)) static void read_anywhere(int file)
{
	for (int call = 0; call < 96; call++) {
		queue(IORING_OP_READ, file, blocks, BLOCK, (uint64_t)(call * 37 % BLOCKS) * BLOCK);
		if (call % 8 == 7)
			submit(BLOCK);
	}
}

__attribute__((noinline)) static void write_all(int file)
{
	for (int block = 0; block < BLOCKS; block++) {
		queue(IORING_OP_WRITE, file, blocks, BLOCK, (uint64_t)block * BLOCK);
		submit(BLOCK);
	}
}

__attribute__((noinline)) static void syncs(int file)
{
	queue(IORING_OP_FSYNC, file, 0, 0, 0);
	submit(0);
	queue(IORING_OP_FSYNC, file, 0, 0, 0)->fsync_flags = IORING_FSYNC_DATASYNC;
	submit(0);
}

__attribute__((noinline)) static void vectors(int file)
{
	struct iovec parts[2] = { { blocks, BLOCK }, { blocks + BLOCK, BLOCK } };

	queue(IORING_OP_READV, file, parts, 2, 8 * BLOCK);
	submit(2 * BLOCK);
	queue(IORING_OP_WRITEV, file, parts, 2, 16 * BLOCK);
	submit(2 * BLOCK);
}

// By the file's own position, and at its end.
__attribute__((noinline)) static void at_position(int file)
{
	if (lseek(file, 3 * BLOCK, SEEK_SET) < 0)
		fails("lseek");
	queue(IORING_OP_READ, file, blocks, BLOCK, -1);
	submit(BLOCK);
	queue(IORING_OP_READ, file, blocks, BLOCK, -1);
	submit(BLOCK);
}

__attribute__((noinline)) static void append(const char *path)
{
	int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_TRUNC, 0644);

	for (int line = 0; line < 10; line++) {
		queue(IORING_OP_WRITE, file, blocks, 100, 0);
		submit(100);
	}
	close(file);
}

// The descriptor and the buffer are registered, and known by their index.
__attribute__((noinline)) static void registered(int file)
{
	struct iovec buffer = { blocks, sizeof(blocks) };

	if (syscall(__NR_io_uring_register, ring.descriptor, IORING_REGISTER_FILES, &file, 1) < 0 ||
	    syscall(__NR_io_uring_register, ring.descriptor, IORING_REGISTER_BUFFERS, &buffer, 1) < 0)
		fails("io_uring_register");
	for (int block = 0; block < 4; block++) {
		queue(IORING_OP_READ_FIXED, 0, blocks, BLOCK, (uint64_t)block * BLOCK)->flags =
			IOSQE_FIXED_FILE;
		submit(BLOCK);
	}
}

__attribute__((noinline)) static void fails_to(int file)
{
	queue(IORING_OP_READ, file, (void *)1, BLOCK, 0);
	submit(-EFAULT);
}

__attribute__((noinline)) static void not_files(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		fails("socketpair");
	queue(IORING_OP_WRITE, pair[0], blocks, 1, 0);
	submit(1);
	queue(IORING_OP_READ, pair[1], blocks, 1, 0);
	submit(1);
	queue(IORING_OP_NOP, -1, 0, 0, 0);
	submit(0);
}

__attribute__((noinline)) static void polled(int file)
{
	for (int block = 0; block < BLOCKS; block++) {
		queue(IORING_OP_READ, file, blocks, BLOCK, (uint64_t)block * BLOCK);
		submit(BLOCK);
	}
}

int main(int argc, char **argv)
{
	int file = argc > 1 ? open(argv[1], O_RDWR) : -1;
	char log[4096];

	if (file < 0)
		fails("a file, please");
	if (argc > 2) {
		make_ring(IORING_SETUP_SQPOLL);
		polled(file);
		return 0;
	}
	make_ring(0);
	posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
	read_in_order(file);
	read_anywhere(file);
	write_all(file);
	syncs(file);
	vectors(file);
	at_position(file);
	snprintf(log, sizeof(log), "%s.log", argv[1]);
	append(log);
	registered(file);
	fails_to(file);
	not_files();
	return 0;
}
