// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Where does this kernel map all of memory, and how many levels have its page tables? KASLR moves the direct
// map in steps of 1 GiB. A page of our own whose frame number /proc/self/pagemap gave us, and whose contents
// we know, decides: the right guess reads those contents at that frame, and walks to that frame. Without CAP_SYS_ADMIN
// the frame number is not told: then the right guess walks to a page with those contents, and no guess follows an
// entry beyond the machine's memory.
// Run once, by BPF_PROG_TEST_RUN.
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "arch.h"
#include "memory.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define GUESS_STEP (1ULL << 30)
#define GUESSES 8192 // GiB of physical memory below the top-level table

struct calibration calibration SEC(".data.calibration") = {};

struct guess {
	__u64 pgd;
};

static __always_inline bool leads_to_frame(__u64 base, __u64 pgd, __u32 top_level_shift)
{
	__u64 entry = walk(base, pgd, calibration.address, top_level_shift);

	return (entry & ENTRY_PRESENT) && (entry & ENTRY_TABLE) >> PAGE_SHIFT == calibration.frame;
}

static __always_inline bool in_memory(__u64 entry)
{
	return (entry & ENTRY_PRESENT) && (entry & ENTRY_TABLE) >> PAGE_SHIFT < calibration.frames;
}

/* The frame of the probe page, 0: this guess is wrong. */
static __always_inline __u64 frame_by(__u64 base, __u64 pgd, int top_level_shift)
{
	__u64 address = calibration.address;
	__u64 entry = load(pgd + ((address >> top_level_shift) & 511) * 8);

	for (int shift = top_level_shift - 9; shift >= PAGE_SHIFT; shift -= 9) {
		if (!in_memory(entry))
			return 0;
		entry = next_table(base, entry & ENTRY_TABLE, address, shift);
	}
	if (!in_memory(entry))
		return 0;
	entry &= ENTRY_TABLE;
	return load(base + entry) == calibration.magic ? entry >> PAGE_SHIFT : 0;
}

static __always_inline long try_walk(__u64 base, __u64 pgd)
{
	__u64 frame = frame_by(base, pgd, TOP_LEVEL_SHIFT_4);

	calibration.top_level_shift = TOP_LEVEL_SHIFT_4;
	if (!frame) {
		frame = frame_by(base, pgd, TOP_LEVEL_SHIFT_5);
		calibration.top_level_shift = TOP_LEVEL_SHIFT_5;
	}
	if (!frame)
		return 0;
	calibration.frame = frame;
	calibration.direct_map = base;
	return 1;
}

static long try_guess(__u32 step, struct guess *guess)
{
	__u64 base = (guess->pgd & ~(GUESS_STEP - 1)) - step * GUESS_STEP;

	if (!calibration.frame)
		return try_walk(base, guess->pgd);
	if (load(base + (calibration.frame << PAGE_SHIFT)) != calibration.magic)
		return 0;
	if (leads_to_frame(base, guess->pgd, TOP_LEVEL_SHIFT_4))
		calibration.top_level_shift = TOP_LEVEL_SHIFT_4;
	else if (leads_to_frame(base, guess->pgd, TOP_LEVEL_SHIFT_5))
		calibration.top_level_shift = TOP_LEVEL_SHIFT_5;
	else
		return 0;
	calibration.direct_map = base;
	return 1;
}

// The array of struct page lies on a step of 1 GiB too. Any pointer into it will do to start from: the pages of
// this task's kernel stack. The probe page's own entry says which virtual page it is.
static long try_array(__u32 step, __u64 *somewhere)
{
	__u64 base = (*somewhere & ~(GUESS_STEP - 1)) - step * GUESS_STEP;
	__u64 page = base + calibration.frame * bpf_core_type_size(struct page);
	struct owner owner;

	if (LOAD(page, struct folio, index) != calibration.address >> PAGE_SHIFT)
		return 0;
	if (!find_owner(page, &owner) || owner.address != calibration.address)
		return 0;
	calibration.page_structs = base;
	return 1;
}

SEC("raw_tp/sys_enter")
int calibrate(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct guess guess = { .pgd = LOAD(task->mm, struct mm_struct, pgd) };

	bpf_loop(GUESSES, try_guess, &guess, 0);
	if (bpf_core_field_exists(struct task_struct, stack_vm_area)) {
		__u64 area = LOAD(task, struct task_struct, stack_vm_area);
		__u64 somewhere = load(LOAD(area, struct vm_struct, pages));

		bpf_loop(GUESSES, try_array, &somewhere, 0);
	}
	return 0;
}
