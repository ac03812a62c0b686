//! What became of a plan, in a few lines and as JSON.

use std::path::PathBuf;

use pagewise_abi::plan::CALLS;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::Total;
use pagewise_abi::status::Why;
use pagewise_advise::lock_budget;
use pagewise_advise::memory_to_lock;
use pagewise_host::shell_word;
use pagewise_plan::Action;
use pagewise_plan::Plan;
use pagewise_plan::Rule;
use pagewise_plan::Target;
use pagewise_report::bytes;
use pagewise_report::count;
use pagewise_report::duration;
use serde::Serialize;

use super::compile::Compiled;
use super::fresh::FreshOutcome;
use super::io_outcome::IoOutcome;
use super::server::Words;

const SCHEMA: &str = "pagewise.apply/1";
const ENOMEM: u64 = 12;

/// About the run as a whole.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) wall_ns: u64,
    pub(crate) exit_code: u8,
    /// From devices, swap included; unknown of what goes on after us.
    pub(crate) read_bytes: Option<u64>,
    pub(crate) limit_bytes: Option<u64>,
    /// Where that is set, if it is not by us.
    pub(crate) limit_file: Option<PathBuf>,
    /// On cgroup v1, where reclaim gave up.
    pub(crate) limit_raised_times: u64,
    pub(crate) killed: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    schema: &'static str,
    wall_ns: u64,
    /// `null`: it was not started by us.
    exit_code: Option<u8>,
    killed: Option<String>,
    limit_bytes: Option<u64>,
    limit_raised_times: u64,
    /// Processes that had the plan.
    processes: u64,
    /// What could be locked at most; `null`: no process had the plan, or nothing bounds it.
    lock_budget_bytes: Option<u64>,
    lock_budget_is_rlimit: bool,
    /// What bounds the locks, and what the plan allows.
    #[serde(skip)]
    lock_bound: (LockBound, Option<u64>),
    /// Allocations that came too fast for their call paths to be looked at.
    unseen_allocations: u64,
    /// Objects that were left alone, as there were too many at once.
    unfollowed_objects: u64,
    /// Objects whose sweeps were not followed, as there were too many at once.
    unfollowed_sweeps: u64,
    /// Threads whose faults were not told, likewise.
    unfollowed_threads: u64,
    program_locked_all: bool,
    /// Why the program's faults could not be followed.
    faults_errno: Option<u64>,
    /// Why there is no helper thread.
    thread_errno: Option<u64>,
    helper_ns: u64,
    /// How often memory ahead was not made ready, as there was no room.
    without_room: u64,
    rules: Vec<RuleOutcome>,
    /// What became of fresh memory that no rule is about; `null`: the plan says nothing of it.
    fresh: Option<FreshOutcome>,
    /// What became of the rules about I/O, in the order of the plan.
    io: Vec<IoOutcome>,
    /// Of processes that ran already: hints that came too late. `null`: the program was started with the plan.
    outside: Option<FromOutside>,
    /// What the program asked for itself, by pagewise.h.
    calls: Calls,
}

/// What bounds the locks.
#[derive(Debug, PartialEq, Eq)]
enum LockBound {
    /// What the user may lock.
    User,
    /// What the plan says.
    Plan,
    /// The limit that the program is given.
    Limit,
    /// That of a cgroup around it, which is set by this file.
    Around(PathBuf),
    /// The memory of the machine.
    Machine,
}

impl LockBound {
    /// What makes the budget what it is, bytes. Memory, where the plan allows no less than that does.
    fn of(
        budget: u64,
        by_plan: Option<u64>,
        limit_bytes: Option<u64>,
        limit_file: Option<PathBuf>,
    ) -> Self {
        let by_limit = limit_bytes.map(lock_budget);
        if by_plan == Some(budget) && by_limit.is_none_or(|most| most > budget) {
            return Self::Plan;
        }
        match (limit_bytes, limit_file) {
            (_, Some(file)) => Self::Around(file),
            (Some(_), None) => Self::Limit,
            (None, None) => Self::Machine,
        }
    }

    /// Why no more than `budget` may be locked, and what would allow all that is `wanted`, bytes. `by_plan`: what the plan allows.
    fn words(&self, budget: u64, wanted: u64, by_plan: Option<u64>) -> String {
        let most = bytes(budget);
        let memory = memory_to_lock(wanted);
        let bound = match self {
            Self::User => format!(
                "this user may lock {most}; type: ulimit -l {} (as root), or grant cap_ipc_lock",
                wanted.div_ceil(1 << 10)
            ),
            Self::Plan => {
                return format!("the plan allows {most}; write there: lock_bytes = {wanted}");
            }
            Self::Limit => format!(
                "of the limit {most} may be locked, the rest is left to others; type: pagewise apply --memory {memory} ..."
            ),
            Self::Around(file) => format!(
                "of the limit around it {most} may be locked, the rest is left to others; type: echo {memory} > {} (as root)",
                shell_word(&file.to_string_lossy())
            ),
            Self::Machine => format!(
                "of the machine's memory {most} may be locked, the rest is left to others; all would take {}",
                bytes(memory)
            ),
        };
        match by_plan.is_some_and(|most| most < wanted) {
            true => format!("{bound}; and write in the plan: lock_bytes = {wanted}"),
            false => bound,
        }
    }
}

/// What only happens from outside.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct FromOutside {
    /// Hints for open files that were closed by then.
    pub(super) closed_before: u64,
    /// Hints for descriptors that meant another file by then.
    pub(super) other_files: u64,
    /// Calls that nothing could be told of, as they came faster than they were looked at.
    pub(super) lost_calls: u64,
    /// Times that a file was used of which nothing could be told, as there were too many before it.
    pub(super) lost_files: u64,
    /// Processes that could not be followed, as there were too many before them.
    pub(super) lost_processes: u64,
}

#[derive(Debug, Serialize)]
struct Calls {
    phases: u64,
    locks: u64,
    /// At once, at most.
    locked_bytes: u64,
    beyond_budget_bytes: u64,
    read_ahead_pages: u64,
    released_pages: u64,
    refusals: u64,
}

impl Calls {
    fn is_any(&self) -> bool {
        self.phases + self.locks + self.read_ahead_pages + self.released_pages > 0
    }
}

#[derive(Debug, Serialize)]
struct RuleOutcome {
    target: String,
    action: &'static str,
    site: Option<String>,
    /// Why it matched nothing; `null`: it did match.
    unmatched: Option<String>,
    objects: u64,
    bytes: u64,
    /// At once, at most.
    locked_bytes: u64,
    beyond_budget_bytes: u64,
    refusals: u64,
    errno: Option<u64>,
    read_ahead_pages: u64,
    dropped_pages: u64,
    read_ahead_began: u64,
    read_ahead_stopped: u64,
    stopped_as: Option<&'static str>,
    advised_bytes: u64,
    prezeroed_bytes: u64,
    returned_bytes: u64,
    taken_over: u64,
    given_up: u64,
    rested: u64,
}

impl Outcome {
    pub(super) fn new(plan: &Plan, compiled: &Compiled, words: Words, run: Run) -> Self {
        let total = |word| words.total(word);
        let positive = |number: u64| (number > 0).then_some(number);
        let is_io = |rule: &Rule| matches!(rule.target, Target::Io { .. });
        let all = || plan.rules.iter().zip(&compiled.rules);
        let rules = all().filter(|(rule, _)| !is_io(rule));
        let nothing_there = |rule: &Rule| match &rule.target {
            Target::Allocation { .. } if compiled.has_own_malloc => NOTHING_HEARD,
            _ => NOTHING_THERE,
        };
        let rules = rules.map(|(rule, sent)| of_rule(rule, sent, &words, nothing_there(rule)));
        let rules = rules.collect();
        let io = all().filter(|(rule, _)| is_io(rule));
        let io = io.map(|(rule, sent)| IoOutcome::of(rule, sent, &words));
        let processes = total(Total::Processes);
        let budget = total(Total::LockBudget);
        let lock_budget_is_rlimit = total(Total::LimitedByRlimit) != 0;
        let by_plan = plan.memory.lock_bytes;
        let bound = match lock_budget_is_rlimit {
            true => LockBound::User,
            false => LockBound::of(budget, by_plan, run.limit_bytes, run.limit_file),
        };
        Self {
            schema: SCHEMA,
            wall_ns: run.wall_ns,
            exit_code: Some(run.exit_code),
            killed: run.killed,
            limit_bytes: run.limit_bytes,
            limit_raised_times: run.limit_raised_times,
            processes,
            lock_budget_bytes: (processes > 0 && budget != u64::MAX).then_some(budget),
            lock_budget_is_rlimit,
            lock_bound: (bound, by_plan),
            unseen_allocations: total(Total::Unseen),
            unfollowed_objects: total(Total::Unfollowed),
            unfollowed_sweeps: total(Total::UnfollowedSweeps),
            unfollowed_threads: total(Total::UnfollowedThreads),
            program_locked_all: total(Total::LockedAll) != 0,
            faults_errno: positive(total(Total::PerfErrno)),
            thread_errno: positive(total(Total::ThreadErrno)),
            helper_ns: total(Total::ThreadNs),
            without_room: total(Total::WithoutRoom),
            rules,
            fresh: plan
                .memory
                .fresh
                .map(|fresh| FreshOutcome::of(fresh, &words)),
            io: io.collect(),
            outside: None,
            calls: Calls {
                phases: total(Total::Phases),
                locks: words.of_rule(CALLS, OfRule::Objects),
                locked_bytes: words.of_rule(CALLS, OfRule::Locked),
                beyond_budget_bytes: words.of_rule(CALLS, OfRule::BeyondBudget),
                read_ahead_pages: words.of_rule(CALLS, OfRule::ReadAhead),
                released_pages: words.of_rule(CALLS, OfRule::Dropped),
                refusals: words.of_rule(CALLS, OfRule::Refusals),
            },
        }
    }

    /// The plan was put into force from outside.
    pub(super) fn enforced_outside(mut self, outside: FromOutside) -> Self {
        self.outside = Some(outside);
        self.exit_code = None;
        self.io.iter_mut().for_each(IoOutcome::seen_from_outside);
        self
    }

    pub(super) fn json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// For people.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.processes == 0 {
            lines.push(
                "no process took the plan: static programs, set-user-id ones and those of other C libraries cannot be preloaded"
                    .to_owned(),
            );
        }
        let matched = self.rules.iter().filter(|rule| rule.unmatched.is_none());
        let matched_io = self.io.iter().filter(|rule| rule.unmatched.is_none());
        let all = self.rules.len() + self.io.len();
        if all > 0 || self.fresh.is_none() {
            lines.push(format!(
                "plan in force: {} of {all} rules matched",
                matched.count() + matched_io.count(),
            ));
        }
        lines.extend(self.fresh.as_ref().map(FreshOutcome::line));
        lines.extend(self.rules.iter().map(RuleOutcome::line));
        lines.extend(self.io.iter().map(IoOutcome::line));
        lines.extend(self.remarks());
        lines
    }

    /// Whether anything of the plan came into force: if not, the run was one without it.
    pub(crate) fn did_something(&self) -> bool {
        let acts = |action: &str, unmatched: &Option<String>| {
            action != Action::Nothing.name() && unmatched.is_none()
        };
        let mut rules = self.rules.iter();
        let mut io = self.io.iter();
        rules.any(|rule| acts(rule.action, &rule.unmatched))
            || io.any(|rule| acts(rule.action, &rule.unmatched))
            || (self.fresh.is_some() && self.processes > 0)
            || self.calls.is_any()
    }

    fn never_had_room(&self) -> bool {
        let of_rules = self.rules.iter().map(|rule| rule.prezeroed_bytes);
        let of_fresh = self.fresh.iter().map(FreshOutcome::prezeroed_bytes);
        self.without_room > 0 && of_rules.chain(of_fresh).sum::<u64>() == 0
    }

    fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(why) = &self.killed {
            lines.push(why.clone());
        }
        let beyond: u64 = self.rules.iter().map(|rule| rule.beyond_budget_bytes).sum();
        let budget = self.lock_budget_bytes.unwrap_or(0);
        if beyond > 0 {
            let wanted = budget.saturating_add(beyond);
            let (bound, by_plan) = &self.lock_bound;
            lines.push(format!(
                "{} were not locked: {}",
                bytes(beyond),
                bound.words(budget, wanted, *by_plan)
            ));
        }
        if self.program_locked_all {
            lines.push(
                "the program called mlockall or munlockall: its own locks win, the plan ended there".to_owned(),
            );
        }
        if let Some(errno) = self.faults_errno {
            lines.push(not_told_of_faults(errno));
        }
        if let Some(errno) = self.thread_errno {
            lines.push(format!(
                "no helper thread could be started ({})",
                error_text(errno)
            ));
        }
        if self.never_had_room() {
            lines.push(
                "nothing was made ready ahead: there was no room, of a limit an eighth (at least 8 MiB) stays free and of the machine's memory 15 %"
                    .to_owned(),
            );
        }
        if let Some(outside) = &self.outside {
            lines.extend(outside.lines(self.helper_ns, self.wall_ns));
        }
        if self.unfollowed_objects > 0 {
            lines.push(format!(
                "{} objects were left alone: too many at once",
                count(self.unfollowed_objects)
            ));
        }
        if self.unfollowed_sweeps > 0 {
            lines.push(format!(
                "sweeps over {} objects were not followed: too many at once",
                count(self.unfollowed_sweeps)
            ));
        }
        if self.unfollowed_threads > 0 {
            lines.push(format!(
                "the faults of {} threads were not told: sweeps by them may have been missed",
                count(self.unfollowed_threads)
            ));
        }
        if self.unseen_allocations > 0 {
            lines.push(format!(
                "{} allocations came too fast for their call paths to be looked at",
                count(self.unseen_allocations)
            ));
        }
        lines
    }
}

impl FromOutside {
    fn lines(&self, processor_ns: u64, wall_ns: u64) -> Vec<String> {
        let mut lines = vec![format!(
            "from outside: {} of processor time in {}",
            duration(processor_ns),
            duration(wall_ns)
        )];
        if self.closed_before + self.other_files > 0 {
            lines.push(format!(
                "hints came too late for {} files that were closed, and {} descriptors that meant another file by then",
                count(self.closed_before),
                count(self.other_files)
            ));
        }
        if self.lost_calls > 0 {
            lines.push(format!(
                "{} calls came faster than they could be looked at",
                count(self.lost_calls)
            ));
        }
        if self.lost_files + self.lost_processes > 0 {
            lines.push(format!(
                "no hints for {} processes and at {} calls, as too many processes and files came before them; start it anew: pagewise apply PLAN --pid PID",
                count(self.lost_processes),
                count(self.lost_files)
            ));
        }
        lines
    }
}

/// Why the program's faults could not be followed, and what that meant.
fn not_told_of_faults(errno: u64) -> String {
    let why = error_text(errno);
    match errno == ENOMEM {
        true => format!(
            "faults were not told: there was no memory for the rings that they are told in ({why}), nothing was read ahead; with a larger limit it would be"
        ),
        false => format!(
            "faults were not told ({why}), sweeps were followed by looking at page tables, which is coarser; type: sysctl kernel.perf_event_paranoid=2"
        ),
    }
}

const NOTHING_THERE: &str =
    "nothing was allocated there; if it should have been, record and plan again";
const NOTHING_HEARD: &str =
    "the program has a malloc of its own, and what that hands out is not heard of";

/// `nothing_there`: why it may be that nothing was allocated there.
fn of_rule(
    rule: &Rule,
    sent: &Result<usize, String>,
    words: &Words,
    nothing_there: &str,
) -> RuleOutcome {
    let word = |word| sent.as_ref().map_or(0, |&index| words.of_rule(index, word));
    let objects = word(OfRule::Objects);
    let unmatched = match sent {
        Err(why) => Some(why.clone()),
        Ok(_) if objects == 0 => Some(nothing_there.to_owned()),
        Ok(_) => None,
    };
    let why = Why::from_number(word(OfRule::Why)).map(|why| match why {
        Why::NoGain => "it was not faster",
        Why::Fits => "what lay ahead was in memory by itself",
        Why::Missed => "what was dropped was wanted again too soon",
        Why::PassedOver => "most of what was read ahead was passed over",
    });
    RuleOutcome {
        target: rule.name.clone(),
        action: rule.action.name(),
        site: rule.target.site().map(|site| site.to_string()),
        unmatched,
        objects,
        bytes: word(OfRule::Bytes),
        locked_bytes: word(OfRule::Locked),
        beyond_budget_bytes: word(OfRule::BeyondBudget),
        refusals: word(OfRule::Refusals),
        errno: Some(word(OfRule::Errno)).filter(|&errno| errno > 0),
        read_ahead_pages: word(OfRule::ReadAhead),
        dropped_pages: word(OfRule::Dropped),
        read_ahead_began: word(OfRule::Started),
        read_ahead_stopped: word(OfRule::Stopped),
        stopped_as: why,
        advised_bytes: word(OfRule::Advised),
        prezeroed_bytes: word(OfRule::Readied),
        returned_bytes: word(OfRule::Returned),
        taken_over: word(OfRule::TakenOver),
        given_up: word(OfRule::GivenUp),
        rested: word(OfRule::Rests),
    }
}

impl RuleOutcome {
    fn line(&self) -> String {
        let target = self.target.replace(char::is_control, " ");
        if let Some(why) = &self.unmatched {
            return format!("{target}: rule unmatched: {why}");
        }
        let mut parts = vec![format!("{} ({})", self.action, bytes(self.bytes))];
        if self.locked_bytes > 0 {
            parts.push(format!("kept {}", bytes(self.locked_bytes)));
        }
        if self.read_ahead_pages > 0 {
            parts.push(format!(
                "{} pages read ahead, {} dropped behind",
                count(self.read_ahead_pages),
                count(self.dropped_pages)
            ));
        } else if matches!(self.action, "stream" | "prefetch") {
            let why = self.stopped_as.unwrap_or("no sweep that swapped");
            parts.push(format!("nothing read ahead: {why}"));
        }
        if let Some(why) = self.stopped_as.filter(|_| self.read_ahead_pages > 0) {
            parts.push(format!(
                "left alone {} times: {why}",
                self.read_ahead_stopped
            ));
        }
        if self.advised_bytes > 0 {
            parts.push(format!("{} advised", bytes(self.advised_bytes)));
        }
        if self.prezeroed_bytes > 0 {
            parts.push(super::fresh::readied(
                self.prezeroed_bytes,
                self.returned_bytes,
            ));
        }
        if self.given_up > 0 {
            parts.push("locks ended, as more had to come back elsewhere".to_owned());
        }
        if self.rested > 0 && self.given_up == 0 {
            parts.push(format!(
                "unlocked for a while (times: {})",
                count(self.rested)
            ));
        }
        if self.taken_over > 0 {
            parts.push("the program's own mlock or madvise won".to_owned());
        }
        if let Some(errno) = self.errno {
            parts.push(format!(
                "refused {} times ({})",
                self.refusals,
                error_text(errno)
            ));
        }
        format!("{target}: {}", parts.join(", "))
    }
}

pub(super) fn error_text(errno: u64) -> String {
    let errno = i32::try_from(errno).unwrap_or(0);
    std::io::Error::from_raw_os_error(errno).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_allow_more_locks_is_told_as_a_command() {
        let mebibyte = 1 << 20;
        let told =
            |bound: &LockBound, by_plan| bound.words(100 * mebibyte, 140 * mebibyte, by_plan);
        let memory = 160 * mebibyte;
        for (bound, command) in [
            (LockBound::User, format!("ulimit -l {}", 140 << 10)),
            (LockBound::Plan, format!("lock_bytes = {}", 140 * mebibyte)),
            (LockBound::Limit, format!("--memory {memory} ")),
            (
                LockBound::Around(PathBuf::from("/a\\x2db/memory.max")),
                format!("echo {memory} > '/a\\x2db/memory.max'"),
            ),
            (LockBound::Machine, "160 MiB".to_owned()),
        ] {
            let words = told(&bound, None);
            assert!(
                words.contains(&command) && words.contains("100 MiB"),
                "{words}"
            );
            let beside = told(&bound, Some(100 * mebibyte));
            assert!(beside.contains("lock_bytes = 146800640"), "{beside}");
        }
    }

    #[test]
    fn locks_are_bound_by_the_plan_only_where_memory_allows_more() {
        let limit = 64 << 20;
        let by_limit = lock_budget(limit);
        let file = || Some(PathBuf::from("/a/memory.max"));
        let bound = LockBound::of;
        // As plans are made for their limit, both allow the same.
        assert_eq!(
            bound(by_limit, Some(by_limit), Some(limit), None),
            LockBound::Limit
        );
        assert_eq!(bound(by_limit, None, Some(limit), None), LockBound::Limit);
        assert_eq!(
            bound(by_limit, Some(by_limit), Some(limit), file()),
            LockBound::Around(PathBuf::from("/a/memory.max"))
        );
        assert_eq!(
            bound(4096, Some(4096), Some(limit), file()),
            LockBound::Plan
        );
        assert_eq!(bound(4096, Some(4096), None, None), LockBound::Plan);
        assert_eq!(bound(4096, None, None, None), LockBound::Machine);
    }

    #[test]
    fn what_was_not_followed_from_outside_is_told() {
        let mut outside = FromOutside {
            closed_before: 0,
            other_files: 0,
            lost_calls: 0,
            lost_files: 0,
            lost_processes: 0,
        };
        assert_eq!(outside.lines(1, 2).len(), 1);
        outside.lost_files = 12;
        let lines = outside.lines(1, 2);
        assert!(
            lines[1].contains("0 processes and at 12 calls"),
            "{lines:#?}"
        );
    }
}
