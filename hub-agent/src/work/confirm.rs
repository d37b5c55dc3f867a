//! What is destroyed is confirmed by the API server first: a cache whose watch fails may be old.

use std::{collections::VecDeque, time::Duration};

use fleet_api::{labels, names::ClusterName, placement::Scope};
use fleet_runtime::{Key, queue::Next};
use kube::Resource as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    WorkGenerator,
    write::{self, Refusal},
};
use crate::{
    cache::works::HubWork,
    pipeline::{Error, Pipeline},
};

/// That the binding still is what the cache says, before any of its Works is deleted.
pub(super) async fn binding<S: Scope>(ctx: &Pipeline<S>, key: &Key, cached: &S::Binding) -> Result<(), Error> {
    let now = ctx.shared.writer.metadata::<S::Binding>(key).await?;
    let meta = cached.meta();
    let same = now.is_some_and(|now| {
        now.uid == meta.uid
            && now.generation == meta.generation
            && now.deletion_timestamp.is_some() == meta.deletion_timestamp.is_some()
    });
    if same {
        Ok(())
    } else {
        Err(Error::Behind("the binding is another than the cache has"))
    }
}

/// That no Work of the binding is left, also none whose creation was never answered.
pub(super) async fn no_works<S: Scope>(ctx: &Pipeline<S>, key: &Key, cluster: &ClusterName) -> Result<(), Error> {
    let home = match key.namespace() {
        Some(namespace) => format!("{}={namespace}", labels::PARENT_PLACEMENT_NAMESPACE),
        None => format!("!{}", labels::PARENT_PLACEMENT_NAMESPACE),
    };
    let selector = format!("{}={},{home}", labels::PARENT_BINDING, key.name());
    if ctx
        .shared
        .writer
        .any::<HubWork>(&cluster.namespace(), &selector)
        .await?
    {
        return Err(Error::Behind("the binding has Works that the cache does not have"));
    }
    Ok(())
}

/// Bindings that were seen to go not long ago: Works that come after them are leftovers of requests that were never
/// answered. Nothing else is proof of that: Works that are restored from a backup may come before their bindings.
#[derive(Default)]
pub(crate) struct Departed(Mutex<VecDeque<(Instant, Key)>>);

/// The API server ends a request within a minute; some more, for one that waited on its way.
const LATE: Duration = Duration::from_mins(10);

/// More than a hub has bindings that go within that time; the oldest are forgotten, and their leftovers stay.
const MOST: usize = 100_000;

impl Departed {
    /// A binding is going.
    pub(super) fn note(&self, key: &Key) {
        let now = Instant::now();
        let mut list = self.0.lock();
        while list.front().is_some_and(|(at, _)| *at + LATE < now) || list.len() >= MOST {
            list.pop_front();
        }
        list.push_back((now, key.clone()));
    }

    fn has(&self, key: &Key) -> bool {
        self.0.lock().iter().any(|(_, departed)| departed == key)
    }
}

/// Works without a binding. They go if the binding was seen to go: a request that was never answered has made them after
/// all. Others stay.
pub(super) async fn orphans<S: Scope>(ctx: &WorkGenerator<S>, key: &Key) -> Result<Next, Error> {
    let works = ctx.shared.works.by_binding.get(key);
    let left: Vec<_> = works
        .into_iter()
        .filter(|work| work.metadata.deletion_timestamp.is_none())
        .collect();
    if left.is_empty() || ctx.shared.writer.metadata::<S::Binding>(key).await?.is_some() {
        return Ok(Next::Wait);
    }
    let departed = ctx.memory.departed.has(key);
    for work in left {
        let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
        let Some(cluster) = ClusterName::of_namespace(namespace) else {
            continue;
        };
        let name = work.metadata.name.as_deref().unwrap_or_default();
        if !departed {
            tracing::warn!(member = %cluster, work = name, "A Work stays that has no binding: delete it if nothing brings the binding back");
            continue;
        }
        tracing::warn!(member = %cluster, work = name, "Removing a Work that came after its binding had gone");
        match write::delete(ctx, key, &cluster, name).await {
            Ok(()) | Err(Refusal::Held) => {}
            Err(Refusal::Conflict(error)) => return Err(error.into()),
            Err(Refusal::Failed(failure)) => return Err(Error::NotYet(failure.to_string())),
        }
    }
    Ok(Next::Wait)
}
