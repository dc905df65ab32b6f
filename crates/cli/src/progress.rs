//! A bar on the terminal for whatever takes longer than a moment.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const STEPS: u64 = 1000;

/// Where standard error is no terminal, a line so often, s.
const LINES: u64 = 10;

/// A bar from 0 to 1; where standard error is not a terminal, a line every [ten seconds](LINES).
pub(crate) struct Bar {
    bar: ProgressBar,
    /// After so many seconds the next line is due.
    next_line: AtomicU64,
}

impl Bar {
    pub(crate) fn new(what: &str, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(STEPS), target);
        let style = ProgressStyle::with_template("{msg} [{wide_bar}] {percent:>3} % {elapsed} eta {eta}");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(500));
        let lines = !quiet && !std::io::stderr().is_terminal();
        Self { bar, next_line: AtomicU64::new(if lines { LINES } else { u64::MAX }) }
    }

    pub(crate) fn set(&self, fraction: f64) {
        self.bar.set_position((fraction * STEPS as f64) as u64);
        let (seconds, due) = (self.bar.elapsed().as_secs(), self.next_line.load(Ordering::Relaxed));
        let is_mine =
            |next| self.next_line.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if seconds >= due && is_mine(seconds + LINES) {
            crate::say(&format!("{}: {:.0} % after {seconds} s", self.bar.message(), fraction * 100.0));
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
