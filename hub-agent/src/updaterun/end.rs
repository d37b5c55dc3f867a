//! The end of a run: its approval requests go with it. Bindings keep what it has given them.

use fleet_api::{finalizers, labels, names::field_managers, placement::Scope};
use fleet_runtime::{Key, queue::Next};
use kube::ResourceExt as _;

use super::{UpdateRuns, is_held};
use crate::{
    pipeline::Error,
    writer::{Part, without_finalizers},
};

/// Deletes what belongs to a run that is being deleted, then lets go of it.
pub(super) async fn pass<S: Scope>(ctx: &UpdateRuns<S>, key: &Key, run: &S::UpdateRun) -> Result<Next, Error> {
    if !is_held::<S>(run) {
        return Ok(Next::Wait);
    }
    let writer = ctx.shared.writer.named(field_managers::UPDATE_RUN);
    let selector = format!("{}={}", labels::TARGET_UPDATE_RUN, key.name());
    writer
        .delete_all::<S::ApprovalRequest>(key.namespace(), &selector, key)
        .await?;
    forget_requests(ctx, key);
    let body = |found: &S::UpdateRun| without_finalizers(found, &[finalizers::UPDATE_RUN]);
    let runs = &ctx.family.updates.runs;
    writer.patch(runs, key, key, Part::Object, body).await?;
    ctx.memory.measures.forget(key);
    tracing::info!("Removed the run's approval requests");
    Ok(Next::Wait)
}

/// They are gone, whenever their watch shows that: a run made anew under this name must not take them for its own. Only
/// the watch knows what became of those that something else keeps.
fn forget_requests<S: Scope>(ctx: &UpdateRuns<S>, key: &Key) {
    let approvals = &ctx.family.updates.approvals;
    for request in ctx.family.updates.approvals_of.get(key) {
        if request.finalizers().is_empty() {
            approvals.deleted(&Key::of(&*request), request.uid().as_deref());
        }
    }
}
