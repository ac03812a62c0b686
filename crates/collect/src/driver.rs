//! Loads, attaches and reads the programs of `bpf/swap.bpf.c`.

use std::os::fd::AsFd;
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
use crate::Observation;
use crate::calibrate::open_object;
use crate::perf_event::major_faults_on;
use crate::record;
use crate::record::Config;
use crate::ring::Rings;

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
    /// The kernel notes a page of zeros by a bit instead of sending it to swap (6.12; /proc/vmstat then has
    /// `swpout_zero`).
    pub zeros_are_noted: bool,
}

/// Counts that the programs keep themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records that found a ring full.
    pub lost: u64,
    /// Exec, fork and exit notices that found their ring full.
    pub lost_notices: u64,
    /// Words dropped because a record made no sense (a bug).
    pub malformed: u64,
    /// Major faults taken by exception that were no swap-in: file pages.
    pub file_majors: u64,
    /// Major faults of recorded threads that have ended, as the kernel counts them.
    pub major_faults: u64,
    /// Pages read from the swap device for recorded programs' faults; 0 where `reads_are_counted` is false. Up to
    /// 6.2 with swap on zram: one a fault, as the kernel counts none there.
    pub pages_read: u64,
    /// Whether `pages_read` is known: false without CONFIG_TASK_IO_ACCOUNTING, and until a program was started.
    pub reads_are_counted: bool,
    /// Evictions of pages of programs that are not recorded.
    pub foreign_pages: u64,
    /// Evictions whose owner could not be found.
    pub unknown_owner: u64,
}

/// The running sensor. Dropping it detaches everything.
pub struct SwapSensor {
    rings: Rings,
    notices: RingBuffer<'static>,
    queue: std::rc::Rc<std::cell::RefCell<Vec<Observation>>>,
    base_ns: u64,
    malformed: u64,
    // Fields drop in this order: links before the object whose programs they hold.
    fault_links: Vec<Link>,
    page_links: Vec<Link>,
    _process_links: Vec<Link>,
    object: Object,
}

impl SwapSensor {
    /// Loads and attaches all programs. Nothing is recorded until [`SwapSensor::watch`] names a process.
    ///
    /// # Errors
    /// If the kernel refuses a program, for lack of privilege or of a feature.
    pub fn load(options: Options) -> Result<Self, CollectError> {
        let config = Config {
            base_ns: options.base_ns,
            direct_map: options.layout.direct_map,
            top_level_shift: options.layout.top_level_shift,
            use_cast: options.layout.use_cast.into(),
            page_structs: options.layout.page_structs.unwrap_or(0),
            swap_is_slow: options.swap_is_slow.into(),
            zeros_are_noted: options.zeros_are_noted.into(),
            zswap: zswap_is_on().into(),
        };
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("swap", &error);
        let cpus = libbpf_rs::num_possible_cpus().map_err(refused)?;
        let mut open = open_object("swap", SWAP, config)?;
        for mut program in open.progs_mut() {
            if program.name() == "page_freed" || program.name() == "swap_io" {
                program.set_autoload(options.swap_is_slow);
            }
        }
        for mut map in open.maps_mut() {
            let name = map.name().to_string_lossy().into_owned();
            if name == "rings" || name == "cpus" {
                map.set_max_entries(cpus as u32).map_err(refused)?;
            }
        }
        let object = open.load().map_err(refused)?;
        let rings = Rings::map(
            find(&object, "cpus")?.as_fd(),
            find(&object, "rings")?.as_fd(),
            cpus,
        )?;
        let process_links = attach(&object, cpus, Role::Processes)?;
        let page_links = attach(&object, cpus, Role::Pages)?;
        let fault_links = attach(&object, cpus, Role::Faults)?;
        let queue = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let notices = subscribe(&object, queue.clone())?;
        Ok(Self {
            rings,
            notices,
            queue,
            base_ns: options.base_ns,
            malformed: 0,
            fault_links,
            page_links,
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
    }

    /// Observes memory again after [`SwapSensor::pause`].
    ///
    /// # Errors
    /// If the kernel refuses to attach a program.
    pub fn resume(&mut self) -> Result<(), CollectError> {
        self.page_links = attach(&self.object, self.rings.cpus(), Role::Pages)?;
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
        self.fault_links = attach(&self.object, self.rings.cpus(), Role::Faults)?;
        Ok(())
    }

    /// Hands all that was seen since the last call to `sink`: process changes first, then each processor's
    /// records in its own order (across processors, sort by time). Never blocks.
    ///
    /// # Errors
    /// If the notices' ring cannot be read.
    pub fn drain(&mut self, mut sink: impl FnMut(Observation)) -> Result<(), CollectError> {
        self.notices
            .consume()
            .map_err(|error| CollectError::from_libbpf("notices", &error))?;
        for observation in self.queue.borrow_mut().drain(..) {
            sink(observation);
        }
        let base_ns = self.base_ns;
        self.malformed += self.rings.drain(|words| {
            let (observation, length) = record::decode(words, base_ns)?;
            sink(observation);
            Some(length)
        });
        Ok(())
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
        let word = |index: usize| {
            bytes
                .get(index * 8..index * 8 + 8)
                .and_then(|b| b.try_into().ok())
                .map_or(0, u64::from_ne_bytes)
        };
        let counters = self.rings.counters();
        Ok(Totals {
            lost: counters.lost + counters.unmatched_ends,
            lost_notices: word(1),
            malformed: self.malformed,
            file_majors: counters.file_majors,
            major_faults: word(0),
            pages_read: counters.pages_read,
            reads_are_counted: word(3) != 0,
            foreign_pages: counters.foreign_pages,
            unknown_owner: counters.unknown_owner,
        })
    }
}

/// Probed, as /sys/module/zswap exists only where zswap is built in.
fn zswap_is_on() -> bool {
    std::fs::read_to_string("/sys/module/zswap/parameters/enabled")
        .is_ok_and(|enabled| enabled.starts_with('Y'))
}

/// Maps opened from memory get a prefix: compare the end.
fn find(object: &Object, name: &str) -> Result<MapHandle, CollectError> {
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
}

fn role_of(program: &str) -> Role {
    match program {
        "program_starts" | "process_forks" | "thread_ends" => Role::Processes,
        "fault_in_program" | "fault_in_system_call" | "fault_ends" => Role::Faults,
        _ => Role::Pages,
    }
}

fn attach(object: &Object, cpus: usize, role: Role) -> Result<Vec<Link>, CollectError> {
    let mut links = Vec::new();
    for program in object.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if !program.autoload() || role_of(&name) != role {
            continue;
        }
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf(&name, &error);
        if name == "fault_ends" {
            for event in open_major_fault_events(cpus)? {
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

fn open_major_fault_events(cpus: usize) -> Result<Vec<OwnedFd>, CollectError> {
    // A processor that is offline has no event; one that comes later is not observed.
    let events: Vec<_> = (0..cpus as u32)
        .filter_map(|cpu| major_faults_on(cpu).ok())
        .collect();
    if events.is_empty() {
        return Err(CollectError::last_os(
            "opening the major-fault event (perf_event_paranoid?)",
        ));
    }
    Ok(events)
}

fn subscribe(
    object: &Object,
    queue: std::rc::Rc<std::cell::RefCell<Vec<Observation>>>,
) -> Result<RingBuffer<'static>, CollectError> {
    let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("notices", &error);
    let map = find(object, "notices")?;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&map, move |bytes: &[u8]| {
            queue.borrow_mut().extend(record::decode_notice(bytes));
            0
        })
        .map_err(refused)?;
    builder.build().map_err(refused)
}
