//! What a person sees while items move: a bar with a rate on a terminal, and nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::target::Tally;
use crate::table;

/// A bar over a known number of bytes or items, or a count without an end.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Over a file, by bytes.
    pub(crate) fn of_bytes(length: Option<u64>) -> Self {
        let form = "{bar:30} {bytes}/{total_bytes} {msg}, {eta} left";
        Self::new(length, form, "{spinner} {bytes} {msg}")
    }

    /// Over items.
    pub(crate) fn of_items(length: Option<u64>) -> Self {
        Self::new(length, "{bar:30} {msg}, {eta} left", "{spinner} {msg}")
    }

    fn new(length: Option<u64>, bounded: &str, endless: &str) -> Self {
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
        let form = if length.is_some() { bounded } else { endless };
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Where it stands, and how fast it got there.
    pub(crate) fn set(&self, position: u64, items: u64, rate: f64) {
        self.bar.set_position(position);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is shown")]
        let rate = rate as u64;
        self.bar.set_message(format!("{} items, {}/s", table::count(items), table::count(rate)));
    }

    /// A line above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// What a transfer came to, in one sentence.
pub(crate) fn summary(tally: Tally, seconds: f64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is shown"
    )]
    let rate = (tally.total() as f64 / seconds.max(0.001)) as u64;
    format!("{} in {seconds:.1} s, {} items/s", tally.to_text(), table::count(rate))
}
