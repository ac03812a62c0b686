//! Rows to test with, and a trace that holds some in every table.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::Path;
use std::path::PathBuf;

use pagewise_trace::*;
use tempfile::TempDir;

/// A folder name that does not exist yet, inside a folder that goes with the value.
pub(crate) fn new_dir() -> (TempDir, PathBuf) {
    // In memory where there is such a folder: a thousand closes would wait for the disk.
    let parent = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let parent = parent.unwrap();
    let dir = parent.path().join("pagewise.data");
    (parent, dir)
}

pub(crate) fn create(dir: &Path) -> TraceWriter {
    TraceWriter::create(dir, Meta::default(), Overwrite::Refuse).unwrap()
}

/// The rows of every table; a field per table so that a test can compare them all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tables {
    pub(crate) events: Vec<Event>,
    pub(crate) spaces: Vec<Space>,
    pub(crate) allocations: Vec<Allocation>,
    pub(crate) releases: Vec<Release>,
    pub(crate) moves: Vec<Move>,
    pub(crate) mappings: Vec<Mapping>,
    pub(crate) stacks: Vec<StackFrame>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) sites: Vec<Site>,
    pub(crate) globals: Vec<Global>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) region_accesses: Vec<RegionAccess>,
    pub(crate) stalls: Vec<Stall>,
    pub(crate) run_delays: Vec<RunDelay>,
    pub(crate) pressure: Vec<Pressure>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) glances: Vec<Glance>,
    pub(crate) spot_looks: Vec<SpotLook>,
    pub(crate) spot_glances: Vec<SpotGlance>,
    pub(crate) write_looks: Vec<WriteLook>,
    pub(crate) residency: Vec<Residency>,
    pub(crate) residency_scans: Vec<ResidencyScan>,
    pub(crate) thread_faults: Vec<ThreadFaults>,
    pub(crate) headway: Vec<Headway>,
    pub(crate) event_counts: Vec<EventCount>,
    pub(crate) stall_counts: Vec<StallCount>,
    pub(crate) given_names: Vec<GivenName>,
    pub(crate) io_calls: Vec<IoCall>,
    pub(crate) io_files: Vec<IoFile>,
    pub(crate) io_cache: Vec<IoCache>,
    pub(crate) io_sums: Vec<IoSum>,
}

/// Calls a macro with the name of each table.
#[macro_export]
macro_rules! for_tables {
    ($callback:ident) => {
        $callback!(
            events,
            spaces,
            allocations,
            releases,
            moves,
            mappings,
            stacks,
            frames,
            sites,
            globals,
            samples,
            region_accesses,
            stalls,
            run_delays,
            pressure,
            accesses,
            glances,
            spot_looks,
            spot_glances,
            write_looks,
            residency,
            residency_scans,
            thread_faults,
            headway,
            event_counts,
            stall_counts,
            given_names,
            io_calls,
            io_files,
            io_cache,
            io_sums
        )
    };
}

impl Tables {
    /// `count` rows per table that depend on their number, with a `None` in every third place.
    pub(crate) fn numbered(numbers: std::ops::Range<u32>) -> Tables {
        let mut tables = Tables::default();
        numbers.for_each(|number| tables.add(number));
        tables
    }

    fn add(&mut self, number: u32) {
        let n = u64::from(number);
        let some = |value: u64| (!n.is_multiple_of(3)).then_some(value);
        let some_32 = |value: u32| (!n.is_multiple_of(3)).then_some(value);
        let text = |stem: &str| format!("{stem} \u{e9} {number}");
        let some_text = |stem: &str| (!n.is_multiple_of(3)).then(|| text(stem));
        let kinds = EventKind::ALL;
        self.events.push(Event {
            time_ns: n * 1_000 + n % 7,
            space: number % 3,
            tid: some_32(number % 5),
            kind: kinds[number as usize % kinds.len()],
            address: 0x7f00_0000_0000 + n * 4096,
            latency_ns: some(n % 10_000),
            stack: some_32(number % 4),
        });
        self.spaces.push(Space {
            space: number,
            pid: number + 100,
            start_time_ns: n << 33,
            exec_epoch: number % 2,
            parent_space: some_32(number / 2),
            begin_ns: n,
            end_ns: some(u64::MAX - n),
            command: text("command"),
            executable: some_text("/bin/x"),
        });
        let kinds = AllocationKind::ALL;
        self.allocations.push(Allocation {
            allocation: n,
            space: number % 3,
            tid: number,
            time_ns: n,
            address: u64::MAX - n * 16,
            bytes: n * 24,
            kind: kinds[number as usize % kinds.len()],
            stack: some_32(number),
            estimated_bytes: some(n * 48),
        });
        self.releases.push(Release {
            space: number,
            time_ns: n,
            address: n << 12,
            bytes: some(n << 20),
        });
        self.moves.push(Move {
            space: number,
            time_ns: n,
            old_address: n << 12,
            old_bytes: n,
            new_address: n << 13,
            new_bytes: n + 1,
        });
        self.mappings.push(Mapping {
            space: number,
            time_ns: n,
            start: n << 12,
            end: (n + 1) << 12,
            permissions: "rw-p".to_owned(),
            offset: n,
            path: text("[heap]"),
        });
        self.stacks.push(StackFrame {
            stack: number,
            depth: number as u16,
            address: n << 40,
            module: some_text("lib"),
            module_offset: some(n),
            truncated: number.is_multiple_of(2),
        });
        self.frames.push(Frame {
            stack: number,
            depth: number as u16,
            inline_index: 1,
            function: some_text("f"),
            file: some_text("f.c"),
            line: some_32(number),
            module: some_text("lib"),
            inlined: number.is_multiple_of(2),
        });
        self.sites.push(Site {
            stack: number,
            name: some_text("v"),
            file: some_text("f.c"),
            line: some_32(number),
            function: some_text("f"),
            type_name: some_text("t"),
        });
        self.globals.push(Global {
            space: number,
            start: n << 12,
            bytes: n,
            name: text("g"),
            file: some_text("g.c"),
            line: some_32(number),
            module: text("lib"),
            type_name: some_text("t"),
        });
        self.samples.push(Sample {
            time_ns: n,
            rss_bytes: some(n),
            swap_bytes: some(n),
            limit_bytes: some(n),
        });
        self.region_accesses.push(RegionAccess {
            time_ns: n * 100,
            interval_ns: 100,
            space: number % 2,
            target: some(n << 50),
            start: n << 12,
            bytes: n << 20,
            accesses: number,
            checks: some_32(20),
            age: some_32(number),
        });
        self.add_waits(number);
        self.add_page_states(number);
        self.add_io(number);
        self.write_looks.push(WriteLook {
            time_ns: n,
            space: number,
            address: n << 12,
            written: number.is_multiple_of(3),
        });
        self.glances.push(Glance {
            time_ns: n,
            interval_ns: n / 2,
            space: number,
            address: n << 21,
            pages: number as u16,
            map: some_text("f0"),
        });
        self.spot_looks.push(SpotLook {
            time_ns: n,
            interval_ns: n / 2,
            listed_ns: number.is_multiple_of(2).then_some(n / 2 + 1),
            space: number,
            address: n << 21,
            pages_each: 1 << (number % 8),
            looked_map: format!("{number:x}f"),
            accessed_map: some_text("f0"),
        });
        self.spot_glances.push(SpotGlance {
            time_ns: n,
            interval_ns: n / 3,
            space: number,
            address: n << 21,
            map: format!("{number:x}"),
        });
        self.accesses.push(Access {
            time_ns: n,
            interval_ns: n / 2,
            space: number,
            address: n << 21,
            resident_pages: number as u16,
            accessed_pages: number as u16 / 2,
            dirty_pages: number as u16 / 3,
            huge: number.is_multiple_of(2),
            swapped_pages: 1,
            resident_map: some_text("f0"),
            accessed_map: some_text("70"),
        });
    }

    fn add_io(&mut self, number: u32) {
        let n = u64::from(number);
        let some = |value: u64| (!n.is_multiple_of(3)).then_some(value);
        let some_32 = |value: u32| (!n.is_multiple_of(3)).then_some(value);
        let (calls, directions) = (IoCallKind::ALL, IoDirection::ALL);
        self.io_calls.push(IoCall {
            time_ns: n * 1_000,
            space: number % 3,
            tid: number % 5,
            call: calls[number as usize % calls.len()],
            direction: directions[number as usize % directions.len()],
            file: some_32(number % 7),
            direct: number.is_multiple_of(2),
            offset: some(n << 12),
            bytes: some(n),
            error: some_32(number % 30),
            latency_ns: n % 10_000,
            cached_bytes: Some(n % 2 * 4096),
            ahead_bytes: Some(n % 5 * 4096),
            stack: some_32(number % 4),
        });
        self.io_files.push(IoFile {
            time_ns: n,
            file: number,
            space: number % 3,
            major: 8,
            minor: number % 16,
            inode: n + 12,
            generation: number,
            bytes: n << 20,
            filesystem: "ext4".to_owned(),
            path: (!n.is_multiple_of(3)).then(|| format!("/data/\u{e9} {number}")),
            unlinked: number.is_multiple_of(2),
        });
        self.io_sums.push(IoSum {
            time_ns: n,
            interval_ns: 1_000,
            stack: some_32(number % 4),
            file: some_32(number % 7),
            direction: directions[number as usize % directions.len()],
            direct: number.is_multiple_of(2),
            latency_octave: number % 40,
            calls: n,
            failed: n % 3,
            continued: n % 5,
            bytes: n << 12,
            latency_ns: n * 700,
            cached_bytes: Some(n % 2 * 4096),
            ahead_bytes: Some(0),
        });
        let kinds = IoCacheKind::ALL;
        self.io_cache.push(IoCache {
            time_ns: n,
            kind: kinds[number as usize % kinds.len()],
            file: some_32(number % 7),
            offset: n << 12,
            bytes: 4096,
            space: some_32(number % 3),
            tid: some_32(number),
            stack: some_32(number % 4),
        });
    }

    fn add_page_states(&mut self, number: u32) {
        let n = u64::from(number);
        let some = |value: u64| (!n.is_multiple_of(3)).then_some(value);
        self.event_counts.push(EventCount {
            time_ns: n,
            interval_ns: 1_000_000_000,
            space: number % 3,
            kind: EventKind::ALL[number as usize % EventKind::ALL.len()],
            address: 0x7f00_0000_0000 + n * 4096,
            bytes: 2 << 20,
            events: n,
            latency_ns: some(n),
        });
        self.stall_counts.push(StallCount {
            time_ns: n,
            interval_ns: 1_000_000_000,
            space: number % 3,
            kind: StallKind::ALL[number as usize % StallKind::ALL.len()],
            in_fault: number.is_multiple_of(2),
            stalls: n,
            duration_ns: n * 1000,
        });
        self.given_names.push(GivenName {
            time_ns: n,
            space: number % 3,
            address: n << 12,
            name: format!("name {number}"),
        });
        let states = PageState::ALL;
        self.residency.push(Residency {
            time_ns: n,
            space: number % 3,
            address: n << 12,
            bytes: 4096 * n,
            state: states[number as usize % states.len()],
            file: some(n).map(|n| n.is_multiple_of(2)),
            mapped: some(n).map(|n| n.is_multiple_of(5)),
        });
        self.residency_scans.push(ResidencyScan {
            time_ns: n,
            space: number % 3,
            end_ns: n + 1,
            cost_ns: 1,
            resident_bytes: n << 12,
            swapped_bytes: n << 13,
            huge_bytes: some(n),
            complete: number.is_multiple_of(2),
        });
        self.thread_faults.push(ThreadFaults {
            time_ns: n,
            space: number % 3,
            tid: number,
            major_faults: n,
            minor_faults: n + 1,
        });
        self.headway.push(Headway {
            time_ns: n,
            space: number % 3,
            user_ns: 2 * n,
            major_faults: n,
        });
    }

    fn add_waits(&mut self, number: u32) {
        let n = u64::from(number);
        let some = |value: u64| (!n.is_multiple_of(3)).then_some(value);
        let kinds = StallKind::ALL;
        self.stalls.push(Stall {
            time_ns: n,
            space: number,
            tid: number + 1,
            kind: kinds[number as usize % kinds.len()],
            duration_ns: n << 7,
            in_fault: number.is_multiple_of(2),
        });
        self.run_delays.push(RunDelay {
            time_ns: n,
            space: number,
            tid: number + 1,
            duration_ns: n << 8,
        });
        self.pressure.push(Pressure {
            time_ns: n,
            psi_some_ns: some(n + 1),
            psi_full_ns: some(n + 2),
            machine_psi_some_ns: some(n + 3),
            machine_psi_full_ns: some(n + 4),
            delay_swapin_ns: some(n + 5),
            delay_freepages_ns: some(n + 6),
            delay_thrashing_ns: some(n + 7),
            delay_blkio_ns: some(n + 8),
        });
    }

    pub(crate) fn push_to(&self, writer: &mut TraceWriter) {
        macro_rules! push {
            ($($table:ident),*) => {$(
                self.$table.iter().cloned().for_each(|row| writer.$table.push(row).unwrap());
            )*};
        }
        for_tables!(push);
    }

    /// Reads every table whole; the first error if there is one.
    pub(crate) fn read(dir: &Path) -> Result<Tables, TraceError> {
        let trace = Trace::open(dir)?;
        macro_rules! read {
            ($($table:ident),*) => {
                Ok(Tables { $( $table: trace.rows()?.collect::<Result<_, _>>()? ),* })
            };
        }
        for_tables!(read)
    }

    /// Reads what there is, up to the first error of each table.
    pub(crate) fn read_prefixes(trace: &Trace) -> Tables {
        macro_rules! read {
            ($($table:ident),*) => {
                Tables { $( $table: match trace.rows() {
                    Ok(rows) => rows.map_while(Result::ok).collect(),
                    Err(_) => Vec::new(),
                } ),* }
            };
        }
        for_tables!(read)
    }

    /// Whether each table is a prefix of the other's.
    pub(crate) fn is_prefix_of(&self, whole: &Tables) -> bool {
        macro_rules! check {
            ($($table:ident),*) => {
                $( whole.$table.starts_with(&self.$table) )&&*
            };
        }
        for_tables!(check)
    }
}

/// A recording as a killed recorder leaves it: `flushes` flushes of `rows` rows each.
pub(crate) fn crashed(dir: &Path, flushes: u32, rows: u32) -> Tables {
    let mut writer = create(dir);
    for flush in 0..flushes {
        Tables::numbered(flush * rows..(flush + 1) * rows).push_to(&mut writer);
        writer.flush().unwrap();
    }
    Tables::numbered(0..flushes * rows)
}

pub(crate) fn closed(dir: &Path, rows: u32) -> Tables {
    let mut writer = create(dir);
    let tables = Tables::numbered(0..rows);
    tables.push_to(&mut writer);
    writer.close().unwrap();
    tables
}

/// Copies a trace, so that a test can damage it again and again.
pub(crate) fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

pub(crate) fn file_names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// Small and reproducible; the tests need no better randomness (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % bound
    }
}
