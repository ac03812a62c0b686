//! What the processes do, as the sensor tells it: calls on files with the rules that their paths match.

use std::collections::BTreeSet;
use std::collections::HashMap;

use pagewise_abi::plan::PlanView;
use pagewise_collect::CallPath;
use pagewise_collect::Observation;
use pagewise_collect::SwapSensor;
use pagewise_collect::io_record::CacheChange;
use pagewise_collect::io_record::FileCall;
use pagewise_collect::record::ProcessChange;

use super::contexts::Contexts;
use super::hints::Hints;
use super::hold::Holds;
use crate::failure::Failure;
use crate::record::call_paths::CallPaths;
use crate::record::fault_paths::FaultPaths;

/// What happened, to be put in order of time.
enum Happened {
    Call(FileCall),
    Cache(CacheChange),
}

impl Happened {
    /// A call is over when all its pages have come.
    fn time_ns(&self) -> u64 {
        match self {
            Self::Call(call) => call.time_ns + call.latency_ns,
            Self::Cache(change) => change.time_ns,
        }
    }
}

pub(super) struct Listener<'plan> {
    pub(super) sensor: SwapSensor,
    view: PlanView<'plan>,
    contexts: Contexts<'plan>,
    pub(super) hints: Hints<'plan>,
    call_paths: CallPaths,
    fault_paths: FaultPaths,
    /// Whose each address space is.
    pids: HashMap<u32, u32>,
    /// Processes that the sensor has told of.
    pub(super) all: BTreeSet<u32>,
    /// Those of them that live.
    pub(super) live: BTreeSet<u32>,
    /// Those for which the sensor had no room.
    pub(super) unfollowed: BTreeSet<u32>,
    ended: Vec<u32>,
    ended_before: Vec<u32>,
    holds: Holds,
    happened: Vec<Happened>,
}

impl<'plan> Listener<'plan> {
    pub(super) fn new(
        sensor: SwapSensor,
        view: PlanView<'plan>,
        contexts: Contexts<'plan>,
        call_paths: CallPaths,
        holds: Holds,
    ) -> Self {
        Self {
            sensor,
            view,
            contexts,
            hints: Hints::new(view),
            call_paths,
            fault_paths: FaultPaths::default(),
            pids: HashMap::new(),
            all: BTreeSet::new(),
            live: BTreeSet::new(),
            unfollowed: BTreeSet::new(),
            ended: Vec::new(),
            ended_before: Vec::new(),
            holds,
            happened: Vec::new(),
        }
    }

    /// Takes all that the sensor has seen, and hints. True: there was something.
    pub(super) fn listen(&mut self) -> Result<bool, Failure> {
        let mut seen = Vec::new();
        self.sensor.drain(|observation| seen.push(observation))?;
        for observation in seen {
            self.observe(observation)?;
        }
        if self.call_paths.code_has_changed() {
            self.sensor.forget_paths();
        }
        for lesson in self.fault_paths.take_lessons(&self.call_paths) {
            self.sensor.teach(&lesson);
        }
        let mut happened = std::mem::take(&mut self.happened);
        happened.sort_by_key(Happened::time_ns);
        // Pages come before their call has ended; only then is its stack not needed any more.
        let changes = happened.iter().map(|happened| match happened {
            Happened::Cache(change) => self.fault_paths.number(change.call_path, true),
            Happened::Call(_) => None,
        });
        let paths_of_pages: Vec<Option<u32>> = changes.collect();
        for (happened, path) in happened.iter().zip(paths_of_pages) {
            match happened {
                Happened::Call(call) => self.call(call),
                Happened::Cache(change) => self.cache(change, path),
            }
        }
        self.hints.drop_passed();
        // Of those that had ended before, all has come by now.
        for pid in std::mem::take(&mut self.ended_before) {
            self.call_paths.forget(pid);
            self.pids.retain(|_, of| *of != pid);
        }
        for pid in std::mem::take(&mut self.ended) {
            self.hints.ended(pid, &self.live);
            self.holds.ended(pid);
            self.ended_before.push(pid);
        }
        Ok(!happened.is_empty())
    }

    fn observe(&mut self, observation: Observation) -> Result<(), Failure> {
        match observation {
            Observation::Process {
                what,
                space,
                parent_space,
                pid,
                ..
            } => self.process(what, space, parent_space, pid),
            Observation::Stack { stack, bytes } => {
                let pid = self.pids.get(&stack.space).copied();
                let frames = self
                    .fault_paths
                    .learn(pid, &stack, &bytes, &mut self.call_paths);
                if let Some(first) = frames.first() {
                    let path = first.stack;
                    let wish = self.contexts.learn(path, &frames);
                    self.sensor.wish(path, wish)?;
                }
            }
            Observation::File(file) => {
                let pid = self.pids.get(&file.space).copied();
                self.hints.files.seen(&file, pid, &self.view);
            }
            Observation::Handover { token, call_path } => {
                self.fault_paths.handed_over(token, call_path);
            }
            Observation::FileCall(call) => self.happened.push(Happened::Call(call)),
            Observation::Cache(change) => self.happened.push(Happened::Cache(change)),
            _ => {}
        }
        Ok(())
    }

    fn process(&mut self, what: ProcessChange, space: u32, parent_space: u32, pid: u32) {
        if space == 0 {
            if what != ProcessChange::Exit {
                self.unfollowed.insert(pid);
            }
            return;
        }
        match what {
            ProcessChange::Exit => {
                self.live.remove(&pid);
                self.ended.push(pid);
            }
            _ => {
                if what == ProcessChange::Exec {
                    self.call_paths.forget(pid);
                }
                if what == ProcessChange::Fork
                    && let Some(&parent) = self.pids.get(&parent_space)
                {
                    self.call_paths.forked(parent, pid);
                }
                // A child that borrows its parent's memory (vfork) has no space of its own.
                if parent_space != space {
                    self.pids.insert(space, pid);
                }
                self.all.insert(pid);
                self.live.insert(pid);
                self.holds.came(pid);
            }
        }
    }

    fn call(&mut self, call: &FileCall) {
        let number = self.fault_paths.number(call.call_path, false);
        let rules = number.and_then(|number| self.contexts.rules(number));
        if let (Some(rules), Some(pid)) = (rules, self.ours(call.space)) {
            self.hints.call(call, pid, rules);
        }
    }

    /// Whose that address space is, if it is our process to hint.
    fn ours(&self, space: u32) -> Option<u32> {
        let pid = self.pids.get(&space).copied();
        pid.filter(|&pid| !self.holds.is_left_alone(pid))
    }

    fn cache(&mut self, change: &CacheChange, path: Option<u32>) {
        let is_by = change.call_path != CallPath::Unknown;
        let rules = path.and_then(|path| self.contexts.rules(path));
        let pid = change.by.and_then(|by| self.ours(by.space));
        self.hints
            .cache(change, pid, rules.filter(|_| is_by).unwrap_or(0));
    }
}
