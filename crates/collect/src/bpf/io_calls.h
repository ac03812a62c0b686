/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Calls on files, from their begin to their end, and by whose call path they are made. Included by io.h.
 */

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
	return call == IO_FSYNC || call == IO_FDATASYNC || call == IO_URING_SYNC;
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
	struct cpu_state *cpu;
	__u32 id, space = space_here(task, &cpu, &id);
	if (!space)
		return 0;
	if (call == IO_MARK) {
		struct user_registers registers = USER_REGISTERS(regs);
		__u64 arguments[4] = ARGUMENTS(regs);

		if (!is_foreign_call(task))
			take_mark(cpu, task, space, arguments, &registers);
		return 0;
	}
	if (call == IO_ENTER && config.follows_uring)
		return 0; /* io_uring.h */
	bool is_unseen = call == IO_UNSEEN || call == IO_ENTER;
	if (is_unseen || is_foreign_call(task)) {
		__sync_fetch_and_add(is_unseen ? &io_totals.unseen_calls : &io_totals.foreign_calls, 1);
		return 0;
	}
	struct io_call *io = &io_under_way[task->pid & (CALL_SLOTS - 1)];
	__u64 arguments[4] = ARGUMENTS(regs);
	if (io->start && io->thread != (__u32)task->pid) {
		/* That of another thread in the same place: two numbers are 16,384 apart. */
		cpu->lost++;
		io->start = 0;
	}
	io->thread = task->pid;
	if (!take_files(io, task, call, arguments))
		return 0;
#pragma unroll
	for (int side = 0; side < 2; side++) {
		if (io->sides[side].inode)
			io->sides[side].number = number_of_file(id, io->sides[side].inode, io->sides[side].file, space);
	}
	io->space = space;
	io->call = call;
	io->path = 0;
	if (config.call_paths) {
		struct user_registers registers = USER_REGISTERS(regs);

		io->path = path_of_worker(cpu, task, space, &registers);
	}
	io->wish = wish_of(io->path);
	if (*(volatile __u32 *)&io->thread != (__u32)task->pid) {
		/* Another thread's call began there meanwhile, on another processor, and is told: with this one's file, if it
		 * was faster. */
		cpu->lost++;
		return 0;
	}
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

/* `what`: the first word, without what all records of input and output have. */
static __always_inline void emit_use(struct cpu_state *cpu, __u32 id, __u64 what, __u64 time, __u64 latency,
				     __u64 path, __u64 offset, __u64 pages)
{
	__u64 record[6] = { (__u64)KIND_IO << 60 | HAS_PATH | what, time, latency, path, offset, pages };

	emit_io(cpu, id, record, 6);
}

/* Pages that it has brought into the page cache, with the descriptor by which. */
static __always_inline __u64 pages_word(__u32 descriptor, __u32 missed, __u32 ahead)
{
	return (__u64)at_most(descriptor, IO_MOST_DESCRIPTORS) << IO_DESCRIPTOR_SHIFT |
	       (__u64)at_most(missed, IO_MOST_PAGES) << IO_MISSED_SHIFT | at_most(ahead, IO_MOST_PAGES);
}

static __always_inline void emit_call(struct cpu_state *cpu, __u32 id, struct io_call *io, struct task_struct *task,
				      long result, __u64 latency, bool to_file)
{
	struct io_side *side = &io->sides[to_file];

	if (!side->inode || (io->wish == WISH_NOTHING && side->reads_ahead == READS_AHEAD_AS_USUAL))
		return;
	__u64 moved = result > 0 && !is_sync(io->call) ? result : 0;
	emit_use(cpu, id,
		 (to_file ? IO_TO_FILE : 0) | (__u64)io->call << IO_CALL_SHIFT |
			 (side->flags & O_DIRECT ? IO_DIRECT : 0) | (__u64)side->number << IO_FILE_SHIFT |
			 (__u32)result,
		 time_word(io->space, io->start), latency_word(latency, io->thread), io->path,
		 offset_of(io, side, task, moved, to_file),
		 pages_word(side->descriptor, side->missed, side->ahead) |
			 (__u64)side->reads_ahead << IO_READAHEAD_SHIFT);
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
	__u64 latency = latency_of(io->start, now(cpu));
	if (result > -RESTARTED_FIRST || result < -RESTARTED_LAST) {
		emit_call(cpu, id, io, task, result, latency, false);
		emit_call(cpu, id, io, task, result, latency, true);
	}
	io->start = 0;
	return 0;
}
