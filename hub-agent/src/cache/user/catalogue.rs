//! Which kinds the hub serves, for those who only need to know that, on every replica. It is asked when it matters, and
//! not watched.

use std::{sync::Arc, time::Duration};

use fleet_api::placement::ResourceSelector;
use fleet_core::{admission::placement::Known, selection::apis::Apis};
use fleet_runtime::logs;
use kube::Client;
use parking_lot::RwLock;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use super::kinds::{Gvk, Kinds};

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(30);
/// A kind that the last answer did not have is asked for again, but not more often than this.
const PAUSE: Duration = Duration::from_secs(1);
/// Whoever waits for this waits for it with a request of their own.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Catalogue(Arc<Inner>);

struct Inner {
    client: Client,
    apis: Apis,
    known: RwLock<Option<(Instant, Arc<Kinds>)>>,
    /// One question at a time.
    asking: Mutex<()>,
}

/// What is known at one moment.
pub(crate) struct Edition(Option<Arc<Kinds>>);

impl Edition {
    pub(crate) fn get(&self, group: &str, version: &str, kind: &str) -> Known {
        let Some(kinds) = &self.0 else { return Known::NotYet };
        match kinds.served.get(&Gvk::new(group, version, kind)) {
            None => Known::No,
            Some(served) if served.cluster_scoped => Known::ClusterScoped,
            Some(_) => Known::Namespaced,
        }
    }

    fn has_all(&self, selectors: &[ResourceSelector]) -> bool {
        let known =
            |s: &ResourceSelector| !matches!(self.get(&s.group, &s.version, &s.kind), Known::No | Known::NotYet);
        selectors.iter().all(known)
    }
}

impl Catalogue {
    pub(crate) fn new(client: Client, apis: Apis) -> Self {
        Self(Arc::new(Inner {
            client,
            apis,
            known: RwLock::default(),
            asking: Mutex::default(),
        }))
    }

    /// What is known about the kinds of these selectors, asked for if need be.
    pub(crate) async fn known(&self, selectors: &[ResourceSelector]) -> Edition {
        if !self.is_enough(selectors) {
            let asked = timeout(ANSWER_TIMEOUT, async {
                let _one = self.0.asking.lock().await;
                // Whoever waited for another's question takes its answer.
                if !self.is_enough(selectors) {
                    self.ask().await;
                }
            });
            if asked.await.is_err() {
                tracing::warn!("The hub did not say in time which kinds it serves");
            }
        }
        Edition(self.0.known.read().as_ref().map(|(_, kinds)| kinds.clone()))
    }

    fn is_enough(&self, selectors: &[ResourceSelector]) -> bool {
        let known = self.0.known.read().clone();
        let Some((at, kinds)) = known else { return false };
        at.elapsed() < PAUSE || at.elapsed() < FRESH && Edition(Some(kinds)).has_all(selectors)
    }

    async fn ask(&self) {
        match Kinds::discover(&self.0.client, &self.0.apis).await {
            Ok(kinds) => *self.0.known.write() = Some((Instant::now(), Arc::new(kinds))),
            // What was known before is better than nothing.
            Err(error) => {
                tracing::warn!(error = %logs::chain(&error), "Could not ask which kinds the hub serves");
            }
        }
    }
}
