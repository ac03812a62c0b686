/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the BPF programs and the reader (record.rs) agree on. Change both together: record.rs has a test
 * that compares every number here with its own.
 *
 * Each processor has a ring of 64-bit words that only BPF programs on that processor write and only the
 * reader reads. No lock, no atomic, no per-record header; a record is two or three words:
 *
 *   word 0   63..60 kind | 59..57 - | 56..0 address; for page events the low 12 bits are flags
 *   word 1   63..48 space | 47..0 time, ns since the recording's base (wraps after 78 hours)
 *   word 2   faults only: 63..24 latency in ns | 23..0 thread
 */
#ifndef PAGEWISE_RECORD_H
#define PAGEWISE_RECORD_H

struct config {
	__u64 base_ns;         /* times in records count from here */
	__u64 direct_map;      /* where the kernel maps all of memory; moves with KASLR */
	__u64 page_structs;    /* where its array of struct page begins (vmemmap); moves too */
	__u32 top_level_shift; /* 39: page tables of four levels, 48: five */
	__u8 use_cast;         /* bpf_rdonly_cast exists */
	__u8 swap_is_slow;     /* page_freed reports evictions and swap_io writes; else page_written does both */
	__u8 zeros_are_noted;  /* this kernel sends no page of zeros to swap (6.12): swpout_zero exists */
	__u8 zswap;            /* pages may be compressed in memory instead of being sent to the device */
};

#define RING_WORDS (1 << 20) /* 8 MiB a processor: about a second of the worst storm */
#define RING_SLACK 4         /* a record may start in the last word: it then runs on behind the end */

#define KIND_SWAP_IN 1       /* a fault that found a swap entry and had to read the page (major) */
#define KIND_SWAP_CACHE_HIT 2 /* a fault that found a swap entry; the page was in the swap cache (minor) */
#define KIND_PAGE 3          /* something happened to a page: see the flags */

#define PAGE_LEFT 1          /* eviction: the page left memory */
#define PAGE_WRITTEN 2       /* it was sent to the swap device */
#define PAGE_ZERO 4          /* it was not sent: the kernel notes a page of zeros by a bit */
#define PAGE_ORDER_SHIFT 8   /* 2^order base pages, from the address on */

#define LATENCY_UNKNOWN ((1ULL << 40) - 1)

#define PENDING_SLOTS (1 << 14)

/* One cache line each for writer, reader and the rarely touched: false sharing costs a fault. */
struct cpu_state {
	__u64 head; /* words written, ever */
	__u64 last_ns;
	__u64 last_jiffies;
	__u64 last_mm;
	__u32 last_space;
	__u32 last_generation;
	__u64 last_written; /* the folio this processor last sent to the swap device */
	__u64 number; /* a pointer on its way to becoming a number */
	__u64 unused0;
	__u64 tail; /* words read, ever: the reader's */
	__u64 unused1[7];
	__u64 lost; /* records that found the ring full */
	__u64 file_majors;
	__u64 pages_read;
	__u64 unmatched_ends;
	__u64 foreign_pages; /* evictions of pages of programs that are not recorded */
	__u64 unknown_owner;
	__u64 unused2[2];
};

/* Shared by all processors. */
struct totals {
	__u64 major_faults; /* of recorded threads that have ended, file majors included */
	__u64 lost_notices;
	__u32 generation; /* changes when an address space comes or goes: processors then forget the last */
	__u32 last_space;
	__u64 reads_are_counted; /* threads count what they read from devices (CONFIG_TASK_IO_ACCOUNTING) */
};

/* In and out of the calibration program. */
struct calibration {
	__u64 address;    /* in: a page of the caller, locked in memory */
	__u64 frame;      /* in: its frame number */
	__u64 magic;      /* in: its first word */
	__u64 direct_map; /* out, 0: not found */
	__u64 page_structs; /* out, 0: not found */
	__u64 top_level_shift;
};

/* Rare notices, through an ordinary BPF ring buffer. */
#define NOTICE_EXEC 1
#define NOTICE_FORK 2
#define NOTICE_EXIT 3

struct notice {
	__u64 time_ns;
	__u64 start_boottime_ns;
	__u32 what;
	__u32 space;
	__u32 parent_space;
	__u32 tgid;
	__u32 parent_tgid;
	__u32 exec_epoch;
	char comm[16]; /* last and aligned: written as two words */
};

#endif
