/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * How long a thread was ready to run while others had the processors, from one swap-in fault to the next: the kernel counts that for each
 * thread (kernel/sched/stats.h, 6.12, sched_info_arrive). In that time the program used nothing of what it has in memory.
 * Included by swap.bpf.c.
 */

// What the thread has waited for a processor in all, ns; 0: the kernel does not count it (CONFIG_SCHED_INFO).
static __always_inline __u64 run_delay_of(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->sched_info.run_delay))
		return 0;
	return task->sched_info.run_delay;
}

/* At the begin of a fault. `fault`: the thread's slot, with what was so at its last fault, if that was its own. */
static __always_inline void tell_run_delay(struct cpu_state *cpu, __u32 id, struct pending *fault, struct task_struct *task,
					   __u32 space)
{
	__u64 in_all = run_delay_of(task), before = fault->run_delay;

	fault->run_delay = in_all;
	// Of a thread that got the number of one that has ended it is its own all the same, less what that one had.
	if (fault->thread != (__u32)task->pid || in_all < before + LEAST_RUN_DELAY)
		return;
	emit(cpu, id, kind_word(KIND_RUN_DELAY, 0), time_word(space, now(cpu) - (in_all - before)),
	     latency_word(latency_of(0, in_all - before), fault->thread), 0, 3);
}
