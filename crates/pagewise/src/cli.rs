//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;
use pagewise_host::MemorySize;
use pagewise_host::SwapRequest;

use crate::annotate::AnnotateArguments;
use crate::apply::ApplyArguments;
use crate::compare::CompareArguments;
use crate::export::ExportArguments;
use crate::guard::GuardArguments;
use crate::hugepages::HugepagesArguments;
use crate::import::ImportArguments;
use crate::observe::Running;
use crate::observe::Window;
use crate::plan::PlanArguments;
use crate::record::SampleBytes;
use crate::report::Question;
use crate::simulate::SimulateArguments;

/// Sees and explains what memory pressure does to a program, page by page.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: the program's own where one is run (128+N if signal N killed it); \
125 if pagewise fails, 126 if the program cannot be executed, 127 if it is not found.";

// The arguments of one command are made, not those of all.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Say what this kernel and user permit, and what to type to get more
    Check(CheckArguments),
    /// Run a program and record its swapping, or that of running processes
    Record(Box<RecordArguments>),
    /// Say which objects swapped, where they come from and what they cost
    Report(ReportArguments),
    /// Say what another replacement policy, memory size or swap device would do to a trace of page references
    Simulate(Box<SimulateArguments>),
    /// Say what to do about a recorded program's swapping, as a plan with its predicted effect
    Plan(PlanArguments),
    /// Run a program with a plan in force: objects locked, streamed or paged out as it says
    Apply(Box<ApplyArguments>),
    /// Write a patch for C and C++ sources: names for allocations, or the calls that a plan stands for
    Annotate(AnnotateArguments),
    /// Prove a plan by runs with and without it in turn
    Compare(Box<CompareArguments>),
    /// Run a program with each heap object in front of a guard page, and say what reads, writes or frees wrongly
    Guard(GuardArguments),
    /// Give the busiest regions of running processes huge pages, and take back those that are mostly zeros
    Hugepages(Box<HugepagesArguments>),
    /// Write a recording in another tool's format
    Export(ExportArguments),
    /// Make a recording from another tool's file
    Import(ImportArguments),
    /// Print what a shell needs to complete this command's options
    Completions(CompletionsArguments),
    /// Write the manual pages into a folder
    Man(ManArguments),
}

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArguments {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

const COMPLETIONS_EXAMPLES: &str = "Examples:
  pagewise completions bash > /etc/bash_completion.d/pagewise
  pagewise completions zsh > ~/.zfunc/_pagewise
  pagewise completions fish > ~/.config/fish/completions/pagewise.fish";

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// An existing folder, for example /usr/local/share/man/man1
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// Print JSON (schema pagewise.check/1)
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = RECORD_EXAMPLES)]
pub(crate) struct RecordArguments {
    /// Memory the program may use: 512M, 2G, 2500p (pages), 60% (of its peak: see --peak)
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) memory: Option<MemorySize>,
    /// The program's peak memory, which percentages refer to
    #[arg(
        long,
        value_name = "SIZE",
        conflicts_with = "measure_peak",
        allow_negative_numbers = true
    )]
    pub(crate) peak: Option<MemorySize>,
    /// Run the program once more, first and without limit, to measure its peak; its output then goes nowhere
    #[arg(long)]
    pub(crate) measure_peak: bool,
    /// Swap to use: `auto`, `zram[:ALGORITHM]`, `file[:PATH]`, `existing`, `none`; what is set up is removed afterwards
    /// [default: auto with --memory, else none]
    #[arg(long, value_name = "KIND")]
    pub(crate) swap: Option<SwapRequest>,
    /// Size of the swap that is set up [default: enough for the program's peak, or all of memory]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) swap_size: Option<MemorySize>,
    /// Sensors to use: faults, call-paths (of faults), allocations, residency, spots (how often some pages are accessed, which stand for all)
    /// (comma-separated), or none
    #[arg(
        long,
        value_name = "LIST",
        default_value = "faults,call-paths,allocations,residency,spots"
    )]
    pub(crate) sensors: Sensors,
    /// Unwind every fault's stack in full, and count where that differs from the path it was recognized by (slow)
    #[arg(long, hide_short_help = true)]
    pub(crate) check_call_paths: bool,
    /// Also record which pages are accessed, about once in SECONDS [default: 1] or as rarely as --access-cost says; needs the
    /// sensor faults
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1"
    )]
    pub(crate) access: Option<AccessInterval>,
    /// How much of the run's time clearing and looking at accessed bits may take. Swap-ins with other memory (report --what-if, plan)
    /// are predicted better with 2: many looks in a run of seconds. The processor also takes time to set the bits again, in a guest
    /// several times as long
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "0.5",
        requires = "access",
        allow_negative_numbers = true
    )]
    pub(crate) access_cost: AccessCost,
    /// Also record how files are read and written: each call with its call path, file, place and latency, and what the page
    /// cache keeps of it; or only sums of them. With --sensors none nothing else is recorded; without root, the C library's calls
    /// only, and nothing of the page cache
    #[arg(
        long,
        value_name = "DETAIL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "calls"
    )]
    pub(crate) io: Option<IoDetail>,
    /// Record one in so many bytes of the allocations below 64 KiB, which stands for the others; auto: one in 32K, fewer
    /// while the program allocates so fast that it would show; or off
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "auto",
        allow_negative_numbers = true
    )]
    pub(crate) sample_bytes: SampleBytes,
    /// Folder to write [default: pagewise.data; the last one becomes pagewise.data.old]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite the folder given with -o
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Ask the servers in DEBUGINFOD_URLS for the debug information of modules that have none here
    #[arg(long)]
    pub(crate) debuginfod: bool,
    /// Under sudo, run the program as root and not as the calling user
    #[arg(long)]
    pub(crate) as_root: bool,
    #[command(flatten)]
    pub(crate) running: Running,
    #[command(flatten)]
    pub(crate) window: Window,
    /// The program and its arguments
    #[arg(last = true, required_unless_present_any = ["pid", "cgroup"], value_name = "CMD")]
    pub(crate) program: Vec<OsString>,
}

const RECORD_EXAMPLES: &str = "Examples:
  pagewise record --memory 512M -- ./solver input.txt
  pagewise record --memory 60% --measure-peak --swap zram:lz4 -- ./solver input.txt
  pagewise record --pid 4711 --duration 30
  pagewise record --io --sensors none -- ./server
  pagewise record --cgroup redis.service --snapshot=60";

/// Which sensors run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sensors {
    pub(crate) faults: bool,
    /// Those of faults; allocations always have theirs.
    pub(crate) call_paths: bool,
    pub(crate) allocations: bool,
    pub(crate) residency: bool,
    /// Where faults are recorded.
    pub(crate) spots: bool,
}

impl std::str::FromStr for Sensors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut sensors = Self {
            faults: false,
            call_paths: false,
            allocations: false,
            residency: false,
            spots: false,
        };
        if text == "none" {
            return Ok(sensors);
        }
        for name in text.split(',') {
            match name {
                "faults" => sensors.faults = true,
                "call-paths" => sensors.call_paths = true,
                "allocations" => sensors.allocations = true,
                "residency" => sensors.residency = true,
                "spots" => sensors.spots = true,
                _ => {
                    return Err(format!(
                        "no sensor {name:?}: there are faults, call-paths, allocations, residency and spots, or none"
                    ));
                }
            }
        }
        if sensors.call_paths && !sensors.faults {
            return Err("call-paths are those of faults: name both".to_owned());
        }
        if sensors.spots && !sensors.faults {
            return Err(
                "spots need the sensor faults, which tells address spaces apart: name both"
                    .to_owned(),
            );
        }
        Ok(sensors)
    }
}

/// What is kept of calls on files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoDetail {
    /// Each call.
    Calls,
    /// Sums by call path and file.
    Sums,
}

/// The shortest time between the clearing of accessed bits and a look at them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AccessInterval(pub(crate) Duration);

impl std::str::FromStr for AccessInterval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shortest = Duration::from_millis(10);
        let longest = Duration::from_secs(86_400);
        let interval = text.parse().ok().and_then(|seconds: f64| {
            Duration::try_from_secs_f64(seconds)
                .ok()
                .filter(|interval| (shortest..=longest).contains(interval))
        });
        interval
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no number of seconds from 0.01 to 86400"))
    }
}

/// What recording accesses may cost, as a share of the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AccessCost(pub(crate) f64);

impl std::str::FromStr for AccessCost {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.strip_suffix('%').unwrap_or(text).parse().ok();
        percent
            .filter(|percent: &f64| (0.01..=20.0).contains(percent))
            .map(|percent| Self(percent / 100.0))
            .ok_or_else(|| format!("{text:?} is no percentage from 0.01 to 20"))
    }
}

#[derive(Debug, Args)]
#[command(after_help = REPORT_EXAMPLES)]
pub(crate) struct ReportArguments {
    /// The recording
    #[arg(default_value = "pagewise.data", value_name = "FOLDER")]
    pub(crate) trace: PathBuf,
    /// Print JSON (schema pagewise.report/1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page for browsers, with pictures: one file that needs nothing else (- for standard output)
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) html: Option<PathBuf>,
    /// Overwrite the file
    #[arg(short, long, requires = "html")]
    pub(crate) force: bool,
    /// Objects to list
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) objects: usize,
    /// Say what changed since another recording [default: pagewise.data.old]
    #[arg(
        long,
        value_name = "BEFORE",
        num_args = 0..=1,
        default_missing_value = "pagewise.data.old"
    )]
    pub(crate) diff: Option<PathBuf>,
    /// Show the source with the time waited at each line: of a file or function [default: where it waited most]
    #[arg(
        long,
        value_name = "FILE|FUNCTION",
        num_args = 0..=1,
        default_missing_value = "",
        conflicts_with_all = ["diff", "json"]
    )]
    pub(crate) source: Option<String>,
    /// Say how it would be with another size of memory (% of its peak) or another swap device: memory=512M,
    /// memory=80%,swap=nvme, or curve; may be given several times
    #[arg(long, value_name = "QUESTION", conflicts_with_all = ["diff", "source", "html"])]
    pub(crate) what_if: Vec<Question>,
    /// Take a folder off the paths of source files, and show the rest of them; may be given several times
    #[arg(long, value_name = "FOLDER")]
    pub(crate) strip_prefix: Vec<String>,
    /// Show call paths with the frames of libraries, too
    #[arg(long)]
    pub(crate) library_frames: bool,
    /// Colour: auto (on a terminal, unless NO_COLOR is set), always, never
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

const REPORT_EXAMPLES: &str = "Examples:
  pagewise report
  pagewise report --source solver.cpp
  pagewise report --diff before.data after.data
  pagewise report --what-if memory=80% --what-if curve
  pagewise report --json --strip-prefix /home/me/solver";

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sensors_are_named_or_none() {
        assert_eq!(
            "none".parse(),
            Ok(Sensors {
                faults: false,
                call_paths: false,
                allocations: false,
                residency: false,
                spots: false
            })
        );
        assert_eq!(
            "faults".parse(),
            Ok(Sensors {
                faults: true,
                call_paths: false,
                allocations: false,
                residency: false,
                spots: false
            })
        );
        assert_eq!(
            "residency,allocations".parse(),
            Ok(Sensors {
                faults: false,
                call_paths: false,
                allocations: true,
                residency: true,
                spots: false
            })
        );
        assert!(
            "faults,spots"
                .parse::<Sensors>()
                .is_ok_and(|sensors| sensors.spots)
        );
        assert!("spots".parse::<Sensors>().is_err(), "those of faults");
        assert!("fault".parse::<Sensors>().is_err());
        assert!("".parse::<Sensors>().is_err());
    }

    #[test]
    fn the_interval_of_accesses_is_a_time() {
        let interval = |text: &str| text.parse().map(|AccessInterval(time)| time);
        assert_eq!(interval("1"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("0.05"), Ok(Duration::from_millis(50)));
        for wrong in ["", "0", "-1", "0.001", "nan", "inf", "1e9", "1s"] {
            assert!(interval(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_accesses_may_cost_is_a_percentage() {
        let share = |text: &str| text.parse().map(|AccessCost(share)| share);
        assert_eq!(share("2"), Ok(0.02));
        assert_eq!(share("0.5%"), Ok(0.005));
        for wrong in ["", "0", "-1", "21", "nan", "inf", "much"] {
            assert!(share(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn two_recordings_are_compared_in_the_order_given() {
        let report = |arguments: &[&str]| {
            let all = ["pagewise", "report"].iter().chain(arguments);
            match Cli::try_parse_from(all) {
                Ok(Cli {
                    command: Command::Report(report),
                }) => Some((report.diff, report.trace)),
                _ => None,
            }
        };
        let paths = |before: &str, after: &str| Some((Some(before.into()), after.into()));
        assert_eq!(report(&["--diff", "a", "b"]), paths("a", "b"));
        assert_eq!(report(&["b", "--diff", "a"]), paths("a", "b"));
        assert_eq!(report(&["--diff", "a"]), paths("a", "pagewise.data"));
        assert_eq!(
            report(&["--diff"]),
            paths("pagewise.data.old", "pagewise.data")
        );
        assert_eq!(report(&["--diff", "a", "b", "c"]), None);
        assert_eq!(report(&["--diff", "a", "--source"]), None);
    }

    #[test]
    fn what_follows_the_dashes_is_the_programs() {
        let cli = Cli::try_parse_from([
            "pagewise", "record", "--memory", "60%", "--peak", "1G", "--", "ls", "--json",
        ]);
        let Ok(Cli {
            command: Command::Record(arguments),
        }) = cli
        else {
            panic!("{cli:?}")
        };
        assert_eq!(arguments.program, ["ls", "--json"]);
    }
}
