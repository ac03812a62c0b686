//! The residency scanner on memory whose states are known: our own, and that of children. Swapped pages need swap,
//! which the tests of the command set up.

use std::io;
use std::process::Command;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use pagewise_collect::residency::Change;
use pagewise_collect::residency::Method;
use pagewise_collect::residency::Progress;
use pagewise_collect::residency::Scan;
use pagewise_collect::residency::Scanner;
use pagewise_collect::residency::State;
use pagewise_collect::residency::method;

const PAGE: usize = 4096;
const A_LONG_TIME: Duration = Duration::from_secs(3600);

/// All tests look at the same process, and some fill it.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Both ways, where the kernel has both.
fn methods() -> Vec<Method> {
    let offered = method().expect("/proc/self/pagemap");
    let mut all = vec![Method::Entries];
    if offered != Method::Entries {
        all.push(offered);
    }
    all
}

/// Anonymous memory of base pages.
struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    fn reserve(bytes: usize, protection: i32) -> Self {
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let start = libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0);
            libc::madvise(start, bytes, libc::MADV_NOHUGEPAGE);
            start
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        let start = NonNull::new(start.cast()).expect("not at 0");
        Self { start, bytes }
    }

    fn pages(pages: usize) -> Self {
        Self::reserve(pages * PAGE, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn page(&self, page: usize) -> *mut u8 {
        self.start.as_ptr().wrapping_add(page * PAGE)
    }

    fn write(&self, pages: std::ops::Range<usize>) {
        for page in pages {
            // SAFETY: within the mapping, which is writable.
            unsafe { self.page(page).write_volatile(1) };
        }
    }

    fn read(&self, pages: std::ops::Range<usize>) {
        for page in pages {
            // SAFETY: within the mapping, which is readable.
            unsafe { self.page(page).read_volatile() };
        }
    }

    fn advise(&self, pages: std::ops::Range<usize>, advice: i32) {
        let (start, bytes) = (self.page(pages.start).cast(), pages.len() * PAGE);
        // SAFETY: within the mapping; what the advice drops nobody reads.
        let status = unsafe { libc::madvise(start, bytes, advice) };
        assert_eq!(status, 0, "{}", io::Error::last_os_error());
    }

    /// Moves these pages away, to a mapping of their own.
    fn move_away(&self, pages: std::ops::Range<usize>) -> Memory {
        let target = Memory::reserve(pages.len() * PAGE, libc::PROT_NONE);
        // SAFETY: within the mapping, to one of the same length; nothing refers to either's pages.
        let start = unsafe {
            let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
            let (from, to) = (self.page(pages.start).cast(), target.page(0));
            libc::mremap(from, target.bytes, target.bytes, flags, to)
        };
        assert_ne!(start, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        target
    }

    /// Of these changes, those in here: first page, pages, state.
    fn of(&self, changes: &[Change]) -> Vec<(usize, usize, State)> {
        within(self.start.as_ptr() as u64, self.bytes as u64, changes)
    }
}

fn within(start: u64, bytes: u64, changes: &[Change]) -> Vec<(usize, usize, State)> {
    let inside = changes.iter().filter_map(|change| {
        let from = change.address.max(start);
        let to = (change.address + change.bytes).min(start + bytes);
        let page = |address: u64| (address - start) as usize / PAGE;
        (from < to).then(|| (page(from), page(to) - page(from), change.now.state))
    });
    let mut joined: Vec<(usize, usize, State)> = Vec::new();
    for (page, count, state) in inside {
        match joined.last_mut() {
            Some(last) if last.0 + last.1 == page && last.2 == state => last.1 += count,
            _ => joined.push((page, count, state)),
        }
    }
    joined
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: start and length are those of the mapping; holes in it do not matter.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

fn scan(scanner: &mut Scanner) -> (Vec<Change>, Scan) {
    let mut changes = Vec::new();
    match scanner.advance(A_LONG_TIME, |change| changes.push(change)) {
        Progress::Done(scan) => (changes, scan),
        other => panic!("{other:?}"),
    }
}

fn of_ourselves(method: Method) -> Scanner {
    Scanner::open(std::process::id(), method).expect("our own")
}

#[test]
fn what_was_touched_dropped_and_moved_is_told_exactly() {
    let _alone = alone();
    for method in methods() {
        let memory = Memory::pages(64);
        let (start, bytes) = (memory.start.as_ptr() as u64, memory.bytes as u64);
        let mut scanner = of_ourselves(method);
        let (changes, first) = scan(&mut scanner);
        assert_eq!(memory.of(&changes), [], "{method:?}");
        assert!(first.complete && first.resident_bytes > 0);

        memory.write(3..20);
        memory.read(30..33);
        let zero = if method.tells_huge() {
            State::Zero
        } else {
            State::Resident
        };
        let (changes, _) = scan(&mut scanner);
        let expected = [(3, 17, State::Resident), (30, 3, zero)];
        assert_eq!(memory.of(&changes), expected, "{method:?}");
        let later = |change: &Change| change.time_ns >= first.end_ns;
        assert!(changes.iter().all(later));

        memory.advise(5..8, libc::MADV_DONTNEED);
        let (changes, _) = scan(&mut scanner);
        assert_eq!(memory.of(&changes), [(5, 3, State::Absent)], "{method:?}");
        assert_eq!(memory.of(&scan(&mut scanner).0), [], "{method:?}");

        let moved = memory.move_away(10..16);
        let (changes, _) = scan(&mut scanner);
        assert_eq!(memory.of(&changes), [(10, 6, State::Absent)], "{method:?}");
        assert_eq!(moved.of(&changes), [(0, 6, State::Resident)], "{method:?}");

        memory.advise(0..10, libc::MADV_DONTNEED);
        memory.advise(16..64, libc::MADV_DONTNEED);
        let (changes, _) = scan(&mut scanner);
        let mut absent = vec![
            (3, 2, State::Absent),
            (8, 2, State::Absent),
            (16, 4, State::Absent),
        ];
        absent.push((30, 3, State::Absent));
        assert_eq!(within(start, bytes, &changes), absent, "{method:?}");
    }
}

#[test]
fn a_huge_page_is_told_where_the_kernel_tells_it() {
    let _alone = alone();
    let Some(method) = methods().into_iter().find(|method| method.tells_huge()) else {
        return;
    };
    let memory = Memory::pages(1024);
    memory.advise(0..1024, libc::MADV_HUGEPAGE);
    let first = (memory.start.as_ptr() as usize).wrapping_neg() % (512 * PAGE) / PAGE;
    memory.write(first..first + 1);
    let (changes, end) = scan(&mut of_ourselves(method));
    match memory.of(&changes)[..] {
        [(page, 512, State::Huge)] => {
            assert_eq!(page, first);
            assert!(end.huge_bytes >= Some(2 << 20));
        }
        // No huge page was free, or they are switched off.
        [(page, 1, State::Resident)] => assert_eq!(page, first),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn pages_of_a_file_are_told_from_ones_own() {
    let _alone = alone();
    use std::os::fd::AsRawFd;
    let path = std::env::current_exe().expect("this test");
    let file = std::fs::File::open(path).expect("readable");
    let (shared, fd) = (libc::MAP_SHARED, file.as_raw_fd());
    let nowhere = std::ptr::null_mut();
    // SAFETY: a fresh mapping, only read, of a file that nobody changes.
    let mapped = unsafe { libc::mmap(nowhere, 8 * PAGE, libc::PROT_READ, shared, fd, 0) };
    assert_ne!(mapped, libc::MAP_FAILED);
    let memory = Memory {
        start: NonNull::new(mapped.cast()).expect("not at 0"),
        bytes: 8 * PAGE,
    };
    memory.read(0..8);
    let own = Memory::pages(8);
    own.write(0..8);
    for method in methods() {
        let (changes, _) = scan(&mut of_ourselves(method));
        let is_file = |memory: &Memory| {
            let start = memory.start.as_ptr() as u64;
            let holds =
                |change: &&Change| (change.address..change.address + change.bytes).contains(&start);
            changes
                .iter()
                .find(holds)
                .map(|change| (change.now.state, change.now.file))
        };
        assert_eq!(is_file(&memory), Some((State::Resident, true)));
        assert_eq!(is_file(&own), Some((State::Resident, false)));
    }
}

#[test]
fn a_fork_has_pages_of_its_own() {
    let _alone = alone();
    let memory = Memory::pages(16);
    memory.write(0..8);
    // SAFETY: the child makes system calls only.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: system calls on memory that was ours before the fork, then the end.
        unsafe {
            libc::madvise(memory.page(2).cast(), 3 * PAGE, libc::MADV_DONTNEED);
            libc::raise(libc::SIGSTOP);
            libc::_exit(0);
        }
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    unsafe { libc::waitpid(child, &raw mut status, libc::WUNTRACED) };
    for method in methods() {
        let mut scanner = Scanner::open(child as u32, method).expect("our child");
        let (changes, _) = scan(&mut scanner);
        let expected = [(0, 2, State::Resident), (5, 3, State::Resident)];
        assert_eq!(memory.of(&changes), expected, "{method:?}");
        let (changes, _) = scan(&mut of_ourselves(method));
        assert_eq!(memory.of(&changes), [(0, 8, State::Resident)], "{method:?}");
    }
    // SAFETY: our own child, not waited for to its end yet.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &raw mut status, 0);
    }
}

/// Nothing is absent because its process has ended, and for an address space an exec is the end too.
#[test]
fn a_process_that_ends_during_a_scan_is_gone_and_its_pages_stand() {
    let _alone = alone();
    for method in methods() {
        for killed in [true, false] {
            let script = "sleep 0.3; exec sleep 60";
            let mut child = Command::new("sh").args(["-c", script]).spawn().expect("sh");
            std::thread::sleep(Duration::from_millis(100));
            let mut scanner = Scanner::open(child.id(), method).expect("our child");
            scan(&mut scanner);
            let mut absent = 0;
            let begun = Instant::now();
            let mut look = |scanner: &mut Scanner| {
                scanner.advance(Duration::ZERO, |change| {
                    absent += u64::from(change.now.state == State::Absent);
                })
            };
            let mut progress = look(&mut scanner);
            if killed {
                child.kill().expect("killed");
            }
            while progress != Progress::Gone {
                assert!(begun.elapsed() < Duration::from_secs(20), "never gone");
                progress = look(&mut scanner);
            }
            assert!(scanner.is_gone());
            assert_eq!(absent, 0, "{method:?}");
            // Killed and not waited for, it is a zombie: refused, not scanned.
            if killed {
                let refused = Scanner::open(child.id(), method).expect_err("a zombie");
                assert_eq!(refused.kind(), io::ErrorKind::NotFound, "{refused}");
            }
            let _ = child.kill();
            child.wait().expect("waited");
            assert!(Scanner::open(child.id(), method).is_err());
        }
    }
}

#[test]
fn kernel_threads_and_strangers_are_refused() {
    let _alone = alone();
    for method in methods() {
        // kthreadd; in a container, the first process of someone else, if there is one.
        if let Err(error) = Scanner::open(2, method) {
            let expected = [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied];
            assert!(expected.contains(&error.kind()), "{error}");
        }
        let none = Scanner::open(u32::MAX / 2, method).expect_err("no such process");
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
    }
}

/// As the JVM and Go do it: much address space is reserved, and hardly any of it used.
#[test]
fn reserved_terabytes_are_passed_over() {
    let _alone = alone();
    const TERABYTE: usize = 1 << 40;
    let reserved = Memory::reserve(4 * TERABYTE, libc::PROT_NONE);
    let sparse = Memory::reserve(TERABYTE, libc::PROT_READ | libc::PROT_WRITE);
    sparse.write(1000..1001);
    for method in methods() {
        // By reading 5 TiB of entries, 10 GiB, this would not end.
        let (changes, end) = scan(&mut of_ourselves(method));
        assert_eq!(reserved.of(&changes), []);
        assert!(end.complete);
        if method.tells_huge() {
            assert_eq!(sparse.of(&changes), [(1000, 1, State::Resident)]);
            assert_eq!(end.left_out, 0);
        } else {
            // Accessible, so each page of it would have to be read: it is not, and that is told.
            assert_eq!((sparse.of(&changes), end.left_out), (vec![], 1));
        }
    }
}

/// About as many mappings as the kernel allows by default (vm.max_map_count), with holes between.
#[test]
fn tens_of_thousands_of_mappings_are_scanned_in_parts() {
    let _alone = alone();
    const MAPPINGS: usize = 50_000;
    let memory = Memory::pages(2 * MAPPINGS);
    memory.write(0..2 * MAPPINGS);
    for mapping in 0..MAPPINGS {
        // SAFETY: a page of our own, which nobody uses any more.
        let status = unsafe { libc::munmap(memory.page(2 * mapping).cast(), PAGE) };
        assert_eq!(status, 0, "{}", io::Error::last_os_error());
    }
    for method in methods() {
        let mut scanner = of_ourselves(method);
        let (mut parts, mut changes) = (1, Vec::new());
        let mut tell = |change| changes.push(change);
        while scanner.advance(Duration::ZERO, &mut tell) == Progress::Unfinished {
            parts += 1;
        }
        assert!(parts > 10, "{method:?}: {parts} parts");
        let found = memory.of(&changes);
        assert_eq!(found.len(), MAPPINGS);
        assert!(found.iter().all(|found| found.0 % 2 == 1 && found.1 == 1));
        assert_eq!(memory.of(&scan(&mut scanner).0), []);
    }
}

/// More changes than one scan tells: the next one goes on, and nothing is told twice or left out.
#[test]
fn changes_beyond_the_bound_come_with_the_next_scan() {
    let _alone = alone();
    const PAGES: usize = 150_000;
    let memory = Memory::pages(PAGES);
    for page in (0..PAGES).step_by(2) {
        memory.write(page..page + 1);
    }
    for method in methods() {
        let mut scanner = of_ourselves(method);
        let (first, scanned) = scan(&mut scanner);
        assert!(!scanned.complete && !scanned.overflowed);
        let (second, scanned) = scan(&mut scanner);
        assert!(!scanned.complete, "it went on");
        let both = memory.of(&first).len() + memory.of(&second).len();
        assert_eq!(both, PAGES / 2);
        let (third, scanned) = scan(&mut scanner);
        assert!(scanned.complete);
        assert_eq!(memory.of(&third), []);
    }
}
