//! What was done, for the page that says so.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::acts::{Act, Effect};

/// Nobody looks further back.
const KEPT_MAX: usize = 32;

type Done = (Act, Result<Effect, String>);

/// The last acts, each under its number.
#[derive(Default)]
pub(super) struct Results(Mutex<(u64, VecDeque<Done>)>);

impl Results {
    /// Keeps one, and says its number.
    pub(super) fn keep(&self, act: Act, effect: Result<Effect, String>) -> u64 {
        let mut kept = self.0.lock();
        let (number, all) = &mut *kept;
        if all.len() == KEPT_MAX {
            all.pop_front();
        }
        all.push_back((act, effect));
        *number += 1;
        *number
    }

    /// The one with this number, if it is among the last.
    pub(super) fn get(&self, number: u64) -> Option<Done> {
        let kept = self.0.lock();
        let (last, all) = &*kept;
        let back = usize::try_from(last.checked_sub(number)?).ok()?;
        all.iter().rev().nth(back).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept() {
        let results = Results::default();
        let act = |number: u64| Act::Cordon(number.to_string());
        for number in 1..=40 {
            assert_eq!(results.keep(act(number), Err(String::new())), number);
        }
        for (number, known) in [(0, false), (8, false), (9, true), (40, true), (41, false)] {
            let found = results.get(number).map(|(act, _)| act);
            assert_eq!(found, known.then(|| act(number)), "{number}");
        }
    }
}
