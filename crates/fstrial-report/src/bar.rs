//! Progress of runs that are not rounds of a trial.

use indicatif::{ProgressBar, ProgressStyle};
use std::{
    cell::Cell,
    io::{IsTerminal, Write as _},
};

/// Progress of the runs: a bar on a terminal, else a line for each tenth.
pub struct Progress {
    bar: ProgressBar,
    tenth: Cell<usize>,
    /// The runs, in a line.
    what: &'static str,
}

impl Progress {
    /// Progress of these runs, as in "runs with power cuts".
    pub fn of(what: &'static str) -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len} runs{msg}");
        let bar = ProgressBar::new(0).with_style(style.expect("the template is valid"));
        Self { bar, tenth: Cell::new(0), what }
    }

    /// Shows the number of completed runs.
    pub fn set(&self, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        // The first runs take as long as others.
        let left = (done > 0 && done < all).then(|| {
            let left = self.bar.elapsed().as_secs_f64() / done as f64 * (all - done) as f64;
            format!(", {} left", indicatif::HumanDuration(std::time::Duration::from_secs_f64(left)))
        });
        let left = left.unwrap_or_default();
        let tenth = done * 10 / all.max(1);
        if !std::io::stderr().is_terminal() && tenth > self.tenth.replace(tenth) {
            let _ = writeln!(anstream::stderr(), "{done} of {all} {}{left}", self.what);
        }
        self.bar.set_message(left);
    }

    /// Removes it.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
