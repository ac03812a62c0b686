/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Which address spaces are recorded: the program's, and those of its children, across exec.
 * Included by swap.bpf.c.
 */

static __always_inline void forget_space(__u64 mm)
{
	if (bpf_map_delete_elem(&spaces, &mm) == 0)
		__sync_fetch_and_add(&totals.generation, 1);
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

static __always_inline __u32 new_space(__u64 mm)
{
	__u32 space = __sync_fetch_and_add(&totals.last_space, 1) + 1;

	if (space > 0xffff || bpf_map_update_elem(&spaces, &mm, &space, BPF_ANY))
		return 0;
	__sync_fetch_and_add(&totals.generation, 1);
	return space;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(program_starts, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	__u64 mm = (__u64)task->mm;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process) {
		forget_space(mm); // the memory of an ended space's mm_struct, used again
		return 0;
	}
	__u32 parent = process->space;
	totals.reads_are_counted = bpf_core_field_exists(struct task_io_accounting, read_bytes);
	if (!parent) { /* what was before the first exec is not the program's */
		__sync_fetch_and_add(&totals.major_faults, -task->maj_flt);
		add_delays(&stall_totals.ended, task, -1);
	}
	if (process->owns_mm)
		forget_space(process->mm);
	process->mm = mm;
	process->owns_mm = true;
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
			forget_space(mm);
		return 0;
	}
	struct process process = { .mm = mm, .space = origin->space, .owns_mm = false };
	if (mm != (__u64)parent->mm) {
		process.owns_mm = true;
		process.space = new_space(mm);
	}
	bpf_map_update_elem(&processes, &tgid, &process, BPF_ANY);
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
	struct pending *fault = pending_of(task->pid);
	if (fault->start && fault->thread == (__u32)task->pid) {
		emit_fault(cpu, id, fault, KIND_SWAP_CACHE_HIT, LATENCY_UNKNOWN);
		fault->start = 0;
	}
	if (task->signal->live.counter > 0)
		return 0;
	if (process->owns_mm)
		forget_space(process->mm);
	notify(NOTICE_EXIT, task, process->space, 0, 0);
	bpf_map_delete_elem(&processes, &tgid);
	return 0;
}
