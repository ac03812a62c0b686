//! From what was seen of I/O calls, by call path, to rules about them: which pages nobody needs again, and how the kernel had
//! better read ahead. Pure.
//!
//! The classes are those of PCStat (Y. Jin, Seoul National University 2019, tables 2 and 3), and one more: short runs at random
//! places, which neither `SEQUENTIAL` nor `RANDOM` serves.

use pagewise_plan::Action;
use pagewise_plan::Frame;
use pagewise_plan::IoAction;
use pagewise_plan::Readahead;
use pagewise_plan::Rule;
use pagewise_plan::SourcePlace;
use pagewise_plan::Target;

/// What was seen of the I/O calls of one call path, over a whole run of the program.
#[derive(Clone, Debug, PartialEq)]
pub struct IoContext {
    /// A name for people.
    pub name: String,
    /// Where the calls are in the source.
    pub place: SourcePlace,
    /// The call path: return addresses, innermost first, as in [`Target::Io`].
    pub path: Vec<Frame>,
    /// Calls.
    pub calls: u64,
    /// Bytes that they read or wrote.
    pub bytes: u64,
    /// They write.
    pub is_write: bool,
    /// Mean number of calls in a row that each begin where the last one ended; 1 or more. `None`: unknown.
    pub mean_run: Option<f64>,
    /// Bytes of such a row, if most are as long; `None`: they differ, or it is unknown.
    pub burst_bytes: Option<u64>,
    /// Share of the bytes that anybody in the run read once more later, 0 to 1. `None`: unknown, as not all was seen.
    pub read_again_share: Option<f64>,
}

/// What is worth a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoThresholds {
    /// Contexts of fewer bytes are left alone.
    pub least_bytes: u64,
    /// From this mean run length on, calls are sequential.
    pub sequential_run: f64,
    /// Up to this mean run length they are random.
    pub random_run: f64,
    /// Up to this share, what is read again counts as nothing.
    pub never_again: f64,
}

impl Default for IoThresholds {
    /// Those of the thesis: 100 MB, runs of four, runs near one. That pages are never used again is known exactly.
    fn default() -> Self {
        Self {
            least_bytes: 100_000_000,
            sequential_run: 4.0,
            random_run: 1.2,
            never_again: 0.0,
        }
    }
}

/// How the places of a context's calls follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Sequential,
    Random,
    /// Runs of so many bytes.
    Bursts(u64),
    Mixed,
    Unknown,
}

fn order(context: &IoContext, thresholds: &IoThresholds) -> Order {
    match (context.mean_run, context.burst_bytes) {
        (None, _) => Order::Unknown,
        (Some(run), _) if run <= thresholds.random_run => Order::Random,
        // Runs that are all equally short begin at random places, however many calls they have.
        (Some(_), Some(bytes)) if bytes <= LONGEST_BURST => Order::Bursts(bytes),
        (Some(run), _) if run >= thresholds.sequential_run => Order::Sequential,
        (Some(_), _) => Order::Mixed,
    }
}

/// What is asked for at once is less than what the kernel would read ahead by itself anywhere (`read_ahead_kb` of 128).
const LONGEST_BURST: u64 = 1 << 20;

/// A rule for each context that is large enough, those with most bytes first.
pub fn io_rules(contexts: &[IoContext], thresholds: &IoThresholds) -> Vec<Rule> {
    let is_large =
        |context: &&IoContext| context.bytes >= thresholds.least_bytes && !context.path.is_empty();
    let mut large: Vec<&IoContext> = contexts.iter().filter(is_large).collect();
    large.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
    large
        .into_iter()
        .map(|context| {
            let (action, why) = choose(context, thresholds);
            Rule {
                name: context.name.clone(),
                place: context.place.clone(),
                target: Target::Io {
                    path: context.path.clone(),
                    files: None,
                },
                action,
                why,
                predicted: None,
            }
        })
        .collect()
}

fn choose(context: &IoContext, thresholds: &IoThresholds) -> (Action, String) {
    let order = order(context, thresholds);
    let run = context.mean_run.unwrap_or(0.0);
    let again = context.read_again_share;
    let is_never_again = again.is_some_and(|share| share <= thresholds.never_again);
    let used = match again {
        None => "whether it is used again is unknown".to_owned(),
        Some(_) if is_never_again => "never used again".to_owned(),
        Some(share) => format!("{:.0} % of it read again", 100.0 * share),
    };
    if context.is_write {
        return if is_never_again {
            (
                Action::Io(IoAction::Drop { readahead: None }),
                "written once, and never read".to_owned(),
            )
        } else {
            (Action::Nothing, format!("written; {used}"))
        };
    }
    let drop = |readahead| Action::Io(IoAction::Drop { readahead });
    let ahead = |readahead| Action::Io(IoAction::Readahead(readahead));
    match (order, is_never_again) {
        (Order::Bursts(burst_bytes), _) => (
            Action::Io(IoAction::WillNeed { burst_bytes }),
            format!("runs of {burst_bytes} bytes at random places; {used}"),
        ),
        (Order::Sequential, true) => (
            drop(Some(Readahead::Sequential)),
            format!("read in order, {run:.1} calls in a row, and never used again"),
        ),
        (Order::Random, true) => (
            drop(Some(Readahead::Random)),
            format!("read at random places, {run:.1} calls in a row, and never used again"),
        ),
        (Order::Mixed | Order::Unknown, true) => (drop(None), "never used again".to_owned()),
        (Order::Sequential, false) => (
            ahead(Readahead::Sequential),
            format!("read in order, {run:.1} calls in a row; {used}"),
        ),
        (Order::Random, false) => (
            ahead(Readahead::Random),
            format!("read at random places, {run:.1} calls in a row; {used}"),
        ),
        (Order::Mixed | Order::Unknown, false) => (
            Action::Nothing,
            format!("neither in order nor at random; {used}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(mean_run: f64, read_again_share: Option<f64>) -> IoContext {
        IoContext {
            name: "a".to_owned(),
            place: SourcePlace::default(),
            path: vec![Frame {
                module: "solver".to_owned(),
                build_id: None,
                function: Some(("read_all".to_owned(), 0x1b)),
                module_offset: 0x41b,
            }],
            calls: 1000,
            bytes: 1 << 30,
            is_write: false,
            mean_run: Some(mean_run),
            burst_bytes: None,
            read_again_share,
        }
    }

    fn action(context: &IoContext) -> Action {
        let rules = io_rules(std::slice::from_ref(context), &IoThresholds::default());
        rules[0].action.clone()
    }

    fn drop(readahead: Option<Readahead>) -> Action {
        Action::Io(IoAction::Drop { readahead })
    }

    #[test]
    fn the_classes_of_the_thesis_get_their_hints() {
        let ahead = |mode| Action::Io(IoAction::Readahead(mode));
        // SEQUENTIAL from runs of four on, RANDOM near one.
        assert_eq!(
            action(&context(4.0, Some(0.5))),
            ahead(Readahead::Sequential)
        );
        assert_eq!(action(&context(1.0, Some(0.5))), ahead(Readahead::Random));
        // DONTNEED goes with either, as it is about reuse, not about order.
        assert_eq!(
            action(&context(900.0, Some(0.0))),
            drop(Some(Readahead::Sequential))
        );
        assert_eq!(
            action(&context(1.0, Some(0.0))),
            drop(Some(Readahead::Random))
        );
        assert_eq!(action(&context(2.5, Some(0.0))), drop(None));
        assert_eq!(action(&context(2.5, Some(0.2))), Action::Nothing);
    }

    #[test]
    fn unless_all_was_seen_nothing_is_dropped() {
        assert_eq!(
            action(&context(900.0, None)),
            Action::Io(IoAction::Readahead(Readahead::Sequential))
        );
        assert_eq!(action(&context(900.0, Some(1e-9))).name(), "sequential");
        let mut unknown = context(1.0, None);
        unknown.mean_run = None;
        assert_eq!(action(&unknown), Action::Nothing);
    }

    #[test]
    fn short_runs_are_asked_for_as_a_whole() {
        let mut bursts = context(4.0, Some(0.1));
        bursts.burst_bytes = Some(64 << 10);
        let wanted = Action::Io(IoAction::WillNeed {
            burst_bytes: 64 << 10,
        });
        assert_eq!(action(&bursts), wanted);
        // Runs that are longer than what the kernel reads ahead are a scan.
        bursts.burst_bytes = Some(1 << 30);
        assert_eq!(action(&bursts).name(), "sequential");
    }

    #[test]
    fn logs_are_dropped_and_what_is_read_back_is_not() {
        let mut log = context(1000.0, Some(0.0));
        log.is_write = true;
        assert_eq!(action(&log), drop(None));
        log.read_again_share = Some(0.3);
        assert_eq!(action(&log), Action::Nothing);
        log.read_again_share = None;
        assert_eq!(action(&log), Action::Nothing);
    }

    #[test]
    fn small_contexts_get_no_rule_and_large_ones_come_first() {
        let (mut small, mut large) = (context(1.0, Some(0.0)), context(1.0, Some(0.0)));
        small.bytes = 99_999_999;
        large.name = "b".to_owned();
        large.bytes = 2 << 30;
        let all = [small.clone(), context(1.0, Some(0.0)), large];
        let rules = io_rules(&all, &IoThresholds::default());
        let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
        let thresholds = IoThresholds {
            least_bytes: 0,
            ..IoThresholds::default()
        };
        assert_eq!(io_rules(&all, &thresholds).len(), 3);
        small.path.clear();
        assert_eq!(io_rules(&[small], &thresholds).len(), 0);
    }
}
