//! When states of an object are first seen by somebody who watches it.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// Placing on a hundred clusters nineteen times, on a slow machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// Whether this is the state to wait for; none if the object is not there.
pub type Wanted<'a, K> = &'a (dyn Fn(Option<&K>) -> bool + Sync);

/// When each of these was first seen, in their order, in seconds since `act` began. The watch runs before.
pub async fn times<K, const N: usize>(
    api: Api<K>,
    name: &str,
    wanted: [Wanted<'_, K>; N],
    act: impl Future<Output = Result<()>>,
) -> Result<[f64; N]>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut states = Box::pin(watcher::watch_object(api, name).default_backoff());
    states.next().await.context("no watch")??;
    let began = Instant::now();
    act.await?;
    let mut seen = [None; N];
    let all = async {
        while seen.iter().any(Option::is_none) {
            let state = states.next().await.context("the watch ended")??;
            for (time, wanted) in seen.iter_mut().zip(wanted) {
                if time.is_none() && wanted(state.as_ref()) {
                    *time = Some(began.elapsed().as_secs_f64());
                }
            }
        }
        anyhow::Ok(())
    };
    let outcome = tokio::time::timeout(PATIENCE, all).await;
    outcome.with_context(|| format!("{name}: not seen in {} s", PATIENCE.as_secs()))??;
    Ok(seen.map(Option::unwrap_or_default))
}

/// Waits for a state that may be there already.
pub async fn until<K>(api: Api<K>, name: &str, wanted: Wanted<'_, K>) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut states = Box::pin(watcher::watch_object(api, name).default_backoff());
    let seen = async {
        while !wanted(states.next().await.context("the watch ended")??.as_ref()) {}
        anyhow::Ok(())
    };
    let outcome = tokio::time::timeout(PATIENCE, seen).await;
    outcome.with_context(|| format!("{name}: not seen in {} s", PATIENCE.as_secs()))?
}
