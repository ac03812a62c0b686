/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * The few kernel types the sensors touch, with only the fields they touch. preserve_access_index turns
 * each access into a CO-RE relocation, so one object file serves every kernel that ships BTF.
 */
#ifndef PAGEWISE_KERNEL_H
#define PAGEWISE_KERNEL_H

#define __VMLINUX_H__ 1 /* bpf_tracing.h then takes the kernel's register names, not the uapi ones */

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_RB_AVAIL_DATA = 0 };
enum { BPF_RB_NO_WAKEUP = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct timespec64 {
	__s64 tv_sec;
};
struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};
struct rb_root {
	struct rb_node *rb_node;
};
struct rb_root_cached {
	struct rb_root rb_root;
};
struct anon_vma {
	struct rb_root_cached rb_root;
};
struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	struct mm_struct *vm_mm;
	unsigned long vm_pgoff;
};
struct anon_vma_chain {
	struct vm_area_struct *vma;
	struct rb_node rb;
	unsigned long rb_subtree_last;
};
struct folio {
	void *mapping;
	unsigned long index;
	unsigned char _folio_order; /* up to 6.5 */
};
struct page {
	unsigned char compound_order; /* up to 6.2 */
};
struct mm_struct {
	void *pgd;
	unsigned long start_stack;
	struct {
		int counter;
	} mm_users;
};
struct qstr {
	__u64 hash_len; /* the length is the upper half */
	const unsigned char *name;
};
struct hlist_head {
	void *first;
};
struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	union {
		struct hlist_head d_alias; /* in truth a node */
	} d_u;
};
struct path {
	struct dentry *dentry;
};
struct backing_dev_info {
	unsigned long ra_pages;
};
struct super_block {
	unsigned int s_dev;
	unsigned long s_magic;
	struct backing_dev_info *s_bdi;
};
struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	unsigned int i_nlink;
	__s64 i_size;
	struct hlist_head i_dentry;
	unsigned int i_generation;
};
struct xarray {
	void *xa_head;
};
struct xa_node {
	unsigned char shift;
	void *slots[1]; /* more in truth */
};
struct address_space {
	struct inode *host;
	struct xarray i_pages;
};
struct file_ra_state {
	unsigned int ra_pages;
};
struct file {
	void *private_data;
	struct inode *f_inode;
	struct address_space *f_mapping;
	struct file_ra_state f_ra;
	unsigned int f_mode;
	unsigned int f_flags;
	__s64 f_pos;
	struct path f_path;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct task_delay_info { /* absent without CONFIG_TASK_DELAY_ACCT */
	__u64 blkio_delay;
	__u64 swapin_delay;
	__u64 freepages_delay;
	__u32 freepages_count;
	__u64 thrashing_delay;
};
#if defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
};
struct thread_info {
	unsigned long flags;
};
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
};
#else
struct pt_regs {
	unsigned long ip;
	unsigned long sp;
	unsigned long bp;
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long r10;
};
struct thread_info {
	unsigned int status;
};
struct thread_struct {
	unsigned long fsbase;
};
#endif
struct vm_struct {
	struct page **pages;
};
struct task_io_accounting {
	__u64 read_bytes;
};
struct signal_struct {
	struct {
		int counter;
	} live;
};
struct sched_info { /* empty without CONFIG_SCHED_INFO */
	__u64 run_delay;
};
struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid;
	int tgid;
	struct sched_info sched_info;
	struct mm_struct *mm;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	struct files_struct *files;
	struct task_delay_info *delays;
	unsigned long min_flt;
	unsigned long maj_flt;
	void *worker_private;
	struct task_io_accounting ioac;
	struct thread_struct thread;
	struct vm_struct *stack_vm_area;
	__u64 start_boottime;
	__u64 self_exec_id;
	char comm[16];
};
struct block_device_operations {
	void *rw_page; /* up to 6.2 */
};
struct bio_vec {
	struct page *bv_page;
};
struct bvec_iter {
	unsigned int bi_size;
};
struct bio {
	struct bio *bi_next;
	unsigned int bi_opf;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
};
struct request {
	unsigned int cmd_flags;
	struct bio *bio;
};
struct io_cqe {
	__s32 res;
	int fd;
};
struct io_cmd_data {
	__u8 data[56];
};
struct io_wq_work {
	unsigned int flags;
};
struct io_kiocb {
	union {
		struct file *file;
		struct io_cmd_data cmd; /* since 6.0 */
	};
	__u8 opcode;
	unsigned int flags;
	struct io_cqe cqe;
	struct io_wq_work work;
};
struct kiocb {
	__s64 ki_pos;
};
struct io_rw { /* io_uring/rw.c: what is in cmd of one that reads or writes */
	struct kiocb kiocb;
	__u64 addr;
	__u32 len;
};
struct io_worker { /* io_uring/io-wq.c */
	struct io_wq_work *cur_work;
};
struct ovl_file { /* fs/overlayfs/file.c, since 6.13: what private_data points to; before, that is the first one */
	struct file *realfile;
	struct file *upperfile;
};
struct bpf_iter__task {
	struct task_struct *task;
};
struct linux_binprm {
	const char *filename;
};
#pragma clang attribute pop

/* uapi, not relocated */
struct bpf_perf_event_data {
#if defined(__TARGET_ARCH_arm64)
	unsigned long regs[34]; /* struct user_pt_regs */
#else
	unsigned long regs[21]; /* struct pt_regs */
#endif
	__u64 sample_period;
	__u64 addr;
};

/* Only the enumerators that are asked for by value: CO-RE reads their numbers from the kernel's BTF. */
enum pageflags {
	PG_head = 0,
	PG_swapbacked = 0,
};
enum req_flag_bits {
	__REQ_SWAP = 0,
};

#endif
