/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Processes that run already when their recording begins, found by walking all tasks: user space does not know
 * their mm_struct. Included by swap.bpf.c.
 */

#define WANTED 0
#define JOINED 1

/* Process -> WANTED or JOINED: filled and emptied by the reader around each walk. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, __u32);
} wanted SEC(".maps");

struct live live SEC(".data.live") = {};

/* False: there was no room for it, or it is just changing its program or ending. */
static __always_inline bool join_running(struct task_struct *task, __u32 tgid, __u64 mm)
{
	struct process process = { .mm = mm };
	__u32 *lent = bpf_map_lookup_elem(&spaces, &mm);

	/* Between vfork and exec: in its parent's memory. */
	process.space = lent ? *lent : new_space(mm);
	if (!process.space)
		return false;
	if (lent)
		use_space(process.space);
	bool new = !bpf_map_update_elem(&processes, &tgid, &process, BPF_NOEXIST);
	if (!new || (__u64)task->mm != mm) {
		leave_space(mm, process.space);
		if (new)
			bpf_map_delete_elem(&processes, &tgid);
		return false;
	}
	notify(NOTICE_JOIN, task->group_leader, process.space, lent ? process.space : 0, 0);
	return true;
}

SEC("iter/task")
int find_wanted(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;

	if (!task)
		return 0;
	__u32 tgid = task->tgid;
	__u64 mm = (__u64)task->mm;
	__u32 *state = bpf_map_lookup_elem(&wanted, &tgid);

	if (!state || !mm) // the first thread of a process may be gone: any will do
		return 0;
	if (*state == WANTED) {
		if (bpf_map_lookup_elem(&processes, &tgid) || !join_running(task, tgid, mm))
			return 0;
		*state = JOINED;
	}
	totals.reads_are_counted = bpf_core_field_exists(struct task_io_accounting, read_bytes);
	/* Faults and waits of each of its threads up to now are not the recording's. */
	__sync_fetch_and_add(&totals.major_faults, -task->maj_flt);
	add_delays(&stall_totals.ended, task, -1);
	return 0;
}

/* totals.major_faults has those of threads that have ended. */
SEC("iter/task")
int count_major_faults(struct bpf_iter__task *context)
{
	struct task_struct *task = context->task;

	if (!task)
		return 0;
	__u32 tgid = task->tgid;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (process && process->space)
		live.major_faults += task->maj_flt;
	return 0;
}
