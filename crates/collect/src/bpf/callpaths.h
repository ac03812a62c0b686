/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Call paths of faults, by memoized unwinding. Included by swap.bpf.c.
 *
 * The reader unwinds a stack once and teaches what that took: which words of the stack it read to find each caller
 * (a layout), and what their values lead to (a path). From then on a fault at that place costs a look at those
 * words. This is exact, not a guess: where the unwinder reads next depends only on the instruction and on the words
 * read before; if all are the same, so is the path. Only what was never seen sends a copy of the stack.
 *
 *   instruction, depth of the stack -> layouts: offsets of words -> hash of those words -> number of the path
 */

#define CUT_INTERVAL 4 /* jiffies: 4 to 40 ms */
#define COPY_STRIDES (LONGEST_COPY / COPY_STRIDE)
#define COPIES_BYTES (16 << 20)

/* A stack on its way out, one a processor: too large for the programs' own stacks. */
struct copy {
	struct stack_copy head;
	__u64 words[COPY_STRIDES][COPY_STRIDE / sizeof(__u64)];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* one a processor, set before loading */
	__type(key, __u32);
	__type(value, struct copy);
} scratches SEC(".maps");

/* Stacks that nobody has unwound yet. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COPIES_BYTES);
} copies SEC(".maps");

/* Written by the reader, entries' keys last; a half-written entry leads to a hash that nobody knows. */
struct layout layouts[LAYOUT_SETS * LAYOUT_WAYS] SEC(".bss.layouts");
__u16 slots[SLOT_POOL] SEC(".bss.slots");
struct known_path known_paths[PATH_SETS * PATH_WAYS] SEC(".bss.paths");

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

struct stack {
	struct user_registers registers;
	__u64 pgd;
	__u64 origin; /* hash of address space and instruction */
	__u64 known;
};

/* Where the kernel sees a byte of a program's memory; 0: not resident. */
static __always_inline __u64 direct_address(__u64 pgd, __u64 address)
{
	const __u64 base = config.direct_map;
	__u64 entry = load(pgd + ((address >> config.top_level_shift) & 511) * 8);

	if (config.top_level_shift == TOP_LEVEL_SHIFT_5) {
		if (!(entry & ENTRY_PRESENT))
			return 0;
		entry = next_table(base, entry & ENTRY_TABLE, address, 39);
	}
	if (!(entry & ENTRY_PRESENT))
		return 0;
	entry = next_table(base, entry & ENTRY_TABLE, address, 30);
	if (!(entry & ENTRY_PRESENT) || entry_is_leaf(entry))
		return 0; /* no stack is in a page of 1 GiB */
	entry = next_table(base, entry & ENTRY_TABLE, address, 21);
	if (!(entry & ENTRY_PRESENT))
		return 0;
	if (entry_is_leaf(entry))
		return base + (entry & ENTRY_TABLE & ~((1ULL << 21) - 1)) + (address & ((1ULL << 21) - 1));
	entry = next_table(base, entry & ENTRY_TABLE, address, 12);
	if (!(entry & ENTRY_PRESENT))
		return 0;
	return base + (entry & ENTRY_TABLE) + (address & (PAGE_SIZE - 1));
}

/* The hash of the words a layout names. 0: it is not this stack's. Not static, as others below: such a function the verifier
 * looks at once, by itself, and not again for each way that leads to it (a second, at each start). */
__noinline __u64 hash_words(const struct layout *layout, const struct stack *stack)
{
	if (!layout || !stack)
		return 0;
	__u64 sp = stack->registers.sp, hash = stack->origin;
	__u64 page = 0, page_at = 0;
	__u32 first = layout->first, count = layout->count;

	if (layout->flags & LAYOUT_USES_FRAME_POINTER)
		hash = mix(hash, stack->registers.fp - sp);
	for (__u32 i = 0; i < MOST_SLOTS; i++) {
		if (i >= count)
			break;
		__u16 slot = slots[(first + i) & (SLOT_POOL - 1)];
		__u64 address = sp + (slot & SLOT_OFFSET) * 8;
		if (!page_at || (address ^ page) >= PAGE_SIZE) {
			page = address & ~(PAGE_SIZE - 1);
			page_at = direct_address(stack->pgd, page);
			if (!page_at)
				return layout->flags & LAYOUT_ENDS_UNREADABLE && i + 1 == count ? mix(hash, i) : 0;
		}
		__u64 word = load(page_at + (address & (PAGE_SIZE - 1)));
		if (slot & SLOT_IS_RELATIVE)
			word -= sp;
		hash = mix(hash, word);
	}
	return layout->flags & LAYOUT_ENDS_UNREADABLE ? 0 : hash;
}

static __always_inline __u64 path_of_hash(__u64 hash)
{
	__u32 set = (hash & (PATH_SETS - 1)) * PATH_WAYS;

	for (__u32 way = 0; way < PATH_WAYS; way++) {
		struct known_path *known = &known_paths[set + way];
		if (known->hash != hash)
			continue;
		__u64 path = known->path;
		/* The reader may just be putting another one there. */
#if defined(__TARGET_ARCH_x86)
		barrier();
		if (known->hash == hash)
#else
		if (__sync_fetch_and_add(&known->hash, 0) == hash)
#endif
			return path;
	}
	return 0;
}

struct copying {
	__u64 pgd;
	__u64 start; /* a multiple of COPY_STRIDE */
	__u64 page_at;
	__u32 cpu;
	__u32 wanted; /* strides */
	__u32 done;
	__u64 absent;
};

/* Copies one stride of a stack; 1: that was the last. Through the direct map: reading at the program's own address
 * might raise a fault inside the fault. */
static long copy_stride(__u32 stride, struct copying *copying)
{
	struct copy *copy = bpf_map_lookup_elem(&scratches, &copying->cpu);
	__u64 address = copying->start + stride * COPY_STRIDE;

	if (!copy)
		return 1;
	copying->done = stride + 1;
	if (!stride || !(address & (PAGE_SIZE - 1)))
		copying->page_at = direct_address(copying->pgd, address & ~(PAGE_SIZE - 1));
	if (!copying->page_at) {
		copying->absent |= 1ULL << (((address >> PAGE_SHIFT) - (copying->start >> PAGE_SHIFT)) & 63);
		return copying->done >= copying->wanted;
	}
	__u64 from = copying->page_at + (address & (PAGE_SIZE - 1));
	__u64 *words = copy->words[stride & (COPY_STRIDES - 1)];
	if (config.use_cast) {
#pragma unroll
		for (__u32 word = 0; word < COPY_STRIDE / sizeof(__u64); word++)
			words[word] = load(from + word * sizeof(__u64));
	} else {
		bpf_probe_read_kernel(words, COPY_STRIDE, (void *)from);
	}
	return copying->done >= copying->wanted;
}

/* How far the stack goes on above its pointer: a thread's ends below its thread-local storage, the first one's where
 * the kernel put the arguments. */
static __always_inline __u32 bytes_above(__u64 sp, __u64 thread_pointer, __u64 start_stack)
{
	__u64 most = LONGEST_COPY;

	if (thread_pointer > sp && thread_pointer - sp < most)
		most = thread_pointer - sp;
	if (start_stack > sp && start_stack - sp < most)
		most = start_stack - sp;
	return most & ~7U;
}

/* Sends what is resident of the stack to be unwound; the fault's record refers to it by number. 0: there was
 * no room. */
__noinline __u64 send_copy(struct cpu_state *cpu, const struct stack *stack, __u64 key, __u32 space, __u32 wanted)
{
	__u32 id = bpf_get_smp_processor_id();
	struct copy *copy = bpf_map_lookup_elem(&scratches, &id);

	if (!cpu || !stack || !copy)
		return 0;
	__u64 sequence = PATH_IS_COPY | (__u64)id << 48 | cpu->copies++;
	__u64 start = stack->registers.sp & ~(COPY_STRIDE - 1ULL);
	struct copying copying = {
		.pgd = stack->pgd,
		.start = start,
		.cpu = id,
		.wanted = (stack->registers.sp + wanted - start + COPY_STRIDE - 1) / COPY_STRIDE,
	};

	bpf_loop(COPY_STRIDES, copy_stride, &copying, 0);
	copy->head = (struct stack_copy){
		.sequence = sequence,
		.ip = stack->registers.ip,
		.sp = stack->registers.sp,
		.fp = stack->registers.fp,
		.lr = stack->registers.lr,
		.key = key,
		.origin = stack->origin,
		.known = stack->known,
		.space = space,
		.bytes = copying.done * COPY_STRIDE,
		.absent = copying.absent,
	};
	__u32 length = copying.done * COPY_STRIDE;
	if (length > LONGEST_COPY)
		length = LONGEST_COPY;
	/* Wakes the reader: the sooner it is learnt, the fewer copies. */
	if (bpf_ringbuf_output(&copies, copy, sizeof(copy->head) + length, 0)) {
		cpu->lost_copies += !stack->known;
		return 0;
	}
	return sequence;
}

/* For copies that are only to be compared: those to be learnt go first. */
static __always_inline bool there_is_room(void)
{
	return bpf_ringbuf_query(&copies, BPF_RB_AVAIL_DATA) < COPIES_BYTES / 2;
}

/* A stack whose outer frames are not resident is sent again now and then: the reader brings them in. */
static __always_inline bool cut_is_due(struct cpu_state *cpu)
{
	__u64 now = bpf_jiffies64();

	if (now - cpu->last_cut < CUT_INTERVAL)
		return false;
	cpu->last_cut = now;
	return true;
}

/* The path of a stack that has been seen before, or 0. */
__noinline __u64 recognize(const struct stack *stack, __u64 key)
{
	__u32 set = (key & (LAYOUT_SETS - 1)) * LAYOUT_WAYS;

	if (!stack)
		return 0;

	for (__u32 way = 0; way < LAYOUT_WAYS; way++) {
		struct layout *layout = &layouts[set + way];
		if (layout->key != key)
			continue;
		__u64 hash = hash_words(layout, stack);
		__u64 path = hash ? path_of_hash(hash) : 0;
		if (path)
			return path;
	}
	return 0;
}

/* The path of the running thread, which is in a fault: its number, the number of a copy, or 0. */
static __always_inline __u64 call_path(struct cpu_state *cpu, struct task_struct *task, __u32 space,
				       const struct user_registers *registers)
{
	struct stack stack = { .registers = *registers };
	__u64 sp = registers->sp, thread_pointer = thread_pointer_of(task);

	stack.pgd = (__u64)task->mm->pgd;
	stack.origin = mix(mix(space, registers->ip), registers->lr);
	/* Threads that do the same are equally deep below their thread-local storage. */
	__u64 key = mix(stack.origin, thread_pointer - sp);
	__u64 known = recognize(&stack, key);
	stack.known = known & ~PATH_IS_CUT;
	bool worth_a_copy = (config.check_call_paths && there_is_room()) || (known & PATH_IS_CUT && cut_is_due(cpu));
	if (known && !worth_a_copy)
		return stack.known;
	__u64 copy = send_copy(cpu, &stack, key, space, bytes_above(sp, thread_pointer, task->mm->start_stack));
	return stack.known ?: copy;
}
