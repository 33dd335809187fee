//! What a person sees while something takes long: a bar with a rate on a terminal, nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::table;
use crate::transfer::TransferTally;

/// A bar over a known number of bytes or items, or a count without an end.
pub(crate) struct ProgressLine {
    bar: ProgressBar,
}

impl ProgressLine {
    /// Over a file, by bytes.
    pub(crate) fn of_bytes(length: Option<u64>) -> Self {
        let form = "{bar:30} {bytes} of {total_bytes}{msg}{left}";
        Self::new(length, form, "{spinner} {bytes}{msg}")
    }

    /// Over items.
    pub(crate) fn of_items(length: Option<u64>) -> Self {
        Self::new(length, "{bar:30}{msg}{left}", "{spinner}{msg}")
    }

    fn new(length: Option<u64>, bounded: &str, endless: &str) -> Self {
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
        let form = if length.is_some() { bounded } else { endless };
        if let Ok(style) = ProgressStyle::with_template(form) {
            bar.set_style(style.with_key("left", write_left).progress_chars("━╸─"));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Where it stands, and what it does there.
    pub(crate) fn set_step(&self, position: u64, step: &str) {
        self.bar.set_position(position);
        self.bar.set_message(format!(" {step}"));
    }

    /// Advances it by what is read.
    pub(crate) fn wrap<R: std::io::Read>(&self, input: R) -> impl std::io::Read + use<R> {
        self.bar.wrap_read(input)
    }

    /// Advances it.
    pub(crate) fn add(&self, count: u64) {
        self.bar.inc(count);
    }

    /// Where it stands, and how fast it got there.
    pub(crate) fn set(&self, position: u64, items: u64, rate: f64) {
        self.bar.set_position(position);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is shown")]
        let rate = rate as u64;
        self.bar.set_message(format!(" {} items, {}/s", table::count(items), table::count(rate)));
    }

    /// A line above the bar.
    pub(crate) fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

impl Drop for ProgressLine {
    /// An error leaves no bar behind.
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Time before which nothing is known about the rest.
const LEFT_AFTER: Duration = Duration::from_secs(1);

/// The time that is left, once there is something to tell it by.
fn write_left(state: &ProgressState, out: &mut dyn std::fmt::Write) {
    if state.pos() > 0 && state.elapsed() >= LEFT_AFTER {
        let seconds = state.eta().as_secs();
        let _ = match seconds {
            0..60 => write!(out, ", {seconds} s left"),
            60..3600 => write!(out, ", {} min {} s left", seconds / 60, seconds % 60),
            _ => write!(out, ", {} h {} min left", seconds / 3600, seconds / 60 % 60),
        };
    }
}

/// What a transfer came to, in one sentence.
pub(crate) fn summary(tally: TransferTally, seconds: f64) -> String {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is shown"
    )]
    let rate = (tally.total() as f64 / seconds.max(0.001)) as u64;
    format!("{} in {seconds:.1} s, {} items/s", tally.to_text(), table::count(rate))
}
