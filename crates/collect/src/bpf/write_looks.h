/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Whether the pages that come back from swap are written before they leave again. On a slow device evictions tell: a page that was not
 * written keeps its place there, and is dropped. Where swap is memory a page gives up its place as it comes in, and all that leave
 * are sent there; but the processor notes in a page's entry that it has been written, so some are looked at again: soon, as they may leave,
 * and if they were not written yet once more, when about half of what memory holds has come in after them.
 * Included by swap.bpf.c.
 */

/* A page that waits for its looks, in one word, as another processor may be at the same place: its number, the low bits of its address
 * space's, and what is known. 0: there is none. */
#define WAITING_PAGE_BITS 45
#define WAITING_PAGE ((1UL << WAITING_PAGE_BITS) - 1)
#define WAITING_SPACE ((NUMBERS - 1UL) << WAITING_PAGE_BITS)
#define WAITING_IS (1UL << 62)
#define WAITING_WAS_SEEN (1UL << 61) /* in memory, and not written, by the first look */

__u64 waiting_looks[MOST_LOOKS_WAITING];
__u64 pages_noted;

// Not a page of its own: huge ones are written as a whole, or by who put them together.
static __always_inline bool is_single_page(__u64 entry)
{
	return entry_is_resident(entry) && !(entry & ENTRY_HUGE);
}

static __always_inline void tell_look(struct cpu_state *cpu, __u32 id, __u32 space, __u64 address, __u64 found)
{
	emit(cpu, id, kind_word(KIND_WRITE_LOOK, address | found), time_word(space, recently(cpu)), 0, 0, 2);
}

/* Returns what is left to wait. Of a page that has left nothing is known. */
static __always_inline __u64 look_first(struct cpu_state *cpu, __u32 id, __u64 mm, __u32 space, __u64 waiting)
{
	__u64 address = (waiting & WAITING_PAGE) << PAGE_SHIFT, entry = page_table_entry(mm, address);

	if (!is_single_page(entry))
		return 0;
	if (!entry_is_dirty(entry))
		return waiting | WAITING_WAS_SEEN;
	tell_look(cpu, id, space, address, LOOK_FOUND_WRITTEN);
	return 0;
}

/* A page that has left counts as it was seen before. */
static __always_inline void look_last(struct cpu_state *cpu, __u32 id, __u64 mm, __u32 space, __u64 waiting)
{
	__u64 address = (waiting & WAITING_PAGE) << PAGE_SHIFT, entry = page_table_entry(mm, address);

	if (is_single_page(entry))
		tell_look(cpu, id, space, address, entry_is_dirty(entry) ? LOOK_FOUND_WRITTEN : 0);
	else if (waiting & WAITING_WAS_SEEN)
		tell_look(cpu, id, space, address, 0);
}

/* At a swap-in: some pages are noted, and some of those noted before looked at, if they are of the same address space, whose page tables stay
 * while it runs. */
static __always_inline void look_again(struct cpu_state *cpu, __u32 id, __u64 mm, __u32 space, __u64 address)
{
	if (++cpu->swap_ins % config.look_every)
		return;
	const __u64 places = config.looks_waiting; /* a power of two */
	__u64 here = WAITING_IS | ((__u64)space << WAITING_PAGE_BITS & WAITING_SPACE);
	__u64 noted = __sync_fetch_and_add(&pages_noted, 1);
	__u64 *first = &waiting_looks[(noted - places / LOOKS_UNTIL_FIRST) & (places - 1) & (MOST_LOOKS_WAITING - 1)];
	__u64 *last = &waiting_looks[noted & (places - 1) & (MOST_LOOKS_WAITING - 1)];
	__u64 waiting = *first;

	if ((waiting & (WAITING_IS | WAITING_SPACE)) == here)
		*first = look_first(cpu, id, mm, space, waiting);
	waiting = *last;
	if ((waiting & (WAITING_IS | WAITING_SPACE)) == here)
		look_last(cpu, id, mm, space, waiting);
	*last = here | (address >> PAGE_SHIFT & WAITING_PAGE);
}
