//! Errors with their call paths named.

use std::collections::HashMap;

use pagewise_abi::Maps;
use pagewise_abi::guard::Access;
use pagewise_abi::guard::Family;
use pagewise_abi::guard::Fault;
use pagewise_abi::guard::FaultKind;
use pagewise_abi::guard::FaultRecord;
use pagewise_abi::guard::Frames;
use pagewise_attribute::ElfCache;
use pagewise_attribute::Frame;
use pagewise_attribute::ModuleTable;
use pagewise_attribute::Symbolizer;
use pagewise_attribute::lookup_address;
use pagewise_attribute::parse_maps;

use super::session::Side;

/// All kinds, as they are called.
pub(super) const KINDS: [&str; 9] = [
    "heap-buffer-overflow",
    "heap-buffer-underflow",
    "heap-use-after-free",
    "double-free",
    "invalid-free",
    "alloc-dealloc-mismatch",
    "leak",
    "invalid-access",
    "memcpy-overlap",
];

/// An error, named.
pub(super) struct Finding {
    pub(super) fault: Fault,
    /// In which run it was found.
    pub(super) side: Side,
    pub(super) access: Vec<Frame>,
    pub(super) allocation: Vec<Frame>,
    pub(super) release: Vec<Frame>,
    /// Bytes near the address, from the fault's `near_address` on.
    pub(super) near: Vec<u8>,
}

fn is_same(one: &[Frame], other: &[Frame]) -> bool {
    let of = |frame: &Frame| {
        (
            frame.module.clone(),
            frame.module_offset,
            frame.function.clone(),
            frame.line,
        )
    };
    one.len() == other.len() && one.iter().map(of).eq(other.iter().map(of))
}

impl Finding {
    /// What it is called, as AddressSanitizer does.
    pub(super) fn kind(&self) -> &'static str {
        KINDS[self.fault.kind as usize - 1]
    }

    /// Whether another run's error is this one, told no better: the same kind, of objects of the same call path, and in the
    /// same line unless one of the two was seen only later.
    pub(super) fn covers(&self, other: &Finding) -> bool {
        if self.fault.kind != other.fault.kind || !is_same(&self.allocation, &other.allocation) {
            return false;
        }
        let is_late = |finding: &Finding| finding.fault.access == Access::EarlierWrite;
        match (is_late(self), is_late(other)) {
            (_, true) => !self.allocation.is_empty() || is_same(&self.access, &other.access),
            (true, false) => false,
            (false, false) => match (self.place(), other.place()) {
                (Some(here), Some(there)) => (&here.file, here.line) == (&there.file, there.line),
                _ => is_same(&self.access, &other.access),
            },
        }
    }

    /// Whether another process found the same damage, or the same leaked: so it was before one was forked from the other.
    pub(super) fn is_inherited(&self, other: &Finding) -> bool {
        let damage = |finding: &Finding| {
            let fault = &finding.fault;
            (fault.kind, fault.access, fault.address, fault.object)
        };
        let is_seen_late =
            self.fault.access == Access::EarlierWrite || self.fault.kind == FaultKind::Leak;
        // A leak stands for all of its place: a parent may have leaked more since.
        let leaks_no_more =
            (0..2).all(|count| self.fault.leaked[count] >= other.fault.leaked[count]);
        is_seen_late
            && leaks_no_more
            && self.fault.pid != other.fault.pid
            && damage(self) == damage(other)
            && is_same(&self.allocation, &other.allocation)
    }

    /// The line that the programmer looks at first: of a leak where it was allocated, else of the access or the call.
    pub(super) fn place(&self) -> Option<&Frame> {
        let path = match self.fault.kind {
            FaultKind::Leak => &self.allocation,
            _ => &self.access,
        };
        path.iter().find(|frame| frame.line.is_some())
    }

    /// Where the address is as seen from the object's begin, bytes.
    pub(super) fn offset(&self) -> Option<i64> {
        let object = self.fault.object?;
        Some(self.fault.address.wrapping_sub(object.address) as i64)
    }

    /// `write`, `read`; of what was seen later `write`, too.
    pub(super) fn access_name(&self) -> Option<&'static str> {
        match self.fault.access {
            Access::None => None,
            Access::Read => Some("read"),
            Access::Write | Access::EarlierWrite => Some("write"),
        }
    }

    /// The bytes near the address, two digits each; `None`: none are known.
    pub(super) fn near_text(&self) -> Option<String> {
        let digits = self.near.iter().map(|byte| format!("{byte:02x}"));
        (!self.near.is_empty()).then(|| digits.collect())
    }

    /// The function of the C library whose arguments were wrong.
    pub(super) fn function(&self) -> Option<&str> {
        let name = self.fault.function.split(|&byte| byte == 0).next()?;
        std::str::from_utf8(name).ok().filter(|name| {
            let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            !name.is_empty() && name.bytes().all(is_of_names)
        })
    }
}

/// The functions of a family, made and given back by.
pub(super) fn functions(family: Family) -> (&'static str, &'static str) {
    match family {
        Family::Malloc => ("malloc", "free"),
        Family::New => ("operator new", "operator delete"),
        Family::NewArray => ("operator new[]", "operator delete[]"),
    }
}

/// Names addresses of processes by their lists of mappings.
#[derive(Default)]
pub(super) struct Namer {
    elf: ElfCache,
    symbolizer: Symbolizer,
    /// Lists on their way.
    pieces: HashMap<u32, Vec<u8>>,
    modules: HashMap<u32, ModuleTable>,
}

impl Namer {
    /// A piece of a process's list of mappings, which comes before its error.
    pub(super) fn maps_piece(&mut self, pid: u32, maps: &Maps<'_>) {
        let text = self.pieces.entry(pid).or_default();
        if maps.first {
            text.clear();
        }
        text.extend_from_slice(maps.text);
        if maps.last
            && let Ok(mappings) = parse_maps(&String::from_utf8_lossy(text))
        {
            let table = ModuleTable::new(&mappings, &mut self.elf);
            self.modules.insert(pid, table);
        }
    }

    /// The error with its call paths named. `pid`: whose ring it came by.
    pub(super) fn finding(&mut self, pid: u32, side: Side, record: &FaultRecord<'_>) -> Finding {
        let [access, allocation, release] = record.paths;
        let is_exact = record.fault.first_frame_is_exact;
        Finding {
            fault: record.fault,
            side,
            access: self.name(pid, access, is_exact),
            allocation: self.name(pid, allocation, false),
            release: self.name(pid, release, false),
            near: record.near.to_vec(),
        }
    }

    fn name(&mut self, pid: u32, path: Frames<'_>, first_is_exact: bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        for (index, address) in path.iter().enumerate() {
            let address = match index == 0 && first_is_exact {
                true => address,
                false => lookup_address(address),
            };
            let module = self.modules.get(&pid);
            match module.and_then(|modules| modules.resolve(address)) {
                Some((module, offset)) => {
                    frames.extend_from_slice(&self.symbolizer.frames(module, offset));
                }
                None => frames.push(Frame {
                    module_offset: Some(address),
                    ..Frame::default()
                }),
            }
        }
        frames
    }
}
