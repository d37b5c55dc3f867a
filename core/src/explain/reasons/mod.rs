//! What each reason of a condition means, and what to do about it: one line for every reason of the API.
//!
//! A subject that knows more than the reason says more; these lines are what is left when it does not.

mod applying;
mod members;
mod placements;
mod runs;

use fleet_api::conditions::Status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::chain::{Cause, Step, Verdict};
use super::names::Names;

/// What a reason means. Texts and commands are templates: [`Names::fill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meaning {
    /// How far the step has come.
    pub verdict: Verdict,
    /// What it means.
    pub text: &'static str,
    /// What to type next; empty where nothing is to be done.
    pub next: &'static str,
}

type Table = &'static [(&'static str, Meaning)];

const fn done(text: &'static str) -> Meaning {
    Meaning {
        verdict: Verdict::Done,
        text,
        next: "",
    }
}

const fn waits(text: &'static str, next: &'static str) -> Meaning {
    Meaning {
        verdict: Verdict::Waiting,
        text,
        next,
    }
}

const fn fails(text: &'static str, next: &'static str) -> Meaning {
    Meaning {
        verdict: Verdict::Failed,
        text,
        next,
    }
}

/// All reasons.
pub(super) const TABLES: [Table; 4] = [placements::TABLE, applying::TABLE, runs::TABLE, members::TABLE];

/// What a reason means; none if this version does not know it.
pub fn meaning(reason: &str) -> Option<Meaning> {
    let mut all = TABLES.iter().flat_map(|table| table.iter());
    all.find(|(known, _)| *known == reason).map(|(_, meaning)| *meaning)
}

/// The step that a condition tells of. What its status says outranks what its reason usually means.
pub(super) fn step(name: &str, condition: &Condition, names: &Names<'_>) -> Step {
    let names = Names {
        message: &condition.message,
        ..names.clone()
    };
    let since = Some(&condition.last_transition_time);
    let known = meaning(&condition.reason);
    if Status::of(condition) == Status::True {
        let says = known.map_or_else(|| condition.message.clone(), |known| names.fill(known.text));
        return Step::done(name, says).since(since);
    }
    let (verdict, cause) = unmet(known, condition, &names);
    Step::unmet(name, verdict, cause).since(since)
}

/// The cause that a condition which is not true tells of.
pub(super) fn cause(condition: &Condition, names: &Names<'_>) -> Cause {
    let names = Names {
        message: &condition.message,
        ..names.clone()
    };
    unmet(meaning(&condition.reason), condition, &names).1
}

fn unmet(known: Option<Meaning>, condition: &Condition, names: &Names<'_>) -> (Verdict, Cause) {
    if let Some(known) = known.filter(|known| known.verdict != Verdict::Done) {
        let cause = Cause::new(names.fill(known.text), names.fill(known.next));
        return (known.verdict, cause);
    }
    // A newer hub agent may have reasons that this version does not know: its message is still worth showing.
    let verdict = match Status::of(condition) {
        Status::False => Verdict::Failed,
        Status::True | Status::Unknown => Verdict::Waiting,
    };
    let text = format!("{}: {}", condition.reason, condition.message);
    (
        verdict,
        Cause::new(text, names.fill("kubectl fleet events {placement}{n}")),
    )
}

#[cfg(test)]
mod tests;
