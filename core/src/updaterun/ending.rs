//! When a run that has ended is removed.

use fleet_api::conditions::update_run::{Initialized, Succeeded};
use fleet_api::conditions::{self, Status};
use jiff::{SignedDuration, Timestamp};

use super::world::{Phase, Run};
use super::{later, number};

/// When a run came to its end, or failed to begin; none if it is not over.
pub fn ended_at(run: &Run<'_>) -> Option<Timestamp> {
    if run.phase() != Phase::Finished {
        return None;
    }
    let list = &run.status.conditions;
    let end = conditions::find(list, Succeeded::TYPE).filter(|end| Status::of(end) != Status::Unknown);
    let end = end.or_else(|| conditions::find(list, Initialized::TYPE))?;
    Some(end.last_transition_time.0)
}

/// When a run that has ended is to be deleted; none if never, or not for now. `others` are the other runs of its placement,
/// `ttl` is for runs that say nothing.
///
/// The newest that was carried out stays, for it tells what the placement's clusters have; and one that is tried again stays
/// while that lasts.
pub fn expires(run: &Run<'_>, others: &[Run<'_>], ttl: SignedDuration) -> Option<Timestamp> {
    let end = ended_at(run)?;
    let options = run.status.options.as_ref();
    let own = options.filter(|options| !options.ttl.is_empty());
    let ttl = own.and_then(|options| number::duration(&options.ttl)).unwrap_or(ttl);
    if ttl.is_zero() {
        return None;
    }
    let is_tried_again = |other: &Run<'_>| other.phase() != Phase::Finished && other.retry_of() == Some(run.name);
    if others.iter().any(is_tried_again) || is_newest(run, end, others) {
        return None;
    }
    Some(later(end, ttl))
}

fn was_carried_out(run: &Run<'_>) -> bool {
    conditions::find(&run.status.conditions, Succeeded::TYPE).is_some()
}

fn is_newest(run: &Run<'_>, end: Timestamp, others: &[Run<'_>]) -> bool {
    let later = |other: &Run<'_>| {
        let ended = ended_at(other).filter(|_| was_carried_out(other));
        ended.is_some_and(|ended| (ended, other.name) > (end, run.name))
    };
    was_carried_out(run) && !others.iter().any(later)
}
