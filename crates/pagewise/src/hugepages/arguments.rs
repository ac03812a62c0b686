//! What the command line says.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use clap::Subcommand;
use pagewise_host::MemorySize;
use pagewise_host::huge_pages;
use pagewise_plan::LEAST_PREZERO_RATE;
use pagewise_simulate::hugepages::HugePolicy;
use pagewise_simulate::hugepages::REGION_PAGES;
use pagewise_simulate::hugepages::Settings;
use pagewise_simulate::hugepages::Watermarks;

use crate::failure::Failure;
use crate::observe::TimeSpan;

/// Where a manager leaves its lock and its status.
const STATE: &str = "/run/pagewise";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub(crate) struct HugepagesArguments {
    #[command(subcommand)]
    pub(crate) command: Option<HugepagesCommand>,
    #[command(flatten)]
    pub(crate) manage: ManageArguments,
    #[command(flatten)]
    pub(crate) launch: LaunchArguments,
}

const EXAMPLES: &str = "Examples:
  sudo pagewise hugepages --dry-run --once --all
  sudo pagewise hugepages --cgroup redis.service
  sudo pagewise hugepages --pid 4711 --policy ingens --rate 1 --duration 10m
  pagewise hugepages status --watch 5
  sudo pagewise hugepages scan --pid 4711
  pagewise hugepages --launch --prezero -- ./server --port 7000";

#[derive(Debug, Subcommand)]
pub(crate) enum HugepagesCommand {
    /// Show what the running manager has done, and how its processes are
    Status(StatusArguments),
    /// Look at one process: which regions are used, which are huge pages, and how much of these is zeros
    Scan(ScanArguments),
}

/// Give the busiest regions of running processes huge pages, and take back those that are mostly zeros when memory is short.
#[derive(Debug, Args)]
pub(crate) struct ManageArguments {
    /// Manage these processes with their children (comma-separated)
    #[arg(long, value_name = "PID", value_delimiter = ',', conflicts_with_all = ["cgroup", "all"], allow_negative_numbers = true)]
    pub(crate) pid: Vec<u32>,
    /// Manage all processes of a cgroup: its path, a systemd unit (redis.service), or a container's name or id
    #[arg(long, value_name = "CGROUP", conflicts_with = "all")]
    pub(crate) cgroup: Option<String>,
    /// Manage all processes of the machine
    #[arg(long)]
    pub(crate) all: bool,
    /// Which regions first: hawkeye-g (by accesses), hawkeye-pmu (by counters), ingens, freebsd, linux, none
    #[arg(long, value_name = "POLICY", default_value = "hawkeye-g")]
    pub(crate) policy: HugePolicy,
    /// Change nothing: print what would be done, and why
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Look once, act on it, and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Look at each process so often
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30",
        allow_negative_numbers = true
    )]
    pub(crate) interval: TimeSpan,
    /// Promotions a second at most
    #[arg(
        long,
        value_name = "N",
        default_value = "10",
        allow_negative_numbers = true
    )]
    pub(crate) rate: Rate,
    /// Promotions in all at most
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_promotions: Option<u64>,
    /// End after so long
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) duration: Option<TimeSpan>,
    /// Percent of one processor that the manager may use at most (0.01 at least)
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "3.4",
        value_parser = cpu_percent,
        allow_negative_numbers = true
    )]
    pub(crate) cpu: Percent,
    /// Percent of memory used above which huge pages full of zeros are taken back, and nothing is promoted
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "85",
        allow_negative_numbers = true
    )]
    pub(crate) high: Percent,
    /// Percent of memory used below which that ends
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "70",
        allow_negative_numbers = true
    )]
    pub(crate) low: Percent,
    /// Begin earlier where memory use rises steeply
    #[arg(long)]
    pub(crate) adaptive: bool,
    /// Take back huge pages with more than so many base pages of zeros, of 512
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(..i64::from(REGION_PAGES)), allow_negative_numbers = true)]
    pub(crate) zeros: u16,
    /// A process with something to promote waits for so many promotions of others at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = 63,
        allow_negative_numbers = true
    )]
    pub(crate) patience: u32,
    /// The same for a cgroup with such a process, however many processes the others have
    #[arg(
        long,
        value_name = "N",
        default_value_t = 63,
        allow_negative_numbers = true
    )]
    pub(crate) cgroup_patience: u32,
    /// For ingens: percent of a region that must be in memory
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "90",
        allow_negative_numbers = true
    )]
    pub(crate) utilisation: Percent,
    /// Take options from this file (TOML, keys as the options here); what is typed counts
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder for the manager's lock and status
    #[arg(long, value_name = "FOLDER", default_value = STATE)]
    pub(crate) state: PathBuf,
    /// Also write the status to this file in Prometheus' text form
    #[arg(long, value_name = "FILE")]
    pub(crate) prometheus: Option<PathBuf>,
}

// No doc comment: it would stand in the help of the whole command in place of its own.
#[derive(Debug, Args)]
pub(crate) struct LaunchArguments {
    /// Run a program whose heap and large mappings get huge pages at their first touch; needs no root
    #[arg(long, conflicts_with = "ManageArguments", requires = "program")]
    pub(crate) launch: bool,
    /// With --launch: a thread beside the program makes the huge pages ready before it touches them
    #[arg(long, requires = "launch")]
    pub(crate) prezero: bool,
    /// With --prezero: make no more than so much ready in a second, from 100M on [default: 12.5G, which is
    /// more than memory can be zeroed]
    #[arg(long, value_name = "SIZE", requires = "prezero", value_parser = prezero_rate, allow_hyphen_values = true)]
    pub(crate) prezero_rate: Option<u64>,
    /// With --launch: write what became of it as JSON (schema pagewise.apply/1)
    #[arg(long, value_name = "FILE", requires = "launch")]
    pub(crate) json: Option<PathBuf>,
    /// With --launch: under sudo, run the program as root and not as the calling user
    #[arg(long, requires = "launch")]
    pub(crate) as_root: bool,
    /// With --launch: the program and its arguments
    #[arg(last = true, value_name = "CMD", requires = "launch")]
    pub(crate) program: Vec<OsString>,
}

impl ManageArguments {
    /// Whether any processes are named.
    pub(crate) fn names_processes(&self) -> bool {
        !self.pid.is_empty() || self.cgroup.is_some() || self.all
    }

    /// Whether they make sense together.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.policy.needs_first_touch() {
            return Err(Failure::new(format!(
                "--policy {}: nobody outside of a program is there at its first faults; type: pagewise hugepages --launch -- CMD, \
                 and for what runs already --policy hawkeye-g",
                self.policy
            )));
        }
        watermarks(self.high, self.low, self.adaptive).map(drop)
    }

    /// What the policies go by.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        self.check()?;
        Ok(Settings {
            promotions_per_second: self.rate.0,
            watermarks: watermarks(self.high, self.low, self.adaptive)?,
            most_zero: self.zeros,
            most_passed_over: self.patience,
            most_group_passed_over: self.cgroup_patience,
            utilisation: self.utilisation.share(),
            splits_free_zeros: huge_pages::features().splits_free_zeros(),
            ..Settings::new(self.policy)
        })
    }

    /// From clearing accessed bits to looking at them: a second, as in the paper, or half a short interval.
    pub(crate) fn window(&self) -> Duration {
        Duration::from_secs(1).min(self.interval.0 / 2)
    }
}

#[derive(Debug, Args)]
pub(crate) struct StatusArguments {
    /// Print JSON (schema pagewise.hugepages/1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Again and again, so often
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "2", allow_negative_numbers = true)]
    pub(crate) watch: Option<TimeSpan>,
    /// Folder of the manager's status
    #[arg(long, value_name = "FOLDER", default_value = STATE)]
    pub(crate) state: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ScanArguments {
    /// The process
    #[arg(long, value_name = "PID", allow_negative_numbers = true)]
    pub(crate) pid: u32,
    /// From clearing the accessed bits to looking at them
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1",
        allow_negative_numbers = true
    )]
    pub(crate) window: TimeSpan,
    /// Print JSON (schema pagewise.hugepages-scan/1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write the map as a page that needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Overwrite the file given with --html
    #[arg(short, long, requires = "html")]
    pub(crate) force: bool,
}

/// A number of promotions a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rate(pub(crate) f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.parse().ok();
        number
            .filter(|rate| (0.001..=10_000.0).contains(rate))
            .map(Self)
            .ok_or_else(|| {
                format!("{text:?} is no number of promotions a second from 0.001 to 10000")
            })
    }
}

/// Bytes a second.
fn prezero_rate(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(MemorySize::Bytes(bytes)) if bytes >= LEAST_PREZERO_RATE => Ok(bytes),
        _ => Err("it is a size such as 100M or more".to_owned()),
    }
}

/// Percent of one processor.
const LEAST_CPU: f64 = 0.01;

/// A percentage above 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Percent(pub(crate) f64);

impl Percent {
    /// 1 for 100 %.
    pub(crate) fn share(self) -> f64 {
        self.0 / 100.0
    }
}

/// Of memory in use, between which bloat is recovered.
pub(crate) fn watermarks(
    high: Percent,
    low: Percent,
    adaptive: bool,
) -> Result<Watermarks, Failure> {
    if low.0 > high.0 {
        return Err(Failure::new(format!(
            "--low {} is above --high {}: bloat is recovered from the high watermark down to the low one",
            low.0, high.0
        )));
    }
    Ok(Watermarks {
        high: high.share(),
        low: low.share(),
        adaptive,
    })
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
        number
            .filter(|percent| *percent > 0.0 && *percent <= 100.0)
            .map(Self)
            .ok_or_else(|| format!("{text:?} is no percentage above 0 and up to 100"))
    }
}

/// With less, what a look costs would take longer to earn than times can tell, and nothing would ever be done.
fn cpu_percent(text: &str) -> Result<Percent, String> {
    let percent = text.parse().ok();
    percent
        .filter(|percent: &Percent| percent.0 >= LEAST_CPU)
        .ok_or_else(|| format!("{text:?} is no percentage from {LEAST_CPU} to 100"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_make_no_sense_are_refused() {
        for wrong in ["", "0", "-1", "nan", "inf", "1e9", "ten"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong:?}");
        }
        for wrong in ["", "0", "-1", "101", "nan", "%"] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong:?}");
        }
        for wrong in ["1e-30", "0.0099", "0", "101", "nan"] {
            assert!(cpu_percent(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(cpu_percent("0.01"), Ok(Percent(0.01)));
        assert_eq!("3.4%".parse(), Ok(Percent(3.4)));
        assert_eq!("0.5".parse(), Ok(Rate(0.5)));
    }
}
