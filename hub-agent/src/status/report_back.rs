//! Gives users' objects on the hub the status that they have on the only cluster of their placement, where it asks for it.
//!
//! Woken by what members report of such placements, and by objects that are made anew. What was written is remembered, so
//! that a pass without news costs no request. A status that somebody else writes over is not restored before the member
//! reports another one: two writers would go on for ever.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use fleet_api::{
    events::PlacementEvent,
    names::ClusterName,
    placement::{ReportBackDestination, Scope},
    raw::RawJson,
};
use fleet_core::{
    report_back::{self, ObjectStatus, Obstacle, PERMITTED},
    selection::ObjectId,
    work::content_hash,
};
use fleet_runtime::{Key, controller, queue::Next};
use futures::{FutureExt as _, StreamExt as _, stream};
use kube::{
    Resource as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    cache::{
        family::{beside, parent},
        works::HubWork,
    },
    pipeline::{Error, Pipeline, Stage, Told},
};

/// Objects of one placement that are read and written at the same time.
const AT_ONCE: usize = 8;

/// The back-reporter of one scope.
pub(crate) type BackReporter<S> = Stage<S, ReportMemory>;

/// What the back-reporter remembers of each placement.
#[derive(Default)]
pub(crate) struct ReportMemory {
    objects: Mutex<HashMap<Key, BTreeMap<ObjectId, LastReport>>>,
    /// The last complaint.
    pub(crate) told: Told<PlacementEvent>,
}

/// What became of the last report about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct LastReport {
    /// The object that it was about, as the watch had it.
    uid: Option<String>,
    /// A hash of the report.
    reported: String,
    /// A hash of the status that the object had afterwards.
    shown: Option<String>,
    obstacle: Option<Obstacle>,
    /// Who wrote over it.
    contested: Option<String>,
}

/// What makes another look worth while.
pub(crate) async fn feed<S: Scope>(ctx: &BackReporter<S>) {
    let queue = || ctx.queue.clone();
    tokio::join!(
        controller::feed(ctx.shared.works.store.subscribe(), queue(), |change| {
            let matters = goes_to_original(change.object())
                && change.differs(|work| (work.metadata.generation, work.status.as_ref().map(RawJson::as_str)));
            let placement = matters.then(|| change.object().placement()).flatten();
            placement.filter(Pipeline::<S>::is_ours)
        }),
        controller::feed(ctx.family.placements.subscribe(), queue(), |change| {
            let asks = |placement: &Arc<S::Placement>| report_back::asks_for(placement.spec().strategy.as_ref());
            let matters = change.old.iter().chain(&change.new).any(asks)
                && change.differs(|placement| {
                    let selected = placement.status().map(|status| status.selected_resources.as_slice());
                    (placement.meta().uid.as_deref(), placement.meta().generation, selected)
                });
            matters.then(|| change.key.clone())
        }),
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| {
            let matters = change.differs(|binding| {
                let meta = binding.meta();
                (binding.spec().state.clone(), meta.deletion_timestamp.is_some())
            });
            let placement = matters.then(|| parent(&**change.object())).flatten();
            placement.filter(|key| ctx.reports_back(key))
        }),
    );
}

fn goes_to_original(work: &HubWork) -> bool {
    let destination = work
        .report_back
        .as_ref()
        .and_then(|strategy| strategy.destination.as_ref());
    destination == Some(&ReportBackDestination::OriginalResource)
}

#[tracing::instrument(name = "report_back", level = "error", skip_all, fields(placement = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &BackReporter<S>, key: &Key) -> Result<Next, Error> {
    let live = ctx.family.placements.get(key).filter(|placement| {
        placement.meta().deletion_timestamp.is_none() && report_back::asks_for(placement.spec().strategy.as_ref())
    });
    let Some(placement) = live else {
        ctx.memory.objects.lock().remove(key);
        ctx.memory.told.forget(key);
        return Ok(Next::Wait);
    };
    if let Err(refusal) = report_back::permit(placement.spec().policy.as_ref()) {
        ctx.memory.objects.lock().remove(key);
        let why = format!("{refusal}; {PERMITTED}");
        let refused = PlacementEvent::StatusNotReportedBack { why };
        ctx.record_once(&ctx.memory.told, &placement, Some(refused));
        return Ok(Next::Wait);
    }
    let known = ctx.memory.objects.lock().get(key).cloned().unwrap_or_default();
    // Owned, for a future that borrows out of an iterator cannot be sent to another thread.
    let looks: Vec<_> = reports(ctx, key, &placement)
        .into_iter()
        .map(|report| {
            let (ctx, key, before) = (ctx.clone(), key.clone(), known.get(&report.object).cloned());
            async move {
                let seen = one(&ctx, &key, &report, before.as_ref()).await;
                (report.object, before, seen)
            }
            .boxed()
        })
        .collect();
    let looked: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;

    let (mut seen, mut failure) = (BTreeMap::new(), None);
    for (object, before, outcome) in looked {
        match outcome {
            Ok(now) => _ = now.map(|now| seen.insert(object, now)),
            Err(error) => {
                _ = before.map(|before| seen.insert(object, before));
                failure = failure.or(Some(error));
            }
        }
    }
    ctx.record_once(&ctx.memory.told, &placement, complaint(&seen));
    let retry = seen
        .iter()
        .find_map(|(object, seen)| Some((object, seen.obstacle.as_ref().filter(|o| o.is_worth_a_retry())?)));
    let failure = failure.or_else(|| retry.map(|(object, obstacle)| Error::NotYet(sentence(object, obstacle))));
    ctx.memory.objects.lock().insert(key.clone(), seen);
    failure.map_or(Ok(Next::Wait), Err)
}

/// What the placement's only cluster says about the objects that it selects.
fn reports<S: Scope>(ctx: &Pipeline<S>, key: &Key, placement: &S::Placement) -> Vec<ObjectStatus> {
    let bindings = ctx.family.bindings_of.get(key);
    let Some(binding) = report_back::source(&bindings, |binding| (binding.meta(), binding.spec())) else {
        return Vec::new();
    };
    let Ok(cluster) = ClusterName::new(binding.spec().target_cluster.clone()) else {
        return Vec::new();
    };
    let selected = placement.status().map(|status| status.selected_resources.as_slice());
    let name = binding.meta().name.as_deref().unwrap_or_default();
    let (namespace, works) = (cluster.namespace(), ctx.shared.works.by_binding.get(&beside(key, name)));
    let live = works.iter().filter(|work| {
        work.metadata.namespace.as_ref() == Some(&namespace) && work.metadata.deletion_timestamp.is_none()
    });
    live.flat_map(|work| report_back::reports(&work.without_manifests(), selected.unwrap_or_default(), key.namespace()))
        .collect()
}

/// Makes one object show what is reported of it; none if the hub has no such object.
async fn one<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    report: &ObjectStatus,
    before: Option<&LastReport>,
) -> Result<Option<LastReport>, Error> {
    let (user, writer) = (&ctx.shared.user, &ctx.shared.writer);
    let Some(place) = user.place(&report.object) else {
        return Ok(None);
    };
    let mut seen = LastReport {
        uid: user.uid(&report.object, &place),
        reported: hash(&report.status),
        ..LastReport::default()
    };
    if report_back::is_trusted(&report.object) {
        seen.obstacle = Some(Obstacle::Trusted);
        return Ok(Some(seen));
    }
    if !place.has_status {
        seen.obstacle = Some(Obstacle::NoSubresource);
        return Ok(Some(seen));
    }
    let before = before.filter(|before| before.uid == seen.uid);
    if let Some(same) = before.filter(|before| before.reported == seen.reported && !is_to_repeat(before)) {
        return Ok(Some(same.clone()));
    }
    let Some(hub) = user.read(&place).await.map_err(Error::Read)? else {
        return Ok(None);
    };
    let shown = hash(&hub["status"]);
    let overwritten = before
        .and_then(|before| before.shown.as_ref())
        .is_some_and(|left| *left != shown);
    seen.contested = overwritten
        .then(|| report_back::other_writer(&hub, writer.manager()).map(ToOwned::to_owned))
        .flatten();
    let Some(patch) = report_back::patch(&hub, &report.status) else {
        seen.shown = Some(shown);
        return Ok(Some(seen));
    };
    match writer.patch_status_at(&place, placement, &patch).await {
        Ok(Some(answer)) => {
            tracing::info!(object = %report.object, "Reported status back");
            seen.shown = Some(hash(&answer["status"]));
            Ok(Some(seen))
        }
        Ok(None) => Ok(None),
        Err(error) => {
            let code = error.code().unwrap_or_default();
            seen.obstacle = Obstacle::of(code, &error.said(), &place.resource());
            if seen.obstacle.is_some() {
                Ok(Some(seen))
            } else {
                Err(error.into())
            }
        }
    }
}

/// Whether what was in the way may be gone: that the kind has no status is seen without a request, and so is its end.
fn is_to_repeat(before: &LastReport) -> bool {
    let obstacle = before.obstacle.as_ref();
    obstacle.is_some_and(|obstacle| obstacle.is_worth_a_retry() || *obstacle == Obstacle::NoSubresource)
}

fn hash(status: &Value) -> String {
    content_hash(&[RawJson::from(status)])
}

/// What to tell: the first object with an obstacle and how many more there are, or else somebody who writes over us.
fn complaint(seen: &BTreeMap<ObjectId, LastReport>) -> Option<PlacementEvent> {
    let mut blocked: Vec<_> = seen
        .iter()
        .filter_map(|(object, seen)| Some((object, seen.obstacle.as_ref()?)))
        .collect();
    // Nothing can be done about those: they come last.
    blocked.sort_by_key(|(_, obstacle)| **obstacle == Obstacle::Trusted);
    if let Some((object, obstacle)) = blocked.first() {
        let why = match (sentence(object, obstacle), blocked.len() - 1) {
            (why, 0) => why,
            (why, more) => format!("{why} (and {more} more)"),
        };
        return Some(PlacementEvent::StatusNotReportedBack { why });
    }
    seen.iter().find_map(|(object, seen)| {
        Some(PlacementEvent::StatusContested {
            object: object.to_string(),
            manager: seen.contested.clone()?,
        })
    })
}

fn sentence(object: &ObjectId, obstacle: &Obstacle) -> String {
    format!("Cannot report status back to {object}: {obstacle}")
}
