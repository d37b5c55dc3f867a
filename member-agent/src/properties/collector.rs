//! Calls a provider with patience that ends: a provider that hangs or fails never stops anything else.

use std::{pin::pin, sync::Arc, time::Duration};

use fleet_api::{
    conditions::{
        Words as _,
        properties::{CollectionSucceeded, ProviderStarted},
    },
    events::InternalMemberClusterEvent as Event,
};
use fleet_runtime::backoff::Backoff;
use tokio::{
    sync::{Semaphore, oneshot, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{ClusterReport, Collected, Provider, Recorder};
use crate::outgoing::said;

/// How long a start, and a collection, may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many collections may be running, however long they take.
const CALLS_MAX: usize = 3;
/// When to try a start again.
const START_AGAIN: Backoff = Backoff {
    min: Duration::from_secs(10),
    max: Duration::from_mins(5),
};

/// Collects through a provider, or through the built-in collection while it has not started.
pub struct Collector {
    built_in: Arc<dyn Provider>,
    provider: Option<Arc<dyn Provider>>,
    /// None while the first start is not decided.
    started: watch::Receiver<Option<ProviderStarted>>,
    free: Arc<Semaphore>,
    /// Ends with the collector whatever still runs.
    tasks: JoinSet<()>,
    record: Recorder,
}

impl Collector {
    /// Starts `provider`, if there is one, in the background. Must be called inside the runtime.
    pub fn new(built_in: Arc<dyn Provider>, provider: Option<Arc<dyn Provider>>, record: Recorder) -> Self {
        let (sender, started) = watch::channel(None);
        let mut tasks = JoinSet::new();
        if let Some(provider) = provider.clone() {
            tasks.spawn(start(provider, sender, record.clone()));
        }
        Self {
            built_in,
            provider,
            started,
            free: Arc::new(Semaphore::new(CALLS_MAX)),
            tasks,
            record,
        }
    }

    /// Resolves when the first start has succeeded, failed or taken too long.
    pub(super) async fn first_start(&mut self) {
        if self.provider.is_some() {
            let _ = self.started.wait_for(Option::is_some).await;
        }
    }

    /// Resolves when the provider has started after all, or failed anew.
    pub(super) async fn start_changed(&mut self) {
        if self.started.changed().await.is_err() {
            // There is no provider, or it runs: nothing changes any more.
            std::future::pending::<()>().await;
        }
    }

    /// Collects once.
    pub async fn collect(&mut self) -> ClusterReport {
        while self.tasks.try_join_next().is_some() {}
        let started = self.started.borrow().clone();
        let mut report = self.call(started.as_ref()).await;
        // Said each time: it is a state of this process, and the InternalMemberCluster may be a new one.
        report.conditions.extend(started.as_ref().map(said));
        report
    }

    async fn call(&mut self, started: Option<&ProviderStarted>) -> ClusterReport {
        let provider = match (&self.provider, started) {
            (Some(provider), Some(ProviderStarted::Started)) => provider.clone(),
            _ => self.built_in.clone(),
        };
        let Ok(permit) = self.free.clone().try_acquire_owned() else {
            tracing::warn!("Too many calls to the property provider are running");
            return ClusterReport::failed(&CollectionSucceeded::TooManyCalls);
        };
        let (sender, answer) = oneshot::channel::<Collected>();
        let asked = provider.clone();
        self.tasks.spawn(async move {
            let collected = asked.collect().await;
            // Nobody waits any more if it took too long.
            let _ = sender.send(collected);
            drop(permit);
        });
        // A panic ends the call without an answer, which is as good as none.
        let Ok(Ok(collected)) = timeout(PATIENCE, answer).await else {
            let hindrance = provider.hindrance();
            tracing::warn!(hindrance, "The property provider does not respond in time");
            (self.record)(Event::ProviderTimedOut);
            return match hindrance {
                Some(hindrance) => ClusterReport::failed(&CollectionSucceeded::TimedOut.with_detail(hindrance)),
                None => ClusterReport::failed(&CollectionSucceeded::TimedOut),
            };
        };
        ClusterReport {
            collected: Some(collected),
            conditions: vec![said(&CollectionSucceeded::Collected)],
        }
    }
}

async fn start(provider: Arc<dyn Provider>, state: watch::Sender<Option<ProviderStarted>>, record: Recorder) {
    let mut failures = 0;
    loop {
        let mut starting = pin!(provider.start());
        let result = if let Ok(result) = timeout(PATIENCE, &mut starting).await {
            result
        } else {
            tracing::warn!("The property provider does not start up in time");
            let late = ProviderStarted::TimedOut;
            set(&state, late, &record, Event::ProviderStartTimedOut);
            // It may still succeed.
            starting.await
        };
        match result {
            Ok(()) => {
                tracing::info!("The property provider has started");
                set(&state, ProviderStarted::Started, &record, Event::ProviderStarted);
                return;
            }
            Err(error) => {
                tracing::warn!(
                    error,
                    "The property provider failed to start; the built-in collection is used"
                );
                let failed = ProviderStarted::Failed { error: error.clone() };
                set(&state, failed, &record, Event::ProviderFailedToStart { error });
            }
        }
        failures += 1;
        sleep(START_AGAIN.delay(failures)).await;
    }
}

fn set(state: &watch::Sender<Option<ProviderStarted>>, new: ProviderStarted, record: &Recorder, event: Event) {
    let changed = state.send_if_modified(|known| {
        let changed = known.as_ref() != Some(&new);
        *known = Some(new);
        changed
    });
    if changed {
        record(event);
    }
}

#[cfg(test)]
mod tests;
