//! Names of code generated at run time, as its makers leave them for profilers: `perf-PID.map` (lines of address,
//! size and name: Node.js, CPython from 3.12 on, agents for the JVM) and `jit-PID.dump` (jitdump, with source lines).
//! Formats: Linux `tools/perf/Documentation/jit-interface.txt` and `jitdump-specification.txt`.
//!
//! Addresses in them are the process's own, so such a file stands for a module whose bias is 0.

use crate::demangle::readable;
use crate::frame::Frame;
use crate::maps::Mapping;
use crate::roots::reachable;
use linux_perf_data::jitdump::{JitDumpReader, JitDumpRecord};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Larger files are not read.
const MOST_BYTES: u64 = 512 << 20;

/// Functions by address; of two at one address the later one counts.
#[derive(Default)]
pub(crate) struct JitNames {
    functions: BTreeMap<u64, Function>,
}

struct Function {
    bytes: u64,
    name: String,
    /// First address, file and line of each piece, ascending.
    lines: Vec<(u64, String, u32)>,
}

/// The file that names the code a process generates at run time: a jitdump that it has mapped (which is how such a program
/// tells of it), else `/tmp/perf-PID.map`, which may still come: a JVM writes it when it ends. It serves as a module
/// whose bias is 0.
///
/// `root` is what the paths of the process begin with here ([`crate::hold_root`]; mostly nothing), `pid` its number as it
/// knows it itself.
#[must_use]
pub fn generated_code_names(root: &str, pid: u32, mappings: &[Mapping]) -> String {
    let paths = mappings
        .iter()
        .filter_map(|mapping| mapping.path.as_deref());
    let mut dumps = paths.filter(|path| is_dump(path.rsplit('/').next().unwrap_or(path)));
    let map = || format!("{root}/tmp/perf-{pid}.map");
    dumps.next().map_or_else(map, str::to_owned)
}

/// Whether a module, by its path, is no file of code, but one of the names of generated code: perf-PID.map, jit-PID.dump.
#[must_use]
pub fn names_generated_code(module: &str) -> bool {
    is_names_file(Path::new(module))
}

/// Whether a module's path is that of a file of names.
pub(crate) fn is_names_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    is_map(&name) || is_dump(&name)
}

fn is_map(name: &str) -> bool {
    numbered(name, "perf-", ".map")
}

fn is_dump(name: &str) -> bool {
    numbered(name, "jit-", ".dump")
}

fn numbered(name: &str, prefix: &str, suffix: &str) -> bool {
    let middle = name
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_suffix(suffix));
    middle.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

impl JitNames {
    /// Reads either kind of file; what cannot be read or understood has no names. `None`: there is no such file.
    pub(crate) fn load(path: &Path) -> Option<Self> {
        let file = reachable(path);
        let facts = fs::metadata(&file).ok()?;
        let mut names = Self::default();
        if facts.is_file() && facts.len() <= MOST_BYTES {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if is_dump(&name) {
                names.read_dump(&file);
            } else {
                let text = fs::read(&file).unwrap_or_default();
                names.read_map(&String::from_utf8_lossy(&text));
            }
        }
        Some(names)
    }

    fn read_map(&mut self, text: &str) {
        for line in text.lines() {
            let mut parts = line.splitn(3, ' ');
            let mut number = || {
                let text = parts.next()?;
                let digits = text.strip_prefix("0x").unwrap_or(text);
                u64::from_str_radix(digits, 16).ok()
            };
            if let (Some(start), Some(bytes)) = (number(), number())
                && let Some(name) = parts.next().filter(|name| !name.is_empty())
            {
                self.add(start, bytes, name.trim_end().to_owned(), Vec::new());
            }
        }
    }

    fn read_dump(&mut self, path: &Path) {
        let Some(mut reader) = fs::File::open(path)
            .ok()
            .and_then(|file| JitDumpReader::new(file).ok())
        else {
            return;
        };
        // Debug information comes just before the code it belongs to.
        let mut lines = Vec::new();
        // A program that was killed leaves half a record.
        while let Ok(Some(record)) = reader.next_record() {
            match record.parse() {
                Ok(JitDumpRecord::CodeDebugInfo(info)) => {
                    lines = info
                        .entries
                        .iter()
                        .map(|entry| {
                            let file = entry.file_path.as_slice();
                            let file = String::from_utf8_lossy(&file).into_owned();
                            (entry.code_addr, file, entry.line)
                        })
                        .collect();
                    lines.sort();
                }
                Ok(JitDumpRecord::CodeLoad(load)) => {
                    let name = load.function_name.as_slice();
                    let name = String::from_utf8_lossy(&name).into_owned();
                    let bytes = load.code_bytes.len() as u64;
                    self.add(load.vma, bytes, name, std::mem::take(&mut lines));
                }
                Ok(JitDumpRecord::CodeMove(moved)) => {
                    if let Some(function) = self.functions.remove(&moved.old_code_addr) {
                        self.functions.insert(moved.new_code_addr, function);
                    }
                }
                _ => {}
            }
        }
    }

    fn add(&mut self, start: u64, bytes: u64, name: String, lines: Vec<(u64, String, u32)>) {
        let function = Function { bytes, name, lines };
        self.functions.insert(start, function);
    }

    /// The frame at an address of the process, without its module.
    pub(crate) fn frame(&self, address: u64) -> Option<Frame> {
        let (&start, function) = self.functions.range(..=address).next_back()?;
        if address - start >= function.bytes {
            return None;
        }
        let piece = function
            .lines
            .partition_point(|(from, ..)| *from <= address);
        let line = piece.checked_sub(1).map(|index| &function.lines[index]);
        Some(Frame {
            function: Some(readable(&function.name)),
            file: line.map(|(_, file, _)| file.clone()),
            line: line.map(|(_, _, line)| *line).filter(|&line| line > 0),
            ..Frame::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbered_files_hold_names() {
        assert!(is_names_file(Path::new("/tmp/perf-123.map")));
        assert!(is_names_file(Path::new("/tmp/jit-9.dump")));
        for other in [
            "/tmp/perf-.map",
            "/tmp/perf-1x.map",
            "/usr/lib/libc.so.6",
            "",
        ] {
            assert!(!is_names_file(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn later_lines_of_a_map_count_and_nonsense_does_not() {
        let mut names = JitNames::default();
        names.read_map("1000 20 LazyCompile:~walk walk.js:3\nnonsense\nzz 1 x\n1000 10 walk\n0x2000 0x8 sum all\n3000 5\n");
        let name = |address| names.frame(address).and_then(|frame| frame.function);
        assert_eq!(name(0x100f).as_deref(), Some("walk"));
        assert_eq!(name(0x1010), None);
        assert_eq!(name(0x2007).as_deref(), Some("sum all"));
        assert_eq!((name(0xfff), name(0x3001)), (None, None));
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((16 + body.len() as u32).to_le_bytes());
        bytes.extend(7u64.to_le_bytes());
        bytes.extend(body);
        bytes
    }

    fn words(values: &[u64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    #[test]
    fn a_dump_has_lines_and_may_be_cut() {
        let mut dump = Vec::new();
        // Magic, version, size of this header, machine, padding, process, then time and flags.
        for word in [0x4a69_5444u32, 1, 40, 62, 0, 1234] {
            dump.extend(word.to_le_bytes());
        }
        dump.extend(words(&[0, 0]));
        let mut lines = words(&[0x5000, 2]);
        for (address, line) in [(0x5000u64, 10u32), (0x5008, 11)] {
            lines.extend(address.to_le_bytes());
            lines.extend(line.to_le_bytes());
            lines.extend(0u32.to_le_bytes());
            lines.extend(b"walk.rb\0");
        }
        dump.extend(record(2, &lines));
        let mut load = [1234u32, 1234].map(u32::to_le_bytes).concat();
        load.extend(words(&[0x5000, 0x5000, 16, 1]));
        load.extend(b"walk\0");
        load.extend([0x90; 16]);
        dump.extend(record(0, &load));
        let whole = dump.len();
        dump.extend(&record(0, &load)[..20]);

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("jit-1234.dump");
        fs::write(&path, &dump).expect("written");
        let names = JitNames::load(&path).expect("a file");
        let frame = names.frame(0x500c).expect("a frame");
        assert_eq!(frame.function.as_deref(), Some("walk"));
        assert_eq!(
            (frame.file.as_deref(), frame.line),
            (Some("walk.rb"), Some(11))
        );
        assert_eq!(names.frame(0x5010), None);
        for length in 0..whole {
            fs::write(&path, &dump[..length]).expect("written");
            JitNames::load(&path);
        }
    }
}
