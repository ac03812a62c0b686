// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Every swap-in fault with its latency and every eviction with its owner, from tracepoints alone.
//
// What a fault in a swap storm pays is mostly the number of programs that run, so there are few, each does
// the least, and none wakes the reader:
//
//   page_fault_user/kernel   the page-table entry tells a swap-in from a first touch: note the start
//   major-fault event        the fault is done: one record with start and latency
//   mm_vmscan_write_folio    a page is on its way out: one record with owner and address
//
// and, only where swap is slower than memory, so that their cost does not show:
//
//   block_bio_queue          pages really sent to and read from the device
//   mm_page_free             pages stay in the swap cache there, and a clean one leaves without being
//                            written again
//   block_rq_complete        the device has pages (stalls.h)
//
// Tracepoint handlers run with preemption off (include/linux/tracepoint.h, up to 6.18), and none that writes
// records runs in an interrupt, so the records of one processor need no lock.
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "arch.h"
#include "memory.h"

// bpf_rdonly_cast and tp_btf are for GPL-compatible programs only.
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define PF_MEMALLOC 0x800 // include/linux/sched.h (6.12): the task is reclaiming
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define MAX_CPUS 1024

struct totals totals SEC(".data.totals") = { .generation = 1 };

// One a processor, as far as they were online: number and size are set before loading (ring.rs).
struct ring {
	__u64 words[RING_WORDS + RING_SLACK];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct ring));
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_CPUS);
	__type(key, __u32);
	__type(value, struct cpu_state);
} cpus SEC(".maps");

// Address of an mm_struct -> space.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u64);
	__type(value, __u32);
} spaces SEC(".maps");

struct process {
	__u64 mm;
	__u32 space; // its parent's too between vfork and exec
	__u32 unused;
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} notices SEC(".maps");

// Swap-in faults under way, by thread: one of two slots, so that three threads must meet in the same ones, each in a fault,
// for one to lose its own, which is counted (displaced_faults). A fault that found its page in the swap cache keeps its slot
// until the thread's next one.
struct pending {
	__u64 start;
	__u64 address;
	__u64 read_bytes; // what the thread had read from devices before
	__u64 path;
	__u64 run_delay; // what the thread had waited for a processor by then, in all (run_delays.h)
	__u64 file; // of shared memory: the struct address_space whose page is in swap, as far as is known; 0: the entry is one of swap
	__u32 thread;
	__u32 space;
	__u32 displaced; // the thread that was here before, in a fault that has not ended; 0: none
};
struct pending pending[PENDING_SETS][2];

static __always_inline __u64 now(struct cpu_state *cpu)
{
	__u64 ns = bpf_ktime_get_ns();
	cpu->last_ns = ns;
	cpu->last_jiffies = bpf_jiffies64();
	return ns;
}

// A clock read costs as much as all else here. An eviction happens inside the fault that started last on
// this processor, so that fault's time serves, unless a tick has passed since (background reclaim).
static __always_inline __u64 recently(struct cpu_state *cpu)
{
	if (bpf_jiffies64() - cpu->last_jiffies <= 1)
		return cpu->last_ns;
	return now(cpu);
}

static __always_inline struct cpu_state *this_cpu(__u32 *id)
{
	*id = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&cpus, id);
}

static __always_inline __u32 space_of(struct cpu_state *cpu, __u64 mm)
{
	if (cpu->last_mm == mm && cpu->last_generation == totals.generation)
		return cpu->last_space;
	__u32 *space = bpf_map_lookup_elem(&spaces, &mm);
	cpu->last_mm = mm;
	cpu->last_generation = totals.generation;
	cpu->last_space = space ? *space : 0;
	return cpu->last_space;
}

// The running thread's; 0: it is not recorded.
static __always_inline __u32 space_here(struct task_struct *task, struct cpu_state **cpu, __u32 *id)
{
	__u64 mm = (__u64)task->mm;

	*cpu = this_cpu(id);
	return *cpu && mm ? space_of(*cpu, mm) : 0;
}

static __always_inline void emit(struct cpu_state *cpu, __u32 id, __u64 first, __u64 second, __u64 third,
				 __u64 fourth, int words)
{
	struct ring *ring = bpf_map_lookup_elem(&rings, &id);
	__u64 head = cpu->head;

	const __u32 size = config.ring_words;
	if (!ring || head - cpu->tail > size - RING_SLACK) {
		cpu->lost++;
		return;
	}
	__u32 at = head & (size - 1);
	ring->words[at] = first;
	ring->words[at + 1] = second;
	if (words > 2)
		ring->words[at + 2] = third;
	if (words > 3)
		ring->words[at + 3] = fourth;
#if defined(__TARGET_ARCH_x86)
	barrier(); // stores become visible in order
	cpu->head = head + words;
#else
	__sync_fetch_and_add(&cpu->head, words);
#endif
}

static __always_inline __u64 kind_word(__u64 kind, __u64 address)
{
	return kind << 60 | (address & ((1ULL << 57) - 1));
}

static __always_inline __u64 time_word(__u32 space, __u64 ns)
{
	return (__u64)space << 48 | ((ns - config.base_ns) & ((1ULL << 48) - 1));
}

// How long it took, as far as a record has room for it.
static __always_inline __u64 latency_of(__u64 start, __u64 end)
{
	__u64 latency = end - start;

	return latency < LATENCY_UNKNOWN ? latency : LATENCY_UNKNOWN - 1;
}

static __always_inline __u64 latency_word(__u64 latency, __u32 thread)
{
	return latency << 24 | thread;
}

static __always_inline void emit_fault(struct cpu_state *cpu, __u32 id, struct pending *fault, __u64 kind,
				       __u64 latency)
{
	__u64 has_path = config.call_paths ? HAS_PATH : 0;
	emit(cpu, id, kind_word(kind, fault->address) | has_path, time_word(fault->space, fault->start),
	     latency_word(latency, fault->thread), fault->path, config.call_paths ? 4 : 3);
}

// The thread's slot; if it has none, one that it may take. Another one's fault is in there only if both are taken.
static __always_inline struct pending *pending_of(__u32 thread)
{
	struct pending *slots = pending[thread & (PENDING_SETS - 1)];

	if (slots[0].thread == thread)
		return &slots[0];
	return slots[1].thread == thread || slots[0].start ? &slots[1] : &slots[0];
}

// Whether the fault that ends here lost its slot.
static __always_inline bool was_displaced(__u32 thread)
{
	struct pending *slots = pending[thread & (PENDING_SETS - 1)];

	if (slots[1].displaced != thread)
		return false;
	slots[1].displaced = 0;
	return true;
}

// block/blk-core.c (6.12), submit_bio: what a thread reads from devices, its readahead included.
static __always_inline __u64 bytes_read(struct task_struct *task)
{
	if (!bpf_core_field_exists(struct task_io_accounting, read_bytes))
		return 0;
	return task->ioac.read_bytes;
}

// Up to 6.2 a page goes to and from zram by the driver's rw_page (mm/page_io.c, 6.1): without a bio, so neither
// block_bio_queue nor the thread's read_bytes tells.
#define PAGES_BYPASS_BIO bpf_core_field_exists(struct block_device_operations, rw_page)

// Pages read from the swap device for a major fault. By rw_page: its own, which leaves out the readahead that
// zram gets for pages shared after fork.
static __always_inline __u64 pages_read_for(struct task_struct *task, struct pending *fault)
{
	if (PAGES_BYPASS_BIO && !config.swap_is_slow)
		return 1;
	return (bytes_read(task) - fault->read_bytes) >> PAGE_SHIFT;
}

// The first word of a page or folio has been its flags for ever; since 6.18 it is a type of its own, which
// a relocation of the field would stumble over.
#define PAGE_FLAG(page, flag) (load((__u64)(page)) >> bpf_core_enum_value(enum pageflags, flag) & 1)

#include "callpaths.h"
#include "run_delays.h"
#include "shared_memory.h"
#include "write_looks.h"

// What the slot held ends here: a fault of the same thread without an event at its end found its page in the swap cache; of
// another thread's there is no telling.
static __always_inline void clear_slot(struct cpu_state *cpu, __u32 id, struct pending *fault, struct task_struct *task)
{
	__u32 thread = task->pid;

	if (!fault->start)
		return;
	if (fault->thread == thread) {
		if (fault->file && !may_have_been_shared_memory(task, fault))
			return;
		emit_fault(cpu, id, fault, KIND_SWAP_CACHE_HIT, LATENCY_UNKNOWN);
	} else {
		cpu->displaced_faults++;
		fault->displaced = fault->thread;
	}
}

/* `regs`: of the faulting program, NULL if it faulted inside a system call. */
static __always_inline int fault_begins(unsigned long address, struct pt_regs *regs)
{
	if (config.does_nothing)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_state *cpu;
	__u32 id, space = space_here(task, &cpu, &id);

	if (!space)
		return 0;
	__u64 entry = page_table_entry((__u64)task->mm, address), file = 0;
	if (!is_swap_entry(entry) && (entry || !totals.shared_memory_swaps))
		return 0;
	struct pending *fault = pending_of(task->pid);
	if (!entry) {
		file = file_of_swapped_page((__u64)task->mm, address);
		if (!file) {
			if (fault->file && fault->thread == (__u32)task->pid) {
				clear_slot(cpu, id, fault, task);
				fault->start = 0;
			}
			empty_entry_fault_begins(cpu, task, address);
			return 0;
		}
	}

	clear_slot(cpu, id, fault, task);
	if (id >= config.rings) { // nobody would tell that it ends
		cpu->lost++;
		fault->start = 0;
		return 0;
	}
	tell_run_delay(cpu, id, fault, task, space);
	fault->thread = task->pid;
	fault->space = space;
	fault->address = address;
	fault->file = file;
	fault->read_bytes = bytes_read(task);
	if (config.call_paths) {
		// Inside a system call what counts is the program's path into it.
		struct pt_regs *program = regs ?: (struct pt_regs *)bpf_task_pt_regs(task);
		struct user_registers registers = USER_REGISTERS(program);

		fault->path = call_path(cpu, task, space, &registers);
	}
	if (config.look_every)
		look_again(cpu, id, (__u64)task->mm, space, address);
	fault->start = now(cpu);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_in_program, unsigned long address, struct pt_regs *regs)
{
	return fault_begins(address, regs);
}

SEC("tp_btf/page_fault_kernel")
int BPF_PROG(fault_in_system_call, unsigned long address)
{
	return fault_begins(address, 0);
}

// mm/memory.c (6.12), mm_account_fault: raised when a major fault taken by exception is done.
SEC("perf_event")
int fault_ends(struct bpf_perf_event_data *event)
{
	if (config.does_nothing)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct pending *fault = pending_of(task->pid);
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!cpu)
		return 0;
	if (fault->start && fault->address == event->addr && fault->thread == (__u32)task->pid &&
	    (!fault->file || was_shared_memory(task, fault))) {
		fault->run_delay = run_delay_of(task); // what was in the fault is in its latency
		emit_fault(cpu, id, fault, KIND_SWAP_IN, latency_of(fault->start, now(cpu)));
		if (!config.swap_is_slow)
			cpu->pages_read += pages_read_for(task, fault);
		fault->start = 0;
	} else if (!was_displaced(task->pid)) {
		other_major_fault_ends(cpu, id, task, event->addr);
	}
	return 0;
}

static __always_inline int folio_order(__u64 folio)
{
	if (!PAGE_FLAG(folio, PG_head))
		return 0;
	if (bpf_core_field_exists(struct folio, _folio_order))
		return LOAD(folio, struct folio, _folio_order) & 0xff;
	if (bpf_core_field_exists(struct page, compound_order)) // before that, in the second page
		return LOAD(folio + bpf_core_type_size(struct page), struct page, compound_order) & 0xff;
	// mm.h (6.6): the low byte of the second page's flags; 64 bytes a struct page
	return load(folio + bpf_core_type_size(struct page)) & 0xff;
}

// The space that the page belongs to; 0: none that is recorded.
static __always_inline __u32 recorded_owner(struct cpu_state *cpu, __u64 folio, struct owner *owner)
{
	if (!is_anonymous(folio)) {
		cpu->shared_pages++;
		return 0;
	}
	if (!find_owner(folio, owner)) {
		cpu->unknown_owner++;
		return 0;
	}
	__u32 space = space_of(cpu, owner->mm);
	if (!space)
		cpu->foreign_pages++;
	return space;
}

static __always_inline void emit_page(struct cpu_state *cpu, __u32 id, __u64 folio, int order, __u64 flags)
{
	struct owner owner;
	__u32 space = recorded_owner(cpu, folio, &owner);

	if (!space)
		return;
	flags |= (__u64)order << PAGE_ORDER_SHIFT;
	emit(cpu, id, kind_word(KIND_PAGE, owner.address | flags), time_word(space, recently(cpu)), 0, 0, 2);
}

// A page that is being read from swap is swap-backed like an anonymous one, but belongs to nobody yet: whoever
// reads it is charged, be it in a fault or inside a system call.
static __always_inline void swap_read(struct cpu_state *cpu, __u64 page)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (PAGE_FLAG(page, PG_swapbacked) && space_of(cpu, (__u64)task->mm))
		cpu->pages_read += 1UL << folio_order(page);
}

#include "stalls.h"

SEC("tp_btf/block_bio_queue")
int BPF_PROG(swap_io, struct bio *bio)
{
	__u32 flags = bio->bi_opf;
	__u32 operation = flags & REQ_OP_MASK;
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!cpu)
		return 0;
	if (operation == REQ_OP_READ) {
		swap_read(cpu, LOAD(bio->bi_io_vec, struct bio_vec, bv_page));
		return 0;
	}
	if (operation != REQ_OP_WRITE || !(flags >> bpf_core_enum_value(enum req_flag_bits, __REQ_SWAP) & 1))
		return 0;
	__u64 page = LOAD(bio->bi_io_vec, struct bio_vec, bv_page);
	cpu->last_written = page;
	write_begins(cpu, id, bio, page);
	return 0;
}

#define WORDS_A_STEP 8

struct contents {
	__u64 address;
	bool zero;
};

static long look_for_a_bit(__u32 step, struct contents *page)
{
	__u64 words = 0;

	for (int word = 0; word < WORDS_A_STEP; word++)
		words |= load(page->address + (step * WORDS_A_STEP + word) * sizeof(__u64));
	page->zero = words == 0;
	return !page->zero;
}

// A division costs as much as a cache miss, and nearly all kernels have a struct page of 64 bytes.
static __always_inline __u64 frame_of(__u64 page)
{
	__u64 offset = page - config.page_structs, size = bpf_core_type_size(struct page);

	return size == 64 ? offset >> 6 : offset / size;
}

// The kernel does not say which pages it merely noted as zero (mm/page_io.c, 6.12), so look: a used page shows
// a bit at once, and the kernel has just read them all itself.
// A folio of several pages is noted as a whole or not at all.
static __always_inline bool is_zero_filled(__u64 folio, int order)
{
	if (!config.page_structs)
		return false;
	__u64 frame = frame_of(folio), bytes = PAGE_SIZE << (order & 15);
	struct contents contents = { .address = config.direct_map + (frame << PAGE_SHIFT) };

	if (load(contents.address + bytes - sizeof(__u64)) || load(contents.address))
		return false;
	bpf_loop(bytes / sizeof(__u64) / WORDS_A_STEP, look_for_a_bit, &contents, 0);
	return contents.zero;
}

// What became of a page that block_bio_queue did not see: noted as zero, compressed by zswap, or handed to the
// device by rw_page. With zswap only the contents tell the first two apart.
static __always_inline __u64 fate_without_bio(__u64 folio, int order)
{
	if (config.zeros_are_noted && (!config.zswap || is_zero_filled(folio, order)))
		return PAGE_ZERO;
	return PAGES_BYPASS_BIO && !config.zswap ? PAGE_WRITTEN : 0;
}

SEC("tp_btf/mm_vmscan_write_folio")
int BPF_PROG(page_written, struct folio *folio)
{
	if (config.does_nothing)
		return 0;
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!cpu)
		return 0;
	// The verifier allows no arithmetic on a pointer; what comes back from a map is a number.
	*(volatile __u64 *)&cpu->number = (__u64)folio;
	__u64 page = *(volatile __u64 *)&cpu->number;
	int order = folio_order(page);
	if (!config.swap_is_slow) {
		bool zero = config.zeros_are_noted && is_zero_filled(page, order);

		emit_page(cpu, id, page, order, PAGE_LEFT | (zero ? PAGE_ZERO : PAGE_WRITTEN));
	} else if (cpu->last_written != page) {
		__u64 fate = fate_without_bio(page, order);

		if (fate)
			emit_page(cpu, id, page, order, fate);
	}
	cpu->last_written = 0;
	return 0;
}

SEC("tp_btf/mm_page_free")
int BPF_PROG(page_freed, struct page *page, unsigned int order)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!(task->flags & PF_MEMALLOC))
		return 0;
	if (!PAGE_FLAG(page, PG_swapbacked))
		return 0; // page cache, or dropped by MADV_FREE
	if (!is_anonymous((__u64)page))
		return 0; // page tables, tmpfs
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);
	if (cpu)
		emit_page(cpu, id, (__u64)page, order, PAGE_LEFT);
	return 0;
}

#include "io.h"
#include "processes.h"
#include "running.h"
