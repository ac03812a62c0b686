//! What huge pages cost and save on this machine: first touches, and page walks of memory in base pages; and what looking at accessed bits does.
//!
//! Both depend on the machine more than on the program: a guest walks two sets of tables, and one that tells its host which 2 MiB are
//! free waits for the host when it touches them again. So they are measured with fresh memory of our own.

use std::ptr;
use std::time::Duration;

use super::BYTES;
use crate::cgroup::CgroupHost;
use crate::cgroup::CgroupRoom;
use crate::counters;

const PAGE_BYTES: u64 = 4096;
const REGION_PAGES: usize = (BYTES / PAGE_BYTES) as usize;
/// Regions touched of each kind at least, and at most if touching goes fast: with more, walks are more like those of a large program.
const LEAST_REGIONS: usize = 24;
const MOST_REGIONS: usize = 128;
/// Beyond the least, touching goes on for so long, of processor time.
const TOUCHING: Duration = Duration::from_millis(100);
/// Where memory is short this would push others out.
const LEAST_AVAILABLE: u64 = 2 << 30;
/// What setting accessed bits is measured with, so many times, where so much memory is free: page tables must not fit the fastest caches, as
/// a program's do not (with 16 MiB it takes half as long as with 160).
const SETTING_REGIONS: usize = 64;
const SETTING_TIMES: usize = 2;
const SETTING_ROOM: u64 = 512 << 20;
/// Reads timed together; of many such times the median is told, as others use the caches, too.
const CHUNK: usize = 2048;
/// An odd factor, which brings the pages' lines into different sets of the caches.
const LINE_STEP: usize = 37;
const LINE_BYTES: usize = 64;
/// A multiplication and an addition that wait for each other, on all x86-64 processors since 2008.
const CYCLES_OF_STEP: f64 = 4.0;
/// No processor has another clock.
const CYCLES_OF_NS: std::ops::RangeInclusive<f64> = 0.5..=8.0;

/// Costs as measured once; times are processor time of the thread that measures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Cycles in a ns.
    pub cycles_per_ns: f64,
    /// By how many cycles a read that waits for the one before takes longer in base pages than in huge ones, where the second level of the TLB has
    /// the huge ones and not the base ones.
    pub walk_cycles: f64,
    /// First touch of all of a fresh region of 2 MiB in base pages.
    pub touch_base: Touch,
    /// The same in a huge page.
    pub touch_huge: Touch,
}

/// Of first touches of 2 MiB, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Touch {
    /// The half takes less.
    pub median_ns: f64,
    /// Nine tenths take less.
    pub p90_ns: f64,
}

/// Measures them, in a few tenths of a second of which most are first touches, with 512 MiB at most. `None`: memory is short, or no huge pages are to be
/// had.
pub fn costs() -> Option<Costs> {
    if !has_room() || crate::page_bytes() != PAGE_BYTES {
        return None;
    }
    let mut base = Memory::new(libc::MADV_NOHUGEPAGE)?;
    let mut huge = Memory::new(libc::MADV_HUGEPAGE)?;
    let began = processor_time();
    while base.regions() < LEAST_REGIONS
        || base.regions() < MOST_REGIONS && processor_time().saturating_sub(began) < TOUCHING
    {
        base.touch_next();
        huge.touch_next();
    }
    // Where the kernel had none, or gives none, base pages would be told as huge ones.
    if !huge.is_huge() {
        return None;
    }
    let cycles_per_ns = cycles_per_ns().filter(|clock| CYCLES_OF_NS.contains(clock))?;
    let order = order(base.regions() * REGION_PAGES);
    let (base_ns, huge_ns) = (base.read_ns(&order), huge.read_ns(&order));
    Some(Costs {
        cycles_per_ns,
        walk_cycles: (base_ns - huge_ns).max(0.0) * cycles_per_ns,
        touch_base: base.touch(),
        touch_huge: huge.touch(),
    })
}

/// What it takes to set an accessed bit that was cleared, in memory in base pages: ns, measured with 128 MiB in some 100 ms. `None`: memory
/// is short, or our own bits are not to be cleared.
pub fn set_accessed_ns() -> Option<f64> {
    if !has_room_for(SETTING_ROOM) || crate::page_bytes() != PAGE_BYTES {
        return None;
    }
    let mut memory = Memory::new(libc::MADV_NOHUGEPAGE)?;
    while memory.regions() < SETTING_REGIONS {
        memory.touch_next();
    }
    let order = order(memory.regions() * REGION_PAGES);
    let mut once = || {
        let began = processor_time();
        order.iter().for_each(|page| memory.increment(*page));
        let took = processor_time().saturating_sub(began);
        took.as_nanos() as f64 / order.len() as f64
    };
    let mut costs = Vec::new();
    for _ in 0..SETTING_TIMES {
        let without = once();
        std::fs::write("/proc/self/clear_refs", "1").ok()?;
        costs.push(once() - without);
    }
    // The first finds the page tables in the caches of others, as a program's mostly are.
    costs.into_iter().reduce(f64::max).map(|cost| cost.max(0.0))
}

fn has_room() -> bool {
    has_room_for(LEAST_AVAILABLE)
}

/// On the machine, and within the limits of memory that hold for ourselves: beyond these we would be killed.
fn has_room_for(bytes: u64) -> bool {
    let available = counters::machine_memory().available_bytes;
    let within = |room: CgroupRoom| room.limit_bytes.saturating_sub(room.used_bytes) >= bytes;
    let own = CgroupHost::of_process(std::process::id());
    let rooms = own.map_or(Vec::new(), |host| CgroupRoom::around(&host.own));
    available >= Some(bytes) && rooms.into_iter().all(within)
}

/// Fresh memory, of which the first regions are touched.
struct Memory {
    mapping: *mut libc::c_void,
    /// Of the first whole region.
    start: *mut u8,
    touched_ns: Vec<f64>,
}

const MAPPED: usize = (MOST_REGIONS + 1) * BYTES as usize;

impl Memory {
    fn new(advice: libc::c_int) -> Option<Self> {
        // SAFETY: a fresh mapping at an address of the kernel's choice, unmapped when dropped.
        let mapping = unsafe {
            libc::mmap(
                ptr::null_mut(),
                MAPPED,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if mapping == libc::MAP_FAILED {
            return None;
        }
        let start = (mapping as u64).next_multiple_of(BYTES) as *mut u8;
        let memory = Self {
            mapping,
            start,
            touched_ns: Vec::new(),
        };
        // SAFETY: the advice is about our own mapping, and changes nothing of what is in it.
        let status = unsafe { libc::madvise(mapping, MAPPED, advice) };
        (status == 0).then_some(memory)
    }

    fn regions(&self) -> usize {
        self.touched_ns.len()
    }

    fn touch_next(&mut self) {
        let first = self.regions() * REGION_PAGES;
        let began = processor_time();
        for page in first..first + REGION_PAGES {
            self.write(page, 0);
        }
        let took = processor_time().saturating_sub(began);
        self.touched_ns.push(took.as_nanos() as f64);
    }

    fn touch(&self) -> Touch {
        Touch {
            median_ns: of_rank(&self.touched_ns, 0.5),
            p90_ns: of_rank(&self.touched_ns, 0.9),
        }
    }

    /// The line of a page that is read.
    fn line(&self, page: usize) -> *mut u64 {
        let offset = page * PAGE_BYTES as usize + page * LINE_STEP % LINE_BYTES * LINE_BYTES;
        assert!(offset + LINE_BYTES <= MAPPED - BYTES as usize);
        self.start.wrapping_add(offset).cast()
    }

    fn write(&mut self, page: usize, value: u64) {
        // SAFETY: inside the mapping, as `line` asserts, which is writable and nobody else's; lines are aligned.
        unsafe { self.line(page).write_volatile(value) };
    }

    fn read(&self, page: usize) -> u64 {
        // SAFETY: as above.
        unsafe { self.line(page).read_volatile() }
    }

    /// The first word of a page, which is in a cache: to wait for memory would hide some of what setting the bit takes.
    fn increment(&mut self, page: usize) {
        assert!(page < self.regions() * REGION_PAGES);
        let word: *mut u64 = self.start.wrapping_add(page * PAGE_BYTES as usize).cast();
        // SAFETY: inside the regions that are touched, and so inside the mapping, which is writable and nobody else's; pages are aligned.
        unsafe { word.write_volatile(word.read_volatile().wrapping_add(1)) };
    }

    /// How long a read takes that waits for the one before, over all pages in this order: the median of many.
    fn read_ns(&mut self, order: &[usize]) -> f64 {
        for (page, next) in order.iter().zip(order.iter().skip(1).chain(order.first())) {
            self.write(*page, *next as u64);
        }
        let mut page = 0;
        let mut times = Vec::new();
        for round in 0..3 {
            for _ in 0..order.len() / CHUNK {
                let began = processor_time();
                for _ in 0..CHUNK {
                    page = self.read(page) as usize;
                }
                let took = processor_time().saturating_sub(began);
                // The first round brings what is read into the caches.
                if round > 0 {
                    times.push(took.as_nanos() as f64 / CHUNK as f64);
                }
            }
        }
        of_rank(&times, 0.5)
    }

    /// Whether at least nine tenths of what is touched are huge pages, by the kernel's own count.
    fn is_huge(&self) -> bool {
        let range = self.start as u64..self.start as u64 + self.regions() as u64 * BYTES;
        let text = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        huge_bytes(&text, &range) >= self.regions() as u64 * BYTES / 10 * 9
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: start and length of our own mapping, which nothing refers to any more.
        unsafe { libc::munmap(self.mapping, MAPPED) };
    }
}

/// What is in huge pages of the mappings that this range lies in.
fn huge_bytes(smaps: &str, range: &std::ops::Range<u64>) -> u64 {
    let (mut bytes, mut inside) = (0, false);
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-')
            && let (Ok(start), Ok(end)) =
                (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16))
        {
            inside = start < range.end && range.start < end;
        } else if inside && first == "AnonHugePages:" {
            bytes += words.next().and_then(|kb| kb.parse().ok()).unwrap_or(0) << 10;
        }
    }
    bytes
}

/// All of them in one round at random, beginning with 0: what comes next cannot be foreseen.
fn order(pages: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pages).collect();
    let mut state = 88_172_645_463_325_252_u64;
    for at in (2..pages).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, 1 + (state % at as u64) as usize);
    }
    order
}

/// The value that this share of them is not above; 0 of none.
fn of_rank(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at).or(sorted.last()).copied().unwrap_or(0.0)
}

/// By how long steps take that wait for each other. `None`: no time passed.
fn cycles_per_ns() -> Option<f64> {
    const STEPS: u64 = 200_000;
    let best = (0..5)
        .map(|_| {
            let began = processor_time();
            take_steps(STEPS);
            processor_time().saturating_sub(began)
        })
        .min()?;
    (!best.is_zero()).then(|| CYCLES_OF_STEP * STEPS as f64 / best.as_nanos() as f64)
}

/// In the processor's own words: a build without optimisation has more to do for each.
#[cfg(target_arch = "x86_64")]
fn take_steps(steps: u64) {
    // SAFETY: changes its own two registers and the flags, and nothing in memory.
    unsafe {
        std::arch::asm!(
            "2:",
            "imul {value}, {value}, 5",
            "add {value}, 1",
            "dec {left}",
            "jnz 2b",
            value = inout(reg) 1_u64 => _,
            left = inout(reg) steps.max(1) => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn take_steps(steps: u64) {
    let mut value = std::hint::black_box(1_u64);
    for _ in 0..steps {
        value = value
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    std::hint::black_box(value);
}

/// Of this thread: what others do meanwhile does not count.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_one_round_of_all() {
        let order = order(1000);
        assert_eq!(order[0], 0);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1000).collect::<Vec<_>>());
        let neighbours = order.windows(2).filter(|two| two[1] == two[0] + 1);
        assert!(neighbours.count() < 20);
    }

    #[test]
    fn ranks_are_of_what_is_not_above() {
        let values: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!((of_rank(&values, 0.5), of_rank(&values, 0.9)), (6.0, 10.0));
        assert_eq!((of_rank(&[7.0], 0.9), of_rank(&[], 0.5)), (7.0, 0.0));
    }

    #[test]
    fn huge_pages_of_other_mappings_do_not_count() {
        let smaps = "1000-3000 rw-p 0 0 0\nAnonHugePages:  2 kB\n3000-5000 rw-p 0 0 0\nRss: 9 kB\nAnonHugePages:  4 kB\n";
        assert_eq!(huge_bytes(smaps, &(0x3000..0x4000)), 4096);
        assert_eq!(huge_bytes(smaps, &(0x5000..0x6000)), 0);
    }

    #[test]
    fn setting_a_bit_takes_less_than_a_fault() {
        match set_accessed_ns() {
            Some(ns) => assert!((0.0..20_000.0).contains(&ns), "{ns}"),
            None => assert!(!has_room_for(SETTING_ROOM), "nothing was measured"),
        }
    }

    #[test]
    fn what_is_measured_is_of_a_processor() {
        let Some(costs) = costs() else {
            let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
            let is_off = mode.map_or(true, |mode| mode.contains("[never]"));
            assert!(is_off || !has_room(), "nothing was measured");
            return;
        };
        assert!(CYCLES_OF_NS.contains(&costs.cycles_per_ns), "{costs:?}");
        assert!(costs.walk_cycles < 10_000.0, "{costs:?}");
        for touch in [costs.touch_base, costs.touch_huge] {
            assert!(
                0.0 < touch.median_ns && touch.median_ns <= touch.p90_ns,
                "{costs:?}"
            );
        }
    }
}
