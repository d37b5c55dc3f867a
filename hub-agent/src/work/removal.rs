//! The end of a binding: its Works go first, and it waits until the last of them is gone.

use fleet_api::{
    annotations, finalizers,
    names::ClusterName,
    placement::{RolloutStrategy, Scope},
};
use fleet_core::work::removal;
use fleet_runtime::{Key, queue::Next};
use futures::future::join_all;
use kube::{Resource as _, ResourceExt as _, core::object::HasSpec as _};
use serde_json::json;

use super::{WorkGenerator, confirm, own, write, write::Refusal};
use crate::{
    binding,
    cache::{in_namespace, works::HubWork},
    pipeline::Error,
    writer::Part,
};

pub(super) async fn pass<S: Scope>(
    ctx: &WorkGenerator<S>,
    key: &Key,
    placement: &Key,
    binding: &S::Binding,
    cluster: &ClusterName,
) -> Result<Next, Error> {
    if !binding.finalizers().iter().any(|held| held == finalizers::WORK) {
        return Ok(Next::Wait);
    }
    let works = own(ctx, key, cluster);
    // One of this name that was made after the binding's end is another: this one's is gone.
    let end = binding.meta().deletion_timestamp.as_ref();
    let owner = ctx.family.placements.get(placement);
    let is_gone = owner.is_none();
    let owner = owner.filter(|owner| end.is_none_or(|end| owner.meta().creation_timestamp.as_ref() < Some(end)));
    let ending = owner
        .as_ref()
        .is_none_or(|owner| owner.meta().deletion_timestamp.is_some());
    let abandon = match &owner {
        Some(owner) => owner.spec().strategy.as_ref().is_some_and(RolloutStrategy::abandons),
        // It is gone already; what it asked for is on its Works.
        None => works.iter().any(|work| {
            let value = work.annotations.get(annotations::DELETE_PROPAGATION);
            value.is_some_and(|value| value == annotations::ABANDON)
        }),
    };
    let gone = !ctx.knows_cluster(cluster.as_str());
    let plan = removal(&works, abandon, ending, gone);
    for (names, value) in [
        (&plan.abandon, json!(annotations::ABANDON)),
        (&plan.reclaim, json!(null)),
    ] {
        for name in names {
            let work = in_namespace(&cluster.namespace(), name);
            let patch = json!({ "metadata": { "annotations": { annotations::DELETE_PROPAGATION: value } } });
            let body = |_: &HubWork| Some(patch);
            let store = &ctx.shared.works.store;
            ctx.shared
                .writer
                .patch(store, &work, placement, Part::Object, body)
                .await?;
        }
    }
    if !plan.deletes.is_empty() {
        confirm::binding(ctx, key, binding).await?;
    }
    let deletes = plan
        .deletes
        .iter()
        .map(|name| write::delete(ctx, placement, cluster, name));
    let answers: Result<Vec<()>, Refusal> = join_all(deletes).await.into_iter().collect();
    match answers {
        Ok(_) => {}
        Err(Refusal::Conflict(error)) => return Err(error.into()),
        Err(Refusal::Failed(failure)) => return Err(Error::NotYet(failure.to_string())),
        // The change of its InternalMemberCluster brings the next look.
        Err(Refusal::Held) => return Ok(Next::Wait),
    }
    if binding.meta().deletion_timestamp.is_none() {
        return Ok(Next::Wait);
    }
    // Works that no member holds are gone with the answer.
    if plan.drop_finalizer || own(ctx, key, cluster).is_empty() {
        if !gone {
            confirm::no_works(ctx, key, cluster).await?;
        }
        ctx.memory.departed.note(key);
        binding::release_all(ctx, placement, key).await?;
        if is_gone {
            ctx.memory.renderings.forget(placement);
        }
    }
    Ok(Next::Wait)
}
