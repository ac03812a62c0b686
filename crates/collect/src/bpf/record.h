/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the BPF programs and the reader (record.rs) agree on. Change both together: record.rs has a test
 * that compares every number here with its own.
 *
 * Each processor has a ring of 64-bit words that only BPF programs on that processor write and only the
 * reader reads. No lock, no atomic, no per-record header; a record is two to six words:
 *
 *   word 0   63..60 kind | 59 a path follows | 58..57 - | 56..0 address; for page events the low 12 bits are flags
 *   word 1   63..48 low bits of the space's number | 47..0 time, ns since the recording's base (begins anew after 78 hours)
 *   word 2   faults, stalls and run delays only: 63..24 latency in ns | 23..0 thread
 *   word 3   faults with a path only: its number, or the number of a copy of the stack, or 0: unknown
 *
 * File input and output (io.h):
 *
 *   KIND_IO     word 0   63..60 kind | 59 a path follows | 58 to the file | 57..53 call | 52 direct | 51..32 file |
 *                        31..0 bytes or the negative error
 *               1 to 3   as for faults; the time is the call's begin
 *               word 4   where in the file, bytes; OFFSET_UNKNOWN
 *               word 5   63..44 descriptor | 43..42 how the open file reads ahead (for the enforcer only)
 *                        | 41..21 pages of the call's range | 20..0 further pages, brought into the page cache by it
 *   KIND_CACHE  word 0   63..60 kind | 59 a path follows | 57..53 what happened | 51..32 file | 31..0 pages
 *               word 1   as for faults; the space is 0 unless pages were brought in
 *               word 2   63..24 the first page's index in the file | 23..0 thread
 *               word 3   the path
 *
 * KIND_RUN_DELAY has no address.
 * KIND_WRITE_LOOK (write_looks.h) has words 0 and 1 only; bit 0 of the address: LOOK_FOUND_WRITTEN.
 *
 * In place of a path's number a record of input and output may have PATH_IS_HANDED_OVER and the token of a hand-over: the call was
 * made on behalf of who had that path (pagewise.h). Tokens are told of by struct handover.
 */
#ifndef PAGEWISE_RECORD_H
#define PAGEWISE_RECORD_H

struct config {
	__u64 base_ns;         /* times in records count from here */
	__u64 direct_map;      /* where the kernel maps all of memory; moves with KASLR */
	__u64 page_structs;    /* where its array of struct page begins (vmemmap); moves too */
	__u32 top_level_shift; /* 39: page tables of four levels, 48: five */
	__u32 ring_words;      /* of each processor; a power of two */
	__u32 rings;           /* for the processors with lower numbers: these were online */
	__u32 look_every;      /* one page that comes back of so many is looked at again (write_looks.h); 0: none */
	__u32 looks_waiting;   /* the last look is when so many others have been noted after it; a power of two */
	__u8 use_cast;         /* bpf_rdonly_cast exists */
	__u8 swap_is_slow;     /* page_freed reports evictions and swap_io writes; else page_written does both */
	__u8 zeros_are_noted;  /* this kernel sends no page of zeros to swap (6.12): swpout_zero exists */
	__u8 zswap;            /* pages may be compressed in memory instead of being sent to the device */
	__u8 call_paths;       /* faults are recorded with their call paths */
	__u8 check_call_paths; /* a recognized stack is copied too, to be unwound and compared */
	__u8 does_nothing;     /* the programs of faults and evictions return at once, to measure what calling them costs */
	__u8 copies_tables;    /* bpf_probe_read_kernel is allowed: page tables are copied as a whole and then looked at */
	__u8 follows_uring;    /* requests of io_uring are told of, not only counted */
	__u8 enforces;         /* calls on files are heard of by what is wished of their paths, soon, and with how the file reads ahead */
};

#define RING_WORDS (1 << 20) /* at most: 8 MiB a processor, about a second of the worst storm */
#define RING_SLACK 6         /* a record may start in the last word: it then runs on behind the end */

#define KIND_SWAP_IN 1       /* a fault that found a swap entry and had to read the page (major) */
#define KIND_SWAP_CACHE_HIT 2 /* a fault that found a swap entry; the page was in the swap cache (minor) */
#define KIND_PAGE 3          /* something happened to a page: see the flags */
#define KIND_STALL 4         /* a thread reclaimed memory itself; as a fault, with these instead of an address: */

#define KIND_IO 5            /* a system call has read or written a file */
#define KIND_CACHE 6         /* the page cache has got or lost pages of a file */

#define KIND_WRITE_LOOK 7    /* a page that came back from swap some time ago has been looked at again */

#define KIND_RUN_DELAY 8     /* a thread has waited for a processor since its last swap-in fault */
#define LEAST_RUN_DELAY 100000 /* of less nothing is told, ns */

#define LOOK_FOUND_WRITTEN 1 /* the program has written it since */

#define IO_READ 1
#define IO_PREAD 2
#define IO_READV 3
#define IO_PREADV 4
#define IO_WRITE 5
#define IO_PWRITE 6
#define IO_WRITEV 7
#define IO_PWRITEV 8
#define IO_SENDFILE 9
#define IO_SPLICE 10
#define IO_COPY 11
#define IO_FSYNC 12
#define IO_FDATASYNC 13
#define IO_URING_READ 14
#define IO_URING_WRITE 15
#define IO_URING_SYNC 16
#define IO_FAULT 17 /* on a mapping of the file */
#define IO_ENTER 29 /* io_uring_enter: what its requests do is told, or it is only counted */
#define IO_MARK 30 /* no call on a file, but what pagewise.h says of those to come: see MARK_OPTION */
#define IO_UNSEEN 31 /* asks for what threads of the kernel do later: only counted */

#define IO_TO_FILE (1ULL << 58)
#define IO_CALL_SHIFT 53
#define IO_DIRECT (1ULL << 52)
#define IO_FILE_SHIFT 32
#define MOST_FILES ((1U << 20) - 1)
#define OFFSET_UNKNOWN (~0ULL)

#define IO_DESCRIPTOR_SHIFT 44
#define IO_MOST_DESCRIPTORS ((1 << 20) - 1) /* and beyond: not told */
#define IO_READAHEAD_SHIFT 42
#define IO_MISSED_SHIFT 21
#define IO_MOST_PAGES ((1 << 21) - 1)

#define READS_AHEAD_AS_USUAL 0
#define READS_AHEAD_TWICE 1
#define READS_NOTHING_AHEAD 2

/* What the enforcer wishes of calls, by the number of their path. */
#define MOST_WISHES (1 << 16)
#define WISH_UNKNOWN 0   /* tell of them */
#define WISH_NOTHING 1   /* only where the open file reads ahead otherwise than usual, and then at once */
#define WISH_BY_VOLUME 2 /* tell of them, and wake the reader now and then */
#define WISH_AT_ONCE 3   /* tell of them at once */
#define WAKE_BYTES (2 << 20)

#define CACHE_ADDED 0
#define CACHE_EVICTED 1 /* memory was short */
#define CACHE_DROPPED 2 /* somebody wanted it gone: truncated, removed, advised */
#define CACHE_FAULTED 3 /* they came in by a fault on a mapping: all of one fault have the time of its begin */

#define STALL_DIRECT_RECLAIM 0 /* the machine is short of memory */
#define STALL_MEMCG_RECLAIM 1  /* its memory cgroup is at a limit */
#define STALL_IN_SWAP_IN 16    /* inside a swap-in fault, whose latency holds it */

#define PAGE_LEFT 1          /* eviction: the page left memory */
#define PAGE_WRITTEN 2       /* it was sent to the swap device */
#define PAGE_ZERO 4          /* it was not sent: the kernel notes a page of zeros by a bit */
#define PAGE_IN_FLIGHT 8     /* a completion tells when the device has it */
#define PAGE_ORDER_SHIFT 8   /* 2^order base pages, from the address on */

/* Address spaces that records can tell apart at a time. Those to come have other numbers than those that were, so the
 * reader looks up which one the bits mean now. */
#define NUMBERS (1 << 16)

#define HAS_PATH (1ULL << 59)
#define PATH_IS_COPY (1ULL << 63)
#define PATH_IS_HANDED_OVER (1ULL << 61)
#define TOKEN_BITS (PATH_IS_HANDED_OVER - 1)

#define LATENCY_UNKNOWN ((1ULL << 40) - 1)

#define PENDING_SETS (1 << 14)
#define CALL_SLOTS (1 << 14)

/* Pages that wait to be looked at again (write_looks.h), at most; the first look comes after so large a part of these. */
#define MOST_LOOKS_WAITING 4096
#define LOOKS_UNTIL_FIRST 8

/* What pagewise.h says, by way of the preloaded library: prctl with a number that no kernel knows, then one of these and a token. */
#define MARK_OPTION 0x50677773
#define MARK_HANDED_OVER 1 /* work with this token is handed over here */
#define MARK_ON_BEHALF 2   /* from here on this thread works on behalf of who had this token; 0: for itself */

/* How many files a processor remembers without asking the map. */
#define RECENT_FILES 64

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
	__u64 copies; /* stacks sent to be unwound, ever */
	__u64 tail; /* words read, ever: the reader's */
	__u64 unused1[7];
	__u64 lost; /* records that found the ring full */
	__u64 file_majors;
	__u64 pages_read;
	__u64 displaced_faults; /* swap-ins whose slot another thread took while they were under way */
	__u64 foreign_pages; /* evictions of pages of programs that are not recorded */
	__u64 unknown_owner; /* evictions of private memory of nobody knows whom */
	__u64 lost_copies; /* stacks that found no room to be copied to: their faults have no path */
	__u64 last_cut; /* when a stack that is known to be cut was last copied, jiffies */
	__u64 shared_pages; /* written pages that are no private memory: of tmpfs, of files */
	__u64 swap_ins; /* counted where some are looked at again */
	__u64 unused2[6];
};

/* Shared by all processors. */
struct totals {
	__u64 major_faults; /* of recorded threads that have ended, file majors included */
	__u64 lost_notices;
	__u32 generation; /* changes when an address space comes or goes: processors then forget the last */
	__u32 last_space;
	__u64 reads_are_counted; /* threads count what they read from devices (CONFIG_TASK_IO_ACCOUNTING) */
	__u64 lost_processes; /* there was no room to follow them, or for their address spaces */
	__u64 shared_memory_swaps; /* some of it has come back from swap, so faults on empty entries are timed */
};

/* Memoized unwinding (callpaths.h): the reader writes, the programs read. */
#define LAYOUT_SETS (1 << 13)
#define LAYOUT_WAYS 4
#define PATH_SETS (1 << 16)
#define PATH_WAYS 4
#define SLOT_POOL (1 << 20)
#define MOST_SLOTS 256

/* The words of a stack that unwinding from one instruction at one depth reads. */
struct layout {
	__u64 key;   /* hash of instruction and depth, 0: free */
	__u32 first; /* in slots[] */
	__u16 count;
	__u16 flags;
};

#define LAYOUT_USES_FRAME_POINTER 1 /* the register is read before any saved one */
#define LAYOUT_ENDS_UNREADABLE 2 /* the last word is not resident: else there is more to learn */

/* A slot: offset from the stack pointer, in words. */
#define SLOT_OFFSET 0x7fff
#define SLOT_IS_RELATIVE 0x8000 /* it holds a frame pointer: differs between threads, its distance does not */

struct known_path {
	__u64 hash; /* of the words of a layout, 0: free */
	__u64 path; /* number + 1, and perhaps PATH_IS_CUT */
};

#define PATH_IS_CUT (1ULL << 62) /* outer frames are in a page that is not resident */

/* Stacks are copied in strides: from the multiple of it below the stack pointer on, at most so many bytes. */
#define COPY_STRIDE 256
#define LONGEST_COPY (64 << 10)

/* Before the bytes of a copied stack. */
struct stack_copy {
	__u64 sequence;
	__u64 ip, sp, fp, lr;
	__u64 key;    /* for struct layout */
	__u64 origin; /* what the hash of the words begins with */
	__u64 known;  /* the path it was recognized as, 0: it was not */
	__u32 space;
	__u32 bytes;
	__u64 absent; /* bit n: the nth page, from the one of the first byte on, was not resident: no bytes of it */
};

/* What the kernel itself says that threads waited for, ns (struct task_delay_info; kernel.task_delayacct is on). */
struct delays {
	__u64 threads; /* that have such accounts: 0 where it is off */
	__u64 swapin_ns;
	__u64 freepages_ns; /* reclaiming memory */
	__u64 freepages_count;
	__u64 thrashing_ns;
	__u64 blkio_ns;
};

struct stall_totals {
	struct delays ended; /* of recorded threads that have ended */
	__u64 lost_stalls;
	__u64 lost_completions;
};

/* A page has reached the swap device, through a BPF ring buffer: completions come in interrupts. */
struct completion {
	__u64 address;
	__u64 time_word; /* of the record that told of its submission */
	__u64 latency_ns;
};

/* A file that was not seen before, through a BPF ring buffer, before the first record that refers to it. */
#define PATH_WORDS_OF_FILE 512 /* names are in there, innermost first: a word with the length, then the bytes */
#define MOST_FOLDERS 40
#define FILE_UNLINKED 1
#define FILE_PATH_CUT 2

struct file_notice {
	__u64 time_ns;
	__u64 inode;
	__u64 bytes; /* its size then */
	__u64 magic; /* of the file system */
	__u32 file;
	__u32 space;
	__u32 device; /* as the kernel has it: 12 bits, 20 bits */
	__u32 generation;
	__u32 flags;
	__u32 words; /* that follow */
};

/* Work was handed over, through a BPF ring buffer, before the first record that refers to it. */
struct handover {
	__u64 token;
	__u64 path;
};

struct io_totals {
	__u32 last_file;
	__u32 unused;
	__u64 lost_files; /* of which no notice could be given */
	__u64 unseen_calls; /* of recorded programs: input and output that happens elsewhere (io_uring, io_submit) */
	__u64 foreign_calls; /* of 32-bit code */
	__u64 lost_handovers; /* of which no notice could be given */
	__u64 polled_rings; /* of io_uring, whose requests a thread of the kernel submits: they have no call path */
};

/* Of one walk over all tasks. */
struct live {
	__u64 major_faults; /* of recorded threads that live */
};

/* In and out of the calibration program. */
struct calibration {
	__u64 address;    /* in: a page of the caller, locked in memory */
	__u64 frame;      /* in: its frame number, 0: unknown; then out */
	__u64 magic;      /* in: its first word */
	__u64 direct_map; /* out, 0: not found */
	__u64 page_structs; /* out, 0: not found */
	__u64 top_level_shift;
	__u64 frames; /* in: one more than the highest frame number */
};

/* One run of the access sensor: in, and out. */
#define REGION_PAGES 512
#define REGION_WORDS 8  /* of 64 bits */
#define MOST_REGIONS 512 /* a run holds up the freeing of page tables: about 0.4 ms */

#define LOOK_GONE 1 /* the address space has ended */

struct look {
	__u64 file;    /* in: our descriptor of /proc/PID/pagemap, which keeps the mm_struct */
	__u64 address; /* in and out: where to begin, where to go on; 0: all has been seen */
	__u64 mm;      /* out */
	__u64 flags;   /* out: LOOK_* */
	__u64 regions; /* out: how many were found */
	__u64 changed; /* out: regions whose table was exchanged while it was read, twice */
	__u64 end;     /* in: where to stop, 0: at the end */
	__u64 zero_frame; /* in: that of the kernel's page of zeros, which then counts as no page; 0: it counts */
};

/* How many base pages of a huge page are zero-filled: in, and out. */
struct zeros {
	__u64 file;    /* in: as above */
	__u64 address; /* in: of the huge page */
	__u64 huge;    /* out: it is one; else nothing was counted */
	__u64 count;   /* out */
};

struct region {
	__u64 address;
	__u64 huge; /* mapped by one entry: the maps have all bits or none */
	__u64 resident[REGION_WORDS];
	__u64 accessed[REGION_WORDS];
	__u64 dirty[REGION_WORDS];
	__u64 swapped[REGION_WORDS];
};

/* Rare notices, through an ordinary BPF ring buffer. */
#define NOTICE_EXEC 1
#define NOTICE_FORK 2
#define NOTICE_EXIT 3
#define NOTICE_JOIN 4 /* it ran already when recording of it began */

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
