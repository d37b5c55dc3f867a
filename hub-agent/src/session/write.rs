//! What the API server's answers mean for a report, and the requests that kube has no call for.

use std::time::Duration;

use fleet_runtime::{cache::Store, logs};
use http::{Request, header::CONTENT_TYPE};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// How long the watch may take to show what a write collided with, before it is tried again anyway.
const ECHO_PATIENCE: Duration = Duration::from_secs(2);

/// Why something could not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// Somebody else wrote in between: read again and decide again.
    Conflict,
    /// The object is gone.
    Gone,
    /// It would be too large.
    TooLarge(String),
    /// It will never be accepted.
    Invalid(String),
    /// Later it may work: the API server is away, busy or forbids it.
    Unavailable(String),
}

impl Failure {
    pub(super) fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Unavailable(logs::chain(error).to_string());
        };
        let message = status.message.clone();
        match status.code {
            409 => Self::Conflict,
            404 => Self::Gone,
            413 => Self::TooLarge(message),
            500 if message.contains("request is too large") => Self::TooLarge(message),
            400 | 422 => Self::Invalid(message),
            _ => Self::Unavailable(message),
        }
    }
}

/// Waits until the store is past the version that a write collided with: sent again from the same state, it would only
/// collide again.
pub(super) async fn after_conflict<K: Resource + Send + Sync + 'static>(store: &Store<K>, based_on: Option<&str>) {
    let version = based_on.and_then(|version| version.parse::<u64>().ok()).unwrap_or(0);
    let _ = tokio::time::timeout(ECHO_PATIENCE, store.reached(version.saturating_add(1))).await;
}

/// A JSON patch of an object's status. Unlike a merge patch it can change one field of a list's element and leave those
/// that we do not know.
pub(super) async fn json_patch_status<K>(client: &Client, name: &str, operations: &Value) -> kube::Result<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let request = Request::patch(format!("{}/{name}/status", K::url_path(&(), None)))
        .header(CONTENT_TYPE, "application/json-patch+json")
        .body(operations.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// Replaces an object's status. `object` has metadata with resourceVersion, and the status; nothing else is looked at,
/// which makes it cheaper for the API server than a merge patch of a large status.
pub(super) async fn put_status<K>(client: &Client, namespace: &str, name: &str, object: &Value) -> kube::Result<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let request = Request::put(format!("{}/{name}/status", K::url_path(&(), Some(namespace))))
        .header(CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())
        .map_err(kube::Error::HttpError)?;
    client.request(request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let api = |code, message: &str| {
            Failure::of(&kube::Error::Api(
                kube::core::Status::failure(message, "").with_code(code).boxed(),
            ))
        };
        assert_eq!(api(409, "x"), Failure::Conflict);
        assert_eq!(api(404, "x"), Failure::Gone);
        assert_eq!(api(413, "x"), Failure::TooLarge("x".into()));
        assert_eq!(api(422, "x"), Failure::Invalid("x".into()));
        let etcd = "etcdserver: request is too large";
        assert_eq!(api(500, etcd), Failure::TooLarge(etcd.into()));
        for code in [401, 403, 429, 500, 503, 504] {
            assert_eq!(api(code, "x"), Failure::Unavailable("x".into()), "{code}");
        }
    }
}
