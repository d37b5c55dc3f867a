//! Runs that have ended and whose time is over.

use fleet_api::{names::field_managers, placement::Scope};
use fleet_core::updaterun::{Phase, ended_at, expires};
use fleet_runtime::{Key, cache::Change, queue::Next};
use kube::ResourceExt as _;

use super::{UpdateRuns, view};
use crate::{cache::runs::placement_of, pipeline::Error};

/// Deletes a run that has ended, once its time is over.
pub(super) async fn pass<S: Scope>(ctx: &UpdateRuns<S>, key: &Key, run: &S::UpdateRun) -> Result<Next, Error> {
    let all = ctx.family.updates.runs_of.get(&placement_of::<S>(run));
    let others = all.iter().filter(|other| Key::of(&***other) != *key);
    let others: Vec<_> = others.map(|other| view::<S>(other)).collect();
    let Some(at) = expires(&view::<S>(run), &others, ctx.shared.settings.update_run_ttl) else {
        return Ok(Next::Wait);
    };
    if ctx.now() < at {
        return Ok(ctx.next(Some(at)));
    }
    let (runs, writer) = (
        &ctx.family.updates.runs,
        ctx.shared.writer.named(field_managers::UPDATE_RUN),
    );
    if writer.delete(runs, key, key, run.uid().as_deref(), None).await? {
        tracing::info!("Removed the run, whose time was over");
    }
    Ok(Next::Wait)
}

/// The runs that may have to go because another one of their placement has ended or is gone.
pub(super) fn outdated<S: Scope>(ctx: &UpdateRuns<S>, change: &Change<S::UpdateRun>) -> Vec<Key> {
    if !change.differs(|run| ended_at(&view::<S>(run))) {
        return Vec::new();
    }
    let all = ctx.family.updates.runs_of.get(&placement_of::<S>(change.object()));
    let ended = all.iter().filter(|run| view::<S>(run).phase() == Phase::Finished);
    let keys = ended.map(|run| Key::of(&**run));
    keys.filter(|key| *key != change.key).collect()
}
