/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Pages of files that come into the page cache and leave it. Included by io.h.
 */

/* The inode that an open file of overlayfs keeps its pages in; `upper`: if it was copied up since it was opened. 0: none. */
static __always_inline __u64 inode_behind(__u64 file, bool upper)
{
	__u64 behind = LOAD(file, struct file, private_data);

	if (bpf_core_type_exists(struct ovl_file))
		behind = upper ? LOAD(behind, struct ovl_file, upperfile) : LOAD(behind, struct ovl_file, realfile);
	else if (upper)
		return 0;
	return behind ? LOAD(behind, struct file, f_inode) : 0;
}

static __always_inline bool is_behind(const struct io_side *side, __u64 host)
{
	if (!side->inode)
		return false;
	__u64 super = LOAD(side->inode, struct inode, i_sb);
	if ((__u32)LOAD(super, struct super_block, s_magic) != OVERLAYFS_SUPER_MAGIC)
		return false;
	return inode_behind(side->file, false) == host || inode_behind(side->file, true) == host;
}

/* Files of overlayfs keep their pages in another inode, which then is a second name of the file. That of any other file is not: a call may
 * copy from one to another, or its buffer may be a mapping. */
static __always_inline struct io_side *side_before(struct io_call *io, __u64 host)
{
	struct io_side *side = is_behind(&io->sides[0], host) ? &io->sides[0] : &io->sides[1];

	if (side == &io->sides[1] && !is_behind(side, host))
		return 0;
	struct known_file alias = {
		.inode = LOAD(host, struct inode, i_ino),
		.generation = LOAD(host, struct inode, i_generation),
		.number = side->number,
	};
	bpf_map_update_elem(&known_files, &host, &alias, BPF_NOEXIST);
	return side;
}

/* Which file of the call under way these pages are of; NULL: of none. */
static __always_inline struct io_side *side_of(struct io_call *io, __u64 host)
{
	if (io->sides[0].inode == host)
		return &io->sides[0];
	if (io->sides[1].inode == host)
		return &io->sides[1];
	return 0;
}

static __always_inline __u32 pages_in_range(__u64 first, __u64 pages, __u64 offset, __u64 bytes)
{
	__u64 begin = offset >> PAGE_SHIFT, end = (offset + bytes + PAGE_SIZE - 1) >> PAGE_SHIFT;

	if (!bytes)
		return pages;
	if (begin < first)
		begin = first;
	if (end > first + pages)
		end = first + pages;
	return end > begin ? end - begin : 0;
}

static __always_inline void emit_cache(struct cpu_state *cpu, __u32 id, __u64 what, __u32 file, __u64 folio,
				       __u64 time, __u64 thread, __u64 path)
{
	__u64 index = LOAD(folio, struct folio, index);
	__u64 record[4] = {
		(__u64)KIND_CACHE << 60 | HAS_PATH | what << IO_CALL_SHIFT | (__u64)file << IO_FILE_SHIFT |
			1U << (folio_order(folio) & 15),
		time,
		index << 24 | thread,
		path,
	};
	emit_io(cpu, id, record, 4);
}

static __always_inline __u64 host_of(__u64 folio)
{
	__u64 mapping = LOAD(folio, struct folio, mapping);

	if (!mapping || mapping & MAPPING_FLAGS)
		return 0;
	__u64 host = LOAD(mapping, struct address_space, host);
	return is_regular(host) ? host : 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(page_cached, struct folio *added)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_call *io = &io_under_way[task->pid & (CALL_SLOTS - 1)];
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!cpu)
		return 0;
	__u32 space = space_of(cpu, (__u64)task->mm);
	if (!space)
		return 0;
	__u64 folio = number_of(cpu, added), host = host_of(folio);
	if (!host)
		return 0;
	__u64 time = now(cpu);
	__u32 pages = 1U << (folio_order(folio) & 15);
	__u64 index = LOAD(folio, struct folio, index);
	bool in_call = io->start && io->thread == (__u32)task->pid;
	struct io_call *request = request_at_work(in_call ? io : 0, task, id);
	if (request) {
		io = request;
		in_call = true;
	}
	struct io_side *side = in_call ? side_of(io, host) : 0;
	if (in_call && !side)
		side = side_before(io, host);
	if (config.enforces && (!side || io->wish == WISH_NOTHING))
		return 0;
	if (!side) { /* also in a call, whose buffer may be a mapping of this file */
		__u32 file = number_of_file(id, host, 0, space);
		__u64 path = in_call ? io->path : path_of_fault(cpu, task, space);

		__u64 begin = in_call ? 0 : count_pages_of_fault(task, host, index, pages);
		emit_cache(cpu, id, begin ? CACHE_FAULTED : CACHE_ADDED, file, folio, time_word(space, begin ?: time), task->pid,
			   path);
		return 0;
	}
	__u32 missed = pages_in_range(index, pages, side->offset, io->bytes);
	side->missed += missed;
	side->ahead += pages - missed;
	emit_cache(cpu, id, CACHE_ADDED, side->number, folio, time_word(space, time), task->pid, io->path);
	return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(page_uncached, struct folio *removed)
{
	__u32 id;
	struct cpu_state *cpu = this_cpu(&id);

	if (!cpu)
		return 0;
	__u64 folio = number_of(cpu, removed), host = host_of(folio);
	__u32 file = host ? number_if_known(host) : 0;
	if (!file)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 what = task->flags & PF_MEMALLOC ? CACHE_EVICTED : CACHE_DROPPED;
	emit_cache(cpu, id, what, file, folio, time_word(0, now(cpu)), 0, 0);
	return 0;
}
