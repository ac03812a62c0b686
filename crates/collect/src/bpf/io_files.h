/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Which file an inode is: numbers that records mean files by, and what the reader is told of each, once. Included by io.h.
 */

struct naming {
	__u64 dentry;
	__u32 cpu;
	__u32 used;
	bool whole;
};

/* Copies a dentry's name and goes on to its folder; 1: that was the root of its file system, or there is no room. */
static long copy_name(__u32 index, struct naming *naming)
{
	struct io_cpu *io = bpf_map_lookup_elem(&io_cpus, &naming->cpu);
	__u64 parent = LOAD(naming->dentry, struct dentry, d_parent);

	/* A file in memory that no folder shows (memfd_create) is a root itself, with a name. */
	if (!io || !naming->dentry || (index && parent == naming->dentry)) {
		naming->whole = true;
		return 1;
	}
	__u64 length = LOAD(naming->dentry, struct dentry, d_name.hash_len) >> 32;
	__u64 name = LOAD(naming->dentry, struct dentry, d_name.name);
	__u32 words = (length + 7) / 8, at = naming->used;

	if (words > 32 || at + words + 1 > PATH_WORDS_OF_FILE)
		return 1;
	io->names[at & (PATH_WORDS_OF_FILE - 1)] = length;
	for (__u32 word = 0; word < 32; word++) {
		if (word >= words)
			break;
		io->names[(at + 1 + word) & (PATH_WORDS_OF_FILE - 1)] = load(name + word * 8);
	}
	naming->used = at + 1 + words;
	naming->dentry = parent;
	return 0;
}

/* Tells the reader which file has that number; `file`: an open file of it, or 0. False: there was no room. */
static __noinline bool tell_of_file(__u64 inode, __u64 file, __u32 number, __u32 space)
{
	__u32 id = bpf_get_smp_processor_id();
	struct io_cpu *io = bpf_map_lookup_elem(&io_cpus, &id);

	if (!io)
		return false;
	struct naming naming = { .cpu = id };
	if (file) {
		naming.dentry = LOAD(file, struct file, f_path.dentry);
	} else {
		__u64 alias = LOAD(inode, struct inode, i_dentry.first);
		if (alias)
			naming.dentry = alias - bpf_core_field_offset(struct dentry, d_u.d_alias);
	}
	if (naming.dentry)
		bpf_loop(MOST_FOLDERS, copy_name, &naming, 0);
	__u64 super = LOAD(inode, struct inode, i_sb);
	bool unlinked = !(__u32)LOAD(inode, struct inode, i_nlink);
	__u32 words = naming.used;
	if (words > PATH_WORDS_OF_FILE)
		words = PATH_WORDS_OF_FILE;
	io->notice = (struct file_notice){
		.time_ns = bpf_ktime_get_ns(),
		.inode = LOAD(inode, struct inode, i_ino),
		.bytes = LOAD(inode, struct inode, i_size),
		.magic = LOAD(super, struct super_block, s_magic),
		.file = number,
		.space = space,
		.device = LOAD(super, struct super_block, s_dev),
		.generation = LOAD(inode, struct inode, i_generation),
		.flags = (unlinked ? FILE_UNLINKED : 0) | (naming.whole ? 0 : FILE_PATH_CUT),
		.words = words,
	};
	return !bpf_ringbuf_output(&new_files, &io->notice, sizeof(io->notice) + words * 8, BPF_RB_NO_WAKEUP);
}

/* Not every address of an inode is the same file for ever. */
static __always_inline bool is_same_file(const struct known_file *known, __u64 inode)
{
	return known->inode == LOAD(inode, struct inode, i_ino) &&
	       known->generation == (__u32)LOAD(inode, struct inode, i_generation);
}

static __always_inline __u32 number_if_known(__u64 inode)
{
	struct known_file *known = bpf_map_lookup_elem(&known_files, &inode);

	return known && is_same_file(known, inode) ? known->number : 0;
}

/* The number of a file; 0: there are too many, or there was no room to tell of it. */
static __noinline __u32 number_of_new_file(__u64 inode, __u64 file, __u32 space)
{
	__u32 number = number_if_known(inode);

	if (number)
		return number;
	number = __sync_fetch_and_add(&io_totals.last_file, 1) + 1;
	if (number > MOST_FILES || !tell_of_file(inode, file, number, space)) {
		__sync_fetch_and_add(&io_totals.lost_files, 1);
		return 0;
	}
	struct known_file known = {
		.inode = LOAD(inode, struct inode, i_ino),
		.generation = LOAD(inode, struct inode, i_generation),
		.number = number,
	};
	if (bpf_map_update_elem(&known_files, &inode, &known, BPF_NOEXIST)) {
		/* Another processor saw it at the same time, or the address was another file's. */
		__u32 first = number_if_known(inode);
		if (first)
			return first;
		bpf_map_update_elem(&known_files, &inode, &known, BPF_ANY);
	}
	return number;
}

static __always_inline __u32 number_of_file(__u32 id, __u64 inode, __u64 file, __u32 space)
{
	struct io_cpu *io = bpf_map_lookup_elem(&io_cpus, &id);

	if (!io)
		return 0;
	struct recent_file *recent = &io->recent[(inode >> 6 ^ inode >> 13) & (RECENT_FILES - 1)];
	if (recent->address == inode && is_same_file(&recent->file, inode))
		return recent->file.number;
	__u32 number = number_of_new_file(inode, file, space);
	if (number) {
		recent->address = inode;
		recent->file.inode = LOAD(inode, struct inode, i_ino);
		recent->file.generation = LOAD(inode, struct inode, i_generation);
		recent->file.number = number;
	}
	return number;
}

static __always_inline bool is_regular(__u64 inode)
{
	return inode && (LOAD(inode, struct inode, i_mode) & S_IFMT) == S_IFREG;
}
