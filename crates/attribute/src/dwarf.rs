//! A module's DWARF sections, for what the line lookup does not give: variables.

use crate::debug_file::DebugFiles;
use crate::elf;
use crate::error::{Error, Result};
use gimli::{DebugInfoOffset, Dwarf, EndianArcSlice, Reader as _, RunTimeEndian, SectionId, Unit};
use object::{Object, ObjectSection};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads from sections held in memory.
pub(crate) type Reader = EndianArcSlice<RunTimeEndian>;

/// The debug information of one module, its sections read whole.
pub(crate) struct DebugInformation {
    pub(crate) dwarf: Arc<Dwarf<Reader>>,
    /// The file the sections come from.
    path: PathBuf,
}

impl DebugInformation {
    /// Reads the debug information of the module at `path`, wherever it is kept.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let files = DebugFiles::locate(path);
        let mut dwarf = load_sections(&files.main, |id| Some(id.name()))?;
        if let Some(supplementary) = &files.supplementary
            && let Ok(shared) = load_sections(supplementary, |id| Some(id.name()))
        {
            dwarf.set_sup(shared);
        }
        Ok(Self {
            dwarf: Arc::new(dwarf),
            path: files.main,
        })
    }

    /// The unit to look into for a unit of the main file: itself, or the split unit (`.dwo`,
    /// `.dwp`) it is the skeleton of. `None` if that one is missing.
    pub(crate) fn full_unit(&self, skeleton: Unit<Reader>) -> Option<FullUnit> {
        let Some(id) = skeleton.dwo_id else {
            return Some(FullUnit {
                main: Arc::clone(&self.dwarf),
                split: None,
                unit: skeleton,
            });
        };
        let Some(name) = skeleton.dwo_name().ok().flatten() else {
            return Some(FullUnit {
                main: Arc::clone(&self.dwarf),
                split: None,
                unit: skeleton,
            });
        };
        let mut split = self.packaged_unit(id).or_else(|| {
            let name = self.dwarf.attr_string(&skeleton, name).ok()?;
            load_sections(&dwo_path(&skeleton, &name)?, |id| id.dwo_name()).ok()
        })?;
        split.make_dwo(&self.dwarf);
        let mut headers = split.units();
        while let Ok(Some(header)) = headers.next() {
            let mut unit = split.unit(header).ok()?;
            if unit.dwo_id == Some(id) {
                unit.copy_relocated_attributes(&skeleton);
                if unit.line_program.is_none() {
                    unit.line_program = split_file_table(&split, &unit).or(skeleton.line_program);
                }
                return Some(FullUnit {
                    main: Arc::clone(&self.dwarf),
                    split: Some(Arc::new(split)),
                    unit,
                });
            }
        }
        None
    }

    /// The split unit from the package beside the file (`program.dwp`), if there is one.
    fn packaged_unit(&self, id: gimli::DwoId) -> Option<Dwarf<Reader>> {
        let mut path = self.path.clone().into_os_string();
        path.push(".dwp");
        let path = PathBuf::from(path);
        let cache = elf::open(&path).ok()?;
        let file = elf::parse(&path, &cache).ok()?;
        let load = |id: SectionId| section(&file, id.dwo_name());
        let package =
            gimli::DwarfPackage::load::<_, gimli::Error>(|id| Ok(load(id)), section(&file, None))
                .ok()?;
        package.find_cu(id, &self.dwarf).ok()?
    }
}

/// A unit with all its entries, and the sections they refer to.
pub(crate) struct FullUnit {
    main: Arc<Dwarf<Reader>>,
    split: Option<Arc<Dwarf<Reader>>>,
    pub(crate) unit: Unit<Reader>,
}

impl FullUnit {
    /// A unit that another one of the same file refers to.
    pub(crate) fn of_other(dwarf: &Arc<Dwarf<Reader>>, offset: DebugInfoOffset) -> Option<Self> {
        let header = dwarf.unit_header(offset).ok()?;
        Some(Self {
            main: Arc::clone(dwarf),
            split: None,
            unit: dwarf.unit(header).ok()?,
        })
    }

    /// The file that its entries are in.
    pub(crate) fn dwarf(&self) -> &Arc<Dwarf<Reader>> {
        self.split.as_ref().unwrap_or(&self.main)
    }

    /// A string attribute, whichever way it is stored.
    pub(crate) fn string(&self, value: gimli::AttributeValue<Reader>) -> Option<String> {
        // A split unit may use its skeleton's file table, whose strings are in the main file.
        let own = self.dwarf().attr_string(&self.unit, value.clone());
        let text = own
            .or_else(|_| self.main.attr_string(&self.unit, value))
            .ok()?;
        Some(text.to_string_lossy().ok()?.into_owned())
    }

    /// The path of a file of this unit's line table, joined with its directories.
    pub(crate) fn file_path(&self, index: u64) -> Option<String> {
        let program = self.unit.line_program.as_ref()?;
        let header = program.header();
        let file = header.file(index)?;
        let mut path = PathBuf::new();
        if let Some(directory) = &self.unit.comp_dir {
            path.push(as_path(&directory.to_slice().ok()?));
        }
        if let Some(directory) = file.directory(header).and_then(|value| self.string(value)) {
            path.push(directory);
        }
        path.push(self.string(file.path_name())?);
        Some(path.to_string_lossy().into_owned())
    }
}

/// The file table of a split unit: alone in its section, so nothing says where (DWARF 5, F.1).
fn split_file_table(
    split: &Dwarf<Reader>,
    unit: &Unit<Reader>,
) -> Option<gimli::IncompleteLineProgram<Reader>> {
    let address_size = unit.encoding().address_size;
    let (directory, name) = (unit.comp_dir.clone(), unit.name.clone());
    split
        .debug_line
        .program(gimli::DebugLineOffset(0), address_size, directory, name)
        .ok()
}

fn dwo_path(skeleton: &Unit<Reader>, name: &Reader) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    if let Some(directory) = &skeleton.comp_dir {
        path.push(as_path(&directory.to_slice().ok()?));
    }
    path.push(as_path(&name.to_slice().ok()?));
    Some(path)
}

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

fn load_sections(
    path: &Path,
    name_of: impl Fn(SectionId) -> Option<&'static str>,
) -> Result<Dwarf<Reader>> {
    let cache = elf::open(path)?;
    let file = elf::parse(path, &cache)?;
    Dwarf::load(|id| Ok(section(&file, name_of(id)))).map_err(|source: gimli::Error| {
        Error::DebugInformation {
            path: path.to_owned(),
            source: Box::new(source),
        }
    })
}

/// A section's bytes; empty when it is missing or cannot be decompressed.
fn section<'data, R: object::ReadRef<'data>>(
    file: &object::File<'data, R>,
    name: Option<&str>,
) -> Reader {
    let endian = if file.is_little_endian() {
        RunTimeEndian::Little
    } else {
        RunTimeEndian::Big
    };
    let data = name
        .and_then(|name| file.section_by_name(name))
        .and_then(|section| section.uncompressed_data().ok());
    Reader::new(
        data.map_or_else(|| Arc::from([]), |data| Arc::from(&*data)),
        endian,
    )
}
