/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Requests of io_uring that read, write or synchronize regular files. Included by io.h.
 *
 *   io_uring_submit_req   (io_uring_submit_sqe before 6.4) which file, where in it, by which call path; note the start
 *   io_uring_complete     the result is being told to the program: one record, as of a call
 *
 * In between the thread that submits, or a worker of the kernel, does what a call would do: pages that come then are the
 * request's. The path is that of io_uring_enter. Where a thread of the kernel submits (SQPOLL), there is none.
 */

#define PF_IO_WORKER 0x10 /* include/linux/sched.h (6.12): a thread of the kernel that does a process's requests */
#define REQ_F_FIXED_FILE 1 /* include/linux/io_uring_types.h (6.12): the descriptor is an index into registered files */
#define IORING_SETUP_SQPOLL 2

/* By opcode (include/uapi/linux/io_uring.h): the fixed ones have registered buffers. */
const __u8 uring_calls[64] SEC(".rodata.uring_calls") = {
	[1] = IO_URING_READ, [2] = IO_URING_WRITE, [3] = IO_URING_SYNC, [4] = IO_URING_READ, [5] = IO_URING_WRITE,
	[22] = IO_URING_READ, [23] = IO_URING_WRITE, [60] = IO_URING_READ, [61] = IO_URING_WRITE,
	[30] = IO_UNSEEN, /* splice */
};

/* Address of a struct io_kiocb -> the request that it is now. Whoever does not tell that a request has completed loses its place
 * to others. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 32768);
	__type(key, __u64);
	__type(value, struct io_call);
} requests SEC(".maps");

#define REQUEST(request, field) LOAD(request, struct io_kiocb, field)

static __always_inline __u64 command_of(__u64 request)
{
	return request + bpf_core_field_offset(struct io_kiocb, cmd);
}

/* The file that the kernel has looked up by now, if nothing is known of one. */
static __always_inline void take_file_of_request(struct io_call *io, __u32 id, __u64 request)
{
	struct io_side *side = &io->sides[io->call != IO_URING_READ];

	if (side->inode)
		return;
	__u64 file = REQUEST(request, file);
	__u64 inode = file ? LOAD(file, struct file, f_inode) : 0;
	if (!is_regular(inode))
		return;
	side->file = file;
	side->flags = LOAD(file, struct file, f_flags);
	side->number = number_of_file(id, inode, file, io->space);
	side->inode = inode;
}

/* The request that the running thread is at, if it is known. `io`: what the thread has under way, or NULL. */
static __always_inline struct io_call *request_at_work(const struct io_call *io, struct task_struct *task, __u32 id)
{
	__u64 request;

	if (!config.follows_uring)
		return 0;
	if (io) {
		if (io->call != IO_ENTER)
			return 0;
		request = io->request;
	} else {
		if (!(task->flags & PF_IO_WORKER))
			return 0;
		__u64 work = LOAD(task->worker_private, struct io_worker, cur_work);
		request = work ? work - bpf_core_field_offset(struct io_kiocb, work) : 0;
	}
	struct io_call *found = request ? bpf_map_lookup_elem(&requests, &request) : 0;
	if (found)
		take_file_of_request(found, id, request);
	return found;
}

static __always_inline bool has_vectors_in(__u32 opcode)
{
	return opcode == 1 || opcode == 2 || opcode >= 60;
}

/* False: its file is none that is told of. */
static __always_inline bool take_request(struct io_call *io, struct task_struct *task, __u32 id, __u64 request,
					 __u32 opcode)
{
	struct io_side *side = &io->sides[io->call != IO_URING_READ];
	__u64 command = command_of(request);

	io->sides[0].inode = 0;
	io->sides[1].inode = 0;
	if ((__u32)REQUEST(request, flags) & REQ_F_FIXED_FILE) {
		side->position_at = 0;
		side->missed = 0;
		side->ahead = 0;
		side->offset = 0;
		side->descriptor = IO_MOST_DESCRIPTORS;
		side->reads_ahead = READS_AHEAD_AS_USUAL;
	} else if (!take_file(side, task, (__u32)REQUEST(request, cqe.fd))) {
		return false;
	} else {
		side->number = number_of_file(id, side->inode, side->file, io->space);
	}
	if (io->call == IO_URING_SYNC) {
		side->moves = false;
		io->bytes = 0;
		return true;
	}
	__u64 position = LOAD(command, struct io_rw, kiocb.ki_pos);
	side->moves = position == OFFSET_UNKNOWN;
	if (!side->moves)
		side->offset = position;
	__u32 length = LOAD(command, struct io_rw, len);
	io->bytes = length;
	if (has_vectors_in(opcode))
		io->bytes = bytes_of_vectors((__u64)task->mm->pgd, LOAD(command, struct io_rw, addr), length);
	return true;
}

/* What the thread has under way, for its requests: they are of one call, and one path. */
static __always_inline struct io_call *enter(struct cpu_state *cpu, struct task_struct *task, __u32 space)
{
	struct io_call *io = &io_under_way[task->pid & (CALL_SLOTS - 1)];

	if (io->start && io->thread == (__u32)task->pid && io->call == IO_ENTER)
		return io;
	if (io->start && io->thread != (__u32)task->pid)
		cpu->lost++;
	io->start = 0;
	io->thread = task->pid;
	io->space = space;
	io->path = 0;
	if (config.call_paths && !(task->flags & PF_IO_WORKER)) {
		struct pt_regs *program = (struct pt_regs *)bpf_task_pt_regs(task);
		struct user_registers registers = USER_REGISTERS(program);

		io->path = path_of_worker(cpu, task, space, &registers);
	}
	io->wish = wish_of(io->path);
	return io;
}

/* Keeps it until it completes, and leaves the thread's place to the call that submits it. */
static __always_inline void note_request(struct cpu_state *cpu, struct io_call *io, __u64 request)
{
	/* One that was here before has ended without a word (IOSQE_CQE_SKIP_SUCCESS, or no room in the ring). */
	if (bpf_map_update_elem(&requests, &request, io, BPF_NOEXIST)) {
		__sync_fetch_and_add(&io_totals.unseen_calls, 1);
		if (bpf_map_update_elem(&requests, &request, io, BPF_ANY))
			cpu->lost++;
	}
	io->sides[0].inode = 0;
	io->sides[1].inode = 0;
	io->call = IO_ENTER;
	io->request = request;
}

static __always_inline int request_begins(__u64 kiocb)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_state *cpu;
	__u32 id, space = space_here(task, &cpu, &id);

	if (!space)
		return 0;
	__u64 request = number_of(cpu, (void *)kiocb);
	__u32 opcode = REQUEST(request, opcode) & 0xff;
	__u32 call = opcode < 64 ? uring_calls[opcode & 63] : 0;
	struct io_call *before = &io_under_way[task->pid & (CALL_SLOTS - 1)];
	if (before->call == IO_ENTER && before->thread == (__u32)task->pid)
		before->request = 0; /* whatever this one does, it is at work now */
	if (!call)
		return 0;
	if (call == IO_UNSEEN || is_foreign_call(task)) {
		__sync_fetch_and_add(call == IO_UNSEEN ? &io_totals.unseen_calls : &io_totals.foreign_calls, 1);
		return 0;
	}
	struct io_call *io = enter(cpu, task, space);
	io->call = call;
	bool is_told = take_request(io, task, id, request, opcode);
	io->start = now(cpu);
	if (is_told) {
		note_request(cpu, io, request);
		return 0;
	}
	io->call = IO_ENTER;
	io->request = 0;
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(request_submitted, struct io_kiocb *request)
{
	return request_begins((__u64)request);
}

SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(request_submitted_early, struct io_kiocb *request)
{
	return request_begins((__u64)request);
}

/* Where it began: where the kernel has left its position, if it chose it. */
static __always_inline void place_request(struct io_call *io, __u64 request, long result)
{
	struct io_side *side = &io->sides[io->call != IO_URING_READ];
	bool appends = io->call == IO_URING_WRITE && side->flags & O_APPEND;

	if (io->call == IO_URING_SYNC) {
		side->offset = OFFSET_UNKNOWN;
	} else if (side->moves || appends) {
		__u64 position = LOAD(command_of(request), struct io_rw, kiocb.ki_pos);

		side->offset = position == OFFSET_UNKNOWN ? position : position - (result > 0 ? result : 0);
	}
	side->moves = false;
	side->flags &= ~O_APPEND;
}

/* A thread of the kernel never leaves a call: what it had under way ends here. */
static __always_inline void leave(struct task_struct *task)
{
	struct io_call *io = &io_under_way[task->pid & (CALL_SLOTS - 1)];

	if (task->flags & PF_IO_WORKER && io->call == IO_ENTER && io->thread == (__u32)task->pid)
		io->start = 0;
}

/* Its begin was not seen, or is forgotten: it counts as lost if it would have been told. */
static __always_inline void miss_request(struct cpu_state *cpu, struct task_struct *task, __u64 request)
{
	__u32 opcode = REQUEST(request, opcode) & 0xff;
	__u32 call = opcode < 64 ? uring_calls[opcode & 63] : 0;

	if (!call || call == IO_UNSEEN || !space_of(cpu, (__u64)task->mm))
		return;
	__u64 file = REQUEST(request, file);
	if (file && is_regular(LOAD(file, struct file, f_inode)))
		cpu->lost++;
}

/* Further arguments differ between kernels; the result is in the request. */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(request_completes, void *ring, void *kiocb)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!cpu)
		return 0;
	__u64 request = number_of(cpu, kiocb);
	if (!request)
		return 0; /* one of several results of one request */
	struct io_call *io = bpf_map_lookup_elem(&requests, &request);
	if (!io) {
		miss_request(cpu, task, request);
		return 0;
	}
	long result = (__s32)REQUEST(request, cqe.res);
	__u64 latency = latency_of(io->start, now(cpu));
	take_file_of_request(io, id, request);
	place_request(io, request, result);
	emit_call(cpu, id, io, task, result, latency, io->call != IO_URING_READ);
	bpf_map_delete_elem(&requests, &request);
	leave(task);
	return 0;
}

SEC("tp_btf/io_uring_create")
int BPF_PROG(ring_created, int descriptor, void *ring, __u32 entries, __u32 results, __u32 flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (cpu && flags & IORING_SETUP_SQPOLL && space_of(cpu, (__u64)task->mm))
		__sync_fetch_and_add(&io_totals.polled_rings, 1);
	return 0;
}
