// Calls on files in known numbers, by functions named after how they are made, and what whoever watches must not change: `told KIND FILE`.
// Kinds: ways (threads, a child, another program, streams), unharmed (errno, descriptors, handlers, cancellation), paused (the recorder).
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCKS 64
#define THREADS 4
#define OF_EACH_THREAD 500
#define PAUSED_CALLS 300000

#define CHECK(condition) check(#condition, (condition))

static void check(const char *what, int holds)
{
	if (!holds) {
		fprintf(stderr, "told: not so: %s (%s)\n", what, strerror(errno));
		exit(1);
	}
}

static int file;

__attribute__((noinline)) static void *by_thread(void *argument)
{
	char block[BLOCK];

	for (long call = 0; call < OF_EACH_THREAD; call++)
		CHECK(pread(file, block, BLOCK, (call + (long)argument) % BLOCKS * BLOCK) == BLOCK);
	return NULL;
}

static void with_threads(void)
{
	pthread_t threads[THREADS];

	for (long thread = 0; thread < THREADS; thread++)
		CHECK(!pthread_create(&threads[thread], NULL, by_thread, (void *)thread));
	for (int thread = 0; thread < THREADS; thread++)
		CHECK(!pthread_join(threads[thread], NULL));
}

__attribute__((noinline)) static void by_child(void)
{
	char block[BLOCK];

	for (int call = 0; call < 100; call++)
		CHECK(pread(file, block, BLOCK, call % BLOCKS * BLOCK) == BLOCK);
}

__attribute__((noinline)) static void after_exec(void)
{
	char block[BLOCK];

	for (int call = 0; call < 50; call++)
		CHECK(pread(file, block, BLOCK, call * BLOCK) == BLOCK);
}

static void wait_for(pid_t child)
{
	int status;

	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void with_children(const char *program, const char *path)
{
	pid_t child = fork();

	if (!child) {
		by_child();
		_exit(0);
	}
	wait_for(child);
	child = fork();
	if (!child) {
		execl(program, program, "again", path, NULL);
		_exit(1);
	}
	wait_for(child);
}

__attribute__((noinline)) static void by_stream(FILE *stream)
{
	char block[BLOCK];

	for (int call = 0; call < BLOCKS; call++)
		CHECK(fread(block, 1, BLOCK, stream) == BLOCK);
}

__attribute__((noinline)) static void by_line(FILE *stream)
{
	char *line = NULL;
	size_t room = 0;

	while (getdelim(&line, &room, '\n', stream) > 0)
		;
	free(line);
}

static void with_streams(const char *path)
{
	FILE *stream = fopen(path, "r");

	CHECK(stream != NULL);
	by_stream(stream);
	rewind(stream);
	by_line(stream);
	fclose(stream);
}

static volatile sig_atomic_t handled;
static int handlers_file;

__attribute__((noinline)) static void in_handler(int signal)
{
	int errno_before = errno;

	(void)signal;
	if (pwrite(handlers_file, "x", 1, handled) != 1)
		_exit(3);
	handled++;
	errno = errno_before;
}

// Allocates and reads while signals come.
static void with_handlers(const char *path)
{
	struct sigaction action = { .sa_handler = in_handler, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
	char name[4096], block[BLOCK];

	snprintf(name, sizeof(name), "%s.handled", path);
	handlers_file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
	CHECK(handlers_file >= 0);
	CHECK(!sigaction(SIGALRM, &action, NULL));
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	while (handled < 500) {
		void *volatile memory = malloc(100 << 10);

		CHECK(pread(file, block, BLOCK, 0) == BLOCK);
		free(memory);
	}
	CHECK(!setitimer(ITIMER_REAL, &never, NULL));
	CHECK(handled == lseek(handlers_file, 0, SEEK_END));
}

static void keeps_errno(void)
{
	char block[BLOCK];

	for (int call = 0; call < 100; call++) {
		errno = 1234;
		CHECK(pread(file, block, BLOCK, 0) == BLOCK);
		CHECK(errno == 1234);
		CHECK(pread(file, block, BLOCK, -1) == -1 && errno == EINVAL);
		CHECK(read(-1, block, BLOCK) == -1 && errno == EBADF);
	}
}

static void leaves_descriptors(const char *path)
{
	int first = open(path, O_RDONLY), next;

	by_child();
	next = open(path, O_RDONLY);
	CHECK(first == file + 1 && next == file + 2);
	close(next);
	close(first);
}

static int pipes[2];

static void *waits_for_ever(void *argument)
{
	char byte;

	CHECK(read(pipes[0], &byte, 1) == 1);
	return argument;
}

static void can_be_cancelled(void)
{
	pthread_t thread;
	void *result;

	CHECK(!pipe(pipes));
	CHECK(!pthread_create(&thread, NULL, waits_for_ever, NULL));
	CHECK(!pthread_cancel(thread));
	CHECK(!pthread_join(thread, &result));
	CHECK(result == PTHREAD_CANCELED);
}

// While who records is stopped, nothing is read of what is told.
__attribute__((noinline)) static void while_nobody_listens(void)
{
	char byte;

	// So that it has been told of who it is.
	by_child();
	CHECK(!kill(getppid(), SIGSTOP));
	for (int call = 0; call < PAUSED_CALLS; call++)
		if (pread(file, &byte, 1, call % BLOCK) != 1)
			break;
	CHECK(!kill(getppid(), SIGCONT));
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	const char *kind = arguments[1], *path = arguments[2];

	file = open(path, O_RDONLY);
	CHECK(file >= 0);
	if (!strcmp(kind, "again")) {
		after_exec();
	} else if (!strcmp(kind, "ways")) {
		with_threads();
		with_children(arguments[0], path);
		with_streams(path);
	} else if (!strcmp(kind, "unharmed")) {
		leaves_descriptors(path);
		keeps_errno();
		can_be_cancelled();
		with_handlers(path);
		printf("%d\n", (int)handled);
	} else if (!strcmp(kind, "paused")) {
		while_nobody_listens();
	} else {
		return 2;
	}
	return 0;
}
