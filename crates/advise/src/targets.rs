//! How an object of a recording is known again in another run: by the call path that all its allocations begin with, or
//! by its symbol.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::collections::HashSet;
use std::path::Path;

use pagewise_analyze::Identity;
use pagewise_analyze::ObjectFrame;
use pagewise_analyze::ObjectKind;
use pagewise_attribute::demangle;
use pagewise_attribute::names_generated_code;
use pagewise_plan::Frame;
use pagewise_plan::GlobalSymbol;
use pagewise_plan::ModuleFile;
use pagewise_plan::Plan;
use pagewise_plan::Target;
use pagewise_trace::Allocation;
use pagewise_trace::Global;
use pagewise_trace::Site;
use pagewise_trace::StackFrame;
use pagewise_trace::Trace;
use pagewise_trace::TraceError;

use crate::subjects::NOT_NAMED;

/// What names an allocation site: variable, file, line and function.
type Place = (Option<String>, Option<String>, Option<u32>, Option<String>);

/// Modules are loaded at multiples of a page: so far, addresses in a process are those that the file states.
const MODULE_ALIGNMENT: u64 = 4096;
/// Where the call paths of an object have nothing in common, those that made no more than one in so many of its bytes are left out: the row
/// of which a vector of vectors is filled with copies.
const FEW: u64 = 16;
/// More are not followed for one object.
const MOST_PATHS: usize = 8;

/// The call paths and symbols of a recording.
pub(crate) struct Targets {
    /// By place: the call paths of its allocations, each as its program's return addresses, innermost first.
    paths: HashMap<Place, Vec<u32>>,
    frames: HashMap<u32, Vec<StackFrame>>,
    /// What was allocated by each call path, together.
    bytes: HashMap<u32, u64>,
    globals: Vec<Global>,
    build_ids: BTreeMap<String, String>,
    modules: HashMap<String, Result<ModuleFile, String>>,
    executable: Option<String>,
}

impl Targets {
    pub(crate) fn read(trace: &Trace) -> Result<Self, TraceError> {
        let mut bytes: HashMap<u32, u64> = HashMap::new();
        for allocation in trace.rows::<Allocation>()? {
            let allocation = allocation?;
            if let Some(stack) = allocation.stack {
                let stands_for = allocation.estimated_bytes.unwrap_or(allocation.bytes);
                let sum = bytes.entry(stack).or_default();
                *sum = sum.saturating_add(stands_for);
            }
        }
        let used = bytes.keys().copied().collect();
        Ok(Self {
            bytes,
            ..Self::of_stacks(trace, &used)?
        })
    }

    /// Of these call paths only.
    pub(crate) fn of_stacks(trace: &Trace, used: &HashSet<u32>) -> Result<Self, TraceError> {
        let mut paths: HashMap<Place, Vec<u32>> = HashMap::new();
        for site in trace.rows::<Site>()? {
            let site = site?;
            if used.contains(&site.stack) {
                let place = (site.name, site.file, site.line, site.function);
                paths.entry(place).or_default().push(site.stack);
            }
        }
        let mut frames: HashMap<u32, Vec<StackFrame>> = HashMap::new();
        for frame in trace.rows::<StackFrame>()? {
            let frame = frame?;
            if used.contains(&frame.stack) {
                frames.entry(frame.stack).or_default().push(frame);
            }
        }
        frames
            .values_mut()
            .for_each(|frames| frames.sort_by_key(|frame| frame.depth));
        let names = frames
            .values()
            .flatten()
            .filter_map(|frame| frame.module.clone());
        let globals = trace.rows::<Global>()?.collect::<Result<Vec<_>, _>>()?;
        let of_globals = globals.iter().map(|global| global.module.clone());
        let names: HashSet<String> = names.chain(of_globals).collect();
        let modules = names.into_iter().map(|path| {
            let file = ModuleFile::read(Path::new(&path));
            (path, file)
        });
        let spaces = trace.spaces()?;
        Ok(Self {
            paths,
            frames,
            bytes: HashMap::new(),
            globals,
            build_ids: trace.meta().build_ids.clone(),
            modules: modules.collect(),
            executable: spaces.into_iter().rev().find_map(|space| space.executable),
        })
    }

    /// The program that ran last: what a launcher started.
    pub(crate) fn executable(&self) -> Option<String> {
        self.executable.clone()
    }

    /// How to know it again, or why that cannot be.
    pub(crate) fn of(&self, identity: &Identity) -> Result<Target, String> {
        match identity.kind {
            ObjectKind::Global => self.global(identity),
            ObjectKind::Allocation => self.allocation(identity),
            ObjectKind::Heap => self.heap(),
            _ => Err(NOT_NAMED.to_owned()),
        }
    }

    fn global(&self, identity: &Identity) -> Result<Target, String> {
        let name = identity.name.as_deref().unwrap_or_default();
        let of_name = |global: &&Global| {
            global.name == name
                && (identity.file.is_none() || global.file.as_deref() == identity.file.as_deref())
                && (identity.line.is_none() || global.line == identity.line)
        };
        let global = self.globals.iter().find(of_name);
        let global = global.ok_or("the recording does not say where it lies")?;
        // What is static may share its name with others: without debug information they are one object.
        let is_other = |one: &Global| one.space == global.space && one.start != global.start;
        if self.globals.iter().filter(of_name).any(is_other) {
            return Err(
                "several variables have its name: build with -g to tell them apart".to_owned(),
            );
        }
        let file = match self.modules.get(&global.module) {
            Some(Ok(file)) => file,
            Some(Err(why)) => return Err(format!("{} cannot be read: {why}", global.module)),
            None => return Err(format!("{} was not read", global.module)),
        };
        // Its name is as in the source, its symbol is not.
        let symbols = file.globals().filter(|symbol| {
            symbol.bytes == global.bytes
                && demangle(symbol.name) == name
                && symbol.address % MODULE_ALIGNMENT == global.start % MODULE_ALIGNMENT
        });
        let symbols: Vec<GlobalSymbol<'_>> = symbols.collect();
        let symbol = match symbols[..] {
            [] => return Err(format!("{} has no symbol for it", global.module)),
            [only] => only,
            _ => {
                return Err(format!(
                    "{} has {} variables of its name and size: give it a name of its own",
                    global.module,
                    symbols.len()
                ));
            }
        };
        Ok(Target::Global {
            module: file.name().to_owned(),
            symbol: symbol.name.to_owned(),
            bytes: Some(symbol.bytes),
            module_offset: Some(symbol.address),
        })
    }

    /// The heap of the program that ran last.
    fn heap(&self) -> Result<Target, String> {
        let program = self
            .executable
            .as_deref()
            .ok_or("the recording does not say which program ran")?;
        Ok(Target::Heap {
            module: pagewise_attribute::display_file(program).to_owned(),
        })
    }

    fn allocation(&self, identity: &Identity) -> Result<Target, String> {
        let stacks = self.stacks_of(identity);
        let paths = stacks.iter().map(|stack| {
            let bytes = self.bytes.get(stack).copied().unwrap_or(0);
            Ok((self.path(*stack, &BTreeSet::new())?, bytes))
        });
        let paths = paths.collect::<Result<Vec<_>, String>>()?;
        if paths.is_empty() {
            return Err("its call path was not recorded".to_owned());
        }
        let mut found = in_common(&paths).into_iter();
        match found.next() {
            Some(path) => Ok(Target::Allocation {
                path,
                others: found.collect(),
            }),
            None => Err(format!(
                "its allocations have no call path in common, nor up to {MOST_PATHS} by which most of it is made"
            )),
        }
    }

    /// Whether what this call path allocates is what the target's paths make.
    pub(crate) fn is_made_by(&self, target: &Target, stack: u32) -> bool {
        let path = self.path(stack, &BTreeSet::new());
        path.is_ok_and(|path| target.paths().any(|of_target| path.starts_with(of_target)))
    }

    /// The call paths by which an allocation's blocks are made.
    pub(crate) fn stacks_of(&self, identity: &Identity) -> Vec<u32> {
        if let Some(stack) = identity.stack {
            return vec![stack];
        }
        let place = (
            identity.name.as_deref().map(str::to_owned),
            identity.file.as_deref().map(str::to_owned),
            identity.line,
            identity.function.as_deref().map(str::to_owned),
        );
        let paths = self.paths.get(&place).cloned();
        paths.unwrap_or_else(|| self.of_line(identity))
    }

    /// Where the program itself has named the object, its line tells its call paths.
    fn of_line(&self, identity: &Identity) -> Vec<u32> {
        let is_there = |place: &&Place| {
            let (_, file, line, function) = place;
            line.is_some()
                && *line == identity.line
                && file.as_deref() == identity.file.as_deref()
                && function.as_deref() == identity.function.as_deref()
        };
        let places = self.paths.keys().filter(is_there);
        places.flat_map(|place| self.paths[place].clone()).collect()
    }

    /// The return addresses of the program and its own libraries, and of those of the system's libraries that count.
    fn path(&self, stack: u32, libraries: &BTreeSet<&str>) -> Result<Vec<Frame>, String> {
        let frames = self.frames.get(&stack).into_iter().flatten();
        let is_left_out = |module: &str| is_system_library(module) && !libraries.contains(module);
        self.known_again(frames.filter(|frame| !frame.module.as_deref().is_some_and(is_left_out)))
    }

    /// The libraries of the system in these call paths whose frames could be found again, as long as they are not updated.
    pub(crate) fn nameable_libraries<'a>(
        &'a self,
        stacks: impl Iterator<Item = &'a u32>,
    ) -> BTreeSet<&'a str> {
        let frames = stacks.filter_map(|stack| self.frames.get(stack)).flatten();
        let modules = frames.filter_map(|frame| frame.module.as_deref());
        let is_nameable = |module: &&str| {
            let file = self.modules.get(*module);
            let build_id = file.and_then(|file| file.as_ref().ok()?.build_id());
            let recorded = self.build_ids.get(*module).map(String::as_str);
            build_id.is_some() && (recorded.is_none() || recorded == build_id)
        };
        modules
            .filter(|module| is_system_library(module) && !is_c_library(module))
            .filter(is_nameable)
            .collect()
    }

    /// The same of a call on a file. Code that was generated lies elsewhere each time, so of a path with such code it is the library
    /// functions that it has called (`readBytes` of Java's), but for the C library's.
    pub(crate) fn path_of_call(
        &self,
        stack: u32,
        libraries: &BTreeSet<&str>,
    ) -> Result<Vec<Frame>, String> {
        let frames = self.frames.get(&stack).map_or(&[][..], Vec::as_slice);
        let is_generated =
            |frame: &StackFrame| frame.module.as_deref().is_some_and(names_generated_code);
        let Some(generated) = frames.iter().position(is_generated) else {
            return self.path(stack, libraries);
        };
        let called = frames[..generated].iter();
        let path = self.known_again(
            called.filter(|frame| !frame.module.as_deref().is_some_and(is_c_library)),
        )?;
        match path.is_empty() {
            true => {
                Err("its calls come from generated code, which lies elsewhere each time".to_owned())
            }
            false => Ok(path),
        }
    }

    fn known_again<'frames>(
        &self,
        frames: impl Iterator<Item = &'frames StackFrame>,
    ) -> Result<Vec<Frame>, String> {
        let mut path = Vec::new();
        for frame in frames {
            let (Some(module), Some(address)) = (&frame.module, frame.module_offset) else {
                continue;
            };
            let file = match self.modules.get(module) {
                Some(Ok(file)) => file,
                Some(Err(why)) => {
                    return Err(format!(
                        "{module} cannot be read: {why}; put it back as it was recorded and type pagewise plan again, or record anew"
                    ));
                }
                None => continue,
            };
            let recorded = self.build_ids.get(module).map(String::as_str);
            if recorded.is_some() && file.build_id() != recorded {
                return Err(format!(
                    "{module} was built anew since it was recorded: record it again"
                ));
            }
            let found = file
                .frame(address)
                .ok_or_else(|| format!("{module} has neither symbols nor a build id"))?;
            path.push(found);
        }
        Ok(path)
    }
}

/// What these call paths begin with, each with the bytes that it has made: all of them; or all but those of few bytes; or else, as where the
/// compiler has inlined a line in several places, all that begin with the same frame, most bytes first, but for those of few bytes. None: they
/// are too many.
fn in_common(paths: &[(Vec<Frame>, u64)]) -> Vec<Vec<Frame>> {
    let all = beginning_of(paths.iter().map(|(path, _)| path));
    if !all.is_empty() {
        return vec![all];
    }
    let many = without_few(paths.iter().map(|(path, bytes)| (path, *bytes)).collect());
    let one = beginning_of(many.iter().map(|(path, _)| *path));
    if !one.is_empty() {
        return vec![one];
    }
    let mut by_frame: Vec<(Vec<&Vec<Frame>>, u64)> = Vec::new();
    for (path, bytes) in paths {
        let of_frame = by_frame
            .iter_mut()
            .find(|(alike, _)| alike[0].first() == path.first());
        match of_frame {
            Some((alike, sum)) => {
                alike.push(path);
                *sum = sum.saturating_add(*bytes);
            }
            None => by_frame.push((vec![path], *bytes)),
        }
    }
    let groups = without_few(by_frame).into_iter();
    let found: Vec<Vec<Frame>> = groups
        .map(|(alike, _)| beginning_of(alike.into_iter()))
        .collect();
    let is_usable = found.len() <= MOST_PATHS && found.iter().all(|path| !path.is_empty());
    if is_usable { found } else { Vec::new() }
}

fn beginning_of<'frames>(mut paths: impl Iterator<Item = &'frames Vec<Frame>>) -> Vec<Frame> {
    let Some(first) = paths.next() else {
        return Vec::new();
    };
    let same = |path: &Vec<Frame>| first.iter().zip(path).take_while(|(a, b)| a == b).count();
    let same = paths.map(same).min();
    first[..same.unwrap_or(first.len())].to_vec()
}

/// Most bytes first, without those that have made, together, no more than one in so many ([`FEW`]).
fn without_few<T>(mut with_bytes: Vec<(T, u64)>) -> Vec<(T, u64)> {
    with_bytes.sort_by_key(|(_, bytes)| Reverse(*bytes));
    let bytes = with_bytes.iter().map(|(_, bytes)| *bytes);
    let mut few = bytes.fold(0, u64::saturating_add) / FEW;
    while let Some((_, bytes)) = with_bytes.last().filter(|(_, bytes)| *bytes <= few) {
        few -= bytes;
        with_bytes.pop();
    }
    with_bytes
}

/// Writes into a plan where the libraries that its rules name lay: those that the program loads itself cannot be told from its
/// file.
pub(crate) fn name_modules(trace: &Trace, plan: &mut Plan) -> Result<(), TraceError> {
    let mut named: HashSet<&str> = HashSet::new();
    for rule in &plan.rules {
        match &rule.target {
            Target::Allocation { .. } | Target::Io { .. } => {
                let frames = rule.target.paths().flatten();
                named.extend(frames.map(|frame| frame.module.as_str()));
            }
            Target::Global { module, .. } | Target::Heap { module } => {
                named.insert(module);
            }
        }
    }
    let is_meant = |path: &str| {
        path.starts_with('/')
            && path != plan.program.executable
            && named.contains(pagewise_attribute::display_file(path))
    };
    let mut paths: BTreeSet<String> = BTreeSet::new();
    // Of the program alone nothing is missing.
    if named.len() > 1
        || !named.contains(pagewise_attribute::display_file(&plan.program.executable))
    {
        for frame in trace.rows::<StackFrame>()? {
            paths.extend(frame?.module.filter(|path| is_meant(path)));
        }
        for global in trace.rows::<Global>()? {
            paths.extend(Some(global?.module).filter(|path| is_meant(path)));
        }
    }
    plan.program.modules = paths.into_iter().collect();
    Ok(())
}

/// The C library, or ours, which is called in its place.
pub(crate) fn is_c_library(module: &str) -> bool {
    const NAMES: &[&str] = &["libc.so", "libpthread.so", "ld-", "libpagewise_"];
    let name = pagewise_attribute::display_file(module);
    NAMES.iter().any(|start| name.starts_with(start))
}

/// Frames there are of the allocator, the language's runtime or a library of the system: they change with its updates.
fn is_system_library(module: &str) -> bool {
    let frame = ObjectFrame {
        module: Some(module.to_owned()),
        ..ObjectFrame::default()
    };
    frame.is_library() || module.starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program itself, and a library of the system that it has loaded.
    fn loaded() -> (String, String) {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
        let mut paths = maps.lines().filter_map(|line| line.split(' ').next_back());
        let library = paths.find(|path| path.contains("/libgcc_s.so"));
        let program = std::env::current_exe().expect("a path");
        let library = library.expect("as every program of ours").to_owned();
        (program.display().to_string(), library)
    }

    #[test]
    fn of_generated_code_the_library_functions_that_it_called_count_wherever_its_names_are() {
        let (program, library) = loaded();
        for names in [
            "/tmp/perf-7.map",
            "/proc/7/root/tmp/perf-1.map",
            "/home/me/.debug/jit/java-jit-1/jit-7.dump",
        ] {
            let frame = |depth, module: &str, module_offset| StackFrame {
                stack: 1,
                depth,
                address: module_offset,
                module: Some(module.to_owned()),
                module_offset: Some(module_offset),
                truncated: false,
            };
            let frames = vec![
                frame(0, &library, 0x5000),
                frame(1, names, 0x7f00_0000_1000),
                frame(2, &program, 0x4000),
            ];
            let file = ModuleFile::read(Path::new(&library));
            let targets = Targets {
                paths: HashMap::new(),
                bytes: HashMap::new(),
                frames: [(1, frames)].into(),
                globals: Vec::new(),
                build_ids: BTreeMap::new(),
                modules: [(library.clone(), file)].into(),
                executable: None,
            };
            let path = targets.path_of_call(1, &BTreeSet::new()).expect("known");
            assert_eq!(path.len(), 1, "{names}");
            assert!(path[0].module.starts_with("libgcc_s"), "{names}");
        }
    }

    /// Of one program, by where its calls return to.
    fn path(offsets: &[u64]) -> Vec<Frame> {
        let frame = |&module_offset: &u64| Frame {
            module: "program".to_owned(),
            build_id: None,
            function: None,
            module_offset,
        };
        offsets.iter().map(frame).collect()
    }

    #[test]
    fn what_few_bytes_come_by_does_not_keep_an_object_from_having_a_rule() {
        let (copies, first, other) = (path(&[1, 2, 9]), path(&[5, 9]), path(&[1, 3, 9]));
        let with = |bytes_of_first| {
            let of_copies = (copies.clone(), 1000);
            in_common(&[
                (first.clone(), bytes_of_first),
                of_copies,
                (other.clone(), 500),
            ])
        };
        assert_eq!(with(90), [path(&[1])]);
        assert_eq!(in_common(&[(copies.clone(), 0)]), [copies]);
        let alike = [(path(&[1, 2, 9]), 1), (path(&[1, 2, 8]), 1000)];
        assert_eq!(in_common(&alike), [path(&[1, 2])], "nothing is left out");
    }

    #[test]
    fn what_is_made_in_several_places_is_known_by_several_paths() {
        let paths = [
            (path(&[5, 9]), 400),
            (path(&[1, 2, 9]), 300),
            (path(&[1, 2, 8]), 300),
            (path(&[7, 9]), 20),
        ];
        assert_eq!(
            in_common(&paths),
            [path(&[1, 2]), path(&[5, 9])],
            "but for what makes little"
        );
        let many: Vec<_> = (0..9).map(|offset| (path(&[offset, 9]), 100)).collect();
        assert_eq!(in_common(&many[..8]).len(), 8);
        assert_eq!(in_common(&many), Vec::<Vec<Frame>>::new());
    }

    #[test]
    fn frames_of_a_library_tell_paths_apart_where_they_are_to_count() {
        let (program, library) = loaded();
        let frame = |stack, depth, module: &str, module_offset| StackFrame {
            stack,
            depth,
            address: 0x7000 + module_offset,
            module: Some(module.to_owned()),
            module_offset: Some(module_offset),
            truncated: false,
        };
        let stack = |number, offset| {
            vec![
                frame(number, 0, "/usr/lib/x86_64-linux-gnu/libc.so.6", 0x10),
                frame(number, 1, &library, offset),
                frame(number, 2, &program, 0x4000),
            ]
        };
        let modules = [&program, &library].map(|path| {
            let file = ModuleFile::read(Path::new(path));
            (path.clone(), file)
        });
        let targets = Targets {
            paths: HashMap::new(),
            bytes: HashMap::new(),
            frames: [(1, stack(1, 0x5000)), (2, stack(2, 0x6000))].into(),
            globals: Vec::new(),
            build_ids: BTreeMap::new(),
            modules: modules.into(),
            executable: None,
        };
        let path = |stack, libraries: &BTreeSet<&str>| {
            let path = targets.path_of_call(stack, libraries);
            path.expect("known")
        };
        let none = BTreeSet::new();
        assert_eq!(path(1, &none), path(2, &none));
        assert_eq!(path(1, &none).len(), 1);
        let libraries = targets.nameable_libraries([1, 2].iter());
        assert_eq!(libraries, [library.as_str()].into(), "and no C library");
        assert_ne!(path(1, &libraries), path(2, &libraries));
        assert_eq!(path(1, &libraries).len(), 2);
    }
}
