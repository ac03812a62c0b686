//! Accessed, dirty and swapped pages of a process, by a walk of its page tables (`bpf/access.bpf.c`).
//!
//! ```text
//!   Pages::open(pid)     keeps the process's memory as it is known now, across exec and exit
//!   Pages::claim         nobody else of us clears them until it is given up
//!   clear_accessed(pid)  the kernel clears the accessed bits (/proc/PID/clear_refs)
//!   ... a while ...
//!   AccessSensor::walk   what was accessed since
//! ```
//!
//! Clearing does not empty the processors' address caches (TLB): an access by way of a cached translation sets no bit.

use std::fs::File;
use std::io;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::Object;
use libbpf_rs::ProgramInput;

use crate::CollectError;
use crate::Layout;
use crate::calibrate::open_object;
use crate::driver::find;
use crate::features;
use crate::record::Config;
use crate::record::PAGE_BYTES;
use crate::ring::MappedArray;

static ACCESS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/access.bpf.o"));

/// Bytes of a region.
pub const REGION_BYTES: u64 = 2 << 20;
/// Words of 64 bits in a map of a region's base pages.
pub const REGION_WORDS: usize = 8;
const MOST_REGIONS: usize = 512;
/// `struct region` of `bpf/record.h`, in words.
const STRIDE: usize = 2 + 4 * REGION_WORDS;
const LOOK_GONE: u64 = 1;
/// `struct look` and `struct zeros` of `bpf/record.h`, in words.
const LOOK_WORDS: usize = 8;
const ZEROS_WORDS: usize = 4;
/// The programs, each with its map.
const LOOK: (&str, &str) = ("look_at_regions", ".data.look");
const ZEROS: (&str, &str) = ("count_zeros", ".data.zeros");

/// A set of a region's 512 base pages: the lowest bit of the first word is the first page.
pub type PageSet = [u64; REGION_WORDS];

/// What the page tables say of 2 MiB with pages in memory or in swap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// First byte, a multiple of [`REGION_BYTES`].
    pub address: u64,
    /// One entry of 2 MiB or more maps it: the sets hold all pages or none.
    pub huge: bool,
    /// In memory, pages on their way to another place included.
    pub resident: PageSet,
    /// Of these, accessed since the bits were last cleared.
    pub accessed: PageSet,
    /// Of the resident ones, written since they came into memory.
    pub dirty: PageSet,
    /// In swap.
    pub swapped: PageSet,
}

/// Pages in a set.
pub fn pages_in(set: &PageSet) -> u16 {
    set.iter().map(|word| word.count_ones() as u16).sum()
}

/// How a walk went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walked {
    /// All of the address space was seen, but for so many regions whose table was exchanged meanwhile.
    Whole {
        /// Such regions.
        changed: u64,
    },
    /// The address space ended before or meanwhile: what was seen is no whole.
    Gone,
}

/// An address space, kept by name though not alive.
#[derive(Debug)]
pub struct Pages(File);

impl Pages {
    /// The address space that the process has now. `None`: it has ended.
    ///
    /// # Errors
    /// If the process may not be looked into.
    pub fn open(pid: u32) -> Result<Option<Self>, CollectError> {
        let path = format!("/proc/{pid}/pagemap");
        match File::open(&path) {
            Ok(file) => Ok(Some(Self(file))),
            Err(error) if process_is_gone(&error) => Ok(None),
            Err(source) => Err(CollectError::System {
                action: format!("opening {path}"),
                source,
            }),
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.0
    }

    /// Claims what the accessed bits will tell, until it is given up or dropped: who cleared them meanwhile would spoil it. False: another one
    /// has it. Only those who ask are kept from clearing.
    pub fn claim(&self) -> bool {
        lock(&self.0)
    }

    /// Others may clear the accessed bits again.
    pub fn give_up_claim(&self) {
        let _ = self.0.unlock();
    }

    /// Whose the pages of the region at this address are.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn owned(&self, region: u64) -> io::Result<Owned> {
        let mut entries = [0; 512 * ENTRY_BYTES as usize];
        let first = region / PAGE_BYTES;
        let read = self.0.read_at(&mut entries, first * ENTRY_BYTES)?;
        let entries = entries[..read].as_chunks::<8>().0.iter();
        Ok(owned(entries.map(|entry| u64::from_ne_bytes(*entry))))
    }

    /// Those of the given pages of the region at this address that are in memory and that no other process maps.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn unshared(&self, region: u64, pages: &PageSet) -> io::Result<PageSet> {
        let mut unshared = PageSet::default();
        for (word, wanted) in pages.iter().enumerate().filter(|(_, wanted)| **wanted != 0) {
            let mut entries = [0; 64 * ENTRY_BYTES as usize];
            let first = region / PAGE_BYTES + word as u64 * 64;
            let read = self.0.read_at(&mut entries, first * ENTRY_BYTES)?;
            for (at, entry) in entries[..read].as_chunks::<8>().0.iter().enumerate() {
                let is_own =
                    u64::from_ne_bytes(*entry) & (PRESENT | EXCLUSIVE) == PRESENT | EXCLUSIVE;
                unshared[word] |= u64::from(is_own) << at & wanted;
            }
        }
        Ok(unshared)
    }

    /// Whether the page at this address is an anonymous page. A huge page of private memory that is none is the kernel's one of zeros,
    /// which takes no memory of the process's. What is not told is taken for one.
    pub fn is_anonymous(&self, address: u64) -> bool {
        let mut entry = [0; ENTRY_BYTES as usize];
        let read = self
            .0
            .read_exact_at(&mut entry, address / PAGE_BYTES * ENTRY_BYTES);
        read.is_err()
            || u64::from_ne_bytes(entry) & (PRESENT | NOT_ANONYMOUS) != PRESENT | NOT_ANONYMOUS
    }
}

/// Held while one program manages a process's pages, so that there is no second one. The kernel lets go of it if we are killed.
#[derive(Debug)]
pub struct Tenure(#[expect(dead_code, reason = "its lock lasts as long as it is open")] File);

impl Tenure {
    /// `None`: another one has it.
    ///
    /// # Errors
    /// If the process may not be managed.
    pub fn take(pid: u32) -> Result<Option<Self>, CollectError> {
        // Not the file of its pages, which is locked for the time of a look only.
        let path = format!("/proc/{pid}/clear_refs");
        let opened = File::options().write(true).open(&path);
        let file = opened.map_err(|source| CollectError::System {
            action: format!("opening {path}"),
            source,
        })?;
        Ok(lock(&file).then_some(Self(file)))
    }
}

/// Whoever opens the same file of the same process meets the same lock.
fn lock(file: &File) -> bool {
    file.try_lock().is_ok()
}

/// Whose the pages of a region are, by `/proc/PID/pagemap` (Documentation/admin-guide/mm/pagemap.rst).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owned {
    /// In memory, the kernel's page of zeros included.
    pub present: u16,
    /// Of these, mapped by others, too: by a fork, merged with pages of the same contents, or the page of zeros.
    pub shared: u16,
    /// Of these, a file's or of shared memory.
    pub of_file: u16,
}

const ENTRY_BYTES: u64 = 8;
const PRESENT: u64 = 1 << 63;
const NOT_ANONYMOUS: u64 = 1 << 61;
const EXCLUSIVE: u64 = 1 << 56;

fn owned(entries: impl Iterator<Item = u64>) -> Owned {
    let mut owned = Owned::default();
    for entry in entries.filter(|entry| entry & PRESENT != 0) {
        owned.present += 1;
        if entry & NOT_ANONYMOUS != 0 {
            owned.of_file += 1;
        } else if entry & EXCLUSIVE == 0 {
            owned.shared += 1;
        }
    }
    owned
}

/// Clears the accessed bits of all that the process has mapped (Documentation/filesystems/proc.rst, `clear_refs` 1). Its
/// faults wait meanwhile. False: it has ended.
///
/// # Errors
/// If that is not permitted, or this kernel has no `clear_refs` (CONFIG_PROC_PAGE_MONITOR).
pub fn clear_accessed(pid: u32) -> Result<bool, CollectError> {
    clear(
        Path::new(&format!("/proc/{pid}")),
        Path::new("/proc/self/clear_refs"),
    )
}

fn clear(process: &Path, own: &Path) -> Result<bool, CollectError> {
    let path = process.join("clear_refs");
    let written = File::options()
        .write(true)
        .open(&path)
        .and_then(|mut file| file.write_all(b"1"));
    match written {
        Ok(()) => Ok(true),
        Err(error)
            if error.kind() == io::ErrorKind::NotFound && process.exists() && !own.exists() =>
        {
            Err(CollectError::NoClearRefs)
        }
        Err(error) if process_is_gone(&error) => Ok(false),
        Err(source) => Err(CollectError::System {
            action: format!("clearing accessed bits by {}", path.display()),
            source,
        }),
    }
}

/// A zombie has no memory: reading or opening says so in one of these ways.
fn process_is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// The loaded walk.
pub struct AccessSensor {
    object: Object,
    regions: MappedArray,
    /// 0: pages of zeros count.
    zero_frame: u64,
}

impl AccessSensor {
    /// Loads the program that walks.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn load(layout: Layout) -> Result<Self, CollectError> {
        Self::load_programs(layout, &[LOOK.0])
    }

    /// The same, and the program of [`count_zeros`](Self::count_zeros).
    ///
    /// # Errors
    /// If the kernel refuses one of them.
    pub fn with_zeros(layout: Layout) -> Result<Self, CollectError> {
        Self::load_programs(layout, &[LOOK.0, ZEROS.0])
    }

    fn load_programs(layout: Layout, names: &[&str]) -> Result<Self, CollectError> {
        let config = Config {
            direct_map: layout.direct_map,
            top_level_shift: layout.top_level_shift,
            use_cast: layout.use_cast.into(),
            copies_tables: (!features::is_confidential()).into(),
            ..Config::default()
        };
        let mut open = open_object("access", ACCESS, config)?;
        for mut program in open.progs_mut() {
            let wanted = names.iter().any(|name| program.name() == *name);
            program.set_autoload(wanted);
        }
        let object = open
            .load()
            .map_err(|error| CollectError::from_libbpf("access", &error))?;
        let regions = MappedArray::new(find(&object, "regions")?.as_fd(), MOST_REGIONS * STRIDE)?;
        Ok(Self {
            object,
            regions,
            zero_frame: 0,
        })
    }

    /// From now on addresses that map the kernel's one page of zeros (only read so far, or freed by a split) count as having
    /// no page, as in the kernel's own counts. False: its frame is not told here (that needs CAP_SYS_ADMIN), so they count.
    pub fn leave_out_zero_page(&mut self) -> bool {
        self.zero_frame = crate::calibrate::zero_frame().unwrap_or(0);
        self.zero_frame != 0
    }

    /// Walks the page tables and hands each region that has pages to `sink`, by address. Also returns the kernel's
    /// address of the `mm_struct`, see [`crate::Spaces::space_of`]; 0 if there is none any more.
    ///
    /// # Errors
    /// If the kernel refuses to run the program.
    pub fn walk(
        &mut self,
        pages: &Pages,
        mut sink: impl FnMut(Region),
    ) -> Result<(Walked, u64), CollectError> {
        self.walk_range(pages, 0..0, &mut sink)
    }

    /// The region at this address, as it is now. `None`: it has no pages, or the address space has ended.
    ///
    /// # Errors
    /// If the kernel refuses to run the program.
    pub fn region_at(
        &mut self,
        pages: &Pages,
        address: u64,
    ) -> Result<Option<Region>, CollectError> {
        let mut found = None;
        let range = address..address + REGION_BYTES;
        let (walked, _) = self.walk_range(pages, range, &mut |region| found = Some(region))?;
        Ok(found.filter(|_| walked != Walked::Gone))
    }

    /// Zero-filled base pages of the huge page at this address: a hint, as the program may write to them meanwhile.
    /// `None`: there is no huge page. It takes up to half a millisecond, and holds up nobody.
    ///
    /// # Errors
    /// If the kernel refuses to run the program, or it was not loaded ([`with_zeros`](Self::with_zeros)).
    pub fn count_zeros(
        &mut self,
        pages: &Pages,
        address: u64,
    ) -> Result<Option<u16>, CollectError> {
        let file = pages.0.as_raw_fd() as u64;
        let [_, _, huge, count] = self.ask::<ZEROS_WORDS>(ZEROS, [file, address, 0, 0])?;
        Ok((huge != 0).then_some(count as u16))
    }

    /// `range`: where to begin, and where to stop if that is not 0.
    fn walk_range(
        &mut self,
        pages: &Pages,
        range: std::ops::Range<u64>,
        sink: &mut dyn FnMut(Region),
    ) -> Result<(Walked, u64), CollectError> {
        let file = pages.0.as_raw_fd() as u64;
        let (mut address, mut changed) = (range.start, 0);
        loop {
            let question = [file, address, 0, 0, 0, 0, range.end, self.zero_frame];
            let [_, next, mm, flags, found, exchanged, ..] =
                self.ask::<LOOK_WORDS>(LOOK, question)?;
            if flags & LOOK_GONE != 0 {
                return Ok((Walked::Gone, mm));
            }
            changed += exchanged;
            for number in 0..(found as usize).min(MOST_REGIONS) {
                sink(self.region(number));
            }
            if next <= address {
                return Ok((Walked::Whole { changed }, mm));
            }
            address = next;
        }
    }

    /// One run of a program: its map's words before, and afterwards.
    fn ask<const WORDS: usize>(
        &self,
        (name, map): (&str, &str),
        question: [u64; WORDS],
    ) -> Result<[u64; WORDS], CollectError> {
        let refused = |error: libbpf_rs::Error| CollectError::from_libbpf("access", &error);
        let map = find(&self.object, map)?;
        let question: Vec<u8> = question.into_iter().flat_map(u64::to_ne_bytes).collect();
        map.update(&0u32.to_ne_bytes(), &question, MapFlags::ANY)
            .map_err(refused)?;
        let program = self
            .object
            .progs_mut()
            .find(|program| program.name() == name)
            .ok_or_else(|| CollectError::Refused {
                program: "access".to_owned(),
                detail: format!("no program {name}"),
            })?;
        program.test_run(ProgramInput::default()).map_err(refused)?;
        let answer = map
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(refused)?
            .unwrap_or_default();
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(answer.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Ok(words)
    }

    fn region(&self, number: usize) -> Region {
        let words = self.regions.words_at(number * STRIDE);
        let set = |which: usize| std::array::from_fn(|word| words(2 + which * REGION_WORDS + word));
        Region {
            address: words(0),
            huge: words(1) != 0,
            resident: set(0),
            accessed: set(1),
            dirty: set(2),
            swapped: set(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_same_numbers() {
        let header = include_str!("bpf/record.h");
        for (name, here) in [
            ("REGION_WORDS", REGION_WORDS),
            ("MOST_REGIONS", MOST_REGIONS),
            ("LOOK_GONE", LOOK_GONE as usize),
        ] {
            let define = format!("#define {name} {here}");
            assert!(
                header
                    .lines()
                    .any(|line| line == define || line.starts_with(&format!("{define} "))),
                "{define}"
            );
        }
    }

    #[test]
    fn pages_of_a_set_are_counted() {
        assert_eq!(pages_in(&[0; REGION_WORDS]), 0);
        assert_eq!(pages_in(&[u64::MAX; REGION_WORDS]), 512);
        assert_eq!(pages_in(&[1, 0, 0, 0, 0, 0, 0, 1 << 63]), 2);
    }

    #[test]
    fn pages_of_others_are_told_apart() {
        let entries = [
            0,
            1 << 62,
            PRESENT | EXCLUSIVE,
            PRESENT,
            PRESENT | NOT_ANONYMOUS,
        ];
        let expected = Owned {
            present: 3,
            shared: 1,
            of_file: 1,
        };
        assert_eq!(owned(entries.into_iter()), expected);
    }

    #[test]
    fn pages_of_its_own_are_told_one_by_one() {
        let memory = vec![1_u8; 2 * REGION_BYTES as usize];
        let region = (memory.as_ptr() as u64).next_multiple_of(REGION_BYTES);
        let pages = Pages::open(std::process::id())
            .expect("own")
            .expect("alive");
        let asked = [0b101, 0, 0, 0, 0, 0, 0, 1 << 63];
        assert_eq!(pages.unshared(region, &asked).expect("told"), asked);
        // Nothing is mapped there.
        assert_eq!(pages.unshared(0, &asked).expect("told"), [0; REGION_WORDS]);
    }

    #[test]
    fn a_process_that_has_ended_is_no_error() {
        let mut child = std::process::Command::new("true").spawn().expect("starts");
        child.wait().expect("ended");
        assert!(!clear_accessed(child.id()).expect("no error"));
        assert!(Pages::open(child.id()).expect("no error").is_none());
    }

    #[test]
    fn a_kernel_without_clear_refs_is_told() {
        let folder = std::env::temp_dir();
        let error = clear(&folder, &folder.join("no-such-file")).expect_err("there is none");
        assert!(matches!(error, CollectError::NoClearRefs), "{error}");
    }

    #[test]
    fn what_may_not_be_cleared_is_named() {
        // Nobody may write a folder as if it were a file, whoever asks.
        let folder = std::env::temp_dir().join(format!("pagewise-clear-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("clear_refs")).expect("a folder");
        let error = clear(&folder, Path::new("/")).expect_err("it is a folder");
        std::fs::remove_dir_all(&folder).expect("removed");
        let text = error.to_string();
        assert!(text.contains("clear_refs"), "{text}");
    }
}
