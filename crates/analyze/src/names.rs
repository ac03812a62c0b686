//! Gives names to a recording's addresses, once the program has ended: call paths get functions and lines, their
//! allocations the variables they are kept in, modules their global variables.
//!
//! Reads the tables that were recorded and adds the late ones, so that a live recorder and the recovery of a dead
//! one's trace do the same.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use pagewise_attribute as attribute;
use pagewise_attribute::ElfCache;
use pagewise_attribute::InTurn;
use pagewise_attribute::ModuleTable;
use pagewise_attribute::Namer;
use pagewise_attribute::Symbolizer;
use pagewise_trace::Frame;
use pagewise_trace::Global;
use pagewise_trace::Mapping;
use pagewise_trace::Site;
use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;
use pagewise_trace::TraceWriter;

/// Smaller global variables are not objects of their own.
const SMALLEST_GLOBAL: u64 = 64 << 10;

/// The library that pagewise preloads, beside whatever executable it was.
const PRELOADED: &str = "/libpagewise_runtime.so";

/// Adds the tables `frames`, `sites` and `globals` to a trace that is still open, unless they are there, and the build ids of
/// the modules.
///
/// # Errors
/// If a table cannot be read or written. Names that cannot be found are left out.
pub fn add_names(writer: &mut TraceWriter) -> Result<(), TraceError> {
    writer.flush()?;
    let trace = Trace::open(writer.dir())?;
    if trace.sites()?.is_empty() {
        name_stacks(&trace, writer)?;
    }
    if trace.globals()?.is_empty() {
        name_globals(&trace, writer)?;
    }
    writer.flush()
}

fn name_stacks(trace: &Trace, writer: &mut TraceWriter) -> Result<(), TraceError> {
    let mut stacks: BTreeMap<u32, Vec<StackFrame>> = BTreeMap::new();
    for frame in trace.rows::<StackFrame>()? {
        let frame = frame?;
        stacks.entry(frame.stack).or_default().push(frame);
    }
    let mut symbolizer = Symbolizer::new();
    let mut namer = Namer::new();
    let (mut stacks_in_turn, mut sites_in_turn) = (Vec::new(), Vec::new());
    for (stack, mut path) in stacks {
        path.retain(|frame| !is_ours(frame));
        path.sort_by_key(|frame| frame.depth);
        let mut names = Vec::new();
        for frame in &path {
            let found = symbolize(&mut symbolizer, frame);
            for (inline_index, name) in found.iter().enumerate() {
                writer.frames.push(Frame {
                    stack,
                    depth: frame.depth,
                    inline_index: inline_index as u16,
                    function: name.function.clone(),
                    file: name.file.clone(),
                    line: name.line,
                    module: name.module.clone(),
                    inlined: name.inlined,
                })?;
            }
            names.extend(found);
        }
        let site = namer.name(&names);
        match InTurn::of(&site, &names) {
            Some(site) => {
                stacks_in_turn.push(stack);
                sites_in_turn.push(site);
            }
            None => add_site(writer, stack, site)?,
        }
    }
    attribute::name_in_turn(&mut sites_in_turn);
    for (stack, one) in stacks_in_turn.into_iter().zip(sites_in_turn) {
        add_site(writer, stack, one.site)?;
    }
    Ok(())
}

fn add_site(writer: &mut TraceWriter, stack: u32, site: attribute::Site) -> Result<(), TraceError> {
    writer.sites.push(Site {
        stack,
        name: site.name,
        file: site.file,
        line: site.line,
        function: site.function,
        type_name: site.type_name,
    })
}

/// The preloaded library's own frames: where the program called it is what counts.
pub(crate) fn is_ours(frame: &StackFrame) -> bool {
    frame
        .module
        .as_deref()
        .is_some_and(|module| module.ends_with(PRELOADED))
}

fn symbolize(symbolizer: &mut Symbolizer, frame: &StackFrame) -> Vec<attribute::Frame> {
    let (Some(module), Some(offset)) = (&frame.module, frame.module_offset) else {
        return vec![attribute::Frame {
            module: frame.module.clone(),
            ..Default::default()
        }];
    };
    // Depth 0 is where the program was; the others are where it will return to, just behind a call.
    let svma = if frame.depth == 0 {
        offset
    } else {
        attribute::lookup_address(offset)
    };
    symbolizer.frames(module, svma).to_vec()
}

fn name_globals(trace: &Trace, writer: &mut TraceWriter) -> Result<(), TraceError> {
    let mut mappings: BTreeMap<u32, BTreeSet<MappingRow>> = BTreeMap::new();
    for mapping in trace.rows::<Mapping>()? {
        let mapping = mapping?;
        let key = (
            mapping.start,
            mapping.end,
            mapping.offset,
            mapping.permissions,
            mapping.path,
        );
        mappings.entry(mapping.space).or_default().insert(key);
    }
    let mut elf = ElfCache::new();
    let mut known: BTreeMap<String, Vec<attribute::Global>> = BTreeMap::new();
    let mut build_ids: BTreeMap<String, String> = BTreeMap::new();
    for (space, mappings) in mappings {
        let mappings: Vec<attribute::Mapping> = mappings.into_iter().filter_map(parsed).collect();
        for module in ModuleTable::new(&mappings, &mut elf).modules() {
            if let Some(build_id) = module.build_id() {
                build_ids.insert(module.path.to_string(), build_id);
            }
            // Our own variables in the program are none of its objects: what swaps there is the library's.
            if module.path.ends_with(PRELOADED) {
                continue;
            }
            let globals = known.entry(module.path.to_string()).or_insert_with(|| {
                // A module that cannot be read any more has no names: not worth an error.
                attribute::globals(module.path.as_ref().as_ref(), SMALLEST_GLOBAL)
                    .unwrap_or_default()
            });
            for global in globals {
                writer.globals.push(Global {
                    space,
                    start: module.bias.wrapping_add(global.svma),
                    bytes: global.bytes,
                    name: global.name.clone(),
                    file: global.file.clone(),
                    line: global.line,
                    module: module.path.to_string(),
                    type_name: global.type_name.clone(),
                })?;
            }
        }
    }
    // Tells later whether a file of that path is still the one that the names are from.
    writer.update_meta(|meta| meta.build_ids = build_ids)
}

/// Start, end, offset, permissions, path: ordered by address, as attribution wants them.
type MappingRow = (u64, u64, u64, String, String);

/// A row of the table as attribution wants it.
fn parsed((start, end, offset, permissions, path): MappingRow) -> Option<attribute::Mapping> {
    attribute::Mapping::parse(&format!(
        "{start:x}-{end:x} {permissions} {offset:08x} 00:00 1 {path}"
    ))
    .ok()
}
