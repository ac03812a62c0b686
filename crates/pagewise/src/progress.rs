//! That something is done, on a terminal: how far it has come where that can be told and takes longer than a second.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;
use std::time::Instant;

use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;
use pagewise_replay::Step;
use pagewise_replay::Watch;

/// How long nothing is shown.
const PATIENCE: Duration = Duration::from_secs(1);
/// Of what does not tell how far it has come.
const TURN: Duration = Duration::from_millis(200);
/// How often the clock is looked at, in calls.
const EVERY: u32 = 16;

/// Shows how far something has come.
pub(crate) struct Progress {
    /// What is being done, and since when.
    now: Option<(&'static str, Instant)>,
    bar: Option<ProgressBar>,
    calls: u32,
    terminal: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            now: None,
            bar: None,
            calls: 0,
            terminal: std::io::stderr().is_terminal(),
        }
    }
}

impl Watch for Progress {
    fn at(&mut self, step: Step) -> ControlFlow<()> {
        let begin = match self.now {
            Some((what, begin)) if what == step.what => begin,
            _ => {
                self.clear();
                self.now.insert((step.what, Instant::now())).1
            }
        };
        self.calls = self.calls.wrapping_add(1);
        if self.terminal && self.calls.is_multiple_of(EVERY) && begin.elapsed() >= PATIENCE {
            let bar = self.bar.get_or_insert_with(|| bar(step.what, step.total));
            bar.set_position(step.done);
        }
        ControlFlow::Continue(())
    }
}

impl Progress {
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Shows on a terminal, at once, that something is being done, until it is dropped.
pub(crate) struct Working(ProgressBar);

impl Working {
    /// `what` is being done.
    pub(crate) fn on(what: &'static str) -> Self {
        let bar = bar(what, None);
        bar.enable_steady_tick(TURN);
        Self(bar)
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.finish_and_clear();
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
        self.clear();
    }
}
