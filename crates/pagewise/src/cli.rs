//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use pagewise_host::MemorySize;
use pagewise_host::SwapRequest;

/// Sees and explains what memory pressure does to a program, page by page.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_CODES: &str = "Exit codes: the program's own where one is run (128+N if signal N killed it); \
125 if pagewise fails, 126 if the program cannot be executed, 127 if it is not found.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what this kernel and user permit, and what to type to get more
    Check(CheckArguments),
    /// Run a program and record its swapping
    Record(RecordArguments),
    /// Say which objects swapped, where they come from and what they cost
    Report(ReportArguments),
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
    /// Sensors to use: faults, allocations (comma-separated), or none
    #[arg(long, value_name = "LIST", default_value = "faults,allocations")]
    pub(crate) sensors: Sensors,
    /// Folder to write [default: pagewise.data; the last one becomes pagewise.data.old]
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite the folder given with -o
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Under sudo, run the program as root and not as the calling user
    #[arg(long)]
    pub(crate) as_root: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) program: Vec<OsString>,
}

const RECORD_EXAMPLES: &str = "Examples:
  pagewise record --memory 512M -- ./solver input.txt
  pagewise record --memory 60% --measure-peak --swap zram:lz4 -- ./solver input.txt";

/// Which sensors run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sensors {
    pub(crate) faults: bool,
    pub(crate) allocations: bool,
}

impl std::str::FromStr for Sensors {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut sensors = Self {
            faults: false,
            allocations: false,
        };
        if text == "none" {
            return Ok(sensors);
        }
        for name in text.split(',') {
            match name {
                "faults" => sensors.faults = true,
                "allocations" => sensors.allocations = true,
                _ => {
                    return Err(format!(
                        "no sensor {name:?}: there are faults and allocations, or none"
                    ));
                }
            }
        }
        Ok(sensors)
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The recording
    #[arg(default_value = "pagewise.data", value_name = "FOLDER")]
    pub(crate) trace: PathBuf,
    /// Print JSON (schema pagewise.report/1)
    #[arg(long)]
    pub(crate) json: bool,
    /// Objects to list
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) objects: usize,
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
                allocations: false
            })
        );
        assert_eq!(
            "faults".parse(),
            Ok(Sensors {
                faults: true,
                allocations: false
            })
        );
        assert!("fault".parse::<Sensors>().is_err());
        assert!("".parse::<Sensors>().is_err());
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
