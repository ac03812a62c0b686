// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Which pages of an address space are in memory, accessed, written or swapped: a walk of its page tables, region by
// region of 2 MiB. Run by BPF_PROG_TEST_RUN, some hundred regions at a time, from the process that wants to know.
//
// The address space is named by a descriptor of /proc/PID/pagemap: that file keeps the mm_struct, so that its memory
// is not used again meanwhile, though not its page tables. The run holds RCU's read lock, which most kernels wait for
// before they free a table (MMU_GATHER_RCU_TABLE_FREE); no load can fault; and what was read counts only if the path
// to the table is afterwards the same and the address space still has users.
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "arch.h"
#include "memory.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define REGION_SHIFT 21
#define REGION_SIZE (1UL << REGION_SHIFT)
#define STEPS 8192 // of one run: regions seen, or holes of any size skipped
#define ATTEMPTS 2

struct look look SEC(".data.look") = {};
struct zeros zeros SEC(".data.zeros") = {};

struct regions {
	struct region of[MOST_REGIONS];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct regions);
} regions SEC(".maps");

// A table's or a page's copy, where loads go by a helper: one call a table instead of one an entry.
struct table {
	__u64 entries[REGION_PAGES];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct table);
} copies SEC(".maps");

struct walker {
	__u64 pgd;
	__u64 end; // of user space, or of what is wanted
};

// The entry that maps a region or points to its table, and how much address space the last entry seen stands for: what
// can be skipped if that is empty.
static __always_inline __u64 region_entry(__u64 pgd, __u64 address, __u64 *span)
{
	__u64 base = config.direct_map;
	__u64 entry = load(pgd + ((address >> config.top_level_shift) & 511) * 8);

	*span = 1UL << config.top_level_shift;
	if (!entry_is_table(entry))
		return 0;
	if (config.top_level_shift == TOP_LEVEL_SHIFT_5) {
		entry = next_table(base, entry & ENTRY_TABLE, address, 39);
		*span = 1UL << 39;
		if (!entry_is_table(entry))
			return 0;
	}
	entry = next_table(base, entry & ENTRY_TABLE, address, 30);
	*span = 1UL << 30;
	if (!entry_is_table(entry)) {
		if (!entry_is_leaf(entry))
			return 0;
		*span = REGION_SIZE; // 1 GiB, told in pieces
		return entry;
	}
	*span = REGION_SIZE;
	return next_table(base, entry & ENTRY_TABLE, address, REGION_SHIFT);
}

static __always_inline void sort_entry(struct region *region, __u32 word, __u64 entry, __u64 bit)
{
	__u64 zeros = look.zero_frame && (entry & ENTRY_TABLE) >> PAGE_SHIFT == look.zero_frame;
	__u64 resident = entry_is_resident(entry) & !zeros;
	__u64 absent = (entry_is_resident(entry) ^ 1) & (entry != 0);

	region->accessed[word] |= (resident & entry_is_accessed(entry)) << bit;
	region->dirty[word] |= (resident & entry_is_dirty(entry)) << bit;
	region->swapped[word] |= (__u64)is_swap_entry(entry) << bit;
	region->resident[word] |= (resident | (absent & entry_is_migrating(entry))) << bit;
}

#define GROUP 8 // entries looked at together

// One bit of each of eight bytes, side by side.
static __always_inline __u64 bits_of_bytes(__u64 bytes, int bit)
{
	return ((bytes >> bit & 0x0101010101010101UL) * 0x0102040810204080UL) >> 56;
}

static __always_inline __u64 entry_of(const struct table *copy, __u64 table, __u32 page)
{
	return config.copies_tables ? copy->entries[page & (REGION_PAGES - 1)] : load(table + page * 8);
}

static __noinline int sort_group(struct region *region, const struct table *copy, __u64 table, __u32 first)
{
	if (!region || !copy)
		return 0;
	__u32 word = first / 64 & (REGION_WORDS - 1);
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < GROUP; i++) {
		__u32 page = first + i;

		asm volatile("" : "+r"(page));
		sort_entry(region, word, entry_of(copy, table, page), page % 64);
	}
	return 0;
}

// Most tables hold entries of pages in memory, and of nothing: then the bytes of eight entries tell all.
static __always_inline void read_group(struct region *region, const struct table *copy, __u64 table, __u32 first)
{
	__u64 bytes = 0, any = 0, present;
	__u32 word = first / 64 & (REGION_WORDS - 1), shift = first % 64;

#pragma unroll
	for (int i = 0; i < GROUP; i++) {
		__u64 entry = entry_of(copy, table, first + i);

		bytes |= entry_byte(entry) << (8 * i);
		any |= entry;
	}
	if (!any)
		return;
	present = bits_of_bytes(bytes, RESIDENT_BIT);
	if (present != 0xff || any & ENTRY_UNUSUAL) {
		sort_group(region, copy, table, first);
		return;
	}
	region->resident[word] |= present << shift;
	region->accessed[word] |= bits_of_bytes(bytes, ACCESSED_BIT) << shift;
	region->dirty[word] |= bits_of_bytes(bytes, DIRTY_BIT) << shift;
}

// Most words of 64 entries are all alike: absent, or present with the same accessed and dirty bits. Then what all have and what any has tells
// it, at two instructions an entry. False: they differ.
static __always_inline bool read_alike(struct region *region, const __u64 *copied, __u32 word)
{
	__u64 all = ~0UL, any = 0;

#pragma unroll
	for (int i = 0; i < 64; i++) {
		all &= copied[i];
		any |= copied[i];
		asm volatile("" : "+r"(all), "+r"(any)); // else all are loaded first, and there is no place for them
	}
	if (any && !entries_are_alike(all, any))
		return false;
	region->resident[word] = 0 - (__u64)(any != 0);
	region->accessed[word] = 0 - (any && entry_is_accessed(all));
	region->dirty[word] = 0 - (any && entry_is_dirty(all));
	region->swapped[word] = 0;
	return true;
}

// Not static, so that the verifier goes through it once, whatever the word: with all ways through eight words it is too much for it (6.1).
__noinline int read_word(struct region *region, const struct table *copy, __u64 table, __u32 number)
{
	__u32 word = number & (REGION_WORDS - 1);

	if (!region || !copy)
		return 0;
	if (config.copies_tables && read_alike(region, &copy->entries[word * 64], word))
		return 0;
	region->resident[word] = 0;
	region->accessed[word] = 0;
	region->dirty[word] = 0;
	region->swapped[word] = 0;
#pragma clang loop unroll(disable)
	for (__u32 group = 0; group < 64 / GROUP; group++) {
		__u32 first = word * 64 + group * GROUP;

		asm volatile("" : "+r"(first)); // else the compiler, which knows its bounds, leaves out the mask that tells the verifier
		read_group(region, copy, table, first & (REGION_PAGES - GROUP));
	}
	return 0;
}

static __always_inline bool read_table(struct region *region, __u64 table)
{
	__u32 zero = 0;
	struct table *copy = bpf_map_lookup_elem(&copies, &zero);

	if (!copy)
		return false;
	if (config.copies_tables && bpf_probe_read_kernel(copy, sizeof(*copy), (void *)table))
		return false;
#pragma clang loop unroll(disable)
	for (__u32 word = 0; word < REGION_WORDS; word++)
		read_word(region, copy, table, word);
	return true;
}

static __always_inline void fill(__u64 words[REGION_WORDS], __u64 bit)
{
	for (int word = 0; word < REGION_WORDS; word++)
		words[word] = 0 - bit;
}

static __always_inline void read_huge(struct region *region, __u64 entry)
{
	region->huge = 1;
	fill(region->resident, 1);
	fill(region->accessed, entry_is_accessed(entry));
	fill(region->dirty, entry_is_dirty(entry));
	fill(region->swapped, 0);
}

// Whether the region has pages, in memory or in swap. -1: its table was exchanged meanwhile. A function of its own, so that each word of
// the region lies at a fixed place behind one pointer: else all their addresses are kept, and the frames of all functions together may
// have 512 bytes.
static __noinline int read_region(struct region *region, __u64 entry)
{
	if (!region)
		return 0;
	if (entry_is_leaf(entry)) {
		read_huge(region, entry);
		return 1;
	}
	if (!entry_is_table(entry)) {
		if (!entry || entry_is_resident(entry) || !entry_is_migrating(entry))
			return 0;
		read_huge(region, 0); // a huge page on its way to another place
		return 1;
	}
	region->huge = 0;
	if (!read_table(region, config.direct_map + (entry & ENTRY_TABLE)))
		return -1;
	__u64 any = 0;
	for (int word = 0; word < REGION_WORDS; word++)
		any |= region->resident[word] | region->swapped[word];
	return any != 0;
}

static long visit(__u32 step, struct walker *walker)
{
	__u64 address = look.address, span = 0, span_after = 0;
	__u32 zero = 0, number = look.regions;
	struct regions *found = bpf_map_lookup_elem(&regions, &zero);

	if (!found || number >= MOST_REGIONS)
		return 1;
	struct region *region = &found->of[number];
	int used = -1;

	__u64 entry = region_entry(walker->pgd, address, &span);
	for (int attempt = 0; attempt < ATTEMPTS && used < 0; attempt++) {
		used = read_region(region, entry);
		// Its accessed and dirty bits may change: those of the table it points to are of no interest.
		__u64 after = region_entry(walker->pgd, address, &span_after);
		if (!entry_is_table(entry) ? entry_is_table(after) != 0 : (after ^ entry) & ENTRY_TABLE) {
			entry = after;
			span = span_after;
			used = -1;
		}
	}
	if (used < 0)
		look.changed++;
	if (used > 0) {
		region->address = address;
		look.regions = number + 1;
	}
	address = (address & ~(span - 1)) + span;
	look.address = address < walker->end ? address : 0;
	return look.address == 0;
}

static __always_inline __u64 mm_of(__u64 descriptor)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 table = LOAD(LOAD(task, struct task_struct, files), struct files_struct, fdt);
	__u64 file = load(LOAD(table, struct fdtable, fd) + descriptor * 8);

	return LOAD(file, struct file, private_data);
}

static __always_inline bool has_users(__u64 mm)
{
	return (__u32)LOAD(mm, struct mm_struct, mm_users) != 0;
}

SEC("raw_tp/sys_enter")
int look_at_regions(void *ctx)
{
	look.regions = 0;
	look.changed = 0;
	look.flags = 0;
	look.mm = mm_of(look.file);
	// Where the file's process had no memory (a kernel thread, a zombie), it has none.
	if (!look.mm || !has_users(look.mm)) {
		look.flags = LOOK_GONE;
		return 0;
	}
	struct walker walker = {
		.pgd = LOAD(look.mm, struct mm_struct, pgd),
		.end = 1UL << (config.top_level_shift + 8),
	};
	if (look.end && look.end < walker.end)
		walker.end = look.end;
	bpf_loop(STEPS, visit, &walker, 0);
	if (!has_users(look.mm)) // its tables were on their way out while they were read
		look.flags = LOOK_GONE;
	return 0;
}

// The frame of a huge page: what its entry holds besides are flags, bit 12 (PAT) among them.
#define HUGE_FRAME (ENTRY_TABLE & ~(REGION_SIZE - 1))
#define WORDS_A_STEP 8

struct contents {
	__u64 address;
	bool zero;
};

static long look_at_words(__u32 step, struct contents *page)
{
	__u64 words = 0;
	__u32 zero = 0;
	struct table *copy = bpf_map_lookup_elem(&copies, &zero);

	if (!copy)
		return 1;
	for (int word = 0; word < WORDS_A_STEP; word++) {
		__u32 index = step * WORDS_A_STEP + word;

		words |= config.copies_tables ? copy->entries[index & (REGION_PAGES - 1)] :
						load(page->address + index * sizeof(__u64));
	}
	page->zero = words == 0;
	return !page->zero;
}

// A page in use shows a bit after a few bytes: its first and last words are looked at before all the others.
static __always_inline bool is_zero_page(__u64 address, struct table *copy)
{
	struct contents page = { .address = address };

	if (load(address) || load(address + PAGE_SIZE - sizeof(__u64)))
		return false;
	if (config.copies_tables && bpf_probe_read_kernel(copy, sizeof(*copy), (void *)address))
		return false;
	bpf_loop(PAGE_SIZE / sizeof(__u64) / WORDS_A_STEP, look_at_words, &page, 0);
	return page.zero;
}

static long count_page(__u32 number, __u64 *start)
{
	__u32 zero = 0;
	struct table *copy = bpf_map_lookup_elem(&copies, &zero);

	if (copy && is_zero_page(*start + ((__u64)number << PAGE_SHIFT), copy))
		zeros.count++;
	return 0;
}

// What it reads may change or become another's meanwhile: the count is a hint. The kernel looks again, under its locks,
// before it frees a page.
SEC("raw_tp/sys_enter")
int count_zeros(void *ctx)
{
	__u64 mm = mm_of(zeros.file), span = 0;

	zeros.huge = 0;
	zeros.count = 0;
	if (!mm || !has_users(mm))
		return 0;
	__u64 pgd = LOAD(mm, struct mm_struct, pgd);
	__u64 entry = region_entry(pgd, zeros.address, &span);
	if (!entry_is_leaf(entry) || !entry_is_resident(entry))
		return 0;
	__u64 start = config.direct_map + (entry & HUGE_FRAME);
	bpf_loop(REGION_PAGES, count_page, &start, 0);
	__u64 after = region_entry(pgd, zeros.address, &span);
	zeros.huge = entry_is_leaf(after) && ((after ^ entry) & HUGE_FRAME) == 0 && has_users(mm);
	return 0;
}
