//! An executable or library as it is now: where a frame of a plan lies in it, and which frame an address is.

use std::fs::File;
use std::path::Path;

use object::Object;
use object::ObjectSegment;
use object::ObjectSymbol;
use object::ReadCache;
use object::SymbolKind;

use crate::model::Frame;

/// The longest call instruction, bytes.
const LONGEST_CALL: u64 = 7;

/// The symbols and code of an ELF file.
pub struct ModuleFile {
    name: String,
    build_id: Option<String>,
    /// Sorted by address.
    functions: Vec<Symbol>,
    variables: Vec<Symbol>,
    code: Vec<(u64, Vec<u8>)>,
}

struct Symbol {
    address: u64,
    bytes: u64,
    name: String,
    is_global: bool,
}

/// A global variable in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalSymbol<'file> {
    /// Mangled.
    pub name: &'file str,
    /// As the file states it (SVMA).
    pub address: u64,
    /// Its size.
    pub bytes: u64,
}

/// Why a frame or global is not in a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmatched {
    /// No such symbol.
    #[error("{module} has no symbol {symbol}: was it stripped, or renamed?")]
    NoSymbol {
        /// The file.
        module: String,
        /// What was looked for.
        symbol: String,
    },
    /// Several, and none where it was.
    #[error(
        "{module} has {count} symbols {symbol}, and it cannot be told which is meant; record and plan again"
    )]
    Ambiguous {
        /// The file.
        module: String,
        /// What was looked for.
        symbol: String,
        /// How many.
        count: usize,
    },
    /// The function is there, but not as it was.
    #[error(
        "{symbol} in {module} was rebuilt: there is no call at +{offset:#x} in it; record and plan again"
    )]
    Rebuilt {
        /// The file.
        module: String,
        /// The function.
        symbol: String,
        /// Where the return address should be.
        offset: u64,
    },
    /// Known by its address only, and another build.
    #[error(
        "{module} is another build, and the plan knows the place by its address only; record and plan again"
    )]
    OtherBuild {
        /// The file.
        module: String,
    },
}

impl ModuleFile {
    /// Reads an ELF file's symbols (`.symtab`, else `.dynsym`) and code.
    ///
    /// # Errors
    /// If it cannot be read, or is no ELF file: in words, without its path.
    pub fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        if !file.metadata().is_ok_and(|facts| facts.is_file()) {
            return Err("it is no regular file".to_owned());
        }
        let cache = ReadCache::new(file);
        let file = object::File::parse(&cache).map_err(|error| error.to_string())?;
        let symbols = |kind| {
            let mut found: Vec<Symbol> = file
                .symbols()
                .filter_map(|symbol| as_symbol(&symbol, kind))
                .collect();
            if found.is_empty() {
                let dynamic = file.dynamic_symbols();
                found = dynamic
                    .filter_map(|symbol| as_symbol(&symbol, kind))
                    .collect();
            }
            found.sort_by_key(|symbol| symbol.address);
            found
        };
        let code = file.segments().filter(is_code);
        let code =
            code.filter_map(|segment| Some((segment.address(), segment.data().ok()?.to_vec())));
        Ok(Self {
            name: file_name(path),
            build_id: file.build_id().ok().flatten().map(hexadecimal),
            functions: symbols(SymbolKind::Text),
            variables: symbols(SymbolKind::Data),
            code: code.collect(),
        })
    }

    /// Its file name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its GNU build id in lower-case hexadecimal digits.
    pub fn build_id(&self) -> Option<&str> {
        self.build_id.as_deref()
    }

    /// Whether it has a function of this name itself, for others to call, too.
    pub fn defines(&self, function: &str) -> bool {
        let mut functions = self.functions.iter();
        functions.any(|symbol| symbol.is_global && symbol.name == function)
    }

    /// The frame of a return address (SVMA); `None` where neither function nor build id is known.
    pub fn frame(&self, address: u64) -> Option<Frame> {
        // The call is before the return address: of a function that ends with one, this is the next function's start.
        let function = self.function_at(address.checked_sub(1)?);
        let function = function.map(|symbol| (symbol.name.clone(), address - symbol.address));
        (function.is_some() || self.build_id.is_some()).then(|| Frame {
            module: self.name.clone(),
            build_id: self.build_id.clone(),
            function,
            module_offset: address,
        })
    }

    fn function_at(&self, address: u64) -> Option<&Symbol> {
        let after = self
            .functions
            .partition_point(|symbol| symbol.address <= address);
        let before = self.functions[..after].iter().rev().take(8);
        before
            .into_iter()
            .find(|symbol| address - symbol.address < symbol.bytes)
    }

    /// Where a frame's return address lies in this file (SVMA).
    ///
    /// # Errors
    /// [`Unmatched`]: the function is gone or was rebuilt.
    pub fn resolve(&self, frame: &Frame) -> Result<u64, Unmatched> {
        let module = || self.name.clone();
        let is_same_build = frame.build_id.is_some() && frame.build_id == self.build_id;
        if is_same_build {
            return Ok(frame.module_offset);
        }
        let Some((symbol, offset)) = &frame.function else {
            return Err(Unmatched::OtherBuild { module: module() });
        };
        let candidates: Vec<&Symbol> = self
            .functions
            .iter()
            .filter(|function| function.name == *symbol)
            .collect();
        let address = match candidates.as_slice() {
            [] => {
                return Err(Unmatched::NoSymbol {
                    module: module(),
                    symbol: symbol.clone(),
                });
            }
            [only] => only.address.wrapping_add(*offset),
            several
                if several
                    .iter()
                    .any(|one| one.address.wrapping_add(*offset) == frame.module_offset) =>
            {
                frame.module_offset
            }
            several => {
                return Err(Unmatched::Ambiguous {
                    module: module(),
                    symbol: symbol.clone(),
                    count: several.len(),
                });
            }
        };
        if *offset > candidates[0].bytes && candidates.len() == 1 || !self.follows_a_call(address) {
            return Err(Unmatched::Rebuilt {
                module: module(),
                symbol: symbol.clone(),
                offset: *offset,
            });
        }
        Ok(address)
    }

    /// A global by its symbol (mangled); of several of that name the one of this size, or of these the one at this address (SVMA).
    ///
    /// # Errors
    /// [`Unmatched::NoSymbol`], [`Unmatched::Ambiguous`].
    pub fn global(
        &self,
        symbol: &str,
        bytes: Option<u64>,
        module_offset: Option<u64>,
    ) -> Result<GlobalSymbol<'_>, Unmatched> {
        let mut found: Vec<GlobalSymbol<'_>> =
            self.globals().filter(|one| one.name == symbol).collect();
        // One variable may be listed twice.
        found.dedup();
        let count = found.len();
        if count > 1 {
            found.retain(|one| Some(one.bytes) == bytes);
        }
        if found.len() > 1 {
            found.retain(|one| Some(one.address) == module_offset);
        }
        let (module, symbol) = (self.name.clone(), symbol.to_owned());
        match found[..] {
            [only] => Ok(only),
            _ if count == 0 => Err(Unmatched::NoSymbol { module, symbol }),
            _ => Err(Unmatched::Ambiguous {
                module,
                symbol,
                count,
            }),
        }
    }

    /// The globals, by address.
    pub fn globals(&self) -> impl Iterator<Item = GlobalSymbol<'_>> {
        self.variables.iter().map(|variable| GlobalSymbol {
            name: &variable.name,
            address: variable.address,
            bytes: variable.bytes,
        })
    }

    /// Whether the instruction before a return address may be a call.
    fn follows_a_call(&self, address: u64) -> bool {
        self.code.iter().any(|(start, bytes)| {
            let Some(end) = address.checked_sub(*start).map(|at| at as usize) else {
                return false;
            };
            let from = end.saturating_sub(LONGEST_CALL as usize);
            bytes.get(from..end).is_some_and(ends_with_call)
        })
    }
}

/// `call rel32`, or `call` by register or memory (opcode FF /2) with its operand bytes; or `syscall`, which the innermost
/// frame of a path of I/O follows where the program is static.
#[cfg(target_arch = "x86_64")]
fn ends_with_call(code: &[u8]) -> bool {
    let back = |count: usize| code.len().checked_sub(count).map(|at| &code[at..]);
    let by_operand =
        |count: usize| back(count).is_some_and(|code| code[0] == 0xff && code[1] & 0x38 == 0x10);
    back(5).is_some_and(|code| code[0] == 0xe8)
        || code.ends_with(&[0x0f, 0x05])
        || [2, 3, 4, 6, 7].into_iter().any(by_operand)
}

/// `bl`, `blr` or `svc #0`.
#[cfg(target_arch = "aarch64")]
fn ends_with_call(code: &[u8]) -> bool {
    let word = code
        .last_chunk::<4>()
        .map(|bytes| u32::from_le_bytes(*bytes));
    word.is_some_and(|word| {
        word >> 26 == 0b100101 || word & 0xffff_fc1f == 0xd63f_0000 || word == 0xd400_0001
    })
}

fn is_code<'data>(segment: &impl ObjectSegment<'data>) -> bool {
    match segment.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => p_flags.0 & object::elf::PF_X.0 != 0,
        _ => false,
    }
}

fn as_symbol<'data>(symbol: &impl ObjectSymbol<'data>, kind: SymbolKind) -> Option<Symbol> {
    if symbol.kind() != kind || !symbol.is_definition() || symbol.size() == 0 {
        return None;
    }
    Some(Symbol {
        address: symbol.address(),
        bytes: symbol.size(),
        name: symbol.name().ok()?.to_owned(),
        is_global: symbol.is_global(),
    })
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
