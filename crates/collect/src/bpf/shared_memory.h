/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Swap-in faults on shared memory (tmpfs: shared anonymous mappings, memfd, System V, /dev/shm). Its entry in the page table is
 * empty while the page is in swap (mm/shmem.c, 6.18: the file knows), as that of a page never touched, so the begin of such a
 * fault says nothing. What is mapped at its end does: a major fault that ends with a swap-backed page which is not private has read
 * it from swap. (bpf_find_vma tells of the mapping, too, but costs 12 us: it gives its lock back by an interrupt of its own.) Whose
 * such a page was that is evicted cannot be told: it has left its file by the time the kernel tells of it.
 */
#ifndef PAGEWISE_SHARED_MEMORY_H
#define PAGEWISE_SHARED_MEMORY_H

/* Faults on empty entries that may turn out to be such, by thread. One that another thread displaces has no latency. */
struct empty_entry_fault {
	__u64 start;
	__u64 address;
	__u64 read_bytes; /* what the thread had read from devices before */
	__u32 thread;
};
struct empty_entry_fault empty_entry_faults[PENDING_SETS];

static __always_inline struct empty_entry_fault *empty_entry_fault_of(__u32 thread)
{
	return &empty_entry_faults[thread & (PENDING_SETS - 1)];
}

/* Only once some shared memory has come back from swap: other programs pay nothing for it. */
static __always_inline void empty_entry_fault_begins(struct cpu_state *cpu, struct task_struct *task, __u64 address)
{
	struct empty_entry_fault *fault = empty_entry_fault_of(task->pid);

	fault->thread = task->pid;
	fault->address = address;
	fault->read_bytes = bytes_read(task);
	fault->start = now(cpu);
}

/* Whether what was just mapped there is a page of shared memory: swap-backed, and not private. include/linux/mm_types.h (6.18): the
 * second word of a page that is part of a larger folio leads to its first page. */
static __always_inline bool is_shared_memory(struct task_struct *task, __u64 address)
{
	__u64 entry = page_table_entry((__u64)task->mm, address);

	if (!config.page_structs || !(entry & ENTRY_PRESENT))
		return false;
	__u64 frame = (entry & ENTRY_TABLE) >> PAGE_SHIFT;
	__u64 page = config.page_structs + frame * bpf_core_type_size(struct page);
	__u64 head = load(page + sizeof(__u64));
	__u64 folio = head & 1 ? head - 1 : page;

	return PAGE_FLAG(folio, PG_swapbacked) && !is_anonymous(folio);
}

/* A major fault ends that began without an entry of swap: of a file, or of shared memory. */
static __always_inline void other_major_fault_ends(struct cpu_state *cpu, __u32 id, struct task_struct *task, __u64 address)
{
	__u32 space = space_of(cpu, (__u64)task->mm);

	if (!space)
		return;
	if (!is_shared_memory(task, address)) {
		cpu->file_majors++;
		return;
	}
	totals.shared_memory_swaps = 1;
	struct empty_entry_fault *begun = empty_entry_fault_of(task->pid);
	bool is_known = begun->start && begun->address == address && begun->thread == (__u32)task->pid;
	__u64 end = now(cpu);
	struct pending fault = {
		.start = is_known ? begun->start : end,
		.address = address,
		.read_bytes = begun->read_bytes,
		.thread = task->pid,
		.space = space,
	};

	if (config.call_paths) {
		struct user_registers registers = USER_REGISTERS((struct pt_regs *)bpf_task_pt_regs(task));

		fault.path = call_path(cpu, task, space, &registers);
	}
	emit_fault(cpu, id, &fault, KIND_SWAP_IN, is_known ? latency_of(fault.start, end) : LATENCY_UNKNOWN);
	if (!config.swap_is_slow)
		cpu->pages_read += is_known ? pages_read_for(task, &fault) : 1;
	begun->start = 0;
}

#endif
