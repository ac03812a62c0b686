/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Waiting for memory that is no swap-in: threads that reclaim memory themselves, pages on their way to a slow
 * swap device, and what the kernel's own delay accounting says of recorded threads.
 * Included by swap.bpf.c.
 */

struct stall_totals stall_totals SEC(".data.stall_totals") = {};
struct delays live_sum SEC(".data.live_sum") = {}; // by live_delays; the reader zeroes it before

// Reclaims under way, by thread.
struct stall {
	__u64 start;
	__u64 what; // STALL_*
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct stall);
} stalls SEC(".maps");

// A fault noted by this thread that is still waiting for its page. A note may be stale: no event tells the end of
// a fault that found its page in the swap cache. Memory is charged before the entry is replaced (mm/memory.c,
// 6.12, do_swap_page), so while a swap-in reclaims, its entry is still one of swap, or empty for shared memory.
static __always_inline bool is_swapping_in(struct task_struct *task, __u64 mm)
{
	struct pending *fault = pending_of(task->pid);

	if (!fault->start || fault->thread != (__u32)task->pid)
		return false;
	__u64 entry = page_table_entry(mm, fault->address);

	return is_swap_entry(entry) || (fault->file && !entry);
}

static __always_inline int reclaim_begins(__u64 what)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 thread = task->pid;
	struct cpu_state *cpu;
	__u32 id;

	if (!space_here(task, &cpu, &id))
		return 0;
	if (is_swapping_in(task, (__u64)task->mm))
		what |= STALL_IN_SWAP_IN;
	struct stall stall = { .start = now(cpu), .what = what };
	if (bpf_map_update_elem(&stalls, &thread, &stall, BPF_ANY))
		__sync_fetch_and_add(&stall_totals.lost_stalls, 1);
	return 0;
}

static __always_inline int reclaim_ends(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 thread = task->pid;
	struct cpu_state *cpu;
	__u32 id, space = space_here(task, &cpu, &id);

	if (!space)
		return 0;
	struct stall *stall = bpf_map_lookup_elem(&stalls, &thread);
	if (!stall) // it began before we looked
		return 0;
	emit(cpu, id, kind_word(KIND_STALL, stall->what), time_word(space, stall->start),
	     latency_word(latency_of(stall->start, now(cpu)), thread), 0, 3);
	bpf_map_delete_elem(&stalls, &thread);
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(direct_reclaim_begins)
{
	return reclaim_begins(STALL_DIRECT_RECLAIM);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(direct_reclaim_ends)
{
	return reclaim_ends();
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(memcg_reclaim_begins)
{
	return reclaim_begins(STALL_MEMCG_RECLAIM);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(memcg_reclaim_ends)
{
	return reclaim_ends();
}

// Pages submitted to a slow swap device, by bio. One folio a bio (mm/page_io.c, 6.12, swap_writepage_bdev_async); of
// a bio that is split for the device, the first one ends last.
struct write {
	__u64 address;
	__u64 time_word;
	__u64 start;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, struct write);
} writes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} completions SEC(".maps");

static __always_inline void write_begins(struct cpu_state *cpu, __u32 id, struct bio *bio, __u64 page)
{
	struct owner owner;
	__u32 space = recorded_owner(cpu, page, &owner);
	__u64 key = (__u64)bio;
	__u64 flags = PAGE_WRITTEN | (__u64)folio_order(page) << PAGE_ORDER_SHIFT;

	if (!space)
		return;
	__u64 start = now(cpu);
	struct write write = {
		.address = owner.address,
		.time_word = time_word(space, start),
		.start = start,
	};
	if (bpf_map_update_elem(&writes, &key, &write, BPF_ANY))
		__sync_fetch_and_add(&stall_totals.lost_completions, 1);
	else
		flags |= PAGE_IN_FLIGHT;
	emit(cpu, id, kind_word(KIND_PAGE, owner.address | flags), write.time_word, 0, 0, 2);
}

// In an interrupt, so no ring of a processor may be written.
static __always_inline void write_ends(__u64 bio)
{
	struct write *write = bpf_map_lookup_elem(&writes, &bio);

	if (!write)
		return;
	struct completion *completion = bpf_ringbuf_reserve(&completions, sizeof(*completion), 0);
	if (completion) {
		completion->address = write->address;
		completion->time_word = write->time_word;
		completion->latency_ns = bpf_ktime_get_ns() - write->start;
		bpf_ringbuf_submit(completion, BPF_RB_NO_WAKEUP);
	} else {
		__sync_fetch_and_add(&stall_totals.lost_completions, 1);
	}
	bpf_map_delete_elem(&writes, &bio);
}

struct completed {
	__u64 bio;
	__u64 bytes;
};

static long complete_bio(__u32 number, struct completed *completed)
{
	__u32 size = LOAD(completed->bio, struct bio, bi_iter.bi_size);

	if (!completed->bio || size > completed->bytes)
		return 1;
	write_ends(completed->bio);
	completed->bytes -= size;
	completed->bio = LOAD(completed->bio, struct bio, bi_next);
	return 0;
}

#define MOST_BIOS 2048 // of one request; usually max_sectors_kb allows 320

// Devices that queue requests: a request holds the bios of neighbouring pages (block/blk-mq.c, 6.12,
// blk_update_request), and may be completed in parts.
SEC("tp_btf/block_rq_complete")
int BPF_PROG(swap_request_done, struct request *request, int error, unsigned int bytes)
{
	if ((request->cmd_flags & REQ_OP_MASK) != REQ_OP_WRITE)
		return 0;
	struct completed completed = { .bio = (__u64)request->bio, .bytes = bytes };

	bpf_loop(MOST_BIOS, complete_bio, &completed, 0);
	return 0;
}

// Others. Those bios that were part of a request are not told of here (BIO_TRACE_COMPLETION).
SEC("tp_btf/block_bio_complete")
int BPF_PROG(swap_io_done, void *queue, struct bio *bio)
{
	write_ends((__u64)bio);
	return 0;
}

static __always_inline void add_delays(struct delays *sum, struct task_struct *task, __s64 sign)
{
	if (!bpf_core_field_exists(struct task_struct, delays))
		return;
	struct task_delay_info *delays = task->delays;
	if (!delays)
		return;
	__sync_fetch_and_add(&sum->threads, 1);
	__sync_fetch_and_add(&sum->swapin_ns, sign * delays->swapin_delay);
	__sync_fetch_and_add(&sum->freepages_ns, sign * delays->freepages_delay);
	__sync_fetch_and_add(&sum->freepages_count, sign * delays->freepages_count);
	__sync_fetch_and_add(&sum->thrashing_ns, sign * delays->thrashing_delay);
	__sync_fetch_and_add(&sum->blkio_ns, sign * delays->blkio_delay);
}

#define PF_EXITING 4 // include/linux/sched.h (6.12): thread_ends has added it, or is about to

// Run by reading an iterator: each task of the machine.
SEC("iter/task")
int live_delays(struct bpf_iter__task *iterator)
{
	struct task_struct *task = iterator->task;

	if (!task || (task->flags & PF_EXITING))
		return 0;
	__u32 tgid = task->tgid;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);
	if (process && process->space)
		add_delays(&live_sum, task, 1);
	return 0;
}
