/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Swap-in faults on shared memory (tmpfs: shared anonymous mappings, memfd, System V, /dev/shm). Its entry in the page table is
 * empty while the page is in swap (mm/shmem.c, 6.18: the file knows), as that of a page never touched, so the begin of such a
 * fault says nothing. What is mapped at its end does: a major fault that ends with a swap-backed page which is not private has read
 * it from swap. From then on it is known which file lies there, and at the begin of a fault in the same 2 MiB the file is asked: such
 * faults are as others then, those that find their page in the swap cache included. (bpf_find_vma tells of the mapping, too, but
 * costs 12 us: it gives its lock back by an interrupt of its own.) Whose such a page was that is evicted cannot be told: it has left
 * its file by the time the kernel tells of it.
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

/* Which file lies where, by 2 MiB of addresses, as the last major fault there told. Another processor may be writing one. */
#define REGION_SHIFT 21
#define PAGE_OF_REGION ((1UL << (REGION_SHIFT - PAGE_SHIFT)) - 1)
#define SHARED_REGIONS 8192
#define MM_SHIFT 8 /* a struct mm_struct is larger */
#define MM_SPREAD 2654435761UL
struct shared_region {
	__u64 mm;
	__u64 number;
	__u64 file;
	__u64 shift; /* a page's place in the file, less its number in the address space */
};
struct shared_region shared_regions[SHARED_REGIONS];

#define XA_KIND 3UL
#define XA_INNER 2UL
#define XA_SLOTS 64 /* XA_CHUNK_SIZE without CONFIG_BASE_SMALL */
#define MOST_LEVELS 8

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

/* A page of shared memory: the struct address_space of its file, and which page of that. */
struct file_page {
	__u64 file;
	__u64 index;
};

/* The page that is mapped there, if it is one of shared memory: swap-backed, and not private. include/linux/mm_types.h (6.18): the
 * second word of a page that is part of a larger folio leads to its first page. */
static __always_inline bool find_shared_memory(__u64 mm, __u64 address, struct file_page *found)
{
	__u64 entry = page_table_entry(mm, address);

	if (!config.page_structs || !(entry & ENTRY_PRESENT))
		return false;
	__u64 frame = (entry & ENTRY_TABLE) >> PAGE_SHIFT;
	if (entry & ENTRY_HUGE)
		frame = (frame & ~PAGE_OF_REGION) | (address >> PAGE_SHIFT & PAGE_OF_REGION);
	__u64 page = config.page_structs + frame * bpf_core_type_size(struct page);
	__u64 head = load(page + sizeof(__u64));
	__u64 folio = head & 1 ? head - 1 : page;

	if (!PAGE_FLAG(folio, PG_swapbacked) || is_anonymous(folio))
		return false;
	found->file = LOAD(folio, struct folio, mapping);
	found->index = LOAD(folio, struct folio, index) + (page - folio) / bpf_core_type_size(struct page);
	return true;
}

static __always_inline struct shared_region *shared_region_of(__u64 mm, __u64 address)
{
	return &shared_regions[((mm >> MM_SHIFT) * MM_SPREAD + (address >> REGION_SHIFT)) & (SHARED_REGIONS - 1)];
}

static __always_inline void note_shared_memory(__u64 mm, __u64 address, struct file_page *found)
{
	struct shared_region *region = shared_region_of(mm, address);

	region->mm = mm;
	region->number = address >> REGION_SHIFT;
	region->file = found->file;
	region->shift = found->index - (address >> PAGE_SHIFT);
}

/* What a file has for a page in its tree: the page, or a word for its place in swap, which is odd (include/linux/xarray.h, 6.18; of
 * the inner nodes' marks 2 is one for a node, and a number below 64 leads to the slot of a larger folio's first page). 0: neither. */
static __always_inline __u64 entry_of_file(__u64 file, __u64 index)
{
	__u64 entry = LOAD(file, struct address_space, i_pages.xa_head);

	for (int level = 0; level < MOST_LEVELS; level++) {
		if ((entry & XA_KIND) != XA_INNER)
			return level || !index ? entry : 0;
		__u64 node = entry - XA_INNER;
		__u64 slots = node + bpf_core_field_offset(struct xa_node, slots);
		__u8 shift = LOAD(node, struct xa_node, shift);
		__u64 slot = index >> (shift & 63);

		if (!level && slot >= XA_SLOTS)
			return 0;
		entry = load(slots + (slot & (XA_SLOTS - 1)) * sizeof(__u64));
		if ((entry & XA_KIND) == XA_INNER && entry >> 2 < XA_SLOTS)
			entry = load(slots + (entry >> 2) * sizeof(__u64));
	}
	return 0;
}

/* The file of a page that is in swap, as far as an earlier fault in its 2 MiB tells; 0: it is not known to be. What was mapped
 * there then may be no more: see was_shared_memory. */
static __always_inline __u64 file_of_swapped_page(__u64 mm, __u64 address)
{
	struct shared_region *region = shared_region_of(mm, address);
	__u64 file = region->file;

	if (region->mm != mm || region->number != address >> REGION_SHIFT || !file)
		return 0;
	return entry_of_file(file, (address >> PAGE_SHIFT) + region->shift) & 1 ? file : 0;
}

/* Whether the fault has mapped the page that was taken to be in swap. */
static __always_inline bool was_shared_memory(struct task_struct *task, struct pending *fault)
{
	struct file_page found;

	return find_shared_memory((__u64)task->mm, fault->address, &found) && found.file == fault->file;
}

/* The same where it may have gone again since. */
static __always_inline bool may_have_been_shared_memory(struct task_struct *task, struct pending *fault)
{
	return !page_table_entry((__u64)task->mm, fault->address) || was_shared_memory(task, fault);
}

/* A major fault ends that began without an entry of swap: of a file, or of shared memory. */
static __always_inline void other_major_fault_ends(struct cpu_state *cpu, __u32 id, struct task_struct *task, __u64 address)
{
	__u32 space = space_of(cpu, (__u64)task->mm);

	if (!space)
		return;
	struct file_page found;
	if (!find_shared_memory((__u64)task->mm, address, &found)) {
		cpu->file_majors++;
		return;
	}
	totals.shared_memory_swaps = 1;
	note_shared_memory((__u64)task->mm, address, &found);
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
