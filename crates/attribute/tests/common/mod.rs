//! Builds the test programs, runs them under the recorder and symbolizes what it recorded.

// Each test uses a part of this.
#![allow(dead_code)]

use pagewise_attribute::unwind::arch::Registers;
use pagewise_attribute::unwind::{CallPath, ProcessUnwinder, UnwindCache};
use pagewise_attribute::{ElfCache, Frame, ModuleTable, Symbolizer, lookup_address, parse_maps};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

/// Where the programs' sources are.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(name)
}

/// A folder for one test's files.
pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs a command and requires its success.
pub(crate) fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}",
        output.status
    );
}

/// Builds a program in a folder with a compiler and options, and returns its path.
pub(crate) fn build(folder: &Path, compiler: &str, options: &str, source: &Path) -> PathBuf {
    let program = folder.join("program");
    let mut command = Command::new(compiler);
    command
        .args(options.split_whitespace())
        .arg(source)
        .arg("-o")
        .arg(&program);
    // Split debug information lands where the compiler runs.
    run(command.current_dir(folder));
    program
}

/// Moves what a program's debug information has in common with a copy of it to a third file, as distributions do.
pub(crate) fn share_debug_information(program: &Path) {
    let beside = |name: &str| program.with_file_name(name);
    fs::copy(program, beside("copy")).unwrap();
    let mut dwz = Command::new("dwz");
    dwz.arg("-m").arg(beside("shared.debug"));
    run(dwz.arg(program).arg(beside("copy")));
    assert!(beside("shared.debug").exists());
}

/// One recorded allocation.
pub(crate) struct Allocation {
    /// Bytes asked for.
    pub(crate) bytes: u64,
    /// The unwound call path, without the recorder's own frame.
    pub(crate) path: CallPath,
}

/// What a run of a program allocated.
pub(crate) struct Recording {
    pub(crate) allocations: Vec<Allocation>,
    pub(crate) modules: Arc<ModuleTable>,
}

impl Recording {
    /// The symbolized frames of an allocation, innermost first.
    pub(crate) fn frames(&self, path: &CallPath, symbolizer: &mut Symbolizer) -> Vec<Frame> {
        let addresses = path.return_addresses.iter().copied().map(lookup_address);
        addresses
            .flat_map(|address| match self.modules.resolve(address) {
                Some((module, svma)) => symbolizer.frames(module, svma).to_vec(),
                None => vec![Frame::default()],
            })
            .collect()
    }
}

/// How much a recording takes down.
pub(crate) struct Limits {
    /// Smallest allocation, in bytes.
    pub(crate) minimum: u64,
    /// Copied part of the stack, in bytes.
    pub(crate) stack: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            minimum: 60_000,
            stack: 16384,
        }
    }
}

/// Runs a program under the recorder.
pub(crate) fn record(folder: &Path, program: &Path, limits: &Limits) -> Recording {
    let recorder = folder.join("libpagewise_runtime_test.so");
    let mut compiler = Command::new("gcc");
    compiler
        .args(["-O2", "-g", "-shared", "-fPIC", "-o"])
        .arg(&recorder);
    run(compiler.arg(source("recorder.c")).arg("-ldl"));
    let file = folder.join("recording");
    run(Command::new(program)
        .env("LD_PRELOAD", &recorder)
        .env("RECORD_FILE", &file)
        .env("RECORD_MINIMUM", limits.minimum.to_string())
        .env("RECORD_STACK", limits.stack.to_string()));
    let maps = fs::read_to_string(folder.join("recording.maps")).unwrap();
    let mut elf = ElfCache::new();
    let modules = Arc::new(ModuleTable::new(&parse_maps(&maps).unwrap(), &mut elf));
    let mut unwinder = ProcessUnwinder::new(Arc::clone(&modules));
    let mut cache = UnwindCache::new();
    let bytes = fs::read(&file).unwrap();
    let allocations = records(&bytes)
        .map(|(header, stack)| Allocation {
            bytes: header[0],
            path: unwinder.walk(&registers(&header), stack, &mut cache),
        })
        .collect();
    Recording {
        allocations,
        modules,
    }
}

/// Splits a recording into headers (bytes, ip, sp, fp, lr, length) and stacks.
fn records(bytes: &[u8]) -> impl Iterator<Item = ([u64; 6], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (header, after) = rest.split_at_checked(48)?;
        let header: [u64; 6] = std::array::from_fn(|index| {
            u64::from_ne_bytes(header[index * 8..index * 8 + 8].try_into().unwrap())
        });
        let (stack, after) = after.split_at_checked(header[5] as usize)?;
        rest = after;
        Some((header, stack))
    })
}

#[cfg(target_arch = "x86_64")]
fn registers(header: &[u64; 6]) -> Registers {
    Registers::new(header[1], header[2], header[3])
}

#[cfg(target_arch = "aarch64")]
fn registers(header: &[u64; 6]) -> Registers {
    Registers::new(header[1], header[4], header[2], header[3])
}
