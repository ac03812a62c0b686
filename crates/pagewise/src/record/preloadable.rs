//! Into which programs the library can be preloaded: what the loader will do is seen from the executable's headers.

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::io::Seek;
use std::io::SeekFrom;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;

use super::facts;

const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
#[cfg(target_arch = "x86_64")]
const MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const MACHINE: u16 = 183;
const ROOT: u32 = 0;
const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const PT_INTERP: u32 = 3;
const FILE_HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
/// Scripts that are run by scripts: the kernel follows as many (fs/exec.c).
const MOST_SCRIPTS: usize = 5;
/// A program that allocates hardly anything has nothing to tell either.
const NOBODY_ASKED: &str = "on, but no process asked for a ring: too little was allocated, or the library was kept out (by another network namespace, say)";
/// A program may make executables for ever.
const MOST_EXECUTABLES: usize = 10_000;

/// The executables that were run, looked at once each.
#[derive(Default)]
pub(super) struct Executables {
    seen: HashSet<PathBuf>,
    /// Those that cannot be preloaded, each with why.
    obstacles: Vec<(String, &'static str)>,
    is_first_obstructed: bool,
}

impl Executables {
    pub(super) fn note(&mut self, path: &Path) {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.seen.len() >= MOST_EXECUTABLES || !self.seen.insert(path.clone()) {
            return;
        }
        if let Some(why) = obstacle(&path, runs_as()) {
            self.is_first_obstructed |= self.seen.len() == 1;
            self.obstacles.push((path.display().to_string(), why));
        }
    }

    /// What became of the sensor `allocations`; `None`: nothing was in its way. `served`: some process was recorded.
    pub(super) fn state(&self, served: bool) -> Option<String> {
        let Some((first, why)) = self.obstacles.first() else {
            // What else keeps the library out (another network namespace, a loader's settings) is seen by that alone.
            return (!served).then(|| NOBODY_ASKED.to_owned());
        };
        if !served && self.is_first_obstructed {
            return Some(format!("missing ({why})"));
        }
        let others = match self.obstacles.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        let missing = if self.is_first_obstructed {
            "missing"
        } else {
            "on, but missing"
        };
        Some(format!("{missing} in {first}{others} ({why})"))
    }
}

/// User and group that programs run as.
fn runs_as() -> (u32, u32) {
    match facts::sudo_caller() {
        Some(caller) => (caller.uid, caller.gid),
        None => (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ),
    }
}

/// Why no library can be preloaded into a program that is started now; `None`: one can, or there is no telling.
pub(crate) fn obstacle_here(path: &Path, as_root: bool) -> Option<&'static str> {
    let runs_as = if as_root { (0, 0) } else { runs_as() };
    obstacle(path, runs_as)
}

/// Why the library cannot be preloaded into the executable at this path when that user runs it; `None`: it can, or
/// there is no telling.
pub(super) fn obstacle(path: &Path, (user, group): (u32, u32)) -> Option<&'static str> {
    let mut path = path.to_owned();
    for _ in 0..MOST_SCRIPTS {
        let mut file = File::open(&path).ok()?;
        let mut head = [0u8; 256];
        let length = read_up_to(&mut file, &mut head)?;
        if let Some(interpreter) = interpreter_of_script(&head[..length]) {
            path = interpreter;
            continue;
        }
        let facts = file.metadata().ok()?;
        let set = |bit| facts.mode() & bit != 0;
        if set(SET_USER_ID) && facts.uid() != user || set(SET_GROUP_ID) && facts.gid() != group {
            return Some("set-user-id program: the loader ignores LD_PRELOAD");
        }
        if user != ROOT && gives_capabilities(&file) {
            return Some("program with file capabilities: the loader ignores LD_PRELOAD");
        }
        // A loader that is called by hand (ld.so ./program) has no loader, and preloads all the same.
        let name = path.file_name().unwrap_or_default().as_bytes();
        if [&b"ld-"[..], b"ld."]
            .iter()
            .any(|start| name.starts_with(start))
        {
            return None;
        }
        return obstacle_in(&mut file, head.get(..FILE_HEADER.min(length))?);
    }
    None
}

/// Whether a program that is run from this file gets rights which its user has not: then the kernel tells its loader to be
/// careful (cap_bprm_creds_from_file in security/commoncap.c, 6.12; not for root).
fn gives_capabilities(file: &File) -> bool {
    // The longest form: revision 3, with a user namespace.
    let mut value = [0u8; 24];
    rustix::fs::fgetxattr(file, "security.capability", &mut value)
        .is_ok_and(|length| gives_any(&value[..length]))
}

/// Of `struct vfs_cap_data` (include/uapi/linux/capability.h): what it permits, or that this is in effect at once. What may be
/// inherited gives nothing by itself.
fn gives_any(data: &[u8]) -> bool {
    const EFFECTIVE: u32 = 1;
    let word = |index: usize| {
        let bytes = data.get(index * 4..index * 4 + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let (flags, permitted) = (word(0).unwrap_or(0), [word(1), word(3)]);
    flags & EFFECTIVE != 0 || permitted.into_iter().flatten().any(|bits| bits != 0)
}

/// The interpreter named behind `#!`.
fn interpreter_of_script(head: &[u8]) -> Option<PathBuf> {
    let line = head
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let mut words = line
        .split(|byte| matches!(byte, b' ' | b'\t' | 0))
        .filter(|word| !word.is_empty());
    words
        .next()
        .map(|word| PathBuf::from(std::ffi::OsStr::from_bytes(word)))
}

fn obstacle_in(file: &mut (impl Read + Seek), header: &[u8]) -> Option<&'static str> {
    if header.get(..4)? != b"\x7fELF" {
        return None; // the exec will say what it is
    }
    if *header.get(4)? != CLASS_64 {
        return Some("32-bit program: the library is a 64-bit one");
    }
    let half = |at: usize| Some(u16::from_le_bytes(header.get(at..at + 2)?.try_into().ok()?));
    if *header.get(5)? != LITTLE_ENDIAN || half(18)? != MACHINE {
        return Some("program for another processor: the library is for this one");
    }
    let offset = u64::from_le_bytes(header.get(32..40)?.try_into().ok()?);
    let (each, count) = (usize::from(half(54)?), usize::from(half(56)?));
    if each < PROGRAM_HEADER {
        return None;
    }
    let mut table = vec![0u8; each * count];
    file.seek(SeekFrom::Start(offset)).ok()?;
    file.read_exact(&mut table).ok()?;
    let loader = table
        .chunks_exact(each)
        .find(|entry| entry[..4] == PT_INTERP.to_le_bytes());
    let Some(loader) = loader else {
        return Some("static program: nothing can be preloaded");
    };
    let at = u64::from_le_bytes(loader[8..16].try_into().ok()?);
    let mut name = [0u8; 256];
    file.seek(SeekFrom::Start(at)).ok()?;
    let length = read_up_to(file, &mut name)?;
    let name = name[..length].split(|&byte| byte == 0).next()?;
    let musl = name.windows(7).any(|part| part == b"ld-musl");
    musl.then_some("program of another C library (musl): the library is for glibc")
}

/// How much there was, up to the buffer's length.
fn read_up_to(file: &mut impl Read, buffer: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]).ok()? {
            0 => break,
            more => length += more,
        }
    }
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    const AS_ROOT: (u32, u32) = (0, 0);

    /// The least of an ELF file, with a program header of this type.
    fn elf(class: u8, machine: u16, header_type: u32, loader: &str) -> Vec<u8> {
        let mut bytes = vec![0u8; FILE_HEADER + PROGRAM_HEADER];
        bytes[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, LITTLE_ENDIAN]);
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[32] = FILE_HEADER as u8;
        bytes[54] = PROGRAM_HEADER as u8;
        bytes[56] = 1;
        bytes[FILE_HEADER..FILE_HEADER + 4].copy_from_slice(&header_type.to_le_bytes());
        bytes[FILE_HEADER + 8] = bytes.len() as u8;
        bytes.extend(loader.bytes());
        bytes.push(0);
        bytes
    }

    fn of(bytes: &[u8]) -> Option<&'static str> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        fs::write(&path, bytes).expect("written");
        obstacle(&path, AS_ROOT)
    }

    #[test]
    fn each_obstacle_is_told_by_its_name() {
        let loader = "/lib64/ld-linux-x86-64.so.2";
        assert_eq!(of(&elf(CLASS_64, MACHINE, PT_INTERP, loader)), None);
        let said = |bytes: &[u8]| of(bytes).unwrap_or_default();
        assert!(said(&elf(CLASS_64, MACHINE, 1, "")).starts_with("static program"));
        assert!(said(&elf(1, 3, PT_INTERP, loader)).starts_with("32-bit program"));
        assert!(said(&elf(CLASS_64, 8, PT_INTERP, loader)).starts_with("program for another"));
        let musl = elf(CLASS_64, MACHINE, PT_INTERP, "/lib/ld-musl-x86_64.so.1");
        assert!(said(&musl).contains("musl"));
    }

    #[test]
    fn the_state_says_where_and_why() {
        let found = |programs: &[&str], is_first_obstructed| Executables {
            obstacles: programs
                .iter()
                .map(|&program| (program.to_owned(), "static"))
                .collect(),
            is_first_obstructed,
            ..Executables::default()
        };
        let state = |found: Executables, served| found.state(served).unwrap_or_default();
        assert_eq!(found(&[], false).state(true), None);
        let nobody = state(found(&[], false), false);
        assert!(nobody.contains("no process asked for a ring"), "{nobody}");
        assert_eq!(state(found(&["./a"], true), false), "missing (static)");
        assert_eq!(
            state(found(&["./a"], true), true),
            "missing in ./a (static)"
        );
        assert_eq!(
            state(found(&["./a", "./b"], false), false),
            "on, but missing in ./a and 1 more (static)"
        );
    }

    #[test]
    fn capabilities_that_a_file_gives_are_seen() {
        let data = |words: [u32; 5]| words.map(u32::to_le_bytes).concat();
        assert!(gives_any(&data([0x0200_0001, 0, 0, 0, 0])), "in effect");
        assert!(gives_any(&data([0x0200_0000, 1 << 13, 0, 0, 0])));
        assert!(gives_any(&data([0x0200_0000, 0, 0, 1 << 7, 0])));
        assert!(
            !gives_any(&data([0x0200_0000, 0, 1 << 13, 0, 1])),
            "inheritable"
        );
        for damaged in [&[][..], &[0, 0, 0], &[0; 4]] {
            assert!(!gives_any(damaged));
        }
    }

    #[test]
    fn damaged_files_are_no_obstacle_and_no_panic() {
        let whole = elf(CLASS_64, MACHINE, PT_INTERP, "/lib64/ld-linux-x86-64.so.2");
        for length in 0..whole.len() {
            let cut = of(&whole[..length]);
            assert!(cut.is_none() || length > 16, "{length}: {cut:?}");
        }
        let mut wild = whole;
        wild[32..40].fill(0xff);
        assert_eq!(of(&wild), None);
        assert_eq!(obstacle(Path::new("/nonexistent"), AS_ROOT), None);
    }

    #[test]
    fn scripts_are_their_interpreters_and_loops_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("static"), elf(CLASS_64, MACHINE, 1, "")).expect("written");
        let script = format!("#! {} -x\n", path("static").display());
        fs::write(path("script"), script).expect("written");
        assert!(obstacle(&path("script"), AS_ROOT).is_some());
        fs::write(path("loop"), format!("#!{}\n", path("loop").display())).expect("written");
        assert_eq!(obstacle(&path("loop"), AS_ROOT), None);
    }

    #[test]
    fn a_set_user_id_program_is_none_for_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        fs::write(&path, elf(CLASS_64, MACHINE, PT_INTERP, "/lib/ld.so")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).expect("set");
        let owner = fs::metadata(&path).expect("there");
        assert_eq!(obstacle(&path, (owner.uid(), owner.gid())), None);
        assert!(obstacle(&path, (owner.uid() + 1, owner.gid())).is_some());
    }
}
