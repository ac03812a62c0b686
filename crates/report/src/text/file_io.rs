//! The part of the report in a terminal about files: contexts, most bytes first, and where in their files.

use std::fmt::Write as _;

use pagewise_analyze::FaultPath;
use pagewise_analyze::file_io::FileIo;
use pagewise_analyze::file_io::FileUse;
use pagewise_analyze::file_io::Heat;
use pagewise_analyze::file_io::IoContext;
use pagewise_analyze::file_io::Use;

use super::Style;
use super::fault_paths::path_line;
use super::fault_paths::shortened;
use crate::file_io::advice_words;
use crate::units::bytes;
use crate::units::count;
use crate::units::duration;
use crate::units::percent;

const FILES: usize = 8;
const CONTEXT_HEADS: [&str; 8] = [
    "bytes", "calls", "mean", "p50", "p99", "missed", "in vain", "class",
];

/// Contexts and files.
pub fn render_file_io(io: &FileIo, style: Style) -> String {
    let mut text = format!("\n{}\n", style.bold("Files"));
    if io.contexts.is_empty() {
        text.push_str("No regular file was read or written.\n");
        return text;
    }
    style.add_wrapped(&mut text, &sums(io));
    text.push('\n');
    contexts(&mut text, io, style);
    files(&mut text, io, style);
    text
}

/// What all of it was, in a sentence.
pub(crate) fn sums(io: &FileIo) -> String {
    let mut line = format!(
        "{} calls read {} and wrote {}, {} files, by {} call paths",
        count(io.calls),
        bytes(io.read_bytes),
        bytes(io.written_bytes),
        count(io.files.len() as u64),
        count(io.call_paths),
    );
    if io.summed {
        line.push_str("; recorded as sums: what needs single calls is not known");
    }
    if io.cache_unseen {
        line.push_str("; the page cache was not seen: what was missed, read ahead or cached in vain is not known");
    }
    if io.beyond_bytes > 0 {
        let _ = write!(
            line,
            "; {} of it had no room to be followed: for the call paths concerned, what was used again is not known",
            bytes(io.beyond_bytes)
        );
    }
    if io.paths_beyond > 0 {
        let _ = write!(
            line,
            "; {} further call paths could not be told apart",
            count(io.paths_beyond)
        );
    }
    line
}

fn contexts(text: &mut String, io: &FileIo, style: Style) {
    let shown = &io.contexts[..io.contexts.len().min(style.objects)];
    let rows: Vec<[String; 8]> = shown.iter().map(cells).collect();
    let widths: Vec<usize> = (0..CONTEXT_HEADS.len())
        .map(|column| {
            let cells = rows.iter().map(|row| row[column].len());
            cells.max().unwrap_or(0).max(CONTEXT_HEADS[column].len())
        })
        .collect();
    let aligned = |cells: &[&str]| {
        let mut line = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let width = widths[column];
            let _ = match column {
                7 => write!(line, "  {cell:<width$}"),
                _ => write!(line, "{}{cell:>width$}", if column > 0 { "  " } else { "" }),
            };
        }
        line.trim_end().to_owned()
    };
    let _ = writeln!(text, "{}", style.dim(&aligned(&CONTEXT_HEADS)));
    for (context, row) in shown.iter().zip(&rows) {
        let cells: Vec<&str> = row.iter().map(String::as_str).collect();
        let _ = writeln!(text, "{}", aligned(&cells));
        let place = format!("{} by {}", context.does.name(), path_of(context, style));
        let room = style.width.saturating_sub(4);
        let _ = writeln!(text, "    {}", shortened(&place, room));
        for line in style.wrapped(&evidence(context, io, style)) {
            let _ = writeln!(text, "    {line}");
        }
    }
    if io.contexts.len() > shown.len() {
        let rest = io.contexts.len() - shown.len();
        let _ = writeln!(text, "... and {} more (--objects N)", count(rest as u64));
    }
}

fn cells(context: &IoContext) -> [String; 8] {
    let unknown = || "?".to_owned();
    let none = || "-".to_owned();
    let latency = |at| context.latency.quantile(at).map_or_else(none, duration);
    let missed = match (context.does, context.miss_ratio()) {
        (Use::Read, Some(ratio)) => percent((ratio * 1e6) as u64, 1_000_000),
        (Use::Read, None) if context.missed_bytes.is_none() => unknown(),
        _ => none(),
    };
    let in_vain = match context.does {
        Use::Read | Use::Write => context.in_vain_bytes.map_or_else(unknown, bytes),
        Use::Sync | Use::Map => none(),
    };
    [
        bytes(context.bytes),
        count(context.calls),
        context.mean_bytes().map_or_else(none, bytes),
        latency(0.5),
        latency(0.99),
        missed,
        in_vain,
        context.class().unwrap_or_else(none),
    ]
}

pub(crate) fn path_of(context: &IoContext, style: Style) -> String {
    let path = FaultPath {
        frames: context.frames.clone(),
        swap_ins: 0,
        stall_ns: 0,
    };
    path_line(&path, style)
}

/// Which files, why it is what it is, and what to do.
fn evidence(context: &IoContext, io: &FileIo, style: Style) -> String {
    let mut line = grounds(context, io, style);
    if let Some(advice) = advice_words(context.advice) {
        let _ = write!(line, ". Advice: {advice}");
    }
    line
}

/// Which files, and why it is what it is.
pub(crate) fn grounds(context: &IoContext, io: &FileIo, style: Style) -> String {
    let mut parts = Vec::new();
    if let Some(&(file, _)) = context.files.first() {
        let name = name_of(&io.files[file], style);
        parts.push(match context.files.len() {
            1 => name,
            several => format!("{name} and {} more files", count(several as u64 - 1)),
        });
    }
    if context.is_by_files {
        parts.push("of this call path these files only: it uses others in another way".to_owned());
    }
    if let Some(mean) = context.runs.mean_calls() {
        let of = if context.does == Use::Map {
            "faults that read"
        } else {
            "calls"
        };
        let mut run = format!("runs of {mean:.1} {of}");
        if let Some(size) = context.runs.sizes.quantile(0.5) {
            let _ = write!(run, " and {} (median)", bytes(size));
        }
        parts.push(run);
    }
    if let Some(share) = context.reuse.and_then(|reuse| reuse.again_share()) {
        let what = match context.does {
            Use::Write => "written or read again",
            _ => "read again",
        };
        let shown = |share: f64| percent((share * 1e6) as u64, 1_000_000);
        let cached = context.reuse.and_then(|reuse| reuse.again_cached_share());
        parts.push(match cached.filter(|_| share > 0.0) {
            Some(cached) => format!(
                "{} {what}, {} while still cached",
                shown(share),
                shown(cached)
            ),
            None => format!("{} {what}", shown(share)),
        });
    }
    // Of a mapping, most is read ahead by faults that wait for nothing, and are not told.
    let ahead = context.ahead_bytes.filter(|_| context.does != Use::Map);
    if let Some(ahead) = ahead.filter(|&ahead| ahead > 0) {
        let mut ahead = format!("{} read ahead", bytes(ahead));
        if let Some(unused) = context.unused_ahead_bytes.filter(|&unused| unused > 0) {
            let _ = write!(ahead, ", {} of it never read", bytes(unused));
        }
        parts.push(ahead);
    }
    if let Some(again) = context.refaulted_bytes.filter(|&again| again > 0) {
        parts.push(format!("{} came back after eviction", bytes(again)));
    }
    if context.failed > 0 {
        parts.push(format!("{} failed", count(context.failed)));
    }
    parts.join("; ")
}

pub(crate) fn name_of(file: &FileUse, style: Style) -> String {
    let name = match &file.path {
        Some(path) => style.clean(path),
        None => format!(
            "inode {} of device {}:{}",
            file.inode, file.device.0, file.device.1
        ),
    };
    if file.unlinked {
        name + " (unlinked)"
    } else {
        name
    }
}

fn files(text: &mut String, io: &FileIo, style: Style) {
    let moved = io
        .files
        .iter()
        .filter(|file| file.read_bytes + file.written_bytes > 0);
    let shown: Vec<&FileUse> = moved.take(FILES).collect();
    if shown.is_empty() {
        return;
    }
    text.push('\n');
    for file in shown {
        let mut line = format!(
            "{}: {} read, {} written",
            name_of(file, style),
            bytes(file.read_bytes),
            bytes(file.written_bytes)
        );
        if let (Some(distinct), Some(again)) = (file.distinct_read_bytes, file.read_again_bytes)
            && distinct > 0
        {
            let _ = write!(
                line,
                "; {} different, {} of them read again",
                bytes(distinct),
                percent(again, distinct)
            );
        }
        if file.contexts_disagree {
            line.push_str("; its call paths want different things");
        }
        style.add_wrapped(text, &line);
        if let Some(picture) = picture(&file.heat, style.unicode) {
            let _ = writeln!(
                text,
                "    |{picture}| {} each",
                bytes(file.heat.block_bytes)
            );
        }
    }
}

/// Bytes by block, darker where there are more; `None`: too few blocks for a picture.
fn picture(heat: &Heat, unicode: bool) -> Option<String> {
    const FEWEST: usize = 8;
    let shades: Vec<char> = if unicode {
        " ▁▂▃▄▅▆▇█".chars().collect()
    } else {
        " .:-=+*#@".chars().collect()
    };
    let sums = heat.read.iter().zip(&heat.written);
    let sums: Vec<u64> = sums.map(|(read, written)| read + written).collect();
    let most = sums.iter().copied().max().filter(|&most| most > 0)?;
    if sums.len() < FEWEST {
        return None;
    }
    let shade = |&sum: &u64| {
        // Something is never shown as nothing.
        let at = (sum as f64 / most as f64 * (shades.len() - 1) as f64).ceil();
        shades[(at as usize).min(shades.len() - 1)]
    };
    Some(sums.iter().map(shade).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_was_read_once_is_not_blank() {
        let mut read = vec![0; 10];
        read[0] = 1;
        read[9] = 1_000_000;
        let heat = Heat {
            block_bytes: 4096,
            written: vec![0; 10],
            read,
        };
        assert_eq!(picture(&heat, false).as_deref(), Some(".        @"));
    }

    #[test]
    fn few_blocks_have_no_picture() {
        let heat = Heat {
            block_bytes: 4096,
            read: vec![1; 3],
            written: vec![0; 3],
        };
        assert_eq!(picture(&heat, true), None);
    }
}
