/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Whether the pages that come back from swap are written before they leave again. On a slow device evictions tell: a page that was not
 * written keeps its place there, and is dropped. Where swap is memory a page gives up its place as it comes in, and all that leave
 * are sent there; but the processor notes in a page's entry that it has been written, so some are looked at again.
 * Included by swap.bpf.c.
 */

#define LOOK_EVERY 13    /* one swap-in of so many; a prime: programs go on by powers of two */
#define LOOKS_WAITING 64 /* so many of these later: what the program came for is done, and the page most likely still in memory */

struct waiting_look {
	__u64 address;
	__u64 space; // 0: there is none
};
struct waiting_looks {
	__u64 swap_ins;
	struct waiting_look of[LOOKS_WAITING];
};
struct waiting_looks waiting_looks[MAX_CPUS];

static __always_inline void look_at_entry(struct cpu_state *cpu, __u32 id, __u64 mm, __u32 space, __u64 address)
{
	__u64 entry = page_table_entry(mm, address), found = entry_is_dirty(entry) ? LOOK_FOUND_WRITTEN : 0;

	if (entry_is_resident(entry))
		emit(cpu, id, kind_word(KIND_WRITE_LOOK, (address & ~(PAGE_SIZE - 1)) | found),
		     time_word(space, recently(cpu)), 0, 0, 2);
}

/* At a swap-in: of some, the page that came in at an earlier one of this processor is looked at, if it is of the same address space,
 * whose page tables stay while it runs. */
static __always_inline void look_again(struct cpu_state *cpu, __u32 id, __u64 mm, __u32 space, __u64 address)
{
	struct waiting_looks *looks = &waiting_looks[id & (MAX_CPUS - 1)];
	__u64 number = looks->swap_ins++;

	if (number % LOOK_EVERY)
		return;
	struct waiting_look *look = &looks->of[number / LOOK_EVERY % LOOKS_WAITING];
	if (look->space == space)
		look_at_entry(cpu, id, mm, space, look->address);
	look->address = address;
	look->space = space;
}
