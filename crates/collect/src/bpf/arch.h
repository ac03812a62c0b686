/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * All that depends on the processor: how page tables are walked and what a swap entry looks like.
 */
#ifndef PAGEWISE_ARCH_H
#define PAGEWISE_ARCH_H

#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)

/* What unwinding begins with. */
struct user_registers {
	__u64 ip, sp, fp;
	__u64 lr; /* where there is one */
};

#if defined(__TARGET_ARCH_x86)

#define ENTRY_PRESENT 0x1UL
#define ENTRY_HUGE 0x80UL
#define ENTRY_TABLE 0xffffffffff000UL
#define TOP_LEVEL_SHIFT_4 39
#define TOP_LEVEL_SHIFT_5 48

/* arch/x86/include/asm/pgtable_64.h (6.12): bits 1 and 8 clear (bit 8 is PROT_NONE), the type in the
 * five highest bits. The kernel's own uses (migration, markers, poison, device memory) take the highest
 * types from MAX_SWAPFILES (23 or more) on; swap areas are numbered from zero. */
static __always_inline bool is_swap_entry(__u64 entry)
{
	return entry && !(entry & 0x101) && (entry >> 59) < 16;
}

/* The parts of an entry as the access sensor (access.bpf.c) sorts them; each 0 or 1. arch/x86/include/asm/
 * pgtable_types.h (6.12). A page under PROT_NONE is in memory with bit 0 clear and bit 8 set, and keeps its accessed
 * and dirty bits; of a write-protected page the dirty bit moves to bit 58 (6.6; unused there before). */
static __always_inline __u64 entry_is_resident(__u64 entry)
{
	return (entry | entry >> 8) & 1;
}

static __always_inline __u64 entry_is_accessed(__u64 entry)
{
	return entry >> 5 & 1;
}

static __always_inline __u64 entry_is_dirty(__u64 entry)
{
	return (entry >> 6 | entry >> 58) & 1;
}

/* A byte of each entry, for eight at a time: whether it is resident, accessed and dirty, at these bits of it. It tells all of entries that are present
 * and have none of the unusual bits: PROT_NONE, special (the page of zeros), and the dirty bit in its other place. */
#define ENTRY_UNUSUAL (1UL << 8 | 1UL << 9 | 1UL << 58)
#define RESIDENT_BIT 0
#define ACCESSED_BIT 5
#define DIRTY_BIT 6
static __always_inline __u64 entry_byte(__u64 entry)
{
	return entry & 0xff;
}

/* Whether entries of which `all` have these bits and `any` has those are all present, none of them special, and alike in what is
 * told of them. */
#define ENTRY_TOLD (1UL << ACCESSED_BIT | 1UL << DIRTY_BIT | 1UL << 58)
static __always_inline bool entries_are_alike(__u64 all, __u64 any)
{
	return all & ENTRY_PRESENT && !((all ^ any) & ENTRY_TOLD) && !(any & (1UL << 8 | 1UL << 9));
}

/* Of entries that are not resident. include/linux/swap.h (6.12): the types are numbered down from 31, the highest is
 * that of markers (guard regions and the like: no page), then come device memory (if built in) and migration: that
 * page is in memory, and only on its way to another place. Device memory takes the migration types of a kernel built
 * without it. */
#define MIGRATION_TYPES (7U << 24 | 7U << 28)
static __always_inline __u64 entry_is_migrating(__u64 entry)
{
	return MIGRATION_TYPES >> (entry >> 59) & 1;
}

/* The same bits in the entry of 2 MiB or more: while it is split, it is in memory with bits 0 and 8 clear and
 * ENTRY_HUGE set (arch/x86/include/asm/pgtable.h, 6.12, pmd_present); swap entries there have that bit clear. */
static __always_inline bool entry_is_leaf(__u64 entry)
{
	return entry & ENTRY_HUGE;
}

static __always_inline bool entry_is_table(__u64 entry)
{
	return (entry & (ENTRY_PRESENT | ENTRY_HUGE)) == ENTRY_PRESENT;
}

#define USER_REGISTERS(regs) { .ip = (regs)->ip, .sp = (regs)->sp, .fp = (regs)->bp }

/* The C library keeps a thread's storage at the top of its stack, and fs points to it. */
static __always_inline __u64 thread_pointer_of(struct task_struct *task)
{
	return task->thread.fsbase;
}

/* Of a system call. */
#define ARGUMENTS(regs) { (regs)->di, (regs)->si, (regs)->dx, (regs)->r10 }

#define TS_COMPAT 2 /* arch/x86/include/asm/thread_info.h (6.12): in a call of 32-bit code, numbered otherwise */
static __always_inline bool is_foreign_call(struct task_struct *task)
{
	return task->thread_info.status & TS_COMPAT;
}

#elif defined(__TARGET_ARCH_arm64)

#define ENTRY_PRESENT 0x1UL
#define ENTRY_HUGE 0x0UL
#define ENTRY_TABLE 0xfffffffff000UL
#define TOP_LEVEL_SHIFT_4 39
#define TOP_LEVEL_SHIFT_5 48

/* arch/arm64/include/asm/pgtable.h (6.12): bits 0, 1 and 11 clear, the type in bits 6 to 10. */
static __always_inline bool is_swap_entry(__u64 entry)
{
	return entry && !(entry & 0x803) && ((entry >> 6) & 31) < 16;
}

/* arch/arm64/include/asm/pgtable-prot.h and pgtable-hwdef.h (6.12): valid, or present though invalid (PROT_NONE, bit
 * 11 with bit 0 clear); accessed; written (software's bit, or writable by DBM and not read-only any more). */
static __always_inline __u64 entry_is_resident(__u64 entry)
{
	return (entry | entry >> 11) & 1;
}

static __always_inline __u64 entry_is_accessed(__u64 entry)
{
	return entry >> 10 & 1;
}

static __always_inline __u64 entry_is_dirty(__u64 entry)
{
	return (entry >> 55 | (entry >> 51 & ~entry >> 7)) & 1;
}

/* As on x86: valid ones tell all; special is bit 56. */
#define ENTRY_UNUSUAL (1UL << 56)
#define RESIDENT_BIT 0
#define ACCESSED_BIT 1
#define DIRTY_BIT 2
static __always_inline __u64 entry_byte(__u64 entry)
{
	return (entry & 1) | entry_is_accessed(entry) << ACCESSED_BIT | entry_is_dirty(entry) << DIRTY_BIT;
}

/* As on x86; written is told by three bits. */
#define ENTRY_TOLD (1UL << 10 | 1UL << 55 | 1UL << 51 | 1UL << 7)
static __always_inline bool entries_are_alike(__u64 all, __u64 any)
{
	return all & ENTRY_PRESENT && !((all ^ any) & ENTRY_TOLD) && !(any & ENTRY_UNUSUAL);
}

#define MIGRATION_TYPES (7U << 24 | 7U << 28) /* as on x86: include/linux/swap.h */
static __always_inline __u64 entry_is_migrating(__u64 entry)
{
	return MIGRATION_TYPES >> (entry >> 6 & 31) & 1;
}

#define ENTRY_IS_TABLE 2UL /* above the lowest level: clear in an entry that maps memory itself */
static __always_inline bool entry_is_leaf(__u64 entry)
{
	return entry_is_resident(entry) && !(entry & ENTRY_IS_TABLE);
}

static __always_inline bool entry_is_table(__u64 entry)
{
	return (entry & 3) == 3;
}

/* struct pt_regs begins with struct user_pt_regs: x29 is the frame pointer, x30 the return address of a leaf. */
#define USER_REGISTERS(from) \
	{ .ip = (from)->pc, .sp = (from)->sp, .fp = (from)->regs[29], .lr = (from)->regs[30] }

static __always_inline __u64 thread_pointer_of(struct task_struct *task)
{
	return task->thread.uw.tp_value;
}

#define ARGUMENTS(from) { (from)->regs[0], (from)->regs[1], (from)->regs[2], (from)->regs[3] }

#define TIF_32BIT 22 /* arch/arm64/include/asm/thread_info.h (6.12): a 32-bit program, whose calls have other numbers */
static __always_inline bool is_foreign_call(struct task_struct *task)
{
	return task->thread_info.flags >> TIF_32BIT & 1;
}

#else
#error "this processor has no page-table description yet"
#endif
#endif
