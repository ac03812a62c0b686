//! A progress bar for what takes longer than a second, on a terminal.

use std::io::IsTerminal;
use std::time::Duration;
use std::time::Instant;

use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;

/// How long nothing is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often the clock is looked at, in calls.
const EVERY: u32 = 16;

/// Shows how far something has come.
pub(crate) struct Progress {
    begin: Instant,
    what: &'static str,
    total: Option<u64>,
    bar: Option<ProgressBar>,
    calls: u32,
    terminal: bool,
}

impl Progress {
    /// `total` in any unit; `None`: unknown.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        Self {
            begin: Instant::now(),
            what,
            total,
            bar: None,
            calls: 0,
            terminal: std::io::stderr().is_terminal(),
        }
    }

    /// Tells how much is done.
    pub(crate) fn at(&mut self, done: u64) {
        self.calls = self.calls.wrapping_add(1);
        if !self.terminal || !self.calls.is_multiple_of(EVERY) {
            return;
        }
        if self.bar.is_none() && self.begin.elapsed() >= PATIENCE {
            self.bar = Some(bar(self.what, self.total));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        }
    }
}

fn bar(what: &'static str, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "pagewise: {msg} {wide_bar} {percent} % {eta}",
        ),
        None => (
            ProgressBar::no_length(),
            "pagewise: {msg} {spinner} {elapsed}",
        ),
    };
    bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(5));
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_message(what);
    bar
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
