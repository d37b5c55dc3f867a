//! The cleanup finalizer on Works: added on a claim, removed when the member says that nothing is left.

use fleet_api::finalizers;
use fleet_core::session::{
    Answer, Decision, Outcome,
    finalizer::{self as decide, Finalizers},
};
use fleet_proto::convert::WorkRef;
use fleet_runtime::{
    Key,
    client::answered,
    writes::{Lane, Target},
};
use futures::{StreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    held::HeldWork,
    registry::imc_key,
    reports::Context,
    work::{doubtful, read},
    write::{Failure, after_conflict},
};

const TRIES: usize = 8;
/// Finalizers of one leaving member that are on their way at once; the write queue has limits of its own.
const STRIPPED_AT_ONCE: usize = 16;

/// A member wants to start applying a Work.
pub(super) async fn claim(context: &Context, work: &WorkRef) -> Result<Answer, Failure> {
    let imc_key = imc_key(&context.live.cluster);
    change(context, work, |held| {
        let Some(imc) = context.shared.deps.internals.get(&imc_key) else {
            return Decision::answer(Outcome::RetryLater, "the InternalMemberCluster is not known");
        };
        decide::claim(held.map(HeldWork::outline).as_ref(), &work.uid, &imc)
    })
    .await
}

/// A member says that nothing of a Work is left.
pub(super) async fn cleanup_complete(context: &Context, work: &WorkRef) -> Result<Answer, Failure> {
    change(context, work, |held| {
        decide::cleanup_complete(held.map(HeldWork::outline).as_ref(), &work.uid)
    })
    .await
}

/// A member says that it has stopped for good: every finalizer goes, then it counts as left.
pub(super) async fn stopped(context: &Context, uid: &str, generation: i64) -> Result<Answer, Failure> {
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
                let api = Api::namespaced(deps.client.clone(), &context.live.cluster.namespace());
                let read = answered(api.get(imc_key.name())).await;
                let imc = read.map_err(|error| Failure::of(&error))?;
                deps.internals.wrote(imc);
                fresh = true;
            }
        }
    };
    if !deps.works.is_synced() {
        return Err(Failure::Unavailable("the Works are not listed yet".into()));
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
            Ok(_) | Err(Failure::Gone) => {}
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

fn has_ours(work: &HeldWork) -> bool {
    work.finalizers().iter().any(|f| f == finalizers::WORK)
}

/// Writes the finalizers that `decide` wants, once its turn has come. An answer that may rest on a cache which is behind
/// is given only after reading the Work itself.
async fn change(
    context: &Context,
    work: &WorkRef,
    decide: impl Fn(Option<&HeldWork>) -> Decision<Finalizers>,
) -> Result<Answer, Failure> {
    let deps = &context.shared.deps;
    let namespace = context.live.cluster.namespace();
    let key = Key::namespaced(namespace.as_str(), work.name.as_str());
    let api: Api<HeldWork> = Api::namespaced(deps.client.clone(), &namespace);
    let mut live = false;
    for _ in 0..TRIES {
        let (mut decision, mut version) = (None, None);
        let request = || {
            let held = deps.works.get(&key);
            let decided = decide(held.as_deref());
            let patch = match (&decided, &held) {
                (Decision::Write { write, .. }, Some(held)) => {
                    version.clone_from(&held.metadata.resource_version);
                    Some(json!({ "metadata": {
                        "uid": held.metadata.uid,
                        "resourceVersion": held.metadata.resource_version,
                        "finalizers": write,
                    } }))
                }
                _ => None,
            };
            decision = Some(decided);
            let patch = patch?;
            let (api, name) = (&api, work.name.as_str());
            Some(async move { api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await })
        };
        let target = Target::new("Work", key.clone());
        let group = Key::cluster(context.live.cluster.as_str());
        let written = deps.writes.write(Lane::Objects, target, &group, request).await;
        match (written, decision) {
            (Some(Ok(answer)), Some(Decision::Write { then, .. })) => {
                wrote(context, &key, answer);
                return Ok(then);
            }
            (Some(Err(error)), _) => match Failure::of(&error) {
                Failure::Conflict => after_conflict(&deps.works, version.as_deref()).await,
                failure => return Err(failure),
            },
            (None, Some(Decision::Answer(answer))) if live || !doubtful(&answer) => return Ok(answer),
            (None, Some(Decision::Answer(_) | Decision::ReadAgain)) => {
                read(&context.shared, &key).await?;
                live = true;
            }
            _ => return Err(Failure::Unavailable("no decision was made".into())),
        }
    }
    Err(Failure::Conflict)
}

/// A deleting Work whose last finalizer is off is gone with this answer.
fn wrote(context: &Context, key: &Key, answer: HeldWork) {
    let works = &context.shared.deps.works;
    if answer.metadata.deletion_timestamp.is_some() && answer.finalizers().is_empty() {
        works.deleted(key, answer.metadata.uid.as_deref());
    } else {
        works.wrote(answer);
    }
}
