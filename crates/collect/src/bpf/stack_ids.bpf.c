// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// What recording calls on files costs the usual way, for comparison (examples/stack_ids.rs): a system call's begin looks up
// the number of its call path in the kernel's own table of stacks, by frame pointers, and sends it by a ring buffer. That is
// the least that such a tool does: no file, no latency, no result. With these it does as tools of bcc do that tell how long calls took
// (fileslower, ext4slower): a hash map has what is known from a call's begin to its end.
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#if defined(__TARGET_ARCH_arm64)
#define ARGUMENTS(from) { (from)->regs[0], (from)->regs[1], (from)->regs[2], (from)->regs[3] }
#else
#define ARGUMENTS(from) { (from)->di, (from)->si, (from)->dx, (from)->r10 }
#endif

// bpf_get_stackid is for GPL-compatible programs only.
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#if defined(__TARGET_ARCH_arm64)
#define CALL_PREAD 67
#else
#define CALL_PREAD 17
#endif
#define MOST_FRAMES 127 // kernel.perf_event_max_stack
#define USER_STACK (1ULL << 8) // BPF_F_USER_STACK (include/uapi/linux/bpf.h)

__u32 watched SEC(".data.watched") = 0; // its process

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 16384);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MOST_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} calls SEC(".maps");

struct call {
	__u64 time_ns;
	__u32 thread;
	__s32 stack; // or the negative error
};

__u64 lost SEC(".data.lost") = 0;

SEC("tp_btf/sys_enter")
int BPF_PROG(call_begins, struct pt_regs *regs, long number)
{
	__u64 ids = bpf_get_current_pid_tgid();

	if (number != CALL_PREAD || ids >> 32 != watched)
		return 0;
	struct call *call = bpf_ringbuf_reserve(&calls, sizeof(*call), 0);
	if (!call) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	call->time_ns = bpf_ktime_get_ns();
	call->thread = ids;
	call->stack = bpf_get_stackid(ctx, &stacks, USER_STACK);
	bpf_ringbuf_submit(call, BPF_RB_NO_WAKEUP);
	return 0;
}

struct whole_call {
	struct call begin;
	__u64 latency_ns;
	__u64 offset;
	__u64 inode;
	__s64 result;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__type(key, __u32); // thread
	__type(value, struct whole_call);
} under_way SEC(".maps");

SEC("tp_btf/sys_enter")
int BPF_PROG(whole_call_begins, struct pt_regs *regs, long number)
{
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 thread = ids;

	if (number != CALL_PREAD || ids >> 32 != watched)
		return 0;
	__u64 arguments[4] = ARGUMENTS(regs);
	struct task_struct *task = bpf_get_current_task_btf();
	struct file **files = BPF_CORE_READ(task, files, fdt, fd);
	struct file *file = 0;

	bpf_probe_read_kernel(&file, sizeof(file), files + (__u32)arguments[0]);
	struct whole_call call = {
		.begin = {
			.time_ns = bpf_ktime_get_ns(),
			.thread = thread,
			.stack = bpf_get_stackid(ctx, &stacks, USER_STACK),
		},
		.offset = arguments[3],
		.inode = BPF_CORE_READ(file, f_inode, i_ino),
	};
	bpf_map_update_elem(&under_way, &thread, &call, BPF_ANY);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(whole_call_ends, struct pt_regs *regs, long result)
{
	__u32 thread = bpf_get_current_pid_tgid();
	struct whole_call *call = bpf_map_lookup_elem(&under_way, &thread);

	if (!call)
		return 0;
	call->latency_ns = bpf_ktime_get_ns() - call->begin.time_ns;
	call->result = result;
	if (bpf_ringbuf_output(&calls, call, sizeof(*call), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&lost, 1);
	bpf_map_delete_elem(&under_way, &thread);
	return 0;
}
