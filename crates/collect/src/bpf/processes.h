/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Which address spaces are recorded: the program's, and those of its children, across exec.
 * Included by swap.bpf.c.
 */

/* By the low bits of its number, the address space that records mean by them. */
struct holder {
	__u32 space;
	__u32 users; /* recorded processes; 0: the bits are free */
};
struct holder numbers[NUMBERS] SEC(".bss.numbers");

static __always_inline struct holder *holder_of(__u32 space)
{
	return &numbers[space & (NUMBERS - 1)];
}

static __always_inline void remove_space(__u64 mm)
{
	if (bpf_map_delete_elem(&spaces, &mm) == 0)
		__sync_fetch_and_add(&totals.generation, 1);
}

static __always_inline void use_space(__u32 space)
{
	if (space)
		__sync_fetch_and_add(&holder_of(space)->users, 1);
}

/* A process ends or changes its memory: the space ends with the last process that uses it. When the hooks of exec and
 * exit run, the kernel may have given the mm_struct to another process already, whose space is another. */
static __always_inline void leave_space(__u64 mm, __u32 space)
{
	if (!space || __sync_fetch_and_add(&holder_of(space)->users, -1) != 1)
		return;
	__u32 *found = bpf_map_lookup_elem(&spaces, &mm);
	if (found && *found == space)
		remove_space(mm);
}

static __always_inline void notify(__u32 what, struct task_struct *task, __u32 space, __u32 parent_space,
				   __u32 parent_tgid)
{
	struct notice *notice = bpf_ringbuf_reserve(&notices, sizeof(*notice), 0);

	if (!notice) {
		__sync_fetch_and_add(&totals.lost_notices, 1);
		return;
	}
	notice->time_ns = bpf_ktime_get_ns();
	notice->start_boottime_ns = task->start_boottime;
	notice->what = what;
	notice->space = space;
	notice->parent_space = parent_space;
	notice->tgid = task->tgid;
	notice->parent_tgid = parent_tgid;
	notice->exec_epoch = (__u32)task->self_exec_id;
	/* Sixteen bytes, as two words: the string helper is refused under lockdown=confidentiality. */
	__u64 *comm = (__u64 *)notice->comm;
	comm[0] = LOAD(task, struct task_struct, comm);
	comm[1] = load((__u64)task + bpf_core_field_offset(struct task_struct, comm) + 8);
	bpf_ringbuf_submit(notice, 0);
}

static long take_number(__u32 attempt, __u32 *taken)
{
	__u32 space = __sync_fetch_and_add(&totals.last_space, 1) + 1;
	struct holder *holder = holder_of(space);

	if (!(space & (NUMBERS - 1)) || holder->users)
		return 0;
	holder->users = 1;
	holder->space = space;
	*taken = space;
	return 1;
}

/* 0: there is no room for it. */
static __always_inline __u32 new_space(__u64 mm)
{
	__u32 space = 0;

	bpf_loop(NUMBERS, take_number, &space, 0);
	if (!space || bpf_map_update_elem(&spaces, &mm, &space, BPF_ANY)) {
		if (space)
			holder_of(space)->users = 0;
		__sync_fetch_and_add(&totals.lost_processes, 1);
		return 0;
	}
	__sync_fetch_and_add(&totals.generation, 1);
	return space;
}

/* What is noted of a fault is told while its space's number is still its own. */
static __always_inline void tell_pending(struct cpu_state *cpu, __u32 id, __u32 thread)
{
	struct pending *fault = pending_of(thread);

	if (!fault->start || fault->thread != thread)
		return;
	emit_fault(cpu, id, fault, KIND_SWAP_CACHE_HIT, LATENCY_UNKNOWN);
	fault->start = 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(program_starts, struct task_struct *task, int old_pid)
{
	__u32 tgid = task->tgid;
	__u64 mm = (__u64)task->mm;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!process) {
		remove_space(mm); // the memory of an ended space's mm_struct, used again
		return 0;
	}
	if (cpu)
		tell_pending(cpu, id, old_pid);
	__u32 parent = process->space;
	totals.reads_are_counted = bpf_core_field_exists(struct task_io_accounting, read_bytes);
	if (!parent) { /* what was before the first exec is not the program's */
		__sync_fetch_and_add(&totals.major_faults, -task->maj_flt);
		add_delays(&stall_totals.ended, task, -1);
	}
	leave_space(process->mm, parent);
	process->mm = mm;
	process->space = new_space(mm);
	notify(NOTICE_EXEC, task, process->space, parent, task->tgid);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_forks, struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_tgid = parent->tgid, tgid = child->tgid;
	__u64 mm = (__u64)child->mm;

	if (tgid == parent_tgid) // a thread
		return 0;
	struct process *origin = bpf_map_lookup_elem(&processes, &parent_tgid);
	if (!origin) {
		if (mm != (__u64)parent->mm)
			remove_space(mm); // the memory of an ended space's mm_struct, used again
		return 0;
	}
	struct process process = { .mm = mm, .space = origin->space };
	if (mm != (__u64)parent->mm)
		process.space = new_space(mm);
	else
		use_space(process.space);
	if (bpf_map_update_elem(&processes, &tgid, &process, BPF_ANY)) {
		leave_space(mm, process.space);
		__sync_fetch_and_add(&totals.lost_processes, 1);
		return 0;
	}
	notify(NOTICE_FORK, child, process.space, origin->space, parent_tgid);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_ends, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!process || !cpu)
		return 0;
	__sync_fetch_and_add(&totals.major_faults, task->maj_flt);
	add_delays(&stall_totals.ended, task, 1);
	tell_pending(cpu, id, task->pid);
	tell_file_fault(cpu, id, file_fault_of(task), task->pid);
	if (task->signal->live.counter > 0)
		return 0;
	struct process ended = *process;
	if (bpf_map_delete_elem(&processes, &tgid)) // of two threads that end last at once, one tells
		return 0;
	leave_space(ended.mm, ended.space);
	notify(NOTICE_EXIT, task, ended.space, 0, 0);
	return 0;
}
