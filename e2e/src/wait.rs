//! Waiting for a state, by watch and with a bound. A wait that fails says what was wanted and what was last seen.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::{Stream, StreamExt as _};
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use kube::runtime::{WatchStreamExt as _, reflector::Lookup};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long to wait unless told otherwise. Generous, because a busy machine is no failure; a wait that succeeds ends at
/// once.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// Waits until `wanted` holds for the object, which is `None` while it does not exist. Returns the object then.
pub async fn until<K>(api: Api<K>, name: &str, what: &str, wanted: impl FnMut(Option<&K>) -> bool) -> Result<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Serialize + 'static,
{
    until_within(PATIENCE, api, name, what, wanted).await
}

/// The same with another bound.
pub async fn until_within<K>(
    patience: Duration,
    api: Api<K>,
    name: &str,
    what: &str,
    mut wanted: impl FnMut(Option<&K>) -> bool,
) -> Result<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Serialize + 'static,
{
    // Boxed: a watch is some 18 kB, too much for the frames of everybody who waits.
    let states = Box::pin(watch_object(api, name).default_backoff());
    settle(patience, &format!("{name}: {what}"), states, |state| {
        wanted(state.as_ref())
    })
    .await
}

/// Waits until the object exists and `wanted` holds for it.
pub async fn until_present<K>(api: Api<K>, name: &str, what: &str, mut wanted: impl FnMut(&K) -> bool) -> Result<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Serialize + 'static,
{
    let found = until(api, name, what, |state| state.is_some_and(&mut wanted)).await?;
    Ok(found.expect("the condition holds only for an object that exists"))
}

/// Waits until the object is gone.
pub async fn until_gone<K>(api: Api<K>, name: &str) -> Result<()>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Serialize + 'static,
{
    until(api, name, "gone", |state| state.is_none()).await.map(|_| ())
}

/// Waits until `wanted` holds for all objects of the API (a namespace or a cluster) together.
pub async fn until_list<K>(api: Api<K>, what: &str, wanted: impl FnMut(&[K]) -> bool) -> Result<Vec<K>>
where
    K: Resource<DynamicType: Clone> + Lookup + Clone + DeserializeOwned + Debug + Send + Serialize + 'static,
{
    until_list_where(api, watcher::Config::default(), what, wanted).await
}

/// The same for the objects that a selector picks.
pub async fn until_list_where<K>(
    api: Api<K>,
    selector: watcher::Config,
    what: &str,
    mut wanted: impl FnMut(&[K]) -> bool,
) -> Result<Vec<K>>
where
    K: Resource<DynamicType: Clone> + Clone + DeserializeOwned + Debug + Send + Serialize + 'static,
{
    let mut known = BTreeMap::new();
    let mut listed = false;
    let states = Box::pin(watcher(api, selector).default_backoff().filter_map(move |event| {
        let changed = event.map(|event| observe(&mut known, &mut listed, event));
        let state = match changed {
            Ok(true) => Some(Ok(known.values().cloned().collect::<Vec<K>>())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        std::future::ready(state)
    }));
    settle(PATIENCE, what, states, |state| wanted(state)).await
}

/// Where a log ends now: what comes later was not there before.
pub fn end_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Waits until a log holds a text.
pub async fn until_log(path: &Path, text: &str) -> Result<()> {
    until_log_after(path, 0, text).await
}

/// Waits until a log holds a text behind its first bytes. Files cannot be watched everywhere, so this one asks.
pub async fn until_log_after(path: &Path, from: u64, text: &str) -> Result<()> {
    let from = usize::try_from(from)?;
    let says = |log: Vec<u8>| String::from_utf8_lossy(log.get(from..).unwrap_or_default()).contains(text);
    let found = async {
        while !std::fs::read(path).is_ok_and(says) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    match tokio::time::timeout(PATIENCE, found).await {
        Ok(()) => Ok(()),
        Err(_) => bail!(
            "waited {} s for {text:?} in {}; it ends with\n{}",
            PATIENCE.as_secs(),
            path.display(),
            crate::process::tail(path, 20)
        ),
    }
}

/// Takes an event in; true when the set is complete and may be looked at.
fn observe<K: Resource>(
    known: &mut BTreeMap<(Option<String>, Option<String>), K>,
    listed: &mut bool,
    event: Event<K>,
) -> bool {
    let key = |k: &K| (k.meta().namespace.clone(), k.meta().name.clone());
    match event {
        Event::Init => {
            known.clear();
            *listed = false;
        }
        Event::InitApply(k) | Event::Apply(k) => {
            known.insert(key(&k), k);
        }
        Event::Delete(k) => {
            known.remove(&key(&k));
        }
        Event::InitDone => *listed = true,
    }
    *listed
}

async fn settle<T: Serialize>(
    patience: Duration,
    what: &str,
    mut states: impl Stream<Item = Result<T, watcher::Error>> + Unpin,
    mut wanted: impl FnMut(&T) -> bool,
) -> Result<T> {
    let deadline = tokio::time::sleep(patience);
    let mut deadline = std::pin::pin!(deadline);
    let (mut last, mut trouble) = (None, None);
    loop {
        tokio::select! {
            // What is there already counts, also when the time is up.
            biased;
            state = states.next() => match state {
                Some(Ok(state)) if wanted(&state) => return Ok(state),
                Some(Ok(state)) => last = Some(state),
                // The server may be restarting; the watch goes on by itself.
                Some(Err(error)) => trouble = Some(error),
                None => bail!("the watch for {what:?} ended"),
            },
            () = &mut deadline => {
                let seen = match (&last, &trouble) {
                    (Some(state), _) => serde_saphyr::to_string(&clean(state))?,
                    (None, Some(error)) => format!("nothing, but this error: {error}"),
                    (None, None) => "nothing".to_owned(),
                };
                bail!("waited {} s for {what:?}; last seen:\n{seen}", patience.as_secs());
            }
        }
    }
}

/// Without managedFields, which are most of an object and help nobody here.
fn clean(state: &impl Serialize) -> serde_json::Value {
    fn strip(value: &mut serde_json::Value) {
        if let Some(list) = value.as_array_mut() {
            list.iter_mut().for_each(strip);
        } else if let Some(metadata) = value.get_mut("metadata").and_then(|m| m.as_object_mut()) {
            metadata.remove("managedFields");
        }
    }
    let mut value = serde_json::to_value(state).unwrap_or_default();
    strip(&mut value);
    value
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_first_state_that_fits_ends_the_wait() {
        let states = stream::iter([Ok(1), Err(watcher::Error::NoResourceVersion), Ok(2), Ok(3)]);
        let found = settle(PATIENCE, "two", states, |n| *n == 2).await.unwrap();
        assert_eq!(found, 2);
    }

    #[tokio::test]
    async fn a_failed_wait_shows_the_last_state_without_noise() {
        let object = json!({"metadata": {"name": "x", "managedFields": [1]}, "status": "Pending"});
        let states = stream::iter([Ok(object)]).chain(stream::pending());
        let error = settle(Duration::ZERO, "x: Ready", states, |_| false)
            .await
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("waited 0 s for \"x: Ready\"") && error.contains("status: Pending"),
            "{error}"
        );
        assert!(!error.contains("managedFields"), "{error}");
    }
}
