//! `pagewise import`.

use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap::Subcommand;
use pagewise_import::ImportError;
use pagewise_import::damo;
use pagewise_trace::Imported;
use pagewise_trace::Meta;
use pagewise_trace::Overwrite;
use pagewise_trace::TraceWriter;

use crate::failure::Failure;
use crate::output::tell;

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    #[command(subcommand)]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum Format {
    /// Read the accesses that DAMON's tool damo recorded, into the table region_accesses
    Damo(DamoArguments),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct DamoArguments {
    /// A file of `damo record --output_type json_compressed` or json, of `damo report access --json` or --raw_form
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Folder to write [default: pagewise.data; the last one becomes pagewise.data.old]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Overwrite the folder given with -o
    #[arg(short, long)]
    force: bool,
}

const EXAMPLES: &str = "Not read: perf.data and the output of perf script; let damo convert them.

Examples:
  damo record --output_type json_compressed -o damon.data PID && pagewise import damo damon.data
  damo report access --raw_form > accesses.txt; pagewise import damo accesses.txt -o damon.trace";

const DEFAULT_FOLDER: &str = "pagewise.data";

pub(crate) fn run(arguments: &ImportArguments) -> Result<ExitCode, Failure> {
    let Format::Damo(arguments) = &arguments.format;
    // Once without writing: a file that cannot be read must not cost the recording that is there.
    let summary = damo::read(&arguments.file, &mut |_| Ok(()))?;
    let (dir, overwrite) = match &arguments.output {
        None => (Path::new(DEFAULT_FOLDER), Overwrite::KeepOld),
        Some(dir) if arguments.force => (dir.as_path(), Overwrite::Replace),
        Some(dir) => (dir.as_path(), Overwrite::Refuse),
    };
    let mut writer = TraceWriter::create(dir, meta(&arguments.file), overwrite)?;
    damo::read(&arguments.file, &mut |row| {
        writer.region_accesses.push(row).map_err(ImportError::from)
    })?;
    writer.close()?;
    tell!(
        "pagewise: {}: {} regions in {} snapshots of {} targets",
        dir.display(),
        pagewise_report::count(summary.regions),
        pagewise_report::count(summary.snapshots),
        summary.targets
    );
    tell!("pagewise: see docs/trace-format.md for its table region_accesses");
    Ok(ExitCode::SUCCESS)
}

/// Nothing is known but where it comes from.
fn meta(file: &Path) -> Meta {
    let off = |sensor: &str| (sensor.to_owned(), "off".to_owned());
    Meta {
        sensors: ["faults", "allocations"].map(off).into(),
        imported: Some(Imported {
            format: "damo".to_owned(),
            file: file.display().to_string(),
        }),
        ..Meta::default()
    }
}
