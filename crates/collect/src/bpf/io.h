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
	[426] = IO_UNSEEN, [167] = IO_MARK,
#else /* arch/x86/entry/syscalls/syscall_64.tbl */
	[0] = IO_READ, [1] = IO_WRITE, [17] = IO_PREAD, [18] = IO_PWRITE, [19] = IO_READV, [20] = IO_WRITEV,
	[40] = IO_SENDFILE, [74] = IO_FSYNC, [75] = IO_FDATASYNC, [209] = IO_UNSEEN, [275] = IO_SPLICE,
	[295] = IO_PREADV, [296] = IO_PWRITEV, [326] = IO_COPY, [327] = IO_PREADV, [328] = IO_PWRITEV,
	[426] = IO_UNSEEN, [157] = IO_MARK,
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

struct naming {
	__u64 dentry;
	__u32 cpu;
	__u32 used;
	bool whole;
};

/* Copies a dentry's name and goes on to its folder; 1: that was the root of its file system, or there is no room. */
static long copy_name(__u32 index, struct naming *naming)
{
	struct io_cpu *io = bpf_map_lookup_elem(&io_cpus, &naming->cpu);
	__u64 parent = LOAD(naming->dentry, struct dentry, d_parent);

	/* A file in memory that no folder shows (memfd_create) is a root itself, with a name. */
	if (!io || !naming->dentry || (index && parent == naming->dentry)) {
		naming->whole = true;
		return 1;
	}
	__u64 length = LOAD(naming->dentry, struct dentry, d_name.hash_len) >> 32;
	__u64 name = LOAD(naming->dentry, struct dentry, d_name.name);
	__u32 words = (length + 7) / 8, at = naming->used;

	if (words > 32 || at + words + 1 > PATH_WORDS_OF_FILE)
		return 1;
	io->names[at & (PATH_WORDS_OF_FILE - 1)] = length;
	for (__u32 word = 0; word < 32; word++) {
		if (word >= words)
			break;
		io->names[(at + 1 + word) & (PATH_WORDS_OF_FILE - 1)] = load(name + word * 8);
	}
	naming->used = at + 1 + words;
	naming->dentry = parent;
	return 0;
}

/* Tells the reader which file has that number; `file`: an open file of it, or 0. False: there was no room. */
static __noinline bool tell_of_file(__u64 inode, __u64 file, __u32 number, __u32 space)
{
	__u32 id = bpf_get_smp_processor_id();
	struct io_cpu *io = bpf_map_lookup_elem(&io_cpus, &id);

	if (!io)
		return false;
	struct naming naming = { .cpu = id };
	if (file) {
		naming.dentry = LOAD(file, struct file, f_path.dentry);
	} else {
		__u64 alias = LOAD(inode, struct inode, i_dentry.first);
		if (alias)
			naming.dentry = alias - bpf_core_field_offset(struct dentry, d_u.d_alias);
	}
	if (naming.dentry)
		bpf_loop(MOST_FOLDERS, copy_name, &naming, 0);
	__u64 super = LOAD(inode, struct inode, i_sb);
	bool unlinked = !(__u32)LOAD(inode, struct inode, i_nlink);
	__u32 words = naming.used;
	if (words > PATH_WORDS_OF_FILE)
		words = PATH_WORDS_OF_FILE;
	io->notice = (struct file_notice){
		.time_ns = bpf_ktime_get_ns(),
		.inode = LOAD(inode, struct inode, i_ino),
		.bytes = LOAD(inode, struct inode, i_size),
		.magic = LOAD(super, struct super_block, s_magic),
		.file = number,
		.space = space,
		.device = LOAD(super, struct super_block, s_dev),
		.generation = LOAD(inode, struct inode, i_generation),
		.flags = (unlinked ? FILE_UNLINKED : 0) | (naming.whole ? 0 : FILE_PATH_CUT),
		.words = words,
	};
	return !bpf_ringbuf_output(&new_files, &io->notice, sizeof(io->notice) + words * 8, BPF_RB_NO_WAKEUP);
}

/* Not every address of an inode is the same file for ever. */
static __always_inline bool is_same_file(const struct known_file *known, __u64 inode)
{
	return known->inode == LOAD(inode, struct inode, i_ino) &&
	       known->generation == (__u32)LOAD(inode, struct inode, i_generation);
}

static __always_inline __u32 number_if_known(__u64 inode)
{
	struct known_file *known = bpf_map_lookup_elem(&known_files, &inode);

	return known && is_same_file(known, inode) ? known->number : 0;
}

/* The number of a file; 0: there are too many, or there was no room to tell of it. */
static __noinline __u32 number_of_new_file(__u64 inode, __u64 file, __u32 space)
{
	__u32 number = number_if_known(inode);

	if (number)
		return number;
	number = __sync_fetch_and_add(&io_totals.last_file, 1) + 1;
	if (number > MOST_FILES || !tell_of_file(inode, file, number, space)) {
		__sync_fetch_and_add(&io_totals.lost_files, 1);
		return 0;
	}
	struct known_file known = {
		.inode = LOAD(inode, struct inode, i_ino),
		.generation = LOAD(inode, struct inode, i_generation),
		.number = number,
	};
	if (bpf_map_update_elem(&known_files, &inode, &known, BPF_NOEXIST)) {
		/* Another processor saw it at the same time, or the address was another file's. */
		__u32 first = number_if_known(inode);
		if (first)
			return first;
		bpf_map_update_elem(&known_files, &inode, &known, BPF_ANY);
	}
	return number;
}

static __always_inline __u32 number_of_file(__u32 id, __u64 inode, __u64 file, __u32 space)
{
	struct io_cpu *io = bpf_map_lookup_elem(&io_cpus, &id);

	if (!io)
		return 0;
	struct recent_file *recent = &io->recent[(inode >> 6 ^ inode >> 13) & (RECENT_FILES - 1)];
	if (recent->address == inode && is_same_file(&recent->file, inode))
		return recent->file.number;
	__u32 number = number_of_new_file(inode, file, space);
	if (number) {
		recent->address = inode;
		recent->file.inode = LOAD(inode, struct inode, i_ino);
		recent->file.generation = LOAD(inode, struct inode, i_generation);
		recent->file.number = number;
	}
	return number;
}

static __always_inline bool is_regular(__u64 inode)
{
	return inode && (LOAD(inode, struct inode, i_mode) & S_IFMT) == S_IFREG;
}

/* False: no open regular file. */
static __always_inline bool take_file(struct io_side *side, struct task_struct *task, __u64 descriptor)
{
	__u64 table = LOAD(task->files, struct files_struct, fdt);

	side->inode = 0;
	if ((__u32)descriptor >= (__u32)LOAD(table, struct fdtable, max_fds))
		return false;
	__u64 file = load(LOAD(table, struct fdtable, fd) + (__u32)descriptor * sizeof(__u64));
	if (!file)
		return false;
	__u64 inode = LOAD(file, struct file, f_inode);
	if (!is_regular(inode))
		return false;
	side->inode = inode;
	side->file = file;
	side->flags = LOAD(file, struct file, f_flags);
	side->position_at = 0;
	side->missed = 0;
	side->ahead = 0;
	side->offset = LOAD(file, struct file, f_pos);
	side->moves = true;
	side->descriptor = descriptor;
	side->reads_ahead = config.enforces ? how_it_reads_ahead(file) : READS_AHEAD_AS_USUAL;
	return true;
}

static __always_inline bool has_offset(__u32 call)
{
	return call == IO_PREAD || call == IO_PREADV || call == IO_PWRITE || call == IO_PWRITEV;
}

static __always_inline bool is_write(__u32 call)
{
	return call >= IO_WRITE && call <= IO_PWRITEV;
}

static __always_inline bool is_sync(__u32 call)
{
	return call == IO_FSYNC || call == IO_FDATASYNC;
}

static __always_inline bool has_vectors(__u32 call)
{
	return call == IO_READV || call == IO_PREADV || call == IO_WRITEV || call == IO_PWRITEV;
}

/* A word of the program's memory, by its page tables: the helper that reads it is refused under lockdown=confidentiality. False: it is not
 * in memory, or may cross pages. */
static __always_inline bool load_of_program(__u64 pgd, __u64 address, __u64 *word)
{
	__u64 page_at = direct_address(pgd, address & ~(PAGE_SIZE - 1));

	if (!page_at || address & 7)
		return false;
	*word = load(page_at + (address & (PAGE_SIZE - 1)));
	return true;
}

struct vectors {
	__u64 pgd;
	__u64 at; /* pairs of address and length */
	__u64 bytes;
};

static long add_vector(__u32 index, struct vectors *vectors)
{
	__u64 length;

	if (!load_of_program(vectors->pgd, vectors->at + (__u64)index * 16 + 8, &length)) {
		vectors->bytes = 0;
		return 1;
	}
	vectors->bytes += length;
	return 0;
}

/* What they ask for together; 0: not known. */
static __noinline __u64 bytes_of_vectors(__u64 pgd, __u64 at, __u64 number)
{
	struct vectors vectors = { .pgd = pgd, .at = at };

	if (number > MOST_VECTORS)
		return 0;
	bpf_loop(number, add_vector, &vectors, 0);
	return vectors.bytes;
}

/* The files of a call, and where in them it begins. False: none is a regular file. */
static __always_inline bool take_files(struct io_call *io, struct task_struct *task, __u32 call,
				       const __u64 *arguments)
{
	struct io_side *from = &io->sides[0], *to = &io->sides[1];
	bool any;

	if (call == IO_SENDFILE) {
		any = take_file(from, task, arguments[1]);
		any |= take_file(to, task, arguments[0]);
		from->position_at = arguments[2];
		io->bytes = arguments[3];
		/* Where the pages are that it asks for; where that is not known, all count as its own. */
		if (from->inode && arguments[2] && !load_of_program((__u64)task->mm->pgd, arguments[2], &from->offset))
			io->bytes = 0;
		return any;
	}
	if (call == IO_SPLICE || call == IO_COPY) {
		any = take_file(from, task, arguments[0]);
		any |= take_file(to, task, arguments[2]);
		from->position_at = arguments[1];
		to->position_at = arguments[3];
		io->bytes = 0; /* the fifth argument: pages of a transfer all count as its own */
		return any;
	}
	bool writes = is_write(call) || is_sync(call);
	struct io_side *side = writes ? to : from;
	(writes ? from : to)->inode = 0;
	if (!take_file(side, task, arguments[0]))
		return false;
	if (has_offset(call) && arguments[3] != OFFSET_UNKNOWN) { /* preadv2 and pwritev2: -1 is the file's own */
		side->offset = arguments[3];
		side->moves = false;
	}
	if (is_sync(call))
		side->offset = OFFSET_UNKNOWN;
	if (has_vectors(call))
		io->bytes = bytes_of_vectors((__u64)task->mm->pgd, arguments[1], arguments[2]);
	else
		io->bytes = is_sync(call) ? 0 : arguments[2];
	return true;
}

/* By whose path the thread that runs works: the hand-over's, or its own. */
static __always_inline __u64 path_of_worker(struct cpu_state *cpu, struct task_struct *task, __u32 space,
					    const struct user_registers *registers)
{
	const struct on_behalf *worker = &on_behalf[task->pid & (CALL_SLOTS - 1)];

	if (worker->token && worker->thread == (__u32)task->pid && worker->space == space &&
	    worker->born == task->start_boottime)
		return PATH_IS_HANDED_OVER | worker->token;
	return call_path(cpu, task, space, registers);
}

/* What pagewise.h says. The kernel refuses the call, whose number it does not know. */
static __always_inline void take_mark(struct cpu_state *cpu, struct task_struct *task, __u32 space,
				      const __u64 *arguments, const struct user_registers *registers)
{
	__u64 token = arguments[2] & TOKEN_BITS;

	if (arguments[0] != MARK_OPTION || !config.call_paths)
		return;
	if (arguments[1] == MARK_ON_BEHALF) {
		on_behalf[task->pid & (CALL_SLOTS - 1)] = (struct on_behalf){
			.token = token,
			.born = task->start_boottime,
			.thread = task->pid,
			.space = space,
		};
	} else if (arguments[1] == MARK_HANDED_OVER && token) {
		struct handover handover = { .token = token, .path = call_path(cpu, task, space, registers) };

		if (bpf_ringbuf_output(&handovers, &handover, sizeof(handover), BPF_RB_NO_WAKEUP))
			__sync_fetch_and_add(&io_totals.lost_handovers, 1);
	}
}

SEC("tp_btf/sys_enter")
int BPF_PROG(io_begins, struct pt_regs *regs, long number)
{
	if (number < 0 || number >= 512)
		return 0;
	__u32 call = io_calls[number & 511];
	if (!call)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 mm = (__u64)task->mm;
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);
	if (!cpu || !mm)
		return 0;
	__u32 space = space_of(cpu, mm);
	if (!space)
		return 0;
	if (call == IO_MARK) {
		struct user_registers registers = USER_REGISTERS(regs);
		__u64 arguments[4] = ARGUMENTS(regs);

		if (!is_foreign_call(task))
			take_mark(cpu, task, space, arguments, &registers);
		return 0;
	}
	if (call == IO_UNSEEN || is_foreign_call(task)) {
		__sync_fetch_and_add(call == IO_UNSEEN ? &io_totals.unseen_calls : &io_totals.foreign_calls, 1);
		return 0;
	}
	struct io_call *io = &io_under_way[task->pid & (CALL_SLOTS - 1)];
	__u64 arguments[4] = ARGUMENTS(regs);
	if (io->start && io->thread != (__u32)task->pid) {
		/* That of another thread in the same place: two numbers are 16,384 apart. */
		cpu->lost++;
		io->start = 0;
	}
	if (!take_files(io, task, call, arguments))
		return 0;
#pragma unroll
	for (int side = 0; side < 2; side++) {
		if (io->sides[side].inode)
			io->sides[side].number = number_of_file(id, io->sides[side].inode, io->sides[side].file, space);
	}
	io->thread = task->pid;
	io->space = space;
	io->call = call;
	io->path = 0;
	if (config.call_paths) {
		struct user_registers registers = USER_REGISTERS(regs);

		io->path = path_of_worker(cpu, task, space, &registers);
	}
	io->wish = wish_of(io->path);
	io->start = now(cpu);
	return 0;
}

/* Where the call began, known only now if the kernel has moved a position. */
static __always_inline __u64 offset_of(const struct io_call *io, const struct io_side *side, struct task_struct *task,
				       __u64 moved, bool to_file)
{
	if (side->position_at) {
		__u64 position;

		if (!load_of_program((__u64)task->mm->pgd, side->position_at, &position))
			return OFFSET_UNKNOWN;
		return position - moved;
	}
	if (side->moves && !is_sync(io->call)) {
		/* Where the call has left it: when it began, another thread may have been about to move it. Unless it was
		 * closed meanwhile, or is of those that do not move. */
		__u64 position = LOAD(side->file, struct file, f_pos);
		if (LOAD(side->file, struct file, f_inode) == side->inode && position >= moved && position != side->offset)
			return position - moved;
	} else if (to_file && side->flags & O_APPEND && !is_sync(io->call)) {
		return LOAD(side->inode, struct inode, i_size) - moved;
	}
	return side->offset;
}

static __always_inline __u32 at_most(__u32 number, __u32 most)
{
	return number < most ? number : most;
}

static __always_inline void emit_call(struct cpu_state *cpu, __u32 id, struct io_call *io, struct task_struct *task,
				      long result, __u64 latency, bool to_file)
{
	struct io_side *side = &io->sides[to_file];

	if (!side->inode || (io->wish == WISH_NOTHING && side->reads_ahead == READS_AHEAD_AS_USUAL))
		return;
	__u64 moved = result > 0 && !is_sync(io->call) ? result : 0;
	__u64 record[6] = {
		(__u64)KIND_IO << 60 | HAS_PATH | (to_file ? IO_TO_FILE : 0) | (__u64)io->call << IO_CALL_SHIFT |
			(side->flags & O_DIRECT ? IO_DIRECT : 0) | (__u64)side->number << IO_FILE_SHIFT |
			(__u32)result,
		time_word(io->space, io->start),
		latency << 24 | io->thread,
		io->path,
		offset_of(io, side, task, moved, to_file),
		(__u64)at_most(side->descriptor, IO_MOST_DESCRIPTORS) << IO_DESCRIPTOR_SHIFT |
			(__u64)side->reads_ahead << IO_READAHEAD_SHIFT |
			(__u64)at_most(side->missed, IO_MOST_PAGES) << IO_MISSED_SHIFT |
			at_most(side->ahead, IO_MOST_PAGES),
	};
	emit_io(cpu, id, record, 6);
	if (config.enforces)
		wake(id, moved, io->wish == WISH_NOTHING || io->wish == WISH_AT_ONCE);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(io_ends, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_call *io = &io_under_way[task->pid & (CALL_SLOTS - 1)];

	if (!io->start || io->thread != (__u32)task->pid)
		return 0;
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);
	if (!cpu)
		return 0;
	__u64 latency = now(cpu) - io->start;
	if (latency >= LATENCY_UNKNOWN)
		latency = LATENCY_UNKNOWN - 1;
	if (result > -RESTARTED_FIRST || result < -RESTARTED_LAST) {
		emit_call(cpu, id, io, task, result, latency, false);
		emit_call(cpu, id, io, task, result, latency, true);
	}
	io->start = 0;
	return 0;
}

/* Files of overlayfs keep their pages in another inode, which then is a second name of the file. */
static __always_inline bool is_of_overlay(const struct io_call *io)
{
	__u64 inode = io->sides[0].inode ?: io->sides[1].inode;

	return (__u32)LOAD(LOAD(inode, struct inode, i_sb), struct super_block, s_magic) == OVERLAYFS_SUPER_MAGIC;
}

/* Which file of the call under way these pages are of; NULL: of none. */
static __always_inline struct io_side *side_of(struct io_call *io, __u64 host)
{
	if (io->sides[0].inode == host)
		return &io->sides[0];
	if (io->sides[1].inode == host)
		return &io->sides[1];
	return 0;
}

static __always_inline __u32 pages_in_range(__u64 first, __u64 pages, __u64 offset, __u64 bytes)
{
	__u64 begin = offset >> PAGE_SHIFT, end = (offset + bytes + PAGE_SIZE - 1) >> PAGE_SHIFT;

	if (!bytes)
		return pages;
	if (begin < first)
		begin = first;
	if (end > first + pages)
		end = first + pages;
	return end > begin ? end - begin : 0;
}

static __always_inline void emit_cache(struct cpu_state *cpu, __u32 id, __u64 what, __u32 file, __u64 folio,
				       __u64 time, __u64 thread, __u64 path)
{
	__u64 index = LOAD(folio, struct folio, index);
	__u64 record[4] = {
		(__u64)KIND_CACHE << 60 | HAS_PATH | what << IO_CALL_SHIFT | (__u64)file << IO_FILE_SHIFT |
			1U << (folio_order(folio) & 15),
		time,
		index << 24 | thread,
		path,
	};
	emit_io(cpu, id, record, 4);
}

/* As a number: the verifier allows no arithmetic on a pointer. */
static __always_inline __u64 number_of(struct cpu_state *cpu, void *pointer)
{
	*(volatile __u64 *)&cpu->number = (__u64)pointer;
	return *(volatile __u64 *)&cpu->number;
}

static __always_inline __u64 host_of(__u64 folio)
{
	__u64 mapping = LOAD(folio, struct folio, mapping);

	if (!mapping || mapping & MAPPING_FLAGS)
		return 0;
	__u64 host = LOAD(mapping, struct address_space, host);
	return is_regular(host) ? host : 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_cached, struct folio *added)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_call *io = &io_under_way[task->pid & (CALL_SLOTS - 1)];
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!cpu)
		return 0;
	__u32 space = space_of(cpu, (__u64)task->mm);
	if (!space)
		return 0;
	__u64 folio = number_of(cpu, added), host = host_of(folio);
	if (!host)
		return 0;
	__u64 time = now(cpu);
	bool in_call = io->start && io->thread == (__u32)task->pid;
	struct io_side *side = in_call ? side_of(io, host) : 0;
	if (in_call && !side && is_of_overlay(io)) {
		side = io->sides[0].inode ? &io->sides[0] : &io->sides[1];
		struct known_file alias = {
			.inode = LOAD(host, struct inode, i_ino),
			.generation = LOAD(host, struct inode, i_generation),
			.number = side->number,
		};
		bpf_map_update_elem(&known_files, &host, &alias, BPF_NOEXIST);
	}
	if (config.enforces && (!side || io->wish == WISH_NOTHING))
		return 0;
	if (!side) { /* also in a call, whose buffer may be a mapping of this file */
		__u32 file = number_of_file(id, host, 0, space);
		__u64 path = 0;
		if (in_call) {
			path = io->path;
		} else if (config.call_paths) {
			struct pt_regs *program = (struct pt_regs *)bpf_task_pt_regs(task);
			struct user_registers registers = USER_REGISTERS(program);

			path = path_of_worker(cpu, task, space, &registers);
		}
		emit_cache(cpu, id, CACHE_ADDED, file, folio, time_word(space, time), task->pid, path);
		return 0;
	}
	__u32 pages = 1U << (folio_order(folio) & 15);
	__u64 index = LOAD(folio, struct folio, index);
	__u32 missed = pages_in_range(index, pages, side->offset, io->bytes);
	side->missed += missed;
	side->ahead += pages - missed;
	emit_cache(cpu, id, CACHE_ADDED, side->number, folio, time_word(space, time), task->pid, io->path);
	return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(page_uncached, struct folio *removed)
{
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!cpu)
		return 0;
	__u64 folio = number_of(cpu, removed), host = host_of(folio);
	__u32 file = host ? number_if_known(host) : 0;
	if (!file)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 what = task->flags & PF_MEMALLOC ? CACHE_EVICTED : CACHE_DROPPED;
	emit_cache(cpu, id, what, file, folio, time_word(0, now(cpu)), 0, 0);
	return 0;
}
