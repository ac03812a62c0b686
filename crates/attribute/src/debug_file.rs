//! Finding a module's separate debug information.
//!
//! Distributions strip their binaries and keep the rest apart, found by build id
//! (`/usr/lib/debug/.build-id/ab/cdef.debug`) or by name (`.gnu_debuglink`); what several such
//! files share lives in a third one (`.gnu_debugaltlink`, written by dwz). The places searched are
//! those of GDB ("Debugging Information in Separate Files"); servers come last, and only if the user asked for that.

use crate::debuginfod;
use crate::elf;
use crate::roots::{is_elsewhere, reachable};
use object::Object;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const GLOBAL_DIRECTORY: &str = "/usr/lib/debug";

/// The files that hold a module's debug information.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebugFiles {
    /// The module itself, or its separate debug file.
    pub(crate) main: PathBuf,
    /// What `main` shares with others (dwz).
    pub(crate) supplementary: Option<PathBuf>,
}

impl DebugFiles {
    /// Finds them for the module at `path`. A module without any gets itself: its symbol table
    /// still serves.
    pub(crate) fn locate(path: &Path) -> Self {
        Self::locate_below(Path::new(GLOBAL_DIRECTORY), path)
    }

    /// The same with the distribution's debug information in another folder.
    fn locate_below(global: &Path, path: &Path) -> Self {
        let main = separate_file(global, path).unwrap_or_else(|| path.to_owned());
        let supplementary = supplementary_file(global, &main);
        Self {
            main,
            supplementary,
        }
    }
}

/// The separate debug file, if the module has no debug information of its own.
fn separate_file(global: &Path, path: &Path) -> Option<PathBuf> {
    let cache = elf::open(path).ok()?;
    let file = elf::parse(path, &cache).ok()?;
    if file.section_by_name(".debug_info").is_some() {
        return None;
    }
    let build_id = file.build_id().ok().flatten();
    if let Some(found) = build_id.and_then(|id| by_build_id(global, id)) {
        return Some(found);
    }
    let link = file.gnu_debuglink().ok().flatten();
    let linked = link.and_then(|(name, checksum)| {
        let candidates = debuglink_candidates(global, path, Path::new(OsStr::from_bytes(name)));
        candidates.into_iter().find(|candidate| match build_id {
            Some(id) => build_id_of(candidate).is_none_or(|other| other == id) && is_elf(candidate),
            None => crc32_of(candidate) == Some(checksum),
        })
    });
    linked.or_else(|| debuginfod::find(&hexadecimal(build_id?)))
}

fn by_build_id(global: &Path, id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = id.split_first()?;
    let rest = hexadecimal(rest);
    let path = global
        .join(".build-id")
        .join(format!("{first:02x}"))
        .join(format!("{rest}.debug"));
    path.is_file().then_some(path)
}

fn debuglink_candidates(global: &Path, module: &Path, name: &Path) -> Vec<PathBuf> {
    let real = real_path(module);
    let folder = real.parent().unwrap_or(Path::new("/"));
    let below_root = folder.strip_prefix("/").unwrap_or(folder);
    let mut candidates = vec![
        folder.join(name),
        folder.join(".debug").join(name),
        global.join(below_root).join(name),
    ];
    // A link to itself is what `strip` leaves when both names are the same.
    candidates.retain(|candidate| candidate != &real);
    candidates
}

/// Without symbolic links, as far as they can be followed from here.
fn real_path(path: &Path) -> PathBuf {
    let followed = (!is_elsewhere(path)).then(|| path.canonicalize().ok());
    followed.flatten().unwrap_or_else(|| path.to_owned())
}

/// The file named by `.gnu_debugaltlink`: relative to the file that names it, or by build id.
fn supplementary_file(global: &Path, path: &Path) -> Option<PathBuf> {
    let cache = elf::open(path).ok()?;
    let file = elf::parse(path, &cache).ok()?;
    let (name, id) = file.gnu_debugaltlink().ok()??;
    let real = real_path(path);
    let named = real
        .parent()
        .unwrap_or(Path::new("/"))
        .join(OsStr::from_bytes(name));
    if build_id_of(&named).as_deref() == Some(id) {
        Some(named)
    } else {
        by_build_id(global, id)
    }
}

fn is_elf(path: &Path) -> bool {
    elf::open(path).is_ok_and(|cache| elf::parse(path, &cache).is_ok())
}

/// The GNU build id of a file, as lower-case hexadecimal digits; `None` if it is no ELF file or has none.
#[must_use]
pub fn build_id(path: &Path) -> Option<String> {
    Some(hexadecimal(&build_id_of(path)?))
}

fn hexadecimal(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn build_id_of(path: &Path) -> Option<Vec<u8>> {
    let cache = elf::open(path).ok()?;
    let file = elf::parse(path, &cache).ok()?;
    file.build_id().ok().flatten().map(<[u8]>::to_vec)
}

/// The checksum `.gnu_debuglink` carries: CRC-32 of the whole file.
fn crc32_of(path: &Path) -> Option<u32> {
    let mut file = std::fs::File::open(reachable(path)).ok()?;
    let mut hasher = crc32fast::Hasher::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match file.read(&mut chunk).ok()? {
            0 => return Some(hasher.finalize()),
            length => hasher.update(&chunk[..length]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    fn candidates(name: &str) -> Vec<PathBuf> {
        let global = Path::new(GLOBAL_DIRECTORY);
        debuglink_candidates(global, Path::new("/opt/x/tool"), Path::new(name))
    }

    fn run(command: &str, arguments: &[&dyn AsRef<OsStr>]) {
        let status = Command::new(command).args(arguments).status().unwrap();
        assert!(status.success(), "{command}");
    }

    #[test]
    fn a_build_id_finds_what_was_stripped() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let (source, program, debug) = (at("a.c"), at("a"), at("a.debug"));
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        run("gcc", &[&"-g", &"-Wl,--build-id", &"-o", &program, &source]);
        run("objcopy", &[&"--only-keep-debug", &program, &debug]);
        run("objcopy", &[&"--strip-all", &program]);
        let id = build_id(&program).unwrap();
        let kept = at("global").join(".build-id").join(&id[..2]);
        fs::create_dir_all(&kept).unwrap();
        // Another program's is not its own.
        fs::copy(&debug, kept.join("0123456789abcdef.debug")).unwrap();
        let found = || DebugFiles::locate_below(&at("global"), &program).main;
        assert_eq!(found(), program);
        let kept = kept.join(format!("{}.debug", &id[2..]));
        fs::rename(&debug, &kept).unwrap();
        assert_eq!(found(), kept);
    }

    #[test]
    fn candidates_are_those_of_gdb() {
        let found = candidates("tool.debug");
        let expected = [
            "/opt/x/tool.debug",
            "/opt/x/.debug/tool.debug",
            "/usr/lib/debug/opt/x/tool.debug",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
    }

    #[test]
    fn a_link_to_itself_is_not_followed() {
        let found = candidates("tool");
        assert!(!found.contains(&PathBuf::from("/opt/x/tool")));
    }

    #[test]
    fn a_module_with_its_own_information_needs_no_other() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(
            DebugFiles::locate(&own),
            DebugFiles {
                main: own,
                supplementary: None
            }
        );
        let missing = Path::new("/nonexistent/x");
        assert_eq!(DebugFiles::locate(missing).main, missing);
    }
}
