//! The objects of gates: each is watched for as long as its run waits for it.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use fleet_api::{
    names::Scope as ScopeName,
    placement::{Gate, Scope},
};
use fleet_core::{
    selection::ObjectId,
    updaterun::{GateObject, Run},
};
use fleet_runtime::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::UpdateRuns;
use crate::{
    cache::user::WatchedObject,
    pipeline::{Error, Pipeline},
};

/// A kind that the hub does not serve yet: nothing tells when it does.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// The watches of each run, by the gate's place in its list.
#[derive(Default)]
pub(super) struct GateWatches(Mutex<HashMap<Key, BTreeMap<usize, WatchedObject>>>);

impl GateWatches {
    pub(super) fn forget(&self, run: &Key) {
        self.0.lock().remove(run);
    }
}

/// For each gate of a run its object, if it is there, and when to ask again for a kind that is not.
pub(super) async fn objects<S: Scope>(
    ctx: &UpdateRuns<S>,
    key: &Key,
    run: &Run<'_>,
) -> Result<(Vec<Option<GateObject>>, Option<Instant>), Error> {
    let gates = run.status.options.iter().flat_map(|options| &options.gates);
    let gates: Vec<_> = gates.enumerate().collect();
    let (mut objects, mut again) = (Vec::with_capacity(gates.len()), None);
    for (place, gate) in gates {
        if gate.passed.is_some() {
            if let Some(watches) = ctx.memory.gates.0.lock().get_mut(key) {
                watches.remove(&place);
            }
            objects.push(None);
            continue;
        }
        let known = |watches: &HashMap<Key, BTreeMap<usize, WatchedObject>>| {
            watches.get(key)?.get(&place).map(WatchedObject::object)
        };
        let found = known(&ctx.memory.gates.0.lock());
        if let Some(found) = found {
            objects.push(found);
            continue;
        }
        let id = id_of(gate);
        let wakes = (ctx.queue.clone(), key.clone());
        let begun = if is_allowed::<S>(ctx, &id) {
            let answer = ctx.shared.user.watch_one(&id, wakes).await;
            answer.map_err(|error| Error::NotYet(format!("the kinds that the hub serves cannot be read: {error}")))?
        } else {
            None
        };
        let Some(watched) = begun else {
            again = Some(Instant::now() + ASK_AGAIN);
            objects.push(None);
            continue;
        };
        objects.push(watched.object());
        let mut all = ctx.memory.gates.0.lock();
        all.entry(key.clone()).or_default().insert(place, watched);
    }
    Ok((objects, again))
}

/// A namespaced run reads only its namespace, so no object that has none.
fn is_allowed<S: Scope>(ctx: &UpdateRuns<S>, id: &ObjectId) -> bool {
    Pipeline::<S>::scope() == ScopeName::Cluster || ctx.shared.user.is_cluster_scoped(id) != Some(true)
}

fn id_of(gate: &Gate) -> ObjectId {
    let (group, version) = gate.api_version.split_once('/').unwrap_or(("", &gate.api_version));
    ObjectId {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: gate.kind.clone(),
        namespace: gate.namespace.clone(),
        name: gate.name.clone(),
    }
}
