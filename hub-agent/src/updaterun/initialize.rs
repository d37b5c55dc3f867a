//! Makes the plan of a run that has none.

use fleet_api::placement::Scope;
use fleet_core::{
    overrides::choose::Lists,
    updaterun::{Inputs, Members, Plan, Planning, Snapshot, plan},
};
use fleet_runtime::{Key, queue::Next};
use kube::{
    ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use tokio::time::Instant;

use super::{
    UpdateRuns,
    gather::{self, Seen},
    metrics, tell, view, write_status,
};
use crate::{
    cache::{family::beside, runs::placement_of},
    pipeline::Error,
    selection,
};

/// The snapshots that a run rolls out, as far as they are known.
enum Taken {
    /// Those of the index that it names, or of none.
    Named,
    /// Those that were made for it.
    Index(String),
    /// What is wrong with the placement's selectors.
    Invalid(String),
}

pub(super) async fn pass<S: Scope>(ctx: &UpdateRuns<S>, key: &Key) -> Result<Next, Error> {
    let mut taken = Taken::Named;
    loop {
        let Some(run) = ctx.family.updates.runs.get(key) else {
            return Ok(Next::Wait);
        };
        let placement = placement_of::<S>(&run);
        let seen = Seen::of(ctx, &view::<S>(&run), &placement);
        let Planning { plan, events, memory } = decide(ctx, key, &run, &seen, &taken)?;
        match plan {
            Plan::TakeSnapshot if matches!(taken, Taken::Index(_)) => {
                // Taken again and again it could be deleted for ever.
                return Err(Error::NotYet("the snapshot that was just taken is gone".to_owned()));
            }
            Plan::TakeSnapshot => {
                let Some(found) = seen.placement.as_ref() else {
                    return Err(Error::NotYet("the placement is gone".to_owned()));
                };
                taken = match selection::freeze(ctx, &placement, found).await? {
                    Ok(index) => Taken::Index(index.to_string()),
                    Err(error) => Taken::Invalid(error),
                };
            }
            Plan::Wait { until } => {
                ctx.memory.keep(key, &view::<S>(&run), memory);
                tell(ctx, &run, &events);
                return Ok(ctx.next(until));
            }
            Plan::Ready(status) | Plan::Failed(status) => {
                if write_status(ctx, key, &run, &status).await? {
                    metrics::initialized(&ctx.memory.measures, &*run, ctx.now());
                    ctx.memory.keep(key, &view::<S>(&run), memory);
                    tell(ctx, &run, &events);
                }
                return Ok(Next::At(Instant::now()));
            }
        }
    }
}

fn decide<S: Scope>(
    ctx: &UpdateRuns<S>,
    key: &Key,
    run: &S::UpdateRun,
    seen: &Seen<S>,
    taken: &Taken,
) -> Result<Planning, Error> {
    let (placement, view) = (placement_of::<S>(run), view::<S>(run));
    let retried = view
        .retry_of()
        .and_then(|other| ctx.family.updates.runs.get(&beside(key, other)));
    let tried = retried.as_ref().and_then(|other| other.status());
    let index = match (taken, tried) {
        (Taken::Index(index), _) => index.as_str(),
        (_, Some(tried)) => tried.resource_snapshot_index_used.as_str(),
        _ => run.spec().resource_snapshot_index.as_str(),
    };
    let group = gather::group(ctx, &placement, index)?;
    let snapshot = match (taken, &group) {
        (Taken::Invalid(error), _) => Snapshot::Invalid(error),
        (_, Some(group)) if !index.is_empty() => match &group.incomplete {
            Some(missing) => Snapshot::Incomplete(missing),
            None => Snapshot::Group {
                index,
                hash: group.hash.as_deref(),
            },
        },
        (Taken::Named, _) if index.is_empty() => Snapshot::NotTaken,
        _ => Snapshot::Missing,
    };
    let lists = match snapshot {
        Snapshot::Group { index, .. } => gather::overrides(ctx, &placement, index, &seen.clusters())?,
        _ => std::collections::BTreeMap::new(),
    };
    let clusters = seen.clusters().into_iter();
    let members = clusters.filter_map(|cluster| ctx.shared.members.get(&Key::cluster(cluster)));
    let members: Vec<_> = members.collect();
    let names: Vec<_> = members.iter().map(|member| member.name_any()).collect();
    let labels = members.iter().map(|member| member.labels());
    let members: Members<'_> = names.iter().map(String::as_str).zip(labels).collect();
    let strategy = beside(key, &run.spec().staged_rollout_strategy_name);
    let strategy = ctx.family.updates.strategies.get(&strategy);
    let (policies, bindings) = (seen.policies(), seen.bindings());
    let inputs = Inputs {
        placement: seen.placement(),
        policies: &policies,
        bindings: &bindings,
        members: &members,
        strategy: strategy.as_ref().map(|strategy| strategy.spec()),
        settings: strategy.as_ref().map(|strategy| strategy.annotations()),
        retried: retried.as_deref().map(super::view::<S>),
        snapshot,
        overrides: &|cluster| lists.get(cluster).cloned().unwrap_or_else(|| Ok(Lists::default())),
    };
    let memory = ctx.memory.of(key, &view);
    Ok(plan(&view, &inputs, &memory, ctx.moment()))
}
