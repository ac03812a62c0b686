//! `pagewise export`.

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pagewise_export::CallPathOf;
use pagewise_export::Format;
use pagewise_export::Options;
use pagewise_export::Weight;
use pagewise_export::fleet;
use pagewise_export::fleet::Appended;
use pagewise_export::fleet::Labels;
use pagewise_trace::EventCount;
use pagewise_trace::Trace;

use crate::failure::Failure;
use crate::output::tell;
use crate::report::complete;
use crate::target::Contents;
use crate::target::Target;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArguments {
    /// perfetto (timeline), pprof (profile), folded (flame graph), csv or parquet (all events with their objects)
    #[arg(value_name = "FORMAT")]
    format: Format,
    /// The recording
    #[arg(default_value = "pagewise.data", value_name = "TRACE")]
    trace: PathBuf,
    /// File to write, or - for standard output [default: pagewise.perfetto-trace, .pb.gz, .folded, .csv or .parquet]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file
    #[arg(short, long)]
    force: bool,
    /// What the numbers of `folded` are: swap_ins, stall_ns or evictions; of calls on files io_bytes or io_ns
    #[arg(long, value_name = "WHAT", default_value = "swap_ins")]
    weight: Weight,
    /// Whose call paths `pprof` and `folded` show: of the allocation, or of the fault where those were recorded
    #[arg(long, value_name = "OF", default_value = "allocation")]
    call_path: CallPathOf,
    #[command(flatten)]
    fleet: FleetArguments,
}

/// Of a data set of many recordings.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recordings of many hosts (parquet)")]
struct FleetArguments {
    /// Add the recording to the data set in DIR, by host and date; one that is there already is not added twice
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "force"])]
    append: Option<PathBuf>,
    /// The machine [default: the name it had when it recorded]
    #[arg(long, value_name = "NAME", requires = "append")]
    host: Option<String>,
    /// The day, YYYY-MM-DD [default: that on which the recording began, UTC]
    #[arg(long, value_name = "DAY", requires = "append")]
    date: Option<String>,
    /// What the program is a part of [default: the file name of the command, or of the cgroup]
    #[arg(long, value_name = "NAME", requires = "append")]
    service: Option<String>,
    /// The program's version [default: the build id of its executable]
    #[arg(long, value_name = "TEXT", requires = "append")]
    release: Option<String>,
}

impl FleetArguments {
    fn labels(&self) -> Labels {
        Labels {
            host: self.host.clone(),
            date: self.date.clone(),
            service: self.service.clone(),
            release: self.release.clone(),
        }
    }
}

const EXAMPLES: &str = "Examples:
  pagewise export perfetto                 then open pagewise.perfetto-trace in https://ui.perfetto.dev
  pagewise export pprof                    then go tool pprof -tagleaf=object -top pagewise.pb.gz
  pagewise export folded --weight stall_ns -o - | inferno-flamegraph > stalls.svg
  pagewise export folded --weight io_ns -o - | inferno-flamegraph > files.svg
  pagewise export csv -o - | head
  pagewise export parquet run.data -o run.parquet
  pagewise export parquet run.data --append /srv/fleet --service solver --release 4.2";

pub(crate) fn run(arguments: &ExportArguments) -> Result<ExitCode, Failure> {
    let format = arguments.format;
    let options = Options {
        weight: arguments.weight,
        call_path_of: arguments.call_path,
    };
    if options.weight != Weight::SwapIns && format != Format::Folded {
        return Err(Failure::new("--weight is for folded only: leave it out"));
    }
    if options.weight.is_of_io() && options.call_path_of != CallPathOf::Allocation {
        return Err(Failure::new(
            "calls on files have one call path each: leave out --call-path",
        ));
    }
    if options.call_path_of != CallPathOf::Allocation
        && !matches!(format, Format::Folded | Format::Pprof)
    {
        return Err(Failure::new(
            "--call-path is for pprof and folded only: leave it out",
        ));
    }
    if let Some(folder) = &arguments.fleet.append {
        return append(arguments, folder);
    }
    let default = || PathBuf::from(format.default_file_name());
    let path = arguments.output.clone().unwrap_or_else(default);
    let contents = Contents {
        name: format.to_string(),
        is_text: format.is_text(),
        option: "-o",
    };
    let target = Target::choose(&path, &contents, arguments.force)?;
    complete(&arguments.trace)?;
    let trace = Trace::open(&arguments.trace)?;
    target.write("-o", |out| {
        pagewise_export::export(&trace, format, options, out)
    })?;
    tell_what_has_no_rows(&trace, format)?;
    Ok(ExitCode::SUCCESS)
}

fn append(arguments: &ExportArguments, folder: &Path) -> Result<ExitCode, Failure> {
    if arguments.format != Format::Parquet {
        return Err(Failure::new(format!(
            "--append is for parquet only: type pagewise export parquet --append {}",
            folder.display()
        )));
    }
    complete(&arguments.trace)?;
    let trace = Trace::open(&arguments.trace)?;
    match fleet::append(&trace, folder, &arguments.fleet.labels())? {
        Appended::Already(path) => {
            tell!(
                "pagewise: {} has this recording already, as {}: nothing was added",
                folder.display(),
                path.display()
            );
        }
        Appended::Added { events, recording } => {
            tell!("pagewise: wrote {}", events.display());
            tell!("pagewise: wrote {}", recording.display());
            tell_what_has_no_rows(&trace, Format::Parquet)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What was counted by region only has no moment and no page of its own.
fn tell_what_has_no_rows(trace: &Trace, format: Format) -> Result<(), Failure> {
    if matches!(format, Format::Folded | Format::Pprof) {
        return Ok(());
    }
    let mut events = 0;
    for row in trace.rows::<EventCount>()? {
        events += row?.events;
    }
    if events > 0 {
        let only = if format == Format::Perfetto {
            "are in the counters only"
        } else {
            "are not among the rows (see the table event_counts of the recording)"
        };
        tell!(
            "pagewise: {events} events were counted and not listed (record --max-size): they {only}"
        );
    }
    Ok(())
}
