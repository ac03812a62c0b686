//! What the command line says.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use pagewise_host::MemorySize;
use pagewise_refs::Classify;
use pagewise_refs::Columns;
use pagewise_refs::Format;
use pagewise_replay::HugeArm;
use pagewise_replay::Request;
use pagewise_replay::SampleRate;
use pagewise_replay::StorageChoice;
use pagewise_replay::Sweep;
use pagewise_simulate::Models;
use pagewise_simulate::PolicyKind;

use super::engine::Engine;
use super::hugepages::HugeArguments;
use super::policy::PolicyChoice;
use crate::failure::Failure;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = long_help())]
pub(crate) struct SimulateArguments {
    /// The trace: a file of page references (lackey, memtrace, LIRS, ARC, SPEC addresses, csv, oracleGeneral, vscsi; also
    /// compressed by gzip, zstd or xz), - for standard input, or a recording of pagewise
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// More traces, with --engine or --hugepages
    #[arg(value_name = "TRACES")]
    pub(crate) more: Vec<PathBuf>,
    /// Policies, comma-separated (--help lists them), or `all`. The column vs optimum needs belady among them [default:
    /// clock,linux,four-area,belady; with --hugepages all]
    #[arg(short, long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) policy: Vec<PolicyChoice>,
    /// Memory sizes, comma-separated: 20% (of the footprint), 512M, 2500p (pages)
    #[arg(
        short,
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "5%,10%,20%",
        allow_negative_numbers = true
    )]
    pub(crate) memory: Vec<MemorySize>,
    /// The devices that hold files and swap, and which of their figures to take: file=NAME,swap=NAME,level=min|typical|max
    #[arg(long, value_name = "DEVICES", default_value = "file=ufs3.1,swap=emram")]
    pub(crate) storage: StorageChoice,
    /// A file of storage models in place of the built-in ones
    #[arg(long, value_name = "FILE")]
    pub(crate) storage_models: Option<PathBuf>,
    /// Let a write to swap cost 1 to 100 times a read (write/read=FROM..TO), in steps of 1, 2, 5, 10, ...
    #[arg(long, value_name = "RANGE")]
    pub(crate) sweep: Option<Sweep>,
    /// Also give whole curves by memory size: lru exactly, the others from a sample of the pages, with its error
    #[arg(long)]
    pub(crate) curve: bool,
    /// Simulate only so large a share of the pages (1%, 0.01) in memory as much smaller, and scale what they count: for
    /// traces that would take too long. The error of the miss ratio is told
    #[arg(
        long,
        value_name = "SHARE",
        conflicts_with = "curve",
        allow_hyphen_values = true
    )]
    pub(crate) sample: Option<SampleRate>,
    /// Do not count the first N references: they only fill memory
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) warmup: u64,
    /// References between two flushes of written file pages, or `never`: they are then written when they leave memory
    #[arg(long, value_name = "N", default_value_t = Flush(Some(pagewise_simulate::DEFAULT_FLUSH_PERIOD)))]
    pub(crate) flush: Flush,
    /// How to tell files from anonymous memory: syscalls (what the log's system calls mapped) or paper (instructions are
    /// files, data is anonymous) [default: syscalls where the log has them, else paper]
    #[arg(long, value_name = "HOW")]
    pub(crate) classify: Option<Classify>,
    /// The trace's format: lirs, arc, address, lackey, memtrace, oracle-general, csv, vscsi [default: by its content]
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<Format>,
    /// Columns of a csv without header, from 1: id=5,op=3,size=4
    #[arg(long, value_name = "COLUMNS")]
    pub(crate) columns: Option<Columns>,
    /// Bytes of a page [default: 4K for addresses; blocks and objects are pages themselves]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true)]
    pub(crate) page_size: Option<MemorySize>,
    /// Leave out lines that are not of the format, and say how many
    #[arg(long)]
    pub(crate) skip_bad: bool,
    /// Simulations at once [default: one for each processor]
    #[arg(short, long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Print JSON (schema pagewise.simulate/1)
    #[arg(long, conflicts_with = "csv")]
    pub(crate) json: bool,
    /// Print comma-separated values, a row for each policy and size
    #[arg(long)]
    pub(crate) csv: bool,
    /// Also write a page with plots that needs no network
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Overwrite the file given with --html
    #[arg(short, long, requires = "html")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) sweep_of: SweepArguments,
    #[command(flatten)]
    pub(crate) hugepages: HugeArguments,
}

/// Of many traces at once.
#[derive(Debug, Args)]
#[command(next_help_heading = "Many traces at once (with the Python package)")]
pub(crate) struct SweepArguments {
    /// Run each trace under each policy as a task of its own, resumable: on this machine (local) or on a Ray cluster (ray)
    #[arg(long, value_name = "ENGINE", conflicts_with_all = ["json", "html", "curve"])]
    pub(crate) engine: Option<Engine>,
    /// The Ray cluster: HOST:PORT, or auto [default: one of this machine]
    #[arg(long, value_name = "ADDRESS", requires = "engine")]
    pub(crate) address: Option<String>,
    /// Folder of the Parquet data set of what was found [default: pagewise.sweep]
    #[arg(short, long, value_name = "DIR", requires = "engine")]
    pub(crate) output: Option<PathBuf>,
}

impl SimulateArguments {
    /// All of them.
    pub(super) fn traces(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.trace).chain(&self.more)
    }

    /// What is asked for.
    pub(super) fn request(&self) -> Result<Request, Failure> {
        let policies: Result<Vec<Vec<PolicyKind>>, Failure> = match self.policy.is_empty() {
            true => Ok(vec![DEFAULT_POLICIES.to_vec()]),
            false => self.policy.iter().map(PolicyChoice::kinds).collect(),
        };
        Ok(Request {
            policies: policies?.concat(),
            sizes: self.memory.clone(),
            page_bytes: self.page_size.map(page_bytes).transpose()?,
            devices: self.storage.clone(),
            storage_models: self.storage_models.clone(),
            sweep: self.sweep.clone(),
            warmup: self.warmup,
            flush_period: self.flush.0,
            jobs: self.jobs.map(usize::from),
            curve: self.curve,
            sample: self.sample,
            beside_clock: true,
            format: self.format,
            classify: self.classify,
            columns: self.columns,
            skip_bad: self.skip_bad,
        })
    }
}

const DEFAULT_POLICIES: [PolicyKind; 4] = [
    PolicyKind::Clock,
    PolicyKind::Linux,
    PolicyKind::FourArea,
    PolicyKind::Belady,
];

fn page_bytes(size: MemorySize) -> Result<u64, Failure> {
    match size {
        MemorySize::Bytes(bytes) if bytes.is_power_of_two() => Ok(bytes),
        size => Err(Failure::new(format!(
            "--page-size {size}: give bytes, a power of two, for example 4K or 16K"
        ))),
    }
}

const EXAMPLES: &str = "I/O time is that of the counted page reads and writes at the devices' cost, one after the other; \
the kernel's own work is apart (JSON: software_ns). Written file pages are flushed every --flush references, whatever the \
policy.

Examples:
  valgrind --tool=lackey --trace-mem=yes --trace-syscalls=yes --log-file=/dev/stdout CMD | zstd > cmd.zst
  pagewise simulate cmd.zst --policy clock,four-area --memory 5%,8%,10%,12%,15%,20%
  pagewise simulate OLTP.lis --policy all --memory 10% --json
  pagewise simulate cmd.zst --storage file=nvme,swap=zram-lz4 --memory 64M,128M --html what-if.html
  pagewise simulate *.zst s3://traces/web.zst --policy all --engine ray --output found
  pagewise simulate cmd.zst --sweep write/read=1..100 --policy cflru,four-area --csv
  pagewise record --access -- CMD && pagewise simulate --hugepages pagewise.data";

/// The examples, after the policies with their sources and the devices with their costs.
fn long_help() -> String {
    let policies = PolicyKind::ALL
        .iter()
        .map(|policy| format!("  {policy:<12} {}\n", policy.source()));
    let models = Models::built_in();
    let devices = models.device.iter().map(|(name, device)| {
        format!(
            "  {name:<12} read {:>7}, write {:>7}  {}\n",
            pagewise_report::duration(device.read_ns.typical),
            pagewise_report::duration(device.write_ns.typical),
            device.title
        )
    });
    format!(
        "Policies:\n{}\nHuge page policies (--hugepages):\n  {}\n\nDevices (typical, for a page of 4 KiB):\n{}\n{EXAMPLES}",
        policies.collect::<String>(),
        HugeArm::all()
            .iter()
            .map(HugeArm::to_string)
            .collect::<Vec<_>>()
            .join(", "),
        devices.collect::<String>()
    )
}

/// References between two flushes; `None`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flush(pub(crate) Option<u64>);

impl std::fmt::Display for Flush {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(period) => write!(formatter, "{period}"),
            None => formatter.write_str("never"),
        }
    }
}

impl FromStr for Flush {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self(None));
        }
        match text.parse() {
            Ok(period) if period > 0 => Ok(Self(Some(period))),
            _ => Err("a number of references from 1 on, or `never`".to_owned()),
        }
    }
}
