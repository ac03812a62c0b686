//! What the page's scripts are given, as JSON.

use std::collections::HashMap;
use std::sync::Arc;

use pagewise_analyze::Findings;
use pagewise_analyze::MemoryUse;
use pagewise_analyze::ObjectFrame;
use pagewise_analyze::Timeline;
use pagewise_analyze::file_io::FileIo;
use serde::Serialize;

use super::bands::Band;
use super::bands::Bands;
use super::escape::visible;
use super::events::MOST_PATHS;
use super::events::Points;
use super::events::Process;
use super::overview::COLUMNS;
use super::overview::Overview;
use super::pack::LATENCY_STEPS;
use super::pack::Packed;
use super::pack::Window;
use super::pack::compress;
use super::pack::push_varint;
use crate::text::Style;

/// More moments than this of a curve are thinned out.
const MOST_MOMENTS: usize = 4_000;

/// Everything but the points.
#[derive(Debug, Serialize)]
pub(super) struct Model<'findings> {
    schema: &'static str,
    length_ns: u64,
    tick_ns: u64,
    page_bytes: u64,
    latency_steps: f64,
    /// Swap-ins and evictions of the table, and those that are points.
    events: u64,
    points: u64,
    /// A point stands for so many events.
    every: f64,
    /// Whether swap-ins would have been seen.
    observed: bool,
    has_latency: bool,
    has_paths: bool,
    rows: u64,
    bands: Vec<ModelBand>,
    processes: &'findings [Process],
    frames: Vec<ModelFrame>,
    paths: Vec<ModelPath>,
    /// Calls on files; `None`: they were not recorded, or there were none.
    io: Option<ModelIo>,
    overview: Overview,
    samples: Curve,
    scans: Curve,
    working_set: WorkingSetCurve,
    /// By part of the recording, as in the overview, ns.
    reclaim_ns: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct ModelBand {
    label: String,
    /// The row of the table of objects; `None`: all further objects.
    object: Option<usize>,
    start: u64,
    height: u64,
    scale: u64,
    shift: u32,
    segments: usize,
    /// Three varints each: `offset` and `page` less those of the segment before (zigzag), `space`.
    segment_data: String,
}

/// Names of a frame; the page shows them as they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
struct ModelFrame {
    name: String,
    place: Option<String>,
}

/// A call path of swap-ins: frames outermost first.
#[derive(Debug, Serialize)]
struct ModelPath {
    frames: Vec<usize>,
    swap_ins: u64,
    stall_ns: u64,
}

/// Call paths that read and write files.
#[derive(Debug, Serialize)]
struct ModelIo {
    frames: Vec<ModelFrame>,
    paths: Vec<ModelIoPath>,
}

/// Frames outermost first.
#[derive(Debug, Serialize)]
struct ModelIoPath {
    frames: Vec<usize>,
    bytes: u64,
    latency_ns: u64,
}

/// Memory by time; times are ns since the recording's start.
#[derive(Debug, Default, Serialize)]
struct Curve {
    time_ns: Vec<u64>,
    resident: Vec<Option<u64>>,
    swapped: Vec<Option<u64>>,
    limit: Vec<Option<u64>>,
}

#[derive(Debug, Default, Serialize)]
struct WorkingSetCurve {
    time_ns: Vec<u64>,
    accessed: Vec<u64>,
}

impl<'findings> Model<'findings> {
    pub(super) fn new(
        findings: &'findings Findings,
        io: Option<&FileIo>,
        timeline: &Timeline,
        points: &'findings Points,
        bands: &Bands,
        packed: &Packed,
        window: Window,
    ) -> std::io::Result<Self> {
        let (frames, paths) = call_paths(findings);
        let labelled = |band: &Band| ModelBand::new(band, findings);
        Ok(Self {
            schema: "pagewise.html/1",
            length_ns: window.length_ns,
            tick_ns: window.tick_ns(),
            page_bytes: points.page_bytes,
            latency_steps: LATENCY_STEPS,
            events: points.events,
            points: packed.points,
            every: points.events as f64 / packed.points.max(1) as f64,
            observed: findings.swap_ins_observed(),
            has_latency: findings.faults_observed(),
            has_paths: points.has_paths,
            rows: bands.rows,
            bands: bands
                .bands
                .iter()
                .map(labelled)
                .collect::<std::io::Result<_>>()?,
            processes: &points.spaces,
            frames,
            paths,
            io: io.and_then(ModelIo::of),
            overview: Overview::of(&points.points, bands, window, points.every)?,
            samples: Curve::of(&timeline.samples, window),
            scans: Curve::of(&timeline.scans, window),
            working_set: working_set(findings, window),
            reclaim_ns: reclaims(timeline, window),
        })
    }
}

impl ModelBand {
    fn new(band: &Band, findings: &Findings) -> std::io::Result<Self> {
        let label = match band.object {
            Some(object) => Style::PAGE.name_of(&findings.objects[object]),
            None => "(all other objects)".to_owned(),
        };
        let mut data = Vec::new();
        let mut before = (0, 0);
        for segment in &band.segments {
            push_varint(&mut data, segment.offset - before.0);
            let step = segment.page.wrapping_sub(before.1) as i64;
            push_varint(&mut data, super::pack::zigzag(step));
            push_varint(&mut data, u64::from(segment.space));
            before = (segment.offset, segment.page);
        }
        Ok(Self {
            label,
            object: band.object,
            start: band.start,
            height: band.height,
            scale: band.scale,
            shift: band.shift,
            segments: band.segments.len(),
            segment_data: compress(&data)?,
        })
    }
}

/// The frames that call paths are made of, each once.
#[derive(Default)]
struct Frames {
    numbers: HashMap<ModelFrame, usize>,
    frames: Vec<ModelFrame>,
}

impl Frames {
    /// The numbers of a path's frames, outermost first.
    fn numbers(&mut self, innermost_first: &[Arc<ObjectFrame>]) -> Vec<usize> {
        let frames = innermost_first.iter().rev();
        frames.map(|frame| self.number(frame)).collect()
    }

    fn number(&mut self, frame: &ObjectFrame) -> usize {
        let frame = ModelFrame::new(frame);
        let frames = &mut self.frames;
        *self.numbers.entry(frame.clone()).or_insert_with(|| {
            frames.push(frame);
            frames.len() - 1
        })
    }
}

impl ModelIo {
    fn of(io: &FileIo) -> Option<Self> {
        let mut frames = Frames::default();
        // Of a mapping that nobody waited for, or where the kernel does not tell, there is nothing to show.
        let calls = io.contexts.iter().filter(|context| context.calls > 0);
        let paths: Vec<ModelIoPath> = calls
            .take(MOST_PATHS)
            .map(|context| ModelIoPath {
                frames: frames.numbers(&context.frames),
                bytes: context.bytes,
                latency_ns: context.latency_ns,
            })
            .collect();
        (!io.contexts.is_empty()).then_some(Self {
            frames: frames.frames,
            paths,
        })
    }
}

fn call_paths(findings: &Findings) -> (Vec<ModelFrame>, Vec<ModelPath>) {
    let mut frames = Frames::default();
    let paths = findings
        .fault_paths
        .iter()
        .take(MOST_PATHS)
        .map(|path| ModelPath {
            frames: frames.numbers(&path.frames),
            swap_ins: path.swap_ins,
            stall_ns: path.stall_ns,
        })
        .collect();
    (frames.frames, paths)
}

impl ModelFrame {
    fn new(frame: &ObjectFrame) -> Self {
        let base = |path: &str| visible(path.rsplit('/').next().unwrap_or(path));
        let module = frame.module.as_deref().map(base);
        let name = match (&frame.function, &module) {
            (Some(function), _) => visible(function),
            (None, Some(module)) => format!("[{module}]"),
            (None, None) => "[unknown]".to_owned(),
        };
        let place = match (frame.file.as_deref().map(base), frame.line) {
            (Some(file), Some(line)) => Some(format!("{file}:{line}")),
            (Some(file), None) => Some(file),
            (None, _) => module,
        };
        Self { name, place }
    }
}

impl Curve {
    fn of(moments: &[MemoryUse], window: Window) -> Self {
        let mut curve = Self::default();
        let inside = moments
            .iter()
            .filter(|moment| since(moment.time_ns, window) <= window.length_ns);
        for moment in inside.step_by(moments.len().div_ceil(MOST_MOMENTS).max(1)) {
            curve.time_ns.push(since(moment.time_ns, window));
            curve.resident.push(moment.resident);
            curve.swapped.push(moment.swapped);
            curve.limit.push(moment.limit);
        }
        curve
    }
}

fn since(time_ns: u64, window: Window) -> u64 {
    time_ns.saturating_sub(window.start_ns)
}

fn working_set(findings: &Findings, window: Window) -> WorkingSetCurve {
    let mut looks: Vec<_> = findings.working_set.iter().collect();
    looks.sort_by_key(|look| look.time_ns);
    let mut curve = WorkingSetCurve::default();
    for look in looks
        .iter()
        .step_by(looks.len().div_ceil(MOST_MOMENTS).max(1))
    {
        curve.time_ns.push(since(look.time_ns, window));
        curve.accessed.push(look.accessed_bytes);
    }
    curve
}

fn reclaims(timeline: &Timeline, window: Window) -> Vec<u64> {
    if timeline.reclaims.is_empty() {
        return Vec::new();
    }
    let mut parts = vec![0u64; COLUMNS];
    for reclaim in &timeline.reclaims {
        let at = u128::from(since(reclaim.time_ns, window)) * COLUMNS as u128;
        let part = at / u128::from(window.length_ns);
        let part = usize::try_from(part).map_or(COLUMNS - 1, |part| part.min(COLUMNS - 1));
        parts[part] = parts[part].saturating_add(reclaim.duration_ns);
    }
    parts
}
