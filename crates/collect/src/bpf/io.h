/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * System calls that read and write files, with their call paths, and what they do to the page cache. Included by
 * swap.bpf.c; loaded and attached only if input and output are recorded.
 *
 *   sys_enter                           which file, where in it, by which call path; note the start
 *   mm_filemap_add_to_page_cache        in between: pages that the call missed, or read ahead
 *   sys_exit                            one record for each file that the call read or wrote
 *   mm_filemap_delete_from_page_cache   pages of known files that leave, whoever makes them leave
 *
 * Pages that come outside a call are those of mappings: then the path is that of the fault. While a thread works on behalf of
 * another one, by what the program says itself (pagewise.h), the path is that by which the work was handed over.
 *
 * The descriptor is looked up when the call begins, as another thread may close it meanwhile. Pipes, sockets and
 * devices are left alone there, so that they cost only that look.
 */

#define S_IFMT 0170000
#define S_IFREG 0100000
#define OVERLAYFS_SUPER_MAGIC 0x794c7630 /* include/uapi/linux/magic.h */
#define O_APPEND 02000
#if defined(__TARGET_ARCH_arm64)
#define O_DIRECT 0200000
#else
#define O_DIRECT 040000
#endif
#define MOST_VECTORS 256 /* of more, each of which costs a little, the lengths are not looked at */
#define FMODE_RANDOM 0x1000 /* include/linux/fs.h (6.12) */
#define RESTARTED_FIRST 512 /* include/linux/errno.h (6.12): results that no program sees, as the call is made again */
#define RESTARTED_LAST 516

const __u8 io_calls[512] SEC(".rodata.io_calls") = {
#if defined(__TARGET_ARCH_arm64) /* include/uapi/asm-generic/unistd.h */
	[63] = IO_READ, [64] = IO_WRITE, [65] = IO_READV, [66] = IO_WRITEV, [67] = IO_PREAD, [68] = IO_PWRITE,
	[69] = IO_PREADV, [70] = IO_PWRITEV, [71] = IO_SENDFILE, [76] = IO_SPLICE, [82] = IO_FSYNC,
	[83] = IO_FDATASYNC, [285] = IO_COPY, [286] = IO_PREADV, [287] = IO_PWRITEV, [2] = IO_UNSEEN,
	[426] = IO_ENTER, [167] = IO_MARK,
#else /* arch/x86/entry/syscalls/syscall_64.tbl */
	[0] = IO_READ, [1] = IO_WRITE, [17] = IO_PREAD, [18] = IO_PWRITE, [19] = IO_READV, [20] = IO_WRITEV,
	[40] = IO_SENDFILE, [74] = IO_FSYNC, [75] = IO_FDATASYNC, [209] = IO_UNSEEN, [275] = IO_SPLICE,
	[295] = IO_PREADV, [296] = IO_PWRITEV, [326] = IO_COPY, [327] = IO_PREADV, [328] = IO_PWRITEV,
	[426] = IO_ENTER, [157] = IO_MARK,
#endif
};

struct io_totals io_totals SEC(".data.io_totals") = {};

/* Of a call under way: a file that it reads (the first) or writes (the second). */
struct io_side {
	__u64 inode; /* 0: none */
	__u64 file;
	__u64 offset;
	__u64 position_at; /* where the program keeps the offset, which the kernel moves; 0: it does not */
	__u32 number;
	__u32 flags; /* of the open file */
	__u32 missed; /* pages of the call's range */
	__u32 ahead;
	__u32 descriptor;
	__u32 reads_ahead; /* for the enforcer only */
	__u32 moves; /* the kernel takes the offset from the open file, and moves it */
	__u32 unused;
};
struct io_call {
	__u64 start; /* 0: none is under way */
	__u64 path;
	__u64 bytes; /* asked for */
	__u32 thread;
	__u32 space;
	__u32 call;
	__u32 wish;
	__u64 request; /* of io_uring_enter: the struct io_kiocb that the thread is at; 0: none that is told of */
	struct io_side sides[2];
};
struct io_call io_under_way[CALL_SLOTS];

/* A thread that works on behalf of who has handed work over. */
struct on_behalf {
	__u64 token; /* 0: for itself */
	__u64 born;  /* tells threads apart that had the same number in turn */
	__u32 thread;
	__u32 space;
};
struct on_behalf on_behalf[CALL_SLOTS];

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} handovers SEC(".maps");

struct known_file {
	__u64 inode; /* its number on its device */
	__u32 generation;
	__u32 number;
};

/* Address of a struct inode -> file. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 262144); /* what leaves of a forgotten file is not told */
	__type(key, __u64);
	__type(value, struct known_file);
} known_files SEC(".maps");

struct recent_file {
	__u64 address;
	struct known_file file;
};
struct io_cpu {
	struct recent_file recent[RECENT_FILES];
	__u64 moved; /* bytes by calls that the reader has not been woken for */
	struct file_notice notice;
	__u64 names[PATH_WORDS_OF_FILE];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one a processor, set before loading */
	__type(key, __u32);
	__type(value, struct io_cpu);
} io_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} new_files SEC(".maps");

/* By the number of a path. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MOST_WISHES);
	__type(key, __u32);
	__type(value, __u32);
} wishes SEC(".maps");

/* Says nothing but that there is something to read: the rings wake nobody. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 << 10);
} wakes SEC(".maps");

static __always_inline __u32 wish_of(__u64 path)
{
	__u32 number = path - 1;

	if (!config.enforces || !path || path & (PATH_IS_COPY | PATH_IS_HANDED_OVER))
		return WISH_UNKNOWN;
	__u32 *wish = bpf_map_lookup_elem(&wishes, &number);
	return wish ? *wish : WISH_UNKNOWN;
}

/* Wakes the reader if enough has come together for it. */
static __always_inline void wake(__u32 id, __u64 bytes, bool at_once)
{
	struct io_cpu *io = bpf_map_lookup_elem(&io_cpus, &id);
	__u64 nothing = 0;

	if (!io)
		return;
	io->moved += bytes;
	if (!at_once && io->moved < WAKE_BYTES)
		return;
	io->moved = 0;
	/* Wakes it only if it has read what was there before. */
	bpf_ringbuf_output(&wakes, &nothing, sizeof(nothing), 0);
}

/* What fadvise has made of an open file (mm/fadvise.c, 6.12). */
static __always_inline __u32 how_it_reads_ahead(__u64 file)
{
	__u64 host = LOAD(LOAD(file, struct file, f_mapping), struct address_space, host);
	__u64 device = LOAD(LOAD(host, struct inode, i_sb), struct super_block, s_bdi);
	__u32 usual = LOAD(device, struct backing_dev_info, ra_pages);

	if ((__u32)LOAD(file, struct file, f_mode) & FMODE_RANDOM)
		return READS_NOTHING_AHEAD;
	return usual && (__u32)LOAD(file, struct file, f_ra.ra_pages) == 2 * usual ? READS_AHEAD_TWICE
										  : READS_AHEAD_AS_USUAL;
}

static __always_inline void emit_io(struct cpu_state *cpu, __u32 id, const __u64 *record, int words)
{
	struct ring *ring = bpf_map_lookup_elem(&rings, &id);
	__u64 head = cpu->head;

	const __u32 size = config.ring_words;
	if (!ring || head - cpu->tail > size - RING_SLACK) {
		cpu->lost++;
		return;
	}
	__u32 at = head & (size - 1);
#pragma unroll
	for (int word = 0; word < words; word++)
		ring->words[at + word] = record[word];
#if defined(__TARGET_ARCH_x86)
	barrier();
	cpu->head = head + words;
#else
	__sync_fetch_and_add(&cpu->head, words);
#endif
}

/* As a number: the verifier allows no arithmetic on a pointer. */
static __always_inline __u64 number_of(struct cpu_state *cpu, void *pointer)
{
	*(volatile __u64 *)&cpu->number = (__u64)pointer;
	return *(volatile __u64 *)&cpu->number;
}

#include "io_files.h"
#include "io_calls.h"
#include "io_uring.h"
#include "io_faults.h"
#include "io_cache.h"
