//! The cleanup finalizer on Works: added on a claim, removed when the member says that nothing is left.

use fleet_api::finalizers;
use fleet_core::session::{
    Answer, Decision, Outcome, WorkRef,
    finalizer::{self as decide, Finalizers},
};
use fleet_runtime::{Key, writes::Lane};
use futures::{StreamExt, stream};
use kube::ResourceExt;
use serde_json::json;

use super::context::ReportContext;
use crate::{
    cache::works::HubWork,
    channel::imc_key,
    writer::{About, Edit, ToDo, WriteFailure},
};

/// Finalizers of one leaving member that are on their way at once; the write queue has limits of its own.
const STRIPPED_AT_ONCE: usize = 16;

/// A member wants to start applying a Work.
pub(super) async fn claim(context: &ReportContext, work: &WorkRef) -> Result<Answer, WriteFailure> {
    let imc_key = imc_key(&context.live.cluster);
    change(context, work, |held| {
        let Some(imc) = context.shared.deps.internals.get(&imc_key) else {
            return Decision::answer(Outcome::RetryLater, "the InternalMemberCluster is not known");
        };
        decide::claim(held.map(HubWork::outline).as_ref(), &work.uid, &imc)
    })
    .await
}

/// A member says that nothing of a Work is left.
pub(super) async fn cleanup_complete(context: &ReportContext, work: &WorkRef) -> Result<Answer, WriteFailure> {
    change(context, work, |held| {
        decide::cleanup_complete(held.map(HubWork::outline).as_ref(), &work.uid)
    })
    .await
}

/// A member says that it has stopped for good: every finalizer goes, then it counts as left.
pub(super) async fn stopped(context: &ReportContext, uid: &str, generation: i64) -> Result<Answer, WriteFailure> {
    let deps = &context.shared.deps;
    let imc_key = imc_key(&context.live.cluster);
    let mut fresh = false;
    let then = loop {
        let Some(imc) = deps.internals.get(&imc_key) else {
            return Ok(Answer::because(Outcome::Gone, "the InternalMemberCluster is gone"));
        };
        match decide::applier_stopped(&imc, uid, generation) {
            Decision::Answer(answer) => return Ok(answer),
            Decision::Write { then, .. } => break then,
            Decision::ReadAgain if fresh => {
                return Ok(Answer::because(
                    Outcome::Invalid,
                    "for a generation that does not exist",
                ));
            }
            Decision::ReadAgain => {
                let read = deps.writer.read(&deps.internals, &imc_key).await?;
                read.ok_or(WriteFailure::Gone)?;
                fresh = true;
            }
        }
    };
    if !deps.works.is_synced() {
        return Err(WriteFailure::Unavailable("the Works are not listed yet".into()));
    }
    let held = deps.works_in.get(&context.live.cluster.namespace());
    let claimed = held.into_iter().filter(|work| has_ours(work));
    let mut stripping = stream::iter(claimed)
        .map(|work| async move {
            let work = WorkRef {
                name: work.name_any(),
                uid: work.uid().unwrap_or_default(),
            };
            change(context, &work, |held| match held {
                None => Decision::answer(Outcome::Gone, ""),
                Some(held) => decide::without_ours(&held.outline())
                    .map_or_else(|| Decision::answer(Outcome::Unchanged, ""), Decision::write),
            })
            .await
        })
        .buffer_unordered(STRIPPED_AT_ONCE);
    let mut failed = None;
    while let Some(result) = stripping.next().await {
        match result {
            Ok(_) | Err(WriteFailure::Gone) => {}
            Err(failure) => failed = Some(failure),
        }
    }
    drop(stripping);
    // Tried again as a whole: what is already off costs nothing.
    if let Some(failure) = failed {
        return Err(failure);
    }
    context.cluster.left(uid.to_owned(), generation);
    Ok(then)
}

fn has_ours(work: &HubWork) -> bool {
    work.finalizers().iter().any(|f| f == finalizers::WORK)
}

/// Writes the finalizers that `decide` wants, once its turn has come. An answer that may rest on a cache which is behind
/// is given only after reading the Work itself.
async fn change(
    context: &ReportContext,
    work: &WorkRef,
    decide: impl Fn(Option<&HubWork>) -> Decision<Finalizers> + Send + Sync,
) -> Result<Answer, WriteFailure> {
    let deps = &context.shared.deps;
    let about = About {
        store: &deps.works,
        key: &Key::namespaced(context.live.cluster.namespace(), work.name.as_str()),
        group: &Key::cluster(context.live.cluster.as_str()),
        lane: Lane::Objects,
    };
    let decide = |held: Option<&HubWork>, read| match (decide(held), held) {
        (Decision::Answer(answer), _) if read || !doubtful(&answer) => ToDo::Nothing(answer),
        (Decision::Write { write, then }, Some(held)) => {
            let patch = json!({ "metadata": {
                "uid": held.metadata.uid,
                "resourceVersion": held.metadata.resource_version,
                "finalizers": write,
            } });
            ToDo::Write(Edit::Object(patch), then)
        }
        _ => ToDo::Read,
    };
    let (answer, _) = deps.writer.decide(&about, decide).await?;
    Ok(answer)
}

/// Whether an answer rests on the cache alone and may be wrong because it is behind.
fn doubtful(answer: &Answer) -> bool {
    matches!(
        answer.outcome,
        Outcome::Gone | Outcome::UidMismatch | Outcome::NotDeleting
    )
}
