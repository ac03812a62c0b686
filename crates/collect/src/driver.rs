//! Loads, attaches and reads the programs of `bpf/swap.bpf.c`.

use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::IntoRawFd;
use std::os::fd::OwnedFd;

use libbpf_rs::Link;
use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::MapHandle;
use libbpf_rs::Object;
use libbpf_rs::RingBuffer;
use libbpf_rs::RingBufferBuilder;

use crate::CollectError;
use crate::Layout;
use crate::Lesson;
use crate::Observation;
use crate::calibrate::open_object;
use crate::features;
use crate::io_record;
use crate::io_record::Wish;
use crate::looks::Looks;
use crate::numbers::Numbers;
use crate::path_memory;
use crate::path_memory::PathMemory;
use crate::path_memory::Referred;
use crate::perf_event::major_faults_on;
use crate::record;
use crate::record::Config;
use crate::ring::RingSizes;
use crate::ring::Rings;
use crate::stalls::Delays;
use crate::stalls::StallTotals;
use crate::stalls::Stalls;
use crate::stalls::words;

/// Cached reads come ten times as fast as swap-ins: until their path is learnt, each sends its stack.
const COPIES_OF_CALLS: u32 = 64 << 20;

/// A multiple of any page size.
const SMALLEST_RING: u32 = 64 << 10;

pub(crate) static SWAP: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/swap.bpf.o"));

/// How to observe.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// This kernel's layout, from [`crate::calibrate()`].
    pub layout: Layout,
    /// CLOCK_MONOTONIC at the start of the recording, ns.
    pub base_ns: u64,
    /// Swap is on a disk or file: pages linger in the swap cache, so evictions are seen when the page is
    /// freed. False where all swap is zram, which is written at once and bypasses the cache.
    pub swap_is_slow: bool,
    /// How much memory the programs may have, bytes: by that, pages that came back are looked at again.
    pub memory_bytes: u64,
    /// The kernel notes a page of zeros by a bit instead of sending it to swap (6.12; /proc/vmstat then has
    /// `swpout_zero`).
    pub zeros_are_noted: bool,
    /// Swap-ins and evictions are observed; if not, only processes are followed, and what else is asked for.
    pub memory: bool,
    /// Calls that read or write files are observed, and what the page cache keeps of these.
    pub io: bool,
    /// Faults and calls come with their call paths; see [`SwapSensor::teach`].
    pub call_paths: bool,
    /// Recognized stacks are copied all the same, to be unwound and compared.
    pub check_call_paths: bool,
    /// The programs on faults and evictions return at once: what calling them costs, for benchmarks.
    pub does_nothing: bool,
    /// Calls on files are told soon, with how their file reads ahead, and only as is wished of their paths
    /// ([`SwapSensor::wish`]). With `io` and `call_paths`.
    pub enforces: bool,
}

/// Counts that the programs keep themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records that found a ring full, and swap-ins that lost their place to those of other threads.
    pub lost: u64,
    /// What happened on processors that came online later: they have no ring.
    pub lost_without_ring: u64,
    /// Exec, fork and exit notices that found their ring full.
    pub lost_notices: u64,
    /// Processes, or new address spaces of processes, that found no room: they are not recorded from then on.
    pub lost_processes: u64,
    /// Words dropped because a record made no sense (a bug).
    pub malformed: u64,
    /// Major faults taken by exception that were no swap-in: file pages.
    pub file_majors: u64,
    /// Major faults of recorded threads, as the kernel counts them.
    pub major_faults: u64,
    /// Pages read from the swap device for recorded programs' faults; 0 where `reads_are_counted` is false. Up to
    /// 6.2 with swap on zram: one a fault, as the kernel counts none there.
    pub pages_read: u64,
    /// Whether `pages_read` is known: false without CONFIG_TASK_IO_ACCOUNTING, and until a program was started.
    pub reads_are_counted: bool,
    /// Evictions of pages of programs that are not recorded.
    pub foreign_pages: u64,
    /// Evictions of private memory whose owner could not be found.
    pub unknown_owner: u64,
    /// Pages of shared memory (and, rarely, of files) that were written as memory was short, of the whole machine.
    pub shared_pages: u64,
    /// Stacks that found no room to be copied to: their faults have no call path.
    pub lost_copies: u64,
    /// Stalls that found no room to be noted.
    pub lost_stalls: u64,
    /// Completions of writes that found no room.
    pub lost_completions: u64,
    /// What the programs on input and output count.
    pub io: IoTotals,
}

/// See [`Totals::io`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoTotals {
    /// Files of which nothing could be told: their calls have the file 0.
    pub lost_files: u64,
    /// Calls that ask the kernel to read or write later, by AIO, or by io_uring where its requests are not followed: what comes of them is not
    /// seen. Where they are, requests that have ended without telling so.
    pub unseen_calls: u64,
    /// Calls of 32-bit code, which are not recorded.
    pub foreign_calls: u64,
    /// Work that was handed over of which nothing could be told: who does it has no call path.
    pub lost_handovers: u64,
    /// Rings of io_uring whose requests a thread of the kernel submits (`IORING_SETUP_SQPOLL`): these have no call path.
    pub polled_rings: u64,
}

/// The running sensor. Dropping it detaches everything.
pub struct SwapSensor {
    rings: Rings,
    numbers: Numbers,
    paths: PathMemory,
    notices: RingBuffer<'static>,
    copies: RingBuffer<'static>,
    files: RingBuffer<'static>,
    handovers: RingBuffer<'static>,
    wakes: RingBuffer<'static>,
    referred: Referred,
    queue: Queue,
    stalls: Stalls,
    base_ns: u64,
    malformed: u64,
    unseen_processors: u64,
    // Fields drop in this order: links before the object whose programs they hold.
    fault_links: Vec<Link>,
    page_links: Vec<Link>,
    io_links: Vec<Link>,
    _process_links: Vec<Link>,
    pub(crate) object: Object,
}

impl SwapSensor {
    /// Loads and attaches all programs. Nothing is recorded until [`SwapSensor::watch`] names a process.
    ///
    /// # Errors
    /// If the kernel refuses a program, for lack of privilege or of a feature.
    pub fn load(options: Options) -> Result<Self, CollectError> {
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("swap", &error);
        let cpus = libbpf_rs::num_possible_cpus().map_err(refused)?;
        let sizes = RingSizes::of_this_machine(cpus);
        let offered = features::io_features()?;
        let follows_uring = options.io && offered.requests;
        // No hint is given for mappings.
        let tells_file_faults = options.io && !options.enforces && offered.file_faults;
        let looks = match options.swap_is_slow || !options.memory {
            true => Looks::NONE, // evictions tell
            false => Looks::within(options.memory_bytes),
        };
        let config = Config {
            base_ns: options.base_ns,
            direct_map: options.layout.direct_map,
            top_level_shift: options.layout.top_level_shift,
            use_cast: options.layout.use_cast.into(),
            page_structs: options.layout.page_structs.unwrap_or(0),
            swap_is_slow: options.swap_is_slow.into(),
            zeros_are_noted: options.zeros_are_noted.into(),
            zswap: zswap_is_on().into(),
            call_paths: options.call_paths.into(),
            check_call_paths: options.check_call_paths.into(),
            does_nothing: options.does_nothing.into(),
            copies_tables: 0, // nothing is copied by these programs
            follows_uring: follows_uring.into(),
            enforces: options.enforces.into(),
            look_every: looks.every,
            looks_waiting: looks.waiting,
            ring_words: sizes.words as u32,
            rings: sizes.rings as u32,
        };
        let mut open = open_object("swap", SWAP, config)?;
        let missing_tracepoints = features::missing_tracepoints()?;
        for mut program in open.progs_mut() {
            let name = program.name().to_string_lossy();
            let wanted = options.swap_is_slow || !ON_SLOW_SWAP.contains(&&*name);
            let section = program.section().to_string_lossy();
            let has_place = features::tracepoint_of(&section)
                .is_none_or(|place| !missing_tracepoints.contains(&place));
            let asked_for = match role_of(&name) {
                Role::Io => options.io,
                Role::Requests => follows_uring,
                Role::FileFaults => tells_file_faults,
                Role::Faults | Role::Pages => options.memory,
                Role::Processes | Role::Iterator | Role::Walks => true,
            };
            program.set_autoload(wanted && has_place && asked_for);
        }
        if options.io {
            features::require_io_tracepoints(&missing_tracepoints)?;
        }
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == "copies" && !options.call_paths {
                map.set_max_entries(SMALLEST_RING).map_err(refused)?;
            }
            if name == "copies" && options.io {
                map.set_max_entries(COPIES_OF_CALLS).map_err(refused)?;
            }
            if ["new_files", "handovers"].contains(&&*name) && !options.io {
                map.set_max_entries(SMALLEST_RING).map_err(refused)?;
            }
            if name == "wishes" && !options.enforces {
                map.set_max_entries(1).map_err(refused)?;
            }
            if name == "requests" && !follows_uring || name == "known_files" && !options.io {
                map.set_max_entries(1).map_err(refused)?;
            }
            if ["cpus", "io_cpus"].contains(&&*name) {
                map.set_max_entries(cpus as u32).map_err(refused)?;
            }
            if ["rings", "scratches"].contains(&&*name) {
                map.set_max_entries(sizes.rings as u32).map_err(refused)?;
            }
            if name == "rings" {
                map.set_value_size(sizes.stride_words() as u32 * 8)
                    .map_err(refused)?;
            }
        }
        let object = open.load().map_err(refused)?;
        let rings = Rings::map(
            find(&object, "cpus")?.as_fd(),
            find(&object, "rings")?.as_fd(),
            cpus,
            sizes,
        )?;
        let numbers = Numbers::map(find(&object, ".bss.numbers")?.as_fd())?;
        let mut unseen_processors = 0;
        let mut attach = |role| attach(&object, cpus, role, &mut unseen_processors);
        let process_links = attach(Role::Processes)?;
        let page_links = attach(Role::Pages)?;
        let fault_links = attach(Role::Faults)?;
        let mut io_links = Vec::new();
        for role in IO_ROLES {
            io_links.extend(attach(role)?);
        }
        let paths = PathMemory::map(
            find(&object, ".bss.layouts")?.as_fd(),
            find(&object, ".bss.slots")?.as_fd(),
            find(&object, ".bss.paths")?.as_fd(),
        )?;
        let queue = Queue::default();
        let notices = subscribe(&object, "notices", &queue, record::decode_notice)?;
        let copies = subscribe(&object, "copies", &queue, |bytes| {
            let (stack, bytes) = path_memory::decode_copy(bytes)?;
            Some(Observation::Stack { stack, bytes })
        })?;
        let files = subscribe(&object, "new_files", &queue, |bytes| {
            io_record::decode_file(bytes).map(Observation::File)
        })?;
        let handovers = subscribe(&object, "handovers", &queue, io_record::decode_handover)?;
        let wakes = subscribe(&object, "wakes", &queue, |_| None)?;
        let stalls = Stalls::start(&object, options.base_ns, missing_tracepoints)?;
        Ok(Self {
            rings,
            numbers,
            paths,
            notices,
            copies,
            files,
            handovers,
            wakes,
            referred: Referred::default(),
            queue,
            stalls,
            base_ns: options.base_ns,
            malformed: 0,
            unseen_processors,
            fault_links,
            page_links,
            io_links,
            _process_links: process_links,
            object,
        })
    }

    /// Records this process from its next exec on, and all its descendants.
    ///
    /// # Errors
    /// If the kernel refuses the entry.
    pub fn watch(&self, pid: u32) -> Result<(), CollectError> {
        // struct process: no address space yet.
        let process = [0u8; 16];
        find(&self.object, "processes")?
            .update(&pid.to_ne_bytes(), &process, MapFlags::ANY)
            .map_err(|error| CollectError::from_libbpf("watch", &error))
    }

    /// Stops observing memory; processes are still followed, so that [`SwapSensor::resume`] can go on.
    pub fn pause(&mut self) {
        self.fault_links.clear();
        self.page_links.clear();
        self.io_links.clear();
    }

    /// Observes memory again after [`SwapSensor::pause`].
    ///
    /// # Errors
    /// If the kernel refuses to attach a program.
    pub fn resume(&mut self) -> Result<(), CollectError> {
        self.page_links = self.attach(Role::Pages)?;
        for role in IO_ROLES {
            let links = self.attach(role)?;
            self.io_links.extend(links);
        }
        self.resume_faults()
    }

    /// Stops observing faults, which every first touch of a page pays for; evictions are still observed. Where no
    /// page has been evicted, there is no swap-in to miss.
    pub fn pause_faults(&mut self) {
        self.fault_links.clear();
    }

    /// Observes faults again after [`SwapSensor::pause_faults`].
    ///
    /// # Errors
    /// If the kernel refuses to attach a program.
    pub fn resume_faults(&mut self) -> Result<(), CollectError> {
        self.fault_links = self.attach(Role::Faults)?;
        Ok(())
    }

    fn attach(&mut self, role: Role) -> Result<Vec<Link>, CollectError> {
        let cpus = self.rings.cpus();
        attach(&self.object, cpus, role, &mut self.unseen_processors)
    }

    /// Processors that are online and whose kernel refused the event of major faults: swap-ins there have no latency.
    pub fn unseen_processors(&self) -> u64 {
        self.unseen_processors
    }

    /// Hands all that was seen since the last call to `sink`: process changes and new files first, then each
    /// processor's records in its own order (across processors, sort by time), then files and processes that came
    /// meanwhile, which some of these records refer to already, and work that was handed over, then the stacks they refer to (and perhaps some that
    /// later records refer to). Never blocks.
    ///
    /// # Errors
    /// If the notices' ring cannot be read.
    pub fn drain(&mut self, mut sink: impl FnMut(Observation)) -> Result<(), CollectError> {
        // First of all: what comes from here on wakes the reader again.
        self.wakes
            .consume()
            .map_err(|error| CollectError::from_libbpf("wakes", &error))?;
        self.hand_on_files(&mut sink)?;
        // Read before the rings and handed on after them: what has completed by now was submitted by now.
        let completions = self.stalls.completions()?;
        let (base_ns, latest_ns) = (self.base_ns, record::latest_ns());
        self.malformed += self.rings.drain(|words| {
            let base_ns = record::base_of_turn(*words.get(1)?, base_ns, latest_ns);
            let (mut observation, length) = record::decode(words, base_ns)?;
            self.numbers.complete(&mut observation);
            self.referred.note(&observation);
            sink(observation);
            Some(length)
        });
        self.hand_on_files(&mut sink)?;
        self.hand_on_handovers(&mut sink)?;
        self.hand_on_copies(&mut sink)?;
        for mut completion in completions {
            self.numbers.complete(&mut completion);
            sink(completion);
        }
        Ok(())
    }

    fn consume_notices(&self) -> Result<(), CollectError> {
        self.notices
            .consume()
            .map_err(|error| CollectError::from_libbpf("notices", &error))
    }

    /// Processes that came, then the files that they use.
    fn hand_on_files(&self, sink: &mut impl FnMut(Observation)) -> Result<(), CollectError> {
        self.files
            .consume()
            .map_err(|error| CollectError::from_libbpf("new_files", &error))?;
        // Whoever has used a file by now has been told of by now.
        let files = self.queue.take();
        self.consume_notices()?;
        self.queue.borrow_mut().drain(..).for_each(&mut *sink);
        files.into_iter().for_each(sink);
        Ok(())
    }

    /// Whoever works on behalf of another one by now was handed its work by now.
    fn hand_on_handovers(
        &mut self,
        sink: &mut impl FnMut(Observation),
    ) -> Result<(), CollectError> {
        self.handovers
            .consume()
            .map_err(|error| CollectError::from_libbpf("handovers", &error))?;
        for handover in self.queue.take() {
            self.referred.note(&handover);
            sink(handover);
        }
        Ok(())
    }

    /// Those that records have referred to so far, and no more: before these are taught, every further fault sends one.
    fn hand_on_copies(&mut self, sink: &mut impl FnMut(Observation)) -> Result<(), CollectError> {
        const AT_ONCE: usize = 64;
        loop {
            let consumed = self.copies.consume_raw_n(AT_ONCE);
            if consumed < 0 {
                let error = libbpf_rs::Error::from_raw_os_error(-consumed);
                return Err(CollectError::from_libbpf("copies", &error));
            }
            // A process that began since the first look may have sent a stack already: first, who it is.
            let copies = self.queue.take();
            self.consume_notices()?;
            self.queue.borrow_mut().drain(..).for_each(&mut *sink);
            for observation in copies {
                self.referred.handed_on(&observation);
                sink(observation);
            }
            if (consumed as usize) < AT_ONCE || self.referred.is_settled() {
                return Ok(());
            }
        }
    }

    /// Readable when a stack waits to be unwound: until that is taught, each fault like it costs a copy.
    pub fn copies_wait(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring buffer owns this descriptor, which it was created with, and lives as long as self.
        unsafe { BorrowedFd::borrow_raw(self.copies.epoll_fd()) }
    }

    /// Readable when calls are to be looked at ([`Options::enforces`]), until the next [`SwapSensor::drain`].
    pub fn calls_wait(&self) -> BorrowedFd<'_> {
        // SAFETY: as in `copies_wait`.
        unsafe { BorrowedFd::borrow_raw(self.wakes.epoll_fd()) }
    }

    /// What shall be told of the calls of a path ([`Options::enforces`]). Of paths with too high a number all is told.
    ///
    /// # Errors
    /// If the kernel refuses to write to a map.
    pub fn wish(&self, path: u32, wish: Wish) -> Result<(), CollectError> {
        const MOST_WISHES: u32 = 1 << 16;
        if path >= MOST_WISHES {
            return Ok(());
        }
        find(&self.object, "wishes")?
            .update(
                &path.to_ne_bytes(),
                &(wish as u32).to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(|error| CollectError::from_libbpf("wishes", &error))
    }

    /// Faults with such a stack are told by the path's number from now on.
    pub fn teach(&mut self, lesson: &Lesson) {
        self.paths.teach(lesson);
    }

    /// Forgets what was taught: some code was unmapped, so its addresses may come to mean something else.
    pub fn forget_paths(&mut self) {
        self.paths.forget();
    }

    /// What the kernel itself says recorded threads have waited for, from their start on; `None` where it keeps no such
    /// accounts (`kernel.task_delayacct` must be on when the program starts).
    ///
    /// # Errors
    /// If the kernel refuses to go through its tasks, or to read a map.
    pub fn delays(&self) -> Result<Option<Delays>, CollectError> {
        self.stalls.delays(&self.object)
    }

    /// Of the tracepoints that tell of stalls, those that this kernel does not have.
    pub fn missing_stall_tracepoints(&self) -> &[&'static str] {
        self.stalls.missing_tracepoints()
    }

    /// Tells recorded address spaces apart, also in another thread.
    ///
    /// # Errors
    /// If the map of them cannot be opened a second time.
    pub fn spaces(&self) -> Result<Spaces, CollectError> {
        find(&self.object, "spaces").map(Spaces)
    }

    /// The programs' own counts up to now.
    ///
    /// # Errors
    /// If the kernel refuses to read a map.
    pub fn totals(&self) -> Result<Totals, CollectError> {
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("totals", &error);
        let bytes = find(&self.object, ".data.totals")?
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused)?
            .unwrap_or_default();
        let live = self.live_major_faults()?;
        let word = |index: usize| {
            bytes
                .get(index * 8..index * 8 + 8)
                .and_then(|b| b.try_into().ok())
                .map_or(0, u64::from_ne_bytes)
        };
        let counters = self.rings.counters();
        let stalls = StallTotals::read(&self.object)?;
        Ok(Totals {
            lost: counters.lost + counters.displaced_faults,
            lost_without_ring: counters.without_ring,
            lost_notices: word(1),
            lost_processes: word(4),
            malformed: self.malformed,
            file_majors: counters.file_majors,
            // The begin of a running process may stand there as a debt that its live threads pay.
            major_faults: word(0).wrapping_add(live),
            pages_read: counters.pages_read,
            reads_are_counted: word(3) != 0,
            foreign_pages: counters.foreign_pages,
            unknown_owner: counters.unknown_owner,
            shared_pages: counters.shared_pages,
            lost_copies: counters.lost_copies,
            lost_stalls: stalls.lost_stalls,
            lost_completions: stalls.lost_completions,
            io: self.io_totals()?,
        })
    }
}

impl SwapSensor {
    /// `struct io_totals` of `bpf/record.h`.
    fn io_totals(&self) -> Result<IoTotals, CollectError> {
        let [
            _,
            lost_files,
            unseen_calls,
            foreign_calls,
            lost_handovers,
            polled_rings,
        ] = words(&self.object, ".data.io_totals")?;
        Ok(IoTotals {
            lost_files,
            unseen_calls,
            foreign_calls,
            lost_handovers,
            polled_rings,
        })
    }
}

/// Probed, as /sys/module/zswap exists only where zswap is built in.
fn zswap_is_on() -> bool {
    std::fs::read_to_string("/sys/module/zswap/parameters/enabled")
        .is_ok_and(|enabled| enabled.starts_with('Y'))
}

/// Programs that see what is slow anyway: elsewhere their cost would show.
const ON_SLOW_SWAP: &[&str] = &["page_freed", "swap_io", "swap_request_done", "swap_io_done"];

/// The recorded address spaces, while they last.
#[derive(Debug)]
pub struct Spaces(MapHandle);

impl Spaces {
    /// The number of the address space that the kernel knows by this `mm_struct`, if it is recorded.
    ///
    /// # Errors
    /// If the kernel refuses to read the map.
    pub fn space_of(&self, mm: u64) -> Result<Option<u32>, CollectError> {
        let space = self.0.lookup(&mm.to_ne_bytes(), MapFlags::ANY);
        let space = space.map_err(|error| CollectError::from_libbpf("spaces", &error))?;
        Ok(space.and_then(|bytes| Some(u32::from_ne_bytes(bytes.try_into().ok()?))))
    }
}

/// Maps opened from memory get a prefix: compare the end.
pub(crate) fn find(object: &Object, name: &str) -> Result<MapHandle, CollectError> {
    let map = object
        .maps()
        .find(|map| map.name().to_string_lossy().ends_with(name))
        .ok_or_else(|| CollectError::Refused {
            program: "swap".to_owned(),
            detail: format!("no map {name}"),
        })?;
    MapHandle::try_from(&map).map_err(|error| CollectError::from_libbpf(name, &error))
}

/// What a program observes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Processes,
    Faults,
    Pages,
    /// Run when asked for.
    Iterator,
    /// Run on demand, not attached (`running.rs`).
    Walks,
    /// Input and output (`bpf/io.h`).
    Io,
    /// That of io_uring (`bpf/io_uring.h`), where the kernel shows it.
    Requests,
    /// Faults on mappings of files (`bpf/io_faults.h`), where the kernel shows them.
    FileFaults,
}

/// All that belongs to input and output.
const IO_ROLES: [Role; 3] = [Role::Io, Role::Requests, Role::FileFaults];

fn role_of(program: &str) -> Role {
    match program {
        "program_starts" | "process_forks" | "thread_ends" => Role::Processes,
        "fault_in_program" | "fault_in_system_call" | "fault_ends" => Role::Faults,
        "io_begins" | "io_ends" | "page_cached" | "page_uncached" => Role::Io,
        "request_submitted" | "request_submitted_early" | "request_completes" | "ring_created" => {
            Role::Requests
        }
        "file_fault_begins" | "file_fault_maps_around" | "file_fault_ends" => Role::FileFaults,
        "live_delays" => Role::Iterator,
        "find_wanted" | "count_major_faults" => Role::Walks,
        _ => Role::Pages,
    }
}

/// `unseen_processors`: where faults do not end for us, if these are attached.
fn attach(
    object: &Object,
    cpus: usize,
    role: Role,
    unseen_processors: &mut u64,
) -> Result<Vec<Link>, CollectError> {
    let mut links = Vec::new();
    for program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if !program.autoload() || role_of(&name) != role {
            continue;
        }
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf(&name, &error);
        if ["fault_ends", "file_fault_ends"].contains(&&*name) {
            let (events, missing) = open_major_fault_events(cpus)?;
            *unseen_processors = missing;
            for event in events {
                // The link closes the descriptor when it goes.
                links.push(
                    program
                        .attach_perf_event(event.into_raw_fd())
                        .map_err(refused)?,
                );
            }
        } else {
            links.push(program.attach().map_err(refused)?);
        }
    }
    Ok(links)
}

/// One for each processor, and how many of these refuse theirs.
fn open_major_fault_events(cpus: usize) -> Result<(Vec<OwnedFd>, u64), CollectError> {
    some_of((0..cpus as u32).map(major_faults_on))
}

/// Those that could be opened, and how many could not. None at all is an error.
fn some_of(
    opened: impl Iterator<Item = Result<OwnedFd, CollectError>>,
) -> Result<(Vec<OwnedFd>, u64), CollectError> {
    let (mut events, mut refused, mut why) = (Vec::new(), 0, None);
    for event in opened {
        match event {
            Ok(event) => events.push(event),
            // A processor that is offline has no event; one that comes later is not observed.
            Err(CollectError::System { source, .. })
                if source.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => {
                refused += 1;
                why = Some(error);
            }
        }
    }
    match why {
        Some(error) if events.is_empty() => Err(error),
        _ => Ok((events, refused)),
    }
}

type Queue = std::rc::Rc<std::cell::RefCell<Vec<Observation>>>;

fn subscribe(
    object: &Object,
    name: &str,
    queue: &Queue,
    decode: impl Fn(&[u8]) -> Option<Observation> + 'static,
) -> Result<RingBuffer<'static>, CollectError> {
    let refused = |error: libbpf_rs::Error| CollectError::from_libbpf(name, &error);
    let map = find(object, name)?;
    let queue = queue.clone();
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&map, move |bytes: &[u8]| {
            queue.borrow_mut().extend(decode(bytes));
            0
        })
        .map_err(refused)?;
    builder.build().map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event() -> Result<OwnedFd, CollectError> {
        let file = std::fs::File::open("/dev/null").expect("opened");
        Ok(file.into())
    }

    fn refused(errno: i32) -> Result<OwnedFd, CollectError> {
        Err(CollectError::System {
            action: "opening an event".to_owned(),
            source: std::io::Error::from_raw_os_error(errno),
        })
    }

    #[test]
    fn processors_that_refuse_are_counted_and_those_offline_are_not() {
        let opened = [event(), refused(libc::ENODEV), refused(libc::EMFILE)];
        let (events, unseen) = some_of(opened.into_iter()).expect("one is enough");
        assert_eq!((events.len(), unseen), (1, 1));
        assert!(some_of([refused(libc::EACCES)].into_iter()).is_err());
    }
}
