//! The modules loaded in a process: from an address in memory to a file and an address in it.

use crate::elf::{ElfCache, ElfImage};
use crate::maps::Mapping;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// An ELF file loaded in a process: one executable or shared library, `.bss` included.
#[derive(Clone, Debug)]
pub struct Module {
    /// Path as `/proc/PID/maps` shows it.
    pub path: Arc<str>,
    /// Addresses it occupies in the process.
    pub range: Range<u64>,
    /// Address in the process less the address stated in the file; wraps for files linked high.
    pub bias: u64,
    /// Its headers.
    pub image: Arc<ElfImage>,
}

impl Module {
    /// The address stated in the file (SVMA) for an address in the process.
    #[must_use]
    pub fn svma(&self, address: u64) -> u64 {
        address.wrapping_sub(self.bias)
    }

    /// The GNU build id, as lower-case hexadecimal digits.
    #[must_use]
    pub fn build_id(&self) -> Option<String> {
        let id = self.image.build_id.as_deref()?;
        Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The modules of one process at one time, and which of its memory holds code.
#[derive(Clone, Debug, Default)]
pub struct ModuleTable {
    /// Sorted by start, without overlaps.
    modules: Vec<Module>,
    /// Executable ranges, of files or not, sorted.
    code: Vec<Range<u64>>,
}

impl ModuleTable {
    /// Builds the table from a process's mappings (sorted by address, as [`crate::parse_maps`]
    /// returns them). Mapped files that are not ELF files, are gone, or were replaced are left
    /// out: their addresses stay unresolved.
    ///
    /// Paths are opened as they are. For a process in another mount namespace, prefix the paths
    /// of its mappings with `/proc/PID/root` first.
    #[must_use]
    pub fn new(mappings: &[Mapping], elf: &mut ElfCache) -> Self {
        let mut modules: Vec<Module> = runs(mappings)
            .into_iter()
            .filter_map(|run| module_of_run(&run, elf))
            .collect();
        modules.sort_by_key(|module| module.range.start);
        trim_overlaps(&mut modules);
        let code = mappings
            .iter()
            .filter(|m| m.executable)
            .map(|m| m.start..m.end)
            .collect();
        Self { modules, code }
    }

    /// The module that holds an address, if any.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<&Module> {
        self.index_of(address).map(|index| &self.modules[index])
    }

    /// The path of the module that holds an address, and the address as stated in that file.
    #[must_use]
    pub fn resolve(&self, address: u64) -> Option<(&str, u64)> {
        self.find(address)
            .map(|module| (&*module.path, module.svma(address)))
    }

    /// All modules, sorted by address.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// Whether an address lies in executable memory, of a file or not.
    #[must_use]
    pub fn is_code(&self, address: u64) -> bool {
        let after = self.code.partition_point(|range| range.start <= address);
        after
            .checked_sub(1)
            .is_some_and(|index| self.code[index].contains(&address))
    }

    pub(crate) fn index_of(&self, address: u64) -> Option<usize> {
        let after = self
            .modules
            .partition_point(|module| module.range.start <= address);
        after
            .checked_sub(1)
            .filter(|&index| self.modules[index].range.contains(&address))
    }
}

/// Groups the mappings of one loading of one file: offsets rise from one to the next. A second
/// loading of the same file (`dlmopen`, or a plain `mmap` of it) starts again from a lower offset.
fn runs(mappings: &[Mapping]) -> Vec<Vec<&Mapping>> {
    let mut runs: Vec<Vec<&Mapping>> = Vec::new();
    for mapping in mappings.iter().filter(|m| m.file().is_some() && !m.deleted) {
        let previous = runs.last().and_then(|run| run.last());
        let continues = previous.is_some_and(|before| {
            before.path == mapping.path
                && before.inode == mapping.inode
                && before.offset <= mapping.offset
        });
        match runs.last_mut() {
            Some(run) if continues => run.push(mapping),
            _ => runs.push(vec![mapping]),
        }
    }
    runs
}

fn module_of_run(run: &[&Mapping], elf: &mut ElfCache) -> Option<Module> {
    let (first, last) = (run.first()?, run.last()?);
    // A file that is only read (a program looking at itself) was not loaded.
    let code = run.iter().find(|mapping| mapping.executable)?;
    let path = first.file()?;
    let image = elf.get(Path::new(path))?;
    let bias = image.bias(code.start, code.offset, true)?;
    let end = last.end.max(page_end(image.end().wrapping_add(bias)));
    Some(Module {
        path: path.into(),
        range: first.start..end,
        bias,
        image,
    })
}

fn page_end(address: u64) -> u64 {
    address.checked_next_multiple_of(4096).unwrap_or(address)
}

/// A `.bss` computed from the headers never reaches into the next module; make sure.
fn trim_overlaps(modules: &mut [Module]) {
    for index in 1..modules.len() {
        let next_start = modules[index].range.start;
        let range = &mut modules[index - 1].range;
        range.end = range.end.min(next_start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::parse_maps;

    static IN_DATA: [u64; 4] = [1, 2, 3, 4];

    fn own_table() -> ModuleTable {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        ModuleTable::new(&parse_maps(&text).unwrap(), &mut ElfCache::new())
    }

    #[test]
    fn own_code_and_data_resolve_to_the_own_executable() {
        let table = own_table();
        let executable = std::env::current_exe().unwrap();
        for address in [own_table as *const () as u64, (&raw const IN_DATA) as u64] {
            let (path, svma) = table.resolve(address).unwrap();
            assert_eq!(Path::new(path), executable);
            let module = table.find(address).unwrap();
            assert!(svma < module.image.end());
            assert_eq!(svma.wrapping_add(module.bias), address);
        }
        assert!(table.is_code(own_table as *const () as u64));
        assert!(!table.is_code((&raw const IN_DATA) as u64));
    }

    #[test]
    fn libc_is_a_module_of_its_own_and_null_is_none() {
        let table = own_table();
        assert!(
            table
                .modules()
                .iter()
                .any(|module| module.path.contains("libc.so"))
        );
        assert!(table.resolve(0).is_none());
        assert!(!table.is_code(0) && !table.is_code(u64::MAX));
        let modules = table.modules();
        assert!(
            modules
                .windows(2)
                .all(|pair| pair[0].range.end <= pair[1].range.start)
        );
    }

    #[test]
    fn a_second_loading_of_the_same_file_has_its_own_bias() {
        let path = std::env::current_exe().unwrap();
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let own: Vec<_> = parse_maps(&text)
            .unwrap()
            .into_iter()
            .filter(|m| m.file().map(Path::new) == Some(&path))
            .collect();
        let shift = 0x10_0000_0000;
        let mut twice = own.clone();
        twice.extend(own.iter().cloned().map(|mut mapping| {
            mapping.start += shift;
            mapping.end += shift;
            mapping
        }));
        let table = ModuleTable::new(&twice, &mut ElfCache::new());
        let biases: Vec<_> = table.modules().iter().map(|module| module.bias).collect();
        assert_eq!(biases.len(), 2);
        assert_eq!(biases[1].wrapping_sub(biases[0]), shift);
    }
}
