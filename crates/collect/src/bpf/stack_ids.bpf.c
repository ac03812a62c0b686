// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// What recording calls on files costs the usual way, for comparison (examples/stack_ids.rs): a system call's begin looks up
// the number of its call path in the kernel's own table of stacks, by frame pointers, and sends it by a ring buffer. That is
// the least that such a tool does: no file, no latency, no result.
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

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
