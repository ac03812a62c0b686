/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * All that depends on the processor: how page tables are walked and what a swap entry looks like.
 */
#ifndef PAGEWISE_ARCH_H
#define PAGEWISE_ARCH_H

#define PAGE_SHIFT 12
#define PAGE_SIZE (1UL << PAGE_SHIFT)

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

#else
#error "this processor has no page-table description yet"
#endif
#endif
