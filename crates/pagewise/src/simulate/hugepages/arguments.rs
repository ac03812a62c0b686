//! What the command line says of huge pages.

use std::time::Duration;

use clap::Args;
use pagewise_host::MemorySize;
use pagewise_host::page_bytes;
use pagewise_refs::Options;
use pagewise_replay::HugeArm;
use pagewise_replay::HugeRequest;
use pagewise_simulate::hugepages::HugePolicy;
use pagewise_simulate::hugepages::REGION_PAGES;
use pagewise_simulate::hugepages::Settings;
use pagewise_simulate::hugepages::Tlb;

use super::super::arguments::SimulateArguments;
use super::super::policy::PolicyChoice;
use crate::failure::Failure;
use crate::hugepages::Percent;
use crate::hugepages::Rate;
use crate::hugepages::watermarks;
use crate::observe::TimeSpan;

/// Policies of huge pages in place of those that replace pages.
#[derive(Debug, Args)]
#[command(next_help_heading = "Huge pages")]
pub(crate) struct HugeArguments {
    /// Replay what was accessed (record --access, references with addresses, tables of coverage) under policies of huge pages
    #[arg(long, conflicts_with_all = [
        "memory", "storage", "storage_models", "sweep", "curve", "sample", "warmup", "flush", "classify", "page_size", "jobs",
        "engine",
    ])]
    pub(crate) hugepages: bool,
    /// Entries of the processors' TLB and cycles of its misses, as far as they differ from l1-4k=64,l1-2m=8,l2=1024,walk=36,
    /// walk-2m=12,l2-hit=8,work=200 (a Haswell; work: cycles beside a lookup, where that is not known)
    #[arg(
        long,
        value_name = "GEOMETRY",
        requires = "hugepages",
        allow_hyphen_values = true
    )]
    pub(crate) tlb: Option<Tlb>,
    /// Percent of cycles that page walks took on base pages, as counters of the processor said, one for each trace:
    /// 30,0.5 [default: as the TLB's model says]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "hugepages",
        allow_negative_numbers = true
    )]
    pub(crate) overhead: Vec<Percent>,
    /// Promotions a second at most
    #[arg(
        long,
        alias = "rate",
        value_name = "N",
        default_value = "10",
        requires = "hugepages",
        allow_negative_numbers = true
    )]
    pub(crate) promotions_per_second: Rate,
    /// The manager looks at each program so often
    #[arg(
        long,
        value_name = "TIME",
        default_value = "30",
        requires = "hugepages",
        allow_negative_numbers = true
    )]
    pub(crate) interval: TimeSpan,
    /// Replay so long; programs go on as they were last seen [default: as long as the longest trace]
    #[arg(
        long,
        value_name = "TIME",
        requires = "hugepages",
        allow_negative_numbers = true
    )]
    pub(crate) duration: Option<TimeSpan>,
    /// Of traces of references: how long one stands for
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1us",
        requires = "hugepages",
        allow_negative_numbers = true
    )]
    pub(crate) reference_time: TimeSpan,
    /// Memory of the machine: where it gets short, bloat is taken back [default: enough]
    #[arg(
        long,
        value_name = "SIZE",
        requires = "hugepages",
        allow_negative_numbers = true
    )]
    pub(crate) total_memory: Option<MemorySize>,
    /// Percent of memory used above which huge pages full of zeros are taken back, and nothing is promoted
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "85",
        requires = "total_memory",
        allow_negative_numbers = true
    )]
    pub(crate) high: Percent,
    /// Percent of memory used below which that ends
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "70",
        requires = "total_memory",
        allow_negative_numbers = true
    )]
    pub(crate) low: Percent,
    /// Begin earlier where memory use rises steeply
    #[arg(long, requires = "total_memory")]
    pub(crate) adaptive: bool,
    /// Take back huge pages with more than so many base pages of zeros, of 512
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(..i64::from(REGION_PAGES)), requires = "total_memory", allow_negative_numbers = true)]
    pub(crate) zeros: u16,
    /// A program with something to promote waits for so many promotions of others at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = 63,
        requires = "hugepages",
        allow_negative_numbers = true
    )]
    pub(crate) patience: u32,
    /// For ingens (not ingens-N): percent of a region that must be in memory
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "90",
        requires = "hugepages",
        allow_negative_numbers = true
    )]
    pub(crate) utilisation: Percent,
    /// For ingens: percent of free memory in pieces too small for a huge page; below 50 it promotes whatever has a page in memory
    /// [default: not known, which counts as much]
    #[arg(
        long,
        value_name = "PERCENT",
        requires = "hugepages",
        allow_negative_numbers = true
    )]
    pub(crate) fragmentation: Option<Percent>,
}

impl HugeArguments {
    /// What is asked for.
    pub(super) fn request(&self, general: &SimulateArguments) -> Result<HugeRequest, Failure> {
        let arms: Result<Vec<Vec<HugeArm>>, Failure> = match general.policy.is_empty() {
            true => Ok(vec![HugeArm::all()]),
            false => general.policy.iter().map(PolicyChoice::huge).collect(),
        };
        let peak = None;
        let memory = self.total_memory.map(|size| match size {
            MemorySize::Percent(_) => Err(Failure::new(format!(
                "--total-memory {size}: give bytes, for example 16G"
            ))),
            size => Ok(size.resolve(peak, page_bytes())?),
        });
        Ok(HugeRequest {
            arms: arms?.concat(),
            tlb: self.tlb.unwrap_or_default(),
            settings: self.settings()?,
            interval: self.interval.0,
            memory_bytes: memory.transpose()?,
            fragmentation: self.fragmentation.map(Percent::share),
            duration: self.duration.map(|time| time.0),
            reference_time: self.reference_time.0.max(Duration::from_nanos(1)),
            overheads: self
                .overhead
                .iter()
                .map(|percent| percent.share())
                .collect(),
            reading: Options {
                format: general.format,
                columns: general.columns,
                skip_bad: general.skip_bad,
                ..Options::default()
            },
        })
    }

    fn settings(&self) -> Result<Settings, Failure> {
        Ok(Settings {
            promotions_per_second: self.promotions_per_second.0,
            watermarks: watermarks(self.high, self.low, self.adaptive)?,
            most_zero: self.zeros,
            most_passed_over: self.patience,
            utilisation: self.utilisation.share(),
            ..Settings::new(HugePolicy::Nothing)
        })
    }
}
