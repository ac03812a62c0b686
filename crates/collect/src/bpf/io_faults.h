/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Faults on mappings of files for which somebody had to wait, with their latency. Included by io.h.
 *
 *   mm_filemap_fault      the page is not mapped: note the start; once more in the same fault: it has waited
 *   mm_filemap_map_pages  in the same fault after that: it has waited, and the page is mapped with those around it
 *   major-fault event     the fault is done: one record, as of a call
 *
 * The kernel raises no event for a fault that found its page in the page cache, but had to wait for it to be read, if it
 * held no more than the lock of its mapping meanwhile (mm/filemap.c, 6.18): that shows by its second try, and is told when the
 * thread faults again, or ends.
 */

struct file_fault {
	__u64 start; /* 0: none */
	__u64 host;
	__u64 index;
	__u64 faults; /* that the thread had ended before */
	__u64 tried_again; /* when last; 0: it was not */
	__u64 path; /* known if it was tried again */
	__u32 thread;
	__u32 space;
	__u32 missed; /* pages */
	__u32 ahead;
	__u32 displaced; /* the thread that was here before; 0: none */
	__u32 unused;
};
struct file_fault file_faults[CALL_SLOTS];

static __always_inline struct file_fault *file_fault_of(struct task_struct *task)
{
	return &file_faults[task->pid & (CALL_SLOTS - 1)];
}

/* The kernel counts a fault when it is done, not when it is tried again (mm/memory.c, 6.18, mm_account_fault). */
static __always_inline __u64 faults_done(struct task_struct *task)
{
	return task->min_flt + task->maj_flt;
}

static __always_inline bool is_under_way(const struct file_fault *fault, struct task_struct *task)
{
	return fault->start && fault->thread == (__u32)task->pid && fault->faults == faults_done(task);
}

static __always_inline __u64 path_of_fault(struct cpu_state *cpu, struct task_struct *task, __u32 space)
{
	if (!config.call_paths || task->flags & PF_IO_WORKER)
		return 0;
	struct pt_regs *program = (struct pt_regs *)bpf_task_pt_regs(task);
	struct user_registers registers = USER_REGISTERS(program);

	return path_of_worker(cpu, task, space, &registers);
}

static __always_inline void emit_file_fault(struct cpu_state *cpu, __u32 id, struct file_fault *fault, __u64 end)
{
	__u32 file = number_of_file(id, fault->host, 0, fault->space);

	emit_use(cpu, id, (__u64)IO_FAULT << IO_CALL_SHIFT | (__u64)file << IO_FILE_SHIFT | PAGE_SIZE,
		 time_word(fault->space, fault->start),
		 latency_word(latency_of(fault->start, end), fault->thread), fault->path, fault->index << PAGE_SHIFT,
		 pages_word(IO_MOST_DESCRIPTORS, fault->missed, fault->ahead));
	fault->start = 0;
}

/* What is noted of a thread that goes on to other things: it has waited, or nothing is told of it. */
static __always_inline void tell_file_fault(struct cpu_state *cpu, __u32 id, struct file_fault *fault, __u32 thread)
{
	if (!fault->start || fault->thread != thread)
		return;
	if (fault->tried_again)
		emit_file_fault(cpu, id, fault, fault->tried_again);
	fault->start = 0;
}

static __always_inline void note_another_try(struct cpu_state *cpu, struct task_struct *task, struct file_fault *fault)
{
	if (!fault->tried_again)
		fault->path = path_of_fault(cpu, task, fault->space);
	fault->tried_again = now(cpu);
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(file_fault_maps_around, struct address_space *mapping, unsigned long first, unsigned long last)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file_fault *fault = file_fault_of(task);
	__u32 id;

	/* Nearly always there is none: those that find their pages at once are not noted. */
	if (!is_under_way(fault, task) || fault->index < first || fault->index > last)
		return 0;
	struct cpu_state *cpu = this_cpu(&id);
	if (!cpu || fault->host != LOAD(number_of(cpu, mapping), struct address_space, host))
		return 0;
	note_another_try(cpu, task, fault);
	return 0;
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(file_fault_begins, struct address_space *mapping, unsigned long index)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_state *cpu;
	__u32 id, space = space_here(task, &cpu, &id);

	if (!space)
		return 0;
	__u64 host = LOAD(number_of(cpu, mapping), struct address_space, host);
	struct file_fault *fault = file_fault_of(task);
	if (is_under_way(fault, task) && fault->host == host && fault->index == index) {
		note_another_try(cpu, task, fault);
		return 0;
	}
	tell_file_fault(cpu, id, fault, task->pid);
	if (!is_regular(host))
		return 0;
	*fault = (struct file_fault){
		.start = now(cpu),
		.host = host,
		.index = index,
		.faults = faults_done(task),
		.thread = task->pid,
		.space = space,
		.displaced = fault->start ? fault->thread : fault->displaced,
	};
	return 0;
}

/* As fault_ends of swap.bpf.c, which may be detached while files are observed. */
SEC("perf_event")
int file_fault_ends(struct bpf_perf_event_data *event)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file_fault *fault = file_fault_of(task);
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!cpu)
		return 0;
	if (fault->thread != (__u32)task->pid && fault->displaced == (__u32)task->pid) {
		fault->displaced = 0;
		cpu->lost++;
		return 0;
	}
	if (!fault->start || fault->thread != (__u32)task->pid || faults_done(task) != fault->faults + 1)
		return 0;
	__u64 end = now(cpu);
	if (!fault->tried_again)
		fault->path = path_of_fault(cpu, task, fault->space);
	emit_file_fault(cpu, id, fault, end);
	return 0;
}

/* Pages that come in a fault: when it began; 0: it is not known, or the pages are of another file. */
static __always_inline __u64 count_pages_of_fault(struct task_struct *task, __u64 host, __u64 index, __u32 pages)
{
	struct file_fault *fault = file_fault_of(task);

	if (!is_under_way(fault, task) || fault->host != host)
		return 0;
	__u32 own = fault->index >= index && fault->index < index + pages;
	fault->missed += own;
	fault->ahead += pages - own;
	return fault->start;
}
