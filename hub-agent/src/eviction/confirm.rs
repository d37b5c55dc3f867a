//! Looks past the caches, before something ends for ever or is deleted.

use std::sync::Arc;

use fleet_api::{labels, placement::ClusterResourcePlacementDisruptionBudget as DisruptionBudget};
use fleet_runtime::Key;

use super::Evictions;
use crate::{pipeline::Error, writer::WriteFailure};

fn unread(what: &str, failure: &WriteFailure) -> Error {
    Error::NotYet(format!("could not read {what}: {failure:?}"))
}

/// The budget of a placement as it is now: it may be younger than what its watch has shown.
pub(super) async fn budget(ctx: &Evictions, placement: &Key) -> Result<Option<Arc<DisruptionBudget>>, Error> {
    let read = ctx.pipeline.shared.writer.read(&ctx.stores.budgets, placement).await;
    read.map_err(|failure| unread("the budget", &failure))
}

/// The binding that was recorded: a deletion whose answer was lost has happened or not.
pub(super) async fn binding(ctx: &Evictions, name: &str) -> Result<(), Error> {
    let (writer, bindings) = (&ctx.pipeline.shared.writer, &ctx.pipeline.family.bindings);
    let read = writer.read(bindings, &Key::cluster(name)).await;
    read.map(drop).map_err(|failure| unread("the binding", &failure))
}

/// A placement as it is now.
pub(super) async fn placement(ctx: &Evictions, key: &Key) -> Result<(), Error> {
    let (writer, placements) = (&ctx.pipeline.shared.writer, &ctx.pipeline.family.placements);
    let read = writer.read(placements, key).await;
    read.map(drop).map_err(|failure| unread("the placement", &failure))
}

/// The bindings of a placement, all of them.
pub(super) async fn bindings(ctx: &Evictions, placement: &Key) -> Result<(), Error> {
    let family = &ctx.pipeline.family;
    let selector = format!("{}={}", labels::PARENT_PLACEMENT, placement.name());
    let known = family.bindings_of.get(placement);
    let writer = &ctx.pipeline.shared.writer;
    Ok(writer.list(&family.bindings, Some(&selector), &known).await?)
}

/// What the leader before has deleted for a placement, and was about to delete, counts also when no watch of ours has shown
/// it yet. Of this term every answer is known, and what was sent without one is recorded.
pub(super) async fn first_of_term(ctx: &Evictions, placement: &Key) -> Result<(), Error> {
    if ctx.listed.lock().contains(placement) {
        return Ok(());
    }
    let (writer, evictions) = (&ctx.pipeline.shared.writer, &ctx.stores.evictions);
    writer.list(evictions, None, &[]).await?;
    bindings(ctx, placement).await?;
    ctx.listed.lock().insert(placement.clone());
    Ok(())
}
