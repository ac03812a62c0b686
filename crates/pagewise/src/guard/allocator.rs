//! Other allocators that are preloaded: they come behind the guard, and whoever wants them is told that they are not used.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;

use object::Object;
use object::ObjectSymbol;
use object::ReadCache;

/// Between the libraries of `LD_PRELOAD`, and the folders of `LD_LIBRARY_PATH` (ld.so(8)).
const BETWEEN_LIBRARIES: &[u8] = b" :";
const BETWEEN_FOLDERS: &[u8] = b":;";
/// Where the loader looks for a bare name, as far as it needs no cache for that.
const USUAL_FOLDERS: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
];

/// What is to be told of this environment's preloaded libraries; `None`: none is known to have an allocator.
pub(super) fn warning() -> Option<String> {
    let value = |name| std::env::var_os(name).unwrap_or_default();
    let found = preloaded(&value("LD_PRELOAD"), &value("LD_LIBRARY_PATH"));
    let found = found.into_iter().find(|library| has_allocator(library))?;
    Some(format!(
        "{} of LD_PRELOAD has an allocator of its own: it comes behind the guard's, and is not used but for what has no guard",
        found.display()
    ))
}

/// The libraries as the loader finds them. One that is looked for in its cache alone is not among them.
fn preloaded(libraries: &OsStr, folders: &OsStr) -> Vec<PathBuf> {
    let named = parts(libraries, BETWEEN_LIBRARIES);
    let find = |name: &Path| {
        if name.as_os_str().as_bytes().contains(&b'/') {
            return Some(name.to_owned());
        }
        let folders = parts(folders, BETWEEN_FOLDERS);
        let usual = USUAL_FOLDERS.iter().map(Path::new);
        let mut places = folders.chain(usual).map(|folder| folder.join(name));
        places.find(|place| place.is_file())
    };
    named.filter_map(find).collect()
}

fn parts<'text>(text: &'text OsStr, between: &'text [u8]) -> impl Iterator<Item = &'text Path> {
    let parts = text.as_bytes().split(|byte| between.contains(byte));
    parts
        .filter(|part| !part.is_empty())
        .map(|part| Path::new(OsStr::from_bytes(part)))
}

/// Whether a library defines `malloc` for others.
fn has_allocator(library: &Path) -> bool {
    let Ok(file) = File::open(library) else {
        return false;
    };
    let cache = ReadCache::new(file);
    let Ok(file) = object::File::parse(&cache) else {
        return false;
    };
    file.dynamic_symbols()
        .any(|symbol| symbol.is_definition() && symbol.name() == Ok("malloc"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn libraries_are_found_by_path_or_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("liba.so");
        fs::write(&library, "no library").expect("written");
        let folders = format!("/nowhere:{}", folder.path().display());
        let found = |libraries: &str| preloaded(OsStr::new(libraries), OsStr::new(&folders));
        assert_eq!(found("liba.so  libnone.so"), [library.as_path()]);
        assert_eq!(found("/b/c.so:liba.so"), [Path::new("/b/c.so"), &library]);
        assert!(found("").is_empty());
        assert!(!has_allocator(&library), "it is no library");
        assert!(!has_allocator(Path::new("/b/c.so")), "it is not there");
    }
}
