//! Objects of any kind on this cluster: read, created, changed, deleted, with patience for what passes by itself.

use std::{sync::Arc, time::Duration};

use fleet_core::apply::{
    backoff,
    compare::DryRun,
    decide::Live,
    merge::{Patch as Merge, Style},
    prepare::FIELD_MANAGER,
};
use fleet_runtime::logs;
use jiff::SignedDuration;
use kube::{
    Client, Resource,
    api::{DeleteParams, DynamicObject, GetParams, Patch, PatchParams, PostParams, Preconditions},
    core::{Request, request},
};
use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};

use super::{json::text, kinds::Kind};

/// Requests on the way at the same time. More only make the API server queue them.
const AT_ONCE: usize = 16;
/// Longer than any admission webhook may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(40);

/// Why a request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::applier) struct Refusal {
    /// The HTTP status; 0 if none came.
    pub(in crate::applier) code: u16,
    /// The API server's words.
    pub(in crate::applier) text: String,
    /// It is about an object that is not there, by name.
    names_object: bool,
    retry_after: Option<SignedDuration>,
}

impl Refusal {
    fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self {
                code: status.code,
                text: status.message.clone(),
                names_object: status.reason == "NotFound"
                    && status.details.as_ref().is_some_and(|details| !details.name.is_empty()),
                retry_after: status
                    .details
                    .as_ref()
                    .filter(|details| details.retry_after_seconds > 0)
                    .map(|details| SignedDuration::from_secs(details.retry_after_seconds.into())),
            },
            other => Self {
                code: 0,
                text: logs::chain(&other).to_string(),
                names_object: false,
                retry_after: None,
            },
        }
    }

    /// Whether the API server does not serve the resource, which says nothing about objects.
    pub(in crate::applier) fn is_unserved(&self) -> bool {
        self.code == 404 && !self.names_object
    }
}

/// One object.
#[derive(Debug, Clone)]
pub(in crate::applier) struct Place {
    pub(in crate::applier) kind: Kind,
    pub(in crate::applier) namespace: String,
    pub(in crate::applier) name: String,
}

impl Place {
    fn request(&self) -> Request {
        let namespace = (self.kind.namespaced && !self.namespace.is_empty()).then_some(self.namespace.as_str());
        Request::new(DynamicObject::url_path(&self.kind.resource, namespace))
    }
}

/// What a lookup found.
#[derive(Debug, Clone)]
pub(in crate::applier) enum Found {
    Absent,
    Object(Value),
    Failed(String),
    /// Its version is not served, or not at the moment.
    Unserved(String),
}

impl Found {
    pub(in crate::applier) fn as_live(&self) -> Live<'_> {
        match self {
            Self::Absent => Live::Absent,
            Self::Object(object) => Live::Found(object),
            Self::Failed(error) | Self::Unserved(error) => Live::Failed(error),
        }
    }

    pub(in crate::applier) fn object(&self) -> Option<&Value> {
        match self {
            Self::Object(object) => Some(object),
            Self::Absent | Self::Failed(_) | Self::Unserved(_) => None,
        }
    }
}

/// This cluster's objects. Cheap to clone.
#[derive(Clone)]
pub(in crate::applier) struct Objects {
    client: Client,
    turns: Arc<Semaphore>,
}

impl Objects {
    pub(in crate::applier) fn new(client: Client) -> Self {
        Self {
            client,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// The object as the API server has it now.
    pub(in crate::applier) async fn get(&self, place: &Place) -> Found {
        let answer = self
            .call(false, || place.request().get(&place.name, &GetParams::default()))
            .await;
        match answer {
            Ok(object) => Found::Object(object),
            Err(refusal) if refusal.is_unserved() => Found::Unserved(refusal.text),
            Err(refusal) if refusal.code == 404 => Found::Absent,
            Err(refusal) => Found::Failed(refusal.text),
        }
    }

    /// Creates the object.
    pub(in crate::applier) async fn create(&self, place: &Place, object: &Value) -> Result<Value, Refusal> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        // A conflict means that it is there: trying again does not change that.
        self.call(true, || place.request().create(&params, bytes(object))).await
    }

    /// Writes the whole object, under the resource version that it has.
    pub(in crate::applier) async fn replace(&self, place: &Place, object: &Value) -> Result<Value, Refusal> {
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        self.call(true, || place.request().replace(&place.name, &params, bytes(object)))
            .await
    }

    /// Sends a patch.
    pub(in crate::applier) async fn patch(&self, place: &Place, patch: &Merge) -> Result<Value, Refusal> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let locked = patch.body.pointer("/metadata/resourceVersion").is_some();
        self.call(locked, || match patch.style {
            Style::Strategic => place
                .request()
                .patch(&place.name, &params, &Patch::Strategic(&patch.body)),
            Style::Json => place.request().patch(&place.name, &params, &Patch::Merge(&patch.body)),
        })
        .await
    }

    /// Sends a server-side apply.
    pub(in crate::applier) async fn apply(&self, place: &Place, object: &Value, force: bool) -> Result<Value, Refusal> {
        let params = PatchParams {
            force,
            ..PatchParams::apply(FIELD_MANAGER)
        };
        // Conflicts with other managers do not pass either.
        self.call(true, || {
            place.request().patch(&place.name, &params, &Patch::Apply(object))
        })
        .await
    }

    /// What would become of the object if the manifest were applied by force.
    pub(in crate::applier) async fn dry_run(&self, place: &Place, manifest: &Value) -> DryRun {
        let params = PatchParams {
            force: true,
            dry_run: true,
            ..PatchParams::apply(FIELD_MANAGER)
        };
        let answer = self
            .call(false, || {
                place.request().patch(&place.name, &params, &Patch::Apply(manifest))
            })
            .await;
        match answer {
            Ok(object) => DryRun::Object(object),
            Err(refusal) if refusal.code == 422 => DryRun::Invalid,
            Err(refusal) => DryRun::Failed(refusal.text),
        }
    }

    /// Replaces the managed fields of exactly this version of the object.
    pub(in crate::applier) async fn set_managers(
        &self,
        place: &Place,
        live: &Value,
        managers: &[Value],
    ) -> Result<Value, Refusal> {
        let body = json!({"metadata": {
            "managedFields": managers, "resourceVersion": text(live, &["metadata", "resourceVersion"]),
        }});
        let params = PatchParams::default();
        self.call(true, || {
            place.request().patch(&place.name, &params, &Patch::Merge(&body))
        })
        .await
    }

    /// Deletes the object, if it still is the one with this uid; whether it is gone.
    pub(in crate::applier) async fn delete(&self, place: &Place, uid: &str) -> Result<bool, Refusal> {
        self.delete_with(place, uid, DeleteParams::default()).await
    }

    /// The same, and what it owns goes first.
    pub(in crate::applier) async fn delete_foreground(&self, place: &Place, uid: &str) -> Result<bool, Refusal> {
        self.delete_with(place, uid, DeleteParams::foreground()).await
    }

    async fn delete_with(&self, place: &Place, uid: &str, params: DeleteParams) -> Result<bool, Refusal> {
        let params = params.preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        match self.call(true, || place.request().delete(&place.name, &params)).await {
            // An object that has to wait for something comes back as it is; otherwise there is a Status.
            Ok(answer) => Ok(text(&answer, &["metadata", "deletionTimestamp"]).is_empty()),
            Err(refusal) if matches!(refusal.code, 404 | 409) => Ok(true),
            Err(refusal) => Err(refusal),
        }
    }

    /// Makes the request, and makes it again as long as that may help. `locked`: a conflict is an answer.
    async fn call(
        &self,
        locked: bool,
        request: impl Fn() -> Result<http::Request<Vec<u8>>, request::Error>,
    ) -> Result<Value, Refusal> {
        for attempt in 1.. {
            let refusal = {
                let _turn = self.turns.acquire().await;
                let request = request().map_err(|error| Refusal::of(kube::Error::BuildRequest(error)))?;
                match timeout(ANSWER_TIMEOUT, self.client.request::<Value>(request)).await {
                    Ok(Ok(answer)) => return Ok(answer),
                    Ok(Err(error)) => Refusal::of(error),
                    Err(_) => Refusal {
                        code: 0,
                        text: format!("no answer within {}s", ANSWER_TIMEOUT.as_secs()),
                        names_object: false,
                        retry_after: None,
                    },
                }
            };
            match backoff::retry(attempt, refusal.code, locked, refusal.retry_after, fastrand::f64()) {
                Some(wait) => tokio::time::sleep(wait.unsigned_abs()).await,
                None => return Err(refusal),
            }
        }
        unreachable!("attempts are counted")
    }
}

fn bytes(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}
