/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Reading kernel memory, page tables and the reverse map from a BPF program, on a stock kernel.
 */
#ifndef PAGEWISE_MEMORY_H
#define PAGEWISE_MEMORY_H

#include "record.h"

/* bpf_rdonly_cast (kernel 6.2): loads that may fault and then read 0, at the price of a plain load, and
 * allowed under lockdown=confidentiality. Before 6.2: the helper. The verifier drops the other branch. */
extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __ksym __weak;

/* Set before loading (driver.rs); the verifier then takes them for constants. */
const volatile struct config config SEC(".rodata.config") = {
	.top_level_shift = TOP_LEVEL_SHIFT_4,
	.use_cast = 1,
};

static __always_inline __u64 load(__u64 address)
{
	if (config.use_cast) {
		/* Any type that starts with a plain 64-bit integer: the verifier refuses arithmetic on pointers. */
		struct timespec64 *word =
			bpf_rdonly_cast((void *)address, bpf_core_type_id_kernel(struct timespec64));
		return word->tv_sec;
	}
	__u64 word = 0;
	bpf_probe_read_kernel(&word, sizeof(word), (void *)address);
	return word;
}

#define LOAD(base, type, field) load((__u64)(base) + bpf_core_field_offset(type, field))

static __always_inline __u64 next_table(__u64 base, __u64 table, __u64 address, int shift)
{
	return load(base + table + ((address >> shift) & 511) * 8);
}

/* The page-table entry of an address, 0 where no table is mapped; `base` is the direct map. */
static __always_inline __u64 walk(__u64 base, __u64 pgd, __u64 address, __u32 top_shift)
{
	__u64 entry = load(pgd + ((address >> top_shift) & 511) * 8);

	if (top_shift == TOP_LEVEL_SHIFT_5) {
		if (!(entry & ENTRY_PRESENT))
			return 0;
		entry = next_table(base, entry & ENTRY_TABLE, address, 39);
	}
	if (!(entry & ENTRY_PRESENT))
		return 0;
	entry = next_table(base, entry & ENTRY_TABLE, address, 30);
	if (!(entry & ENTRY_PRESENT) || (entry & ENTRY_HUGE))
		return entry;
	entry = next_table(base, entry & ENTRY_TABLE, address, 21);
	if (!(entry & ENTRY_PRESENT) || (entry & ENTRY_HUGE))
		return entry;
	return next_table(base, entry & ENTRY_TABLE, address, 12);
}

static __always_inline __u64 page_table_entry(__u64 mm, __u64 address)
{
	return walk(config.direct_map, LOAD(mm, struct mm_struct, pgd), address,
		    config.top_level_shift);
}

#define ANON_MAPPING 1UL /* include/linux/page-flags.h (6.12): low bits of folio->mapping */
#define MAPPING_FLAGS 3UL
/* A red-black tree of n nodes is at most 2 * log2(n + 1) deep: enough for a million mappings. */
#define TREE_DEPTH 40

struct owner {
	__u64 mm;
	__u64 address;
};

/* Private anonymous memory: not a file's, nor shared by a file without a name (tmpfs). */
static __always_inline bool is_anonymous(__u64 folio)
{
	return (LOAD(folio, struct folio, mapping) & MAPPING_FLAGS) == ANON_MAPPING;
}

/* The mapping and index of an anonymous folio lead to one address space that maps it and to its address there, also after
 * mremap: the first hit in the interval tree of VMAs (mm/interval_tree.c, 6.12). Of a folio shared after
 * fork, one of the family. False: its owner has just gone. */
static __always_inline bool find_owner(__u64 folio, struct owner *owner)
{
	__u64 mapping = LOAD(folio, struct folio, mapping) & ~MAPPING_FLAGS;
	__u64 index = LOAD(folio, struct folio, index);
	__u64 node = LOAD(mapping, struct anon_vma, rb_root.rb_root.rb_node);

	for (int depth = 0; depth < TREE_DEPTH && node; depth++) {
		__u64 link = node - bpf_core_field_offset(struct anon_vma_chain, rb);
		__u64 vma = LOAD(link, struct anon_vma_chain, vma);
		__u64 first = LOAD(vma, struct vm_area_struct, vm_pgoff);
		__u64 start = LOAD(vma, struct vm_area_struct, vm_start);
		__u64 end = LOAD(vma, struct vm_area_struct, vm_end);

		if (first <= index && index - first < (end - start) >> PAGE_SHIFT) {
			owner->mm = LOAD(vma, struct vm_area_struct, vm_mm);
			owner->address = start + ((index - first) << PAGE_SHIFT);
			return true;
		}
		__u64 left = LOAD(link, struct anon_vma_chain, rb.rb_left);
		if (left) {
			__u64 left_link = left - bpf_core_field_offset(struct anon_vma_chain, rb);
			if (LOAD(left_link, struct anon_vma_chain, rb_subtree_last) >= index) {
				node = left;
				continue;
			}
		}
		if (first > index)
			return false;
		node = LOAD(link, struct anon_vma_chain, rb.rb_right);
	}
	return false;
}

#endif
