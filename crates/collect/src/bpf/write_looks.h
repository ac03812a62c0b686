/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Whether the pages that come back from swap are written before they leave again. On a slow device evictions tell: a page that was not
 * written keeps its place there, and is dropped. Where swap is memory a page gives up its place as it comes in, and all that leave
 * are sent there; but the processor notes in a page's entry that it has been written, so some are looked at again: soon, as they may leave,
 * and if they were not written yet once more, when about half of what memory holds has come in after them.
 * Included by swap.bpf.c.
 */

struct waiting_look {
	__u64 address;
	__u64 space; // 0: there is none
};
struct waiting_looks {
	__u64 swap_ins;
	struct waiting_look of[LOOKS_WAITING];
};
struct waiting_looks waiting_looks[MAX_CPUS];

static __always_inline void tell_look(struct cpu_state *cpu, __u32 id, struct waiting_look *look, __u64 found)
{
	emit(cpu, id, kind_word(KIND_WRITE_LOOK, (look->address & ~(PAGE_SIZE - 1)) | found),
	     time_word(look->space, recently(cpu)), 0, 0, 2);
	look->space = 0;
}

/* One that was not written then waits on. Of one that has left nothing is known. */
static __always_inline void look_first(struct cpu_state *cpu, __u32 id, struct waiting_look *look, __u64 mm)
{
	__u64 entry = page_table_entry(mm, look->address);

	if (!entry_is_resident(entry))
		look->space = 0;
	else if (entry_is_dirty(entry))
		tell_look(cpu, id, look, LOOK_FOUND_WRITTEN);
}

/* One that has left counts as it was seen before. */
static __always_inline void look_last(struct cpu_state *cpu, __u32 id, struct waiting_look *look, __u64 mm)
{
	__u64 entry = page_table_entry(mm, look->address);

	tell_look(cpu, id, look, entry_is_resident(entry) && entry_is_dirty(entry) ? LOOK_FOUND_WRITTEN : 0);
}

/* At a swap-in: some pages are noted, and those noted at earlier ones of this processor looked at, if they are of the same address space,
 * whose page tables stay while it runs. */
static __always_inline void look_again(struct cpu_state *cpu, __u32 id, __u64 mm, __u32 space, __u64 address)
{
	struct waiting_looks *looks = &waiting_looks[id & (MAX_CPUS - 1)];
	__u64 number = looks->swap_ins++;

	if (number % config.look_every)
		return;
	__u64 noted = number / config.look_every;
	struct waiting_look *first = &looks->of[(noted - LOOKS_UNTIL_FIRST) % LOOKS_WAITING];
	struct waiting_look *last = &looks->of[noted % LOOKS_WAITING];

	if (first->space == space)
		look_first(cpu, id, first, mm);
	if (last->space == space)
		look_last(cpu, id, last, mm);
	last->address = address;
	last->space = space;
}
