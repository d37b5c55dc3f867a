//! The objects of gates: each is watched for as long as its run waits for it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use fleet_api::placement::{Gate, Scope};
use fleet_core::{
    selection::ObjectId,
    updaterun::{GateObject, Run, open_gates},
};
use fleet_runtime::{Key, logs};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::UpdateRuns;
use crate::cache::user::WatchedObject;

/// A kind that the hub does not serve yet, or a watch too many: nothing tells when that changes.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// Each watch is a connection to the API server. A tenant may make as many runs as it likes.
const WATCHES_OF_NAMESPACE_MAX: usize = 64;
const WATCHES_MAX: usize = 512;

/// The watches of each run, by the gate's place in its list.
#[derive(Default)]
pub(super) struct GateWatches {
    runs: Mutex<HashMap<Key, BTreeMap<usize, Watch>>>,
    taken: Arc<Mutex<Taken>>,
    /// When it was last asked which kinds there are.
    asked: Mutex<Option<Instant>>,
}

enum Watch {
    Open {
        object: WatchedObject,
        _seat: Seat,
    },
    /// There is none before this instant.
    Later(Instant, Option<&'static str>),
}

/// How many watches there are, and in which namespace their runs are.
#[derive(Default)]
struct Taken {
    all: usize,
    by_namespace: HashMap<String, usize>,
}

/// The right to watch one object. It is given back when this is dropped.
struct Seat {
    taken: Arc<Mutex<Taken>>,
    namespace: String,
}

impl Seat {
    /// None if there are enough watches already.
    fn take(taken: &Arc<Mutex<Taken>>, namespace: &str) -> Result<Self, &'static str> {
        let mut counts = taken.lock();
        let here = counts.by_namespace.get(namespace).copied().unwrap_or_default();
        if !namespace.is_empty() && here >= WATCHES_OF_NAMESPACE_MAX {
            return Err("the update runs of this namespace have 64 other gates that have not passed");
        }
        if counts.all >= WATCHES_MAX {
            return Err("the hub agent watches 512 other gates");
        }
        counts.all += 1;
        *counts.by_namespace.entry(namespace.to_owned()).or_default() += 1;
        Ok(Self {
            taken: taken.clone(),
            namespace: namespace.to_owned(),
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.taken.lock();
        counts.all -= 1;
        if let Some(here) = counts.by_namespace.get_mut(&self.namespace) {
            *here -= 1;
            if *here == 0 {
                counts.by_namespace.remove(&self.namespace);
            }
        }
    }
}

impl GateWatches {
    pub(super) fn forget(&self, run: &Key) {
        self.runs.lock().remove(run);
    }

    /// Ends the watches of gates that are not open any more.
    fn keep(&self, run: &Key, open: &[(usize, &Gate)]) {
        let mut runs = self.runs.lock();
        let Some(watches) = runs.get_mut(run) else { return };
        watches.retain(|place, _| open.iter().any(|(open, _)| open == place));
        if watches.is_empty() {
            runs.remove(run);
        }
    }

    /// What is known of a gate without asking.
    fn known(&self, run: &Key, place: usize) -> Option<Known> {
        match self.runs.lock().get(run)?.get(&place)? {
            Watch::Open { object, .. } => Some((object.object(), None)),
            Watch::Later(at, why) if Instant::now() < *at => Some((why.map(unwatched), Some(*at))),
            Watch::Later(..) => None,
        }
    }

    fn insert(&self, run: &Key, place: usize, watch: Watch) {
        self.runs.lock().entry(run.clone()).or_default().insert(place, watch);
    }

    /// Whether it is time to ask again which kinds there are, however many gates want to know.
    fn may_ask(&self) -> bool {
        let (mut asked, now) = (self.asked.lock(), Instant::now());
        let may = asked.is_none_or(|at| now >= at + ASK_AGAIN);
        if may {
            *asked = Some(now);
        }
        may
    }
}

/// An object, and when to look again for one that is not watched.
type Known = (Option<GateObject>, Option<Instant>);

fn unwatched(why: &'static str) -> GateObject {
    GateObject {
        unwatched: Some(why),
        ..GateObject::default()
    }
}

/// For each gate of a run its object, if it matters and is there, and when to look again for what is not watched.
pub(super) async fn objects<S: Scope>(
    ctx: &UpdateRuns<S>,
    key: &Key,
    run: &Run<'_>,
) -> (Vec<Option<GateObject>>, Option<Instant>) {
    let (open, watches) = (open_gates(run), &ctx.memory.gates);
    watches.keep(key, &open);
    let mut objects = vec![None; open.last().map_or(0, |(place, _)| place + 1)];
    let mut again: Option<Instant> = None;
    for (place, gate) in open {
        let known = match watches.known(key, place) {
            Some(known) => known,
            None => begin(ctx, key, run.namespace, (place, gate)).await,
        };
        if let Some(object) = objects.get_mut(place) {
            *object = known.0;
        }
        again = again.into_iter().chain(known.1).min();
    }
    (objects, again)
}

async fn begin<S: Scope>(ctx: &UpdateRuns<S>, key: &Key, namespace: &str, (place, gate): (usize, &Gate)) -> Known {
    let (watches, later) = (&ctx.memory.gates, Instant::now() + ASK_AGAIN);
    let seat = match Seat::take(&watches.taken, namespace) {
        Ok(seat) => seat,
        Err(why) => {
            watches.insert(key, place, Watch::Later(later, Some(why)));
            return (Some(unwatched(why)), Some(later));
        }
    };
    let (user, id) = (&ctx.shared.user, id_of(gate));
    let mut asked = user.discover().await;
    if user.place(&id).is_none() && watches.may_ask() {
        asked = user.discover_again(ASK_AGAIN).await;
    }
    if let Err(error) = asked {
        tracing::warn!(error = %logs::chain(&error), "Could not ask which kinds the hub serves");
    }
    let (queue, run) = (ctx.queue.clone(), key.clone());
    let tell = move || queue.add(run.clone());
    if let Some(object) = user.watch_one(&id, !namespace.is_empty(), tell).await {
        let found = object.object();
        watches.insert(key, place, Watch::Open { object, _seat: seat });
        (found, None)
    } else {
        watches.insert(key, place, Watch::Later(later, None));
        (None, Some(later))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_has_a_share_of_the_watches_and_gives_it_back() {
        let watches = GateWatches::default();
        let take = |namespace: &str| Seat::take(&watches.taken, namespace);
        let mut team: Vec<_> = (0..WATCHES_OF_NAMESPACE_MAX)
            .map(|_| take("team").ok().unwrap())
            .collect();
        assert!(take("team").is_err());
        let others: Vec<_> = (0..WATCHES_MAX - team.len()).map(|_| take("").ok().unwrap()).collect();
        assert!(take("other").is_err() && take("").is_err());
        team.pop();
        assert!(take("team").is_ok());
        drop((team, others));
        let counts = watches.taken.lock();
        assert_eq!((counts.all, counts.by_namespace.len()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_kind_is_asked_for_twice_a_minute_whoever_wants_to_know() {
        let watches = GateWatches::default();
        assert!(watches.may_ask() && !watches.may_ask());
        tokio::time::advance(ASK_AGAIN).await;
        assert!(watches.may_ask() && !watches.may_ask());
        let (run, later) = (Key::cluster("run"), Instant::now() + ASK_AGAIN);
        watches.insert(&run, 0, Watch::Later(later, None));
        assert_eq!(watches.known(&run, 0), Some((None, Some(later))));
        tokio::time::advance(ASK_AGAIN).await;
        assert_eq!(watches.known(&run, 0), None);
        watches.keep(&run, &[]);
        assert!(watches.runs.lock().is_empty());
    }
}
