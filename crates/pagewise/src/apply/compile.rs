//! From a plan to its wire form: each rule's frames and globals are looked up in the files as they are now.

use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use pagewise_abi::plan as wire;
use pagewise_plan::Action;
use pagewise_plan::Frame;
use pagewise_plan::Fresh;
use pagewise_plan::IoAction;
use pagewise_plan::Memory;
use pagewise_plan::ModuleFile;
use pagewise_plan::Plan;
use pagewise_plan::Readahead;
use pagewise_plan::Rule;
use pagewise_plan::Target;

/// A plan that can be sent.
pub(super) struct Compiled {
    pub(super) bytes: Vec<u8>,
    /// For each rule of the plan its number on the wire, or why it matches nothing.
    pub(super) rules: Vec<Result<usize, String>>,
    /// Allocations go to the program itself, and the library does not hear of them.
    pub(super) has_own_malloc: bool,
}

/// `executable`: what will be run; `limit_bytes`: the limit it will have.
pub(super) fn compile(plan: &Plan, executable: &Path, limit_bytes: Option<u64>) -> Compiled {
    let mut wire = Wire::new(Modules::new(plan, executable));
    let is_about_io = plan.rules.iter().any(does_io);
    // To recognize calls costs them time.
    let add = |rule: &Rule| match rule.target {
        Target::Io { .. } if !is_about_io => {
            Err("not looked for, as the plan does nothing about input and output".to_owned())
        }
        _ => wire.add(rule),
    };
    let rules = acting_first(&plan.rules, add);
    let sizes = wire::PlanSizes {
        limit_bytes: limit_bytes.unwrap_or(0),
        lock_bytes: plan.memory.lock_bytes.unwrap_or(0),
        fresh: plan.memory.fresh.map_or(0, of_fresh),
    };
    let allocates =
        |rule: &Rule| matches!(rule.target, Target::Allocation { .. } | Target::Heap { .. });
    let has_own_malloc =
        plan.rules.iter().any(allocates) && wire.modules.defines(executable, "malloc");
    Compiled {
        bytes: wire.encode(sizes, &headway(plan, limit_bytes)),
        rules,
        has_own_malloc,
    }
}

/// What a run with this limit is held against: it waits less without a plan with more memory, but more with less. What is read ahead are major faults, too, for
/// which nobody waits.
fn headway(plan: &Plan, limit_bytes: Option<u64>) -> Vec<(u64, u64)> {
    let is_enough = limit_bytes.is_some_and(|limit| Memory::is_as_much(limit, plan.memory.bytes));
    let reads_ahead =
        |rule: &Rule| matches!(rule.action, Action::Stream { .. } | Action::Prefetch(_));
    if !is_enough || plan.rules.iter().any(reads_ahead) {
        return Vec::new();
    }
    let points = plan.headway.iter();
    points
        .map(|point| (point.user_ms.saturating_mul(1_000_000), point.major_faults))
        .collect()
}

/// For processes that run already: what can be put into force from outside. `files`: what is mapped in them, by name.
pub(super) fn compile_from_outside(plan: &Plan, files: BTreeMap<String, PathBuf>) -> Compiled {
    let mut wire = Wire::new(Modules::mapped(files));
    let sent = |rule: &Rule| {
        match (&rule.target, &rule.action) {
        (Target::Allocation { .. } | Target::Global { .. } | Target::Heap { .. }, _) => Err(
            "memory is not changed from outside; start the program with: pagewise apply PLAN -- CMD"
                .to_owned(),
        ),
        (_, Action::Io(IoAction::DontCache { .. })) => Err(
            "dontcache is a flag of the program's own calls, not possible from outside; write action = \"drop\""
                .to_owned(),
        ),
        (_, Action::Io(IoAction::Keep { .. })) => Err(
            "what is kept is locked by the program itself, not possible from outside; start it with: pagewise apply PLAN -- CMD"
                .to_owned(),
        ),
        _ => wire.add(rule),
    }
    };
    let rules = acting_first(&plan.rules, sent);
    Compiled {
        bytes: wire.encode(
            wire::PlanSizes {
                // Under which limit they are is not known.
                limit_bytes: plan.memory.bytes,
                ..wire::PlanSizes::default()
            },
            &[],
        ),
        rules,
        has_own_malloc: false,
    }
}

/// What becomes of each rule. Where there are too many for all, those that do nothing are left out first; last those that keep
/// another from what they are about.
fn acting_first(
    rules: &[Rule],
    mut add: impl FnMut(&Rule) -> Result<usize, String>,
) -> Vec<Result<usize, String>> {
    let mut order: Vec<usize> = (0..rules.len()).collect();
    let places: usize = rules
        .iter()
        .map(|rule| rule.target.paths().count().max(1))
        .sum();
    // Their order counts where several fit one call.
    if places > wire::FRESH {
        order.sort_by_key(|&at| turn(&rules[at], rules));
    }
    let mut sent = vec![Err(String::new()); rules.len()];
    for at in order {
        sent[at] = add(&rules[at]);
    }
    sent
}

/// When a rule has its turn.
fn turn(rule: &Rule, rules: &[Rule]) -> u8 {
    let acts = |rule: &Rule| rule.action != Action::Nothing;
    let is_exception = |other: &Rule| acts(other) && rule.is_exception_to(other);
    match (rules.iter().any(is_exception), acts(rule)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

/// Whether calls are recognized to do something to them.
fn does_io(rule: &Rule) -> bool {
    matches!(rule.action, Action::Io(_))
}

/// A module that rules name.
struct SentModule {
    /// As the plan names it.
    name: String,
    /// The name that a process is expected to have it loaded by.
    loaded_as: String,
    build_id: Vec<u8>,
}

/// What a plan that is made may have is what can be sent.
const _: () = assert!(pagewise_plan::MOST_RULES == wire::FRESH);
const _: () = assert!(pagewise_plan::MOST_HEADWAY == wire::MOST_HEADWAY);

struct Wire {
    modules: Modules,
    sent: Vec<SentModule>,
    frames: Vec<wire::PlanFrame>,
    ranges: Vec<(u64, u64)>,
    rules: Vec<wire::PlanRule>,
    patterns: Vec<String>,
}

impl Wire {
    fn new(modules: Modules) -> Self {
        Self {
            modules,
            sent: Vec::new(),
            frames: Vec::new(),
            ranges: Vec::new(),
            rules: Vec::new(),
            patterns: Vec::new(),
        }
    }

    fn add(&mut self, rule: &Rule) -> Result<usize, String> {
        let others = match &rule.target {
            Target::Allocation { others, .. } => &others[..],
            _ => &[],
        };
        if self.rules.len() + others.len() >= wire::FRESH {
            return Err(format!(
                "there are more than {} rules and other paths",
                wire::FRESH
            ));
        }
        let mut sent = of_action(&rule.action);
        match &rule.target {
            Target::Allocation { path, .. } => self.add_path(path, &mut sent)?,
            Target::Io { path, files } => {
                self.add_path(path, &mut sent)?;
                if rule.action == Action::Nothing {
                    sent.action = wire::PlanAction::IoNothing as u32;
                }
                if let Some(pattern) = files {
                    self.patterns.push(pattern.clone());
                    sent.pattern = self.patterns.len() as u32;
                }
            }
            Target::Global {
                module,
                symbol,
                bytes,
                module_offset,
            } => {
                let file = self.modules.file(module)?;
                let global = file.global(symbol, *bytes, *module_offset);
                let global = global.map_err(|why| why.to_string())?;
                (sent.address, sent.bytes) = (global.address, global.bytes);
                sent.module = self.number(module)?;
            }
            Target::Heap { module } => {
                sent.bytes = wire::HEAP;
                sent.module = self.number(module)?;
            }
        }
        if let Action::Lock { ranges, .. } = &rule.action {
            sent.first_range = self.ranges.len() as u32;
            sent.ranges = ranges.len() as u32;
            let ranges = ranges.iter().map(|range| (range.start, range.end));
            self.ranges.extend(ranges);
            sent.together = u32::from(rule.action.is_together());
        }
        let index = self.rules.len();
        let mut all = vec![sent];
        for path in others {
            let mut other = wire::PlanRule {
                same_as: index as u32 + 1,
                ..sent
            };
            self.add_path(path, &mut other)?;
            all.push(other);
        }
        self.rules.append(&mut all);
        Ok(index)
    }

    fn add_path(&mut self, path: &[Frame], sent: &mut wire::PlanRule) -> Result<(), String> {
        // A path that goes on matches by what it begins with.
        let path = path.iter().take(wire::MOST_FRAMES);
        let mut frames = Vec::new();
        for frame in path {
            let file = self.modules.file(&frame.module)?;
            let address = file.resolve(frame).map_err(|why| why.to_string())?;
            frames.push((frame.module.as_str(), address));
        }
        sent.first_frame = self.frames.len() as u32;
        sent.frames = frames.len() as u32;
        for (module, address) in frames {
            let module = self.number(module)?;
            self.frames.push(wire::PlanFrame { module, address });
        }
        Ok(())
    }

    /// The number of a module whose file was found.
    fn number(&mut self, name: &str) -> Result<u32, String> {
        if let Some(index) = self.sent.iter().position(|sent| sent.name == name) {
            return Ok(index as u32);
        }
        if self.sent.len() == wire::MOST_MODULES {
            return Err(format!(
                "the plan names more than {} modules",
                wire::MOST_MODULES
            ));
        }
        let build_id = self.modules.file(name)?.build_id().map(digits);
        self.sent.push(SentModule {
            name: name.to_owned(),
            loaded_as: self.modules.loaded_as(name),
            build_id: build_id.unwrap_or_default(),
        });
        Ok(self.sent.len() as u32 - 1)
    }

    fn encode(&self, sizes: wire::PlanSizes, headway: &[(u64, u64)]) -> Vec<u8> {
        let modules: Vec<wire::PlanModule<'_>> = self
            .sent
            .iter()
            .map(|module| wire::PlanModule {
                name: module.loaded_as.as_bytes(),
                build_id: &module.build_id,
            })
            .collect();
        let patterns: Vec<&[u8]> = self.patterns.iter().map(String::as_bytes).collect();
        let mut bytes = Vec::new();
        let parts = wire::PlanParts {
            sizes,
            modules: &modules,
            frames: &self.frames,
            ranges: &self.ranges,
            rules: &self.rules,
            patterns: &patterns,
            headway,
        };
        parts.encode(|piece| bytes.extend_from_slice(piece));
        bytes
    }
}

fn of_action(action: &Action) -> wire::PlanRule {
    use wire::PlanAction;
    let (number, keep, ahead) = match action {
        Action::Lock { keep_bytes, .. } => (PlanAction::Lock, *keep_bytes, None),
        Action::Stream {
            keep_bytes, ahead, ..
        } => (PlanAction::Stream, *keep_bytes, Some(ahead)),
        Action::Prefetch(ahead) => (PlanAction::Prefetch, None, Some(ahead)),
        Action::Cold => (PlanAction::Cold, None, None),
        Action::Huge => (PlanAction::Huge, None, None),
        Action::Prezero => (PlanAction::Prezero, None, None),
        Action::Sequential => (PlanAction::Sequential, None, None),
        Action::Io(action) => return of_io(*action),
        Action::Nothing => (PlanAction::Nothing, None, None),
    };
    let keeps_more = matches!(
        action,
        Action::Stream {
            keep_more: true,
            ..
        } | Action::Lock {
            keep_more: true,
            ..
        }
    );
    wire::PlanRule {
        action: number as u32,
        keeps_more: u32::from(keeps_more),
        keep_bytes: keep.unwrap_or(0),
        chunk_bytes: ahead.and_then(|ahead| ahead.chunk_bytes).unwrap_or(0),
        lead_bytes: ahead.and_then(|ahead| ahead.lead_bytes).unwrap_or(0),
        ..wire::PlanRule::default()
    }
}

fn of_fresh(fresh: Fresh) -> u32 {
    match fresh {
        Fresh::Huge => wire::PlanAction::Huge as u32,
        Fresh::Prezero => wire::PlanAction::Prezero as u32,
    }
}

fn of_io(io: IoAction) -> wire::PlanRule {
    use wire::PlanAction;
    let mode = |mode: Readahead| match mode {
        Readahead::Normal => wire::PlanReadahead::Normal as u32,
        Readahead::Sequential => wire::PlanReadahead::Sequential as u32,
        Readahead::Random => wire::PlanReadahead::Random as u32,
    };
    let (action, readahead, burst_bytes) = match io {
        IoAction::Readahead(readahead) => (PlanAction::IoReadahead, Some(readahead), 0),
        IoAction::WillNeed { burst_bytes } => {
            (PlanAction::IoWillNeed, Some(Readahead::Random), burst_bytes)
        }
        IoAction::Drop { readahead, .. } => (PlanAction::IoDrop, readahead, 0),
        IoAction::DontCache { readahead } => (PlanAction::IoDontCache, readahead, 0),
        IoAction::Keep { .. } => (PlanAction::IoKeep, None, 0),
    };
    let keep_bytes = match io {
        IoAction::Keep { keep_bytes } => keep_bytes.unwrap_or(0),
        _ => 0,
    };
    let again_percent = match io {
        IoAction::Drop { again_percent, .. } => u32::from(again_percent),
        _ => 0,
    };
    wire::PlanRule {
        keep_bytes,
        again_percent,
        action: action as u32,
        readahead: readahead.map_or(0, mode),
        chunk_bytes: burst_bytes,
        ..wire::PlanRule::default()
    }
}

/// Pairs of hexadecimal digits.
fn digits(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    pairs
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// The files that may be meant by a module's name.
struct Modules {
    /// By file name; of libraries the paths that they are loaded by, which may be links.
    paths: BTreeMap<String, PathBuf>,
    /// Whose libraries are asked for, once a module is among none of the above,
    programs: Vec<PathBuf>,
    /// and then these, which the recorded run had: also what it loaded itself, later.
    recorded: Vec<PathBuf>,
    read: BTreeMap<String, Result<ModuleFile, String>>,
}

impl Modules {
    /// What is run, and, should that be a script that starts it, the program that the plan was made for.
    fn new(plan: &Plan, executable: &Path) -> Self {
        let mut paths = BTreeMap::new();
        let planned = Path::new(&plan.program.executable);
        for path in [planned, executable] {
            if let Some((name, path)) = file_of(path) {
                paths.insert(name, path);
            }
        }
        Self {
            paths,
            programs: vec![executable.to_owned(), planned.to_owned()],
            recorded: plan.program.modules.iter().map(PathBuf::from).collect(),
            read: BTreeMap::new(),
        }
    }

    fn mapped(paths: BTreeMap<String, PathBuf>) -> Self {
        Self {
            paths,
            programs: Vec::new(),
            recorded: Vec::new(),
            read: BTreeMap::new(),
        }
    }

    /// Adds what else may be meant: only once, and only if it is needed.
    fn look_further(&mut self) {
        let programs = std::mem::take(&mut self.programs);
        let libraries = programs.iter().flat_map(|program| libraries(program));
        for path in libraries.chain(std::mem::take(&mut self.recorded)) {
            if let Some((name, _)) = file_of(&path) {
                self.paths.entry(name).or_insert(path);
            }
        }
    }

    /// The name of the link that a library is loaded by, or the file's own.
    fn loaded_as(&self, name: &str) -> String {
        let path = self.paths.get(name).and_then(|path| path.file_name());
        path.map_or_else(
            || name.to_owned(),
            |name| name.to_string_lossy().into_owned(),
        )
    }

    /// Whether the program has the function itself.
    fn defines(&mut self, executable: &Path, function: &str) -> bool {
        let name = file_of(executable).map(|(name, _)| name);
        let file = name.and_then(|name| self.file(&name).ok());
        file.is_some_and(|file| file.defines(function))
    }

    fn file(&mut self, name: &str) -> Result<&ModuleFile, String> {
        if !self.paths.contains_key(name) {
            self.look_further();
        }
        let Some(path) = self.paths.get(name) else {
            return Err(format!(
                "{name} is neither the program nor among its libraries; is it the right program? Of a library that it loads \
                 itself write the path: modules = [\"/...\"], below [program] in the plan"
            ));
        };
        let read = self.read.entry(name.to_owned());
        let file = read.or_insert_with(|| ModuleFile::read(path));
        file.as_ref()
            .map_err(|why| format!("cannot read {}: {why}", path.display()))
    }
}

/// The file that a path leads to, and its name; `None`: there is none.
fn file_of(path: &Path) -> Option<(String, PathBuf)> {
    let path = path.canonicalize().ok()?;
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some((name, path))
}

/// The libraries that the loader would load, as itself lists them, without running the program.
fn libraries(executable: &Path) -> Vec<PathBuf> {
    let Some(loader) = loader_of(executable) else {
        return Vec::new();
    };
    let listed = Command::new(loader).arg("--list").arg(executable).output();
    let listed = listed.map(|output| output.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    // `NAME => PATH (ADDRESS)`, or without an arrow where the program itself names a path.
    let paths = listed
        .lines()
        .filter_map(|line| line.rsplit("=> ").next()?.split(" (0x").next());
    let paths = paths.map(|path| PathBuf::from(path.trim()));
    paths.filter(|path| path.is_file()).collect()
}

/// The path in `PT_INTERP`; `None`: static, a script, or no program.
fn loader_of(executable: &Path) -> Option<PathBuf> {
    let text = std::fs::read(executable).ok()?;
    if !text.starts_with(b"\x7fELF") {
        return None;
    }
    let head = &text[..text.len().min(64 << 10)];
    let at = head
        .windows(7)
        .position(|piece| piece == b"/lib64/" || piece == b"/lib/ld")?;
    let path = head[at..].split(|&byte| byte == 0).next()?;
    let path = PathBuf::from(String::from_utf8_lossy(path).into_owned());
    // It is run: a file that leads out of the system's folders is none of the system's loaders.
    let is_plain = !path.components().any(|part| part.as_os_str() == "..");
    (is_plain && path.is_file()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_plan::SourcePlace;

    #[test]
    fn of_too_many_rules_exceptions_are_left_out_last() {
        let rule = |offsets: &[u64], action: Action| Rule {
            objects: None,
            name: String::new(),
            place: SourcePlace::default(),
            target: Target::Io {
                path: offsets
                    .iter()
                    .map(|&module_offset| frame(module_offset))
                    .collect(),
                files: None,
            },
            action,
            why: String::new(),
            predicted: None,
        };
        let drops = || {
            Action::Io(IoAction::Drop {
                readahead: None,
                again_percent: 0,
            })
        };
        let mut rules = vec![rule(&[1], Action::Nothing)];
        rules.extend((2..100).map(|offset| rule(&[offset], drops())));
        rules.push(rule(&[7, 1], Action::Nothing));
        let mut sent = Vec::new();
        acting_first(&rules, |rule| {
            sent.push(rule.target.clone());
            Ok(0)
        });
        let (idle, exception) = (&rules[0], &rules[rules.len() - 1]);
        assert_eq!(sent.first(), Some(&exception.target));
        assert_eq!(sent.last(), Some(&idle.target));
        let between: Vec<Target> = rules[1..rules.len() - 1]
            .iter()
            .map(|rule| rule.target.clone())
            .collect();
        assert_eq!(sent[1..sent.len() - 1], between);
    }

    fn frame(module_offset: u64) -> Frame {
        Frame {
            module: "program".to_owned(),
            build_id: None,
            function: None,
            module_offset,
        }
    }
}
