//! What an evaluation may cost.

use super::Fault;

/// How much an evaluation may cost: about as many values looked at, and 16 times as many bytes of text. Less than ten
/// milliseconds and a few megabytes.
const STEPS_MAX: usize = 100_000;

/// What is left to spend.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    pub(super) fn full() -> Self {
        Self { left: STEPS_MAX }
    }

    /// Paid before anything is done or made. Once there is not enough, there is nothing any more.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Fault> {
        self.left = self.left.saturating_sub(steps);
        if self.left == 0 { Err(Fault::TooCostly) } else { Ok(()) }
    }
}

/// What it costs to look at a text, or to make it.
pub(super) fn weight(text: &str) -> usize {
    1 + text.len() / 16
}
