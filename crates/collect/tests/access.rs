//! The access sensor on this machine. Needs root.

mod states;

use std::io::Write;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use pagewise_collect::AccessSensor;
use pagewise_collect::access::Pages;
use pagewise_collect::access::Region;
use pagewise_collect::access::Tenure;
use pagewise_collect::access::Walked;
use pagewise_collect::access::clear_accessed;
use pagewise_collect::access::pages_in;
use pagewise_collect::calibrate;
use states::Memory;
use states::Walker;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("skipped: needs root");
    }
    root
}

#[test]
fn touched_pages_and_only_they_are_accessed() {
    if !is_root() {
        return;
    }
    let mut walker = Walker::new().expect("a walker");
    let told = states::accessed_pages(&mut walker, || {
        clear_accessed(std::process::id()).map_err(|error| error.to_string())
    });
    assert_eq!(told, Ok(format!("{} accessed pages exact", 3 * (64 + 512))));
}

#[test]
fn huge_pages_and_holes_are_what_they_are() {
    if !is_root() {
        return;
    }
    let mut walker = Walker::new().expect("a walker");
    states::huge_pages(&mut walker).expect("huge pages");
    states::holes(&mut walker).expect("holes");
}

#[test]
fn memory_that_was_moved_is_seen_where_it_is() {
    if !is_root() {
        return;
    }
    let mut walker = Walker::new().expect("a walker");
    let (from, to) = (
        Memory::new(2).expect("memory"),
        Memory::new(2).expect("memory"),
    );
    from.advise(0..1024, libc::MADV_NOHUGEPAGE).ok();
    (0..700).for_each(|page| from.write(page));
    from.move_to(&to);
    let seen = walker.walk().expect("walked");
    assert!(!seen.contains_key(&from.address()));
    let counts: Vec<u16> = [to.address(), to.address() + (2 << 20)]
        .iter()
        .map(|address| pages_in(&seen[address].resident))
        .collect();
    assert_eq!(counts, [512, 188]);
}

/// A shell that waits for a line and then becomes another program.
fn waiting_shell() -> Child {
    Command::new("sh")
        .args(["-c", "read line; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a shell")
}

fn sensor() -> AccessSensor {
    AccessSensor::with_zeros(calibrate().expect("a layout")).expect("loaded")
}

fn walk(sensor: &mut AccessSensor, pages: &Pages) -> (Walked, u64, Vec<Region>) {
    let mut regions = Vec::new();
    let (walked, mm) = sensor
        .walk(pages, |region| regions.push(region))
        .expect("walked");
    (walked, mm, regions)
}

#[test]
fn one_at_a_time_looks_at_the_accesses_of_a_process_and_one_manages_it() {
    let own = std::process::id();
    let open = || Pages::open(own).expect("opened").expect("alive");
    let (one, other) = (open(), open());
    assert!(one.claim() && !other.claim());
    one.give_up_claim();
    assert!(other.claim() && !one.claim());
    drop(other);
    assert!(one.claim());

    let tenure = Tenure::take(own).expect("opened");
    assert!(tenure.is_some(), "that one looks is no hindrance");
    assert!(Tenure::take(own).expect("opened").is_none());
    drop(tenure);
    assert!(Tenure::take(own).expect("opened").is_some());
}

#[test]
fn memory_that_exec_replaced_is_gone_and_the_new_one_is_another() {
    if !is_root() {
        return;
    }
    let mut sensor = sensor();
    let mut shell = waiting_shell();
    let before = Pages::open(shell.id()).expect("opened").expect("alive");
    let (walked, mm, regions) = walk(&mut sensor, &before);
    assert_eq!(walked, Walked::Whole { changed: 0 });
    assert!(mm != 0 && !regions.is_empty());

    let mut input = shell.stdin.take().expect("piped");
    input.write_all(b"\n").expect("written");
    let comm = format!("/proc/{}/comm", shell.id());
    while std::fs::read_to_string(&comm).expect("alive") != "cat\n" {
        std::thread::yield_now();
    }
    assert_eq!(walk(&mut sensor, &before).0, Walked::Gone);
    let after = Pages::open(shell.id()).expect("opened").expect("alive");
    let (walked, new_mm, _) = walk(&mut sensor, &after);
    assert!(matches!(walked, Walked::Whole { .. }));
    assert_ne!(
        new_mm, mm,
        "the old one is kept, so its place cannot be used again"
    );

    drop(input);
    shell.wait().expect("ended");
    assert_eq!(walk(&mut sensor, &after).0, Walked::Gone);
    assert_eq!(walk(&mut sensor, &before).0, Walked::Gone);
}

#[test]
fn processes_that_come_and_go_and_tables_that_are_freed_do_no_harm() {
    if !is_root() {
        return;
    }
    let mut walker = Walker::new().expect("a walker");
    let stable = Memory::new(1).expect("memory");
    stable.advise(0..512, libc::MADV_NOHUGEPAGE).ok();
    (0..512).step_by(3).for_each(|page| stable.write(page));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let memory = Memory::new(4).expect("memory");
                (0..4 * 512).step_by(64).for_each(|page| memory.write(page));
            }
        });
        let mut sensor = sensor();
        for _ in 0..100 {
            let seen = walker.walk_anyhow();
            for region in seen.values() {
                for word in 0..8 {
                    assert_eq!(region.accessed[word] & !region.resident[word], 0);
                    assert_eq!(region.dirty[word] & !region.resident[word], 0);
                    assert_eq!(region.swapped[word] & region.resident[word], 0);
                }
            }
            assert_eq!(pages_in(&seen[&stable.address()].resident), 171);

            // A process at the begin of its life, and at its end.
            let mut child = Command::new("true").spawn().expect("starts");
            if let Some(pages) = Pages::open(child.id()).expect("opened") {
                clear_accessed(child.id()).expect("cleared");
                walk(&mut sensor, &pages);
            }
            child.wait().expect("ended");
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn zeros_of_a_huge_page_are_counted_and_its_pages_of_zeros_are_no_pages() {
    if !is_root() {
        return;
    }
    const MADV_COLLAPSE: i32 = 25;
    let mut sensor = AccessSensor::with_zeros(calibrate().expect("a layout")).expect("loaded");
    let pages = Pages::open(std::process::id())
        .expect("opened")
        .expect("it lives");
    let memory = Memory::new(1).expect("memory");
    memory.advise(0..512, libc::MADV_NOHUGEPAGE).ok();
    (0..512).step_by(8).for_each(|page| memory.write(page));
    memory.read(1);
    let resident = |sensor: &mut AccessSensor| {
        let region = sensor.region_at(&pages, memory.address()).expect("read");
        region.map(|region| (region.huge, pages_in(&region.resident)))
    };
    assert_eq!(
        resident(&mut sensor),
        Some((false, 65)),
        "the page of zeros counts"
    );
    assert!(sensor.leave_out_zero_page());
    assert_eq!(resident(&mut sensor), Some((false, 64)));
    assert_eq!(
        sensor.count_zeros(&pages, memory.address()).expect("read"),
        None
    );

    memory
        .advise(0..512, libc::MADV_HUGEPAGE)
        .expect("permitted");
    // A machine without a free huge page cannot show more.
    if memory.advise(0..512, MADV_COLLAPSE).is_ok() {
        assert_eq!(resident(&mut sensor), Some((true, 512)));
        assert_eq!(
            sensor.count_zeros(&pages, memory.address()).expect("read"),
            Some(448)
        );
    }
    let other = memory.address() + (1 << 40);
    assert!(sensor.region_at(&pages, other).expect("read").is_none());
}
