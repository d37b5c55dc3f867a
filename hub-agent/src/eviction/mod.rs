//! Evictions: carries out what `fleet_core::eviction` decides about one eviction after the other.
//!
//! Watches evictions; budgets, bindings and placements for evictions that wait by choice; and whether a cluster is held after
//! the hub went back in time. Writes evictions' status, deletes bindings, and evictions whose time is over. One at a time: a
//! budget is for all evictions of a placement together.

mod confirm;
mod metrics;
mod write;

use std::{collections::HashSet, sync::Arc};

use fleet_api::{
    conditions::eviction::Valid,
    events::EvictionEvent,
    names::{ClusterName, Scope as ScopeName},
    placement::{
        ClusterResourcePlacementDisruptionBudget as DisruptionBudget, ClusterResourcePlacementEviction as Stored,
        ClusterScoped,
    },
};
use fleet_core::{
    eviction::{Binding, Budget, Decision, Eviction, EvictionOutcome, Placement, Taken, World, decide},
    session::recovery::Recovery,
};
use fleet_runtime::{
    Key, controller,
    queue::{Next, Queue},
};
use jiff::SignedDuration;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::metrics::Measures;
use crate::{
    cache::{evictions::EvictionStores, family::concerned},
    pipeline::{Error, Pipeline, Told, decide_anew},
    recovery,
    writer::record,
};

/// Upstream's name, which dashboards know.
const NAME: &str = "clusterresourceplacementeviction-controller";

/// What a pass works with, for one term of leadership.
pub(crate) struct Evictions {
    pipeline: Pipeline<ClusterScoped>,
    stores: EvictionStores,
    measures: Measures,
    /// How long ended evictions stay that do not say so themselves.
    ttl: SignedDuration,
    queue: Queue<Key>,
    /// Placements whose bindings and evictions have been listed in this term.
    listed: Mutex<HashSet<Key>>,
    told: Told<EvictionEvent>,
    /// Annotations that were named.
    named: Told<Vec<EvictionEvent>>,
    stop: CancellationToken,
}

impl Evictions {
    pub(crate) fn new(
        pipeline: Pipeline<ClusterScoped>,
        stores: EvictionStores,
        measures: Measures,
        ttl: SignedDuration,
        stop: CancellationToken,
    ) -> Self {
        Self {
            pipeline,
            stores,
            measures,
            ttl,
            queue: Queue::default(),
            listed: Mutex::default(),
            told: Told::default(),
            named: Told::default(),
            stop,
        }
    }

    fn tell(&self, eviction: &Stored, event: &EvictionEvent) {
        record(&self.pipeline.shared.events, ScopeName::Cluster, eviction, event);
    }

    /// The annotations that were named.
    #[cfg(test)]
    pub(crate) fn named(&self, key: &Key) -> Vec<EvictionEvent> {
        self.named.last(key).unwrap_or_default()
    }

    /// Tells what goes on for a while, once.
    fn tell_once(&self, key: &Key, eviction: &Stored, event: &EvictionEvent) {
        if self.told.is_news(key, event.clone()) {
            self.tell(eviction, event);
        }
    }
}

/// Runs the controller for one term of leadership.
pub(crate) async fn run(ctx: Arc<Evictions>, measures: controller::Measures) {
    let options = controller::Options {
        concurrency: 1,
        ..controller::Options::new(NAME)
    };
    let passing = ctx.clone();
    let pass = move |key: Key| {
        let ctx = passing.clone();
        async move { decide_anew(pass(&ctx, &key).await) }
    };
    let passes = controller::run(ctx.queue.clone(), options, measures, ctx.stop.clone(), pass);
    tokio::select! {
        () = passes => {}
        () = feed(&ctx) => {}
    }
}

/// New evictions; and for those that wait by choice, whatever may let them go on.
async fn feed(ctx: &Evictions) {
    let queue = || ctx.queue.clone();
    let family = &ctx.pipeline.family;
    tokio::join!(
        controller::feed(ctx.stores.evictions.subscribe(), queue(), |change| {
            let matters = change.differs(|eviction| {
                let meta = &eviction.metadata;
                let going = meta.deletion_timestamp.is_some();
                (meta.uid.clone(), meta.generation, meta.annotations.clone(), going)
            });
            matters.then(|| change.key.clone())
        }),
        controller::feed(ctx.stores.budgets.subscribe(), queue(), |change| waiting(
            ctx,
            &change.key
        )),
        controller::feed(family.bindings.subscribe(), queue(), |change| {
            let owners = concerned(change).into_iter();
            owners.flat_map(|owner| waiting(ctx, &owner)).collect::<Vec<_>>()
        }),
        controller::feed(family.placements.subscribe(), queue(), |change| waiting(
            ctx,
            &change.key
        )),
        // What was held back for a cluster goes on.
        controller::feed(ctx.pipeline.shared.internals.subscribe(), queue(), |change| {
            let matters = change.old.is_some() && change.differs(|imc| Recovery::of(imc.metadata.annotations.as_ref()));
            let aimed = matters.then(|| ctx.stores.evictions_by_cluster.get(&change.key.name().to_owned()));
            let open = aimed.into_iter().flatten().filter(|e| view(e).ended().is_none());
            open.map(|eviction| Key::of(&*eviction)).collect::<Vec<_>>()
        }),
    );
}

/// The evictions of a placement that wait.
fn waiting(ctx: &Evictions, placement: &Key) -> Vec<Key> {
    let all = ctx.stores.evictions_of.get(&placement.name().to_owned()).into_iter();
    let waits = all.filter(|eviction| view(eviction).is_under_way());
    waits.map(|eviction| Key::of(&*eviction)).collect()
}

/// The view that decisions take.
fn view(eviction: &Stored) -> Eviction<'_> {
    Eviction::of(&eviction.metadata, &eviction.spec, eviction.status.as_ref())
}

/// One look at an eviction.
#[tracing::instrument(name = "eviction", level = "error", skip_all, fields(eviction = %key))]
pub(crate) async fn pass(ctx: &Evictions, key: &Key) -> Result<Next, Error> {
    let Some(eviction) = ctx.stores.evictions.get(key) else {
        ctx.told.forget(key);
        ctx.named.forget(key);
        ctx.measures.succeeded(key);
        return Ok(Next::Wait);
    };
    // Its user has taken it back.
    if eviction.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Wait);
    }
    let outcome = match view(&eviction).ended() {
        Some(_) => write::expire(ctx, key, &eviction).await,
        None => look(ctx, key, &eviction).await,
    };
    match &outcome {
        Ok(_) => ctx.measures.succeeded(key),
        Err(error) if error.is_conflict() => {}
        Err(_) => ctx.measures.failed(key, ctx.pipeline.now()),
    }
    outcome
}

async fn look(ctx: &Evictions, key: &Key, eviction: &Arc<Stored>) -> Result<Next, Error> {
    let unusable: Vec<_> = view(eviction).ignored.into_iter().map(bad_annotation).collect();
    if !unusable.is_empty() && ctx.named.is_news(key, unusable.clone()) {
        for event in &unusable {
            ctx.tell(eviction, event);
        }
    }
    let (decision, budget) = decided(ctx, key, eviction).await?;
    match &decision.outcome {
        EvictionOutcome::Evict(_) if is_held(ctx, eviction) => {
            let cluster = eviction.spec.cluster_name.clone();
            ctx.tell_once(key, eviction, &EvictionEvent::Held { cluster });
            Ok(Next::Wait)
        }
        EvictionOutcome::Evict(target) => write::evict(ctx, key, eviction, (&decision, budget.limit()), target).await,
        EvictionOutcome::Waiting { look_again, .. } => {
            write::wait(ctx, key, eviction, &decision).await?;
            Ok(ctx.pipeline.next(Some(*look_again)))
        }
        _ => write::end(ctx, key, eviction, &decision).await,
    }
}

fn bad_annotation((annotation, value): (&'static str, &str)) -> EvictionEvent {
    let (annotation, value) = (annotation.to_owned(), value.to_owned());
    EvictionEvent::BadAnnotation { annotation, value }
}

/// Whether the hub went back in time: then nothing of the cluster is deleted until somebody has said to go on.
fn is_held(ctx: &Evictions, eviction: &Stored) -> bool {
    let cluster = ClusterName::new(eviction.spec.cluster_name.clone()).ok();
    let internals = &ctx.pipeline.shared.internals;
    cluster.is_some_and(|cluster| recovery::is_held(internals, &cluster, ctx.pipeline.now()))
}

/// What was found where the budget was looked for.
enum Read {
    /// Nobody has looked.
    Not,
    /// This, at the API server.
    Live(Option<Arc<DisruptionBudget>>),
}

impl Read {
    fn limit(&self) -> Budget<'_> {
        match self {
            Self::Not => Budget::Unread,
            Self::Live(found) => limit(found.as_deref()),
        }
    }
}

/// Decides, after looking past the caches where an end or a deletion depends on it.
async fn decided(ctx: &Evictions, key: &Key, eviction: &Stored) -> Result<(Decision, Read), Error> {
    let placement = Key::cluster(eviction.spec.placement_name.as_str());
    let view = view(eviction);
    if let Some(target) = &view.status.target {
        confirm::binding(ctx, &target.name).await?;
    }
    if view.is_under_way() && view.status.target.is_none() {
        // Whatever lets it go on wakes it: no need to ask while the caches say that nothing has.
        let cached = ctx.stores.budgets.get(&placement);
        let decision = decide_by(ctx, key, eviction, limit(cached.as_deref()));
        if matches!(decision.outcome, EvictionOutcome::Waiting { .. }) {
            return Ok((decision, Read::Not));
        }
    }
    let mut decision = decide_by(ctx, key, eviction, Budget::Unread);
    // An end is for ever, and one watch may be behind another: that of a placement which was made anew under its name too.
    if let EvictionOutcome::Invalid(Valid::PlacementMissing | Valid::PlacementDeleting | Valid::PickFixed) =
        &decision.outcome
    {
        confirm::placement(ctx, &placement).await?;
        decision = decide_by(ctx, key, eviction, Budget::Unread);
    }
    if let EvictionOutcome::Invalid(Valid::BindingMissing | Valid::SeveralBindings) = &decision.outcome {
        confirm::bindings(ctx, &placement).await?;
        decision = decide_by(ctx, key, eviction, Budget::Unread);
    }
    if decision.outcome != EvictionOutcome::NeedsBudget {
        return Ok((decision, Read::Not));
    }
    let budget = confirm::budget(ctx, &placement).await?;
    if budget.is_some() {
        confirm::first_of_term(ctx, &placement).await?;
    }
    let budget = Read::Live(budget);
    Ok((decide_by(ctx, key, eviction, budget.limit()), budget))
}

/// Decides from the caches; the budget only if somebody has looked for it.
fn decide_by(ctx: &Evictions, key: &Key, eviction: &Stored, budget: Budget<'_>) -> Decision {
    let (family, name) = (&ctx.pipeline.family, &eviction.spec.placement_name);
    let placement_key = Key::cluster(name.as_str());
    let others = ctx.stores.evictions_of.get(name);
    let others = others.iter().filter(|other| Key::of(&***other) != *key);
    let taken = Taken::by(others.filter_map(|other| other.status.as_ref()));
    let bindings = family.bindings_of.get(&placement_key);
    let bindings: Vec<_> = bindings
        .iter()
        .map(|b| Binding::of(&b.metadata, &b.spec, b.status.as_ref(), &taken))
        .collect();
    let placement = family.placements.get(&placement_key);
    let world = World {
        placement: placement.as_ref().map(|p| Placement::of(&p.metadata, &p.spec)),
        bindings: &bindings,
        budget,
    };
    decide(&view(eviction), &world, ctx.pipeline.now())
}

fn limit(budget: Option<&DisruptionBudget>) -> Budget<'_> {
    budget.map_or(Budget::None, |budget| Budget::Limit(&budget.spec))
}

/// Somebody else was faster: look again at once.
fn again() -> Next {
    Next::At(Instant::now())
}
