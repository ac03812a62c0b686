//! What became of a plan's rules about I/O.

use pagewise_abi::status::OfIo;
use pagewise_abi::status::OfRule;
use pagewise_abi::status::WhyWithdrawn;
use pagewise_plan::Rule;
use pagewise_plan::Target;
use pagewise_report::bytes;
use pagewise_report::count;
use serde::Serialize;

use super::outcome::error_text;
use super::server::Words;

const NOTHING_DONE: &str = "nothing was read or written there";
const NO_GAIN: &str = "the calls were no faster with it";

#[derive(Debug, Serialize)]
pub(super) struct IoOutcome {
    target: String,
    pub(super) action: &'static str,
    site: Option<String>,
    files_pattern: Option<String>,
    /// Why it matched nothing; `null`: it did match.
    pub(super) unmatched: Option<String>,
    calls: u64,
    bytes: u64,
    /// Open files.
    files: u64,
    /// Others, for which the hint means nothing: pipes, sockets, files in memory, `O_DIRECT`, or of others.
    hintless_files: u64,
    hints: u64,
    refusals: u64,
    errno: Option<u64>,
    gone_pages: u64,
    stayed_pages: u64,
    /// Written, and not on the disk yet when they should have gone.
    unwritten_pages: u64,
    /// Cached before the calls came to them, and left alone.
    others_pages: u64,
    /// Dropped, and read again while they would have been cached still.
    missed_pages: u64,
    asked_pages: u64,
    /// The most that was kept at once.
    kept_bytes: u64,
    /// Why the hint was withdrawn; `null`: it was not.
    withdrawn: Option<&'static str>,
    /// Why its reading ahead was, while what it drops goes on to be dropped.
    readahead_withdrawn: Option<&'static str>,
    taken_over: u64,
    /// Time with the hint by time without it; `null`: it was not measured.
    time_ratio: Option<f64>,
    kept_missed_share: Option<f64>,
    left_missed_share: Option<f64>,
}

impl IoOutcome {
    pub(super) fn of(rule: &Rule, sent: &Result<usize, String>, words: &Words) -> Self {
        let word = |word| sent.as_ref().map_or(0, |&index| words.of_io(index, word));
        let calls = word(OfIo::Calls);
        let unmatched = match sent {
            Err(why) => Some(why.clone()),
            Ok(_) if calls == 0 => Some(NOTHING_DONE.to_owned()),
            Ok(_) => None,
        };
        let files_pattern = match &rule.target {
            Target::Io { files, .. } => files.clone(),
            Target::Allocation { .. } | Target::Global { .. } | Target::Heap { .. } => None,
        };
        let withdrawn = WhyWithdrawn::from_number(word(OfIo::Withdrawn)).map(|why| match why {
            WhyWithdrawn::NoGain => NO_GAIN,
            WhyWithdrawn::NoEffect => "the pages stayed in the page cache",
            WhyWithdrawn::Unsupported => "the kernel or the file system does not have it",
            WhyWithdrawn::Missed => {
                "what it dropped was read again, and would have been cached still"
            }
        });
        let ratio = word(OfIo::Ratio);
        let is_kept = rule.action.name() == "keep" && ratio > 0;
        let missed = |of: OfIo| is_kept.then(|| word(of) as f64 / 1000.0);
        let readahead_withdrawn = (word(OfIo::ReadsAsUsual) > 0).then_some(NO_GAIN);
        Self {
            target: rule.name.clone(),
            action: rule.action.name(),
            site: rule.target.site().map(|site| site.to_string()),
            files_pattern,
            unmatched,
            calls,
            bytes: word(OfIo::Bytes),
            files: word(OfIo::Files),
            hintless_files: word(OfIo::Hintless),
            hints: word(OfIo::Hints),
            refusals: word(OfIo::Refusals),
            errno: Some(word(OfIo::Errno)).filter(|&errno| errno > 0),
            gone_pages: word(OfIo::Gone),
            stayed_pages: word(OfIo::Stayed),
            unwritten_pages: word(OfIo::Unwritten),
            others_pages: word(OfIo::Theirs),
            missed_pages: word(OfIo::Missed),
            asked_pages: word(OfIo::Asked),
            kept_bytes: sent
                .as_ref()
                .map_or(0, |&index| words.of_rule(index, OfRule::Locked)),
            withdrawn,
            readahead_withdrawn,
            taken_over: word(OfIo::TakenOver),
            kept_missed_share: missed(OfIo::KeptMissed),
            left_missed_share: missed(OfIo::LeftMissed),
            time_ratio: (ratio > 0).then_some(ratio as f64 / 1000.0),
        }
    }

    /// From outside only calls on regular files are seen.
    pub(super) fn seen_from_outside(&mut self) {
        if self.calls == 0 && self.unmatched.as_deref() == Some(NOTHING_DONE) {
            self.unmatched = Some(format!(
                "{NOTHING_DONE} in regular files (pipes, sockets and devices have no hints, and are not looked at from outside)"
            ));
        }
    }

    /// For people.
    pub(super) fn line(&self) -> String {
        let target = self.target.replace(char::is_control, " ");
        if let Some(why) = &self.unmatched {
            return format!("{target}: rule unmatched: {why}");
        }
        let mut parts = vec![format!(
            "{} ({} calls, {}), {} hints",
            self.action,
            count(self.calls),
            bytes(self.bytes),
            count(self.hints)
        )];
        if matches!(self.action, "drop" | "dontcache") {
            parts.push(format!(
                "{} pages gone, {} stayed, {} were cached before and left alone",
                count(self.gone_pages),
                count(self.stayed_pages),
                count(self.others_pages)
            ));
        }
        if self.unwritten_pages > 0 {
            parts.push(format!(
                "{} were not on the disk yet",
                count(self.unwritten_pages)
            ));
        }
        if self.missed_pages > 0 {
            parts.push(format!(
                "{} pages read again that would have been cached still",
                count(self.missed_pages)
            ));
        }
        if self.action == "keep" {
            parts.push(format!("kept {}", bytes(self.kept_bytes)));
        }
        if self.asked_pages > 0 {
            parts.push(format!("{} pages asked for", count(self.asked_pages)));
        }
        if let Some(ratio) = self.time_ratio {
            parts.push(format!("calls take {ratio:.2} of their time without it"));
        }
        if let Some((kept, left)) = self.kept_missed_share.zip(self.left_missed_share) {
            parts.push(format!(
                "of what is read again {:.0} % came from the disk, and {:.0} % where it is not kept",
                100.0 * kept,
                100.0 * left
            ));
        }
        if let Some(why) = self.withdrawn {
            parts.push(format!("withdrawn: {why}"));
        }
        if let Some(why) = self.readahead_withdrawn {
            parts.push(format!("reads ahead as usual again: {why}"));
        }
        if self.hintless_files > 0 {
            parts.push(format!(
                "{} pipes, sockets, files in memory, opened with O_DIRECT or not permitted, where hints mean nothing",
                count(self.hintless_files)
            ));
        }
        if self.taken_over > 0 {
            parts.push(format!(
                "{} files left to the program, which advises them itself",
                count(self.taken_over)
            ));
        }
        if let Some(errno) = self.errno {
            parts.push(format!(
                "refused {} times ({})",
                count(self.refusals),
                error_text(errno)
            ));
        }
        format!("{target}: {}", parts.join(", "))
    }
}
