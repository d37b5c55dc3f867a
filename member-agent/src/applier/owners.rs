//! AppliedWorks: the owners of what Works brought, with the inventory in their status. Always read uncached.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use fleet_api::{
    kind::SpecKind as _,
    placement::{AppliedResource, AppliedWork, AppliedWorkSpec},
};
use fleet_core::apply::{
    deletion::{AppliedWorkView, Propagation},
    identify::ObjectKey,
    inventory::{Attempt, Inventory},
};
use fleet_runtime::{client, logs};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::ObjectMeta,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// AppliedWorks read at a time.
const PAGE: u32 = 50;
/// How soon a list that failed is asked for again.
const AGAIN: Duration = Duration::from_secs(2);

/// A request about an AppliedWork that was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the AppliedWork {0} could not be {1}")]
    Refused(String, &'static str, #[source] Box<kube::Error>),
    #[error("no answer about the AppliedWork {0}")]
    Timeout(String),
}

/// AppliedWorks of this cluster. Cheap to clone.
#[derive(Clone)]
pub(super) struct Owners {
    api: Api<AppliedWork>,
    /// Where their Works are on the hub.
    namespace: String,
}

impl Owners {
    pub(super) fn new(client: Client, namespace: String) -> Self {
        Self {
            api: Api::all(client),
            namespace,
        }
    }

    /// The AppliedWork as the API server has it now.
    pub(super) async fn read(&self, name: &str) -> (AppliedWorkView, Option<AppliedWork>) {
        match timeout(ANSWER_TIMEOUT, self.api.get_opt(name)).await {
            Ok(Ok(None)) => (AppliedWorkView::Absent, None),
            Ok(Ok(Some(object))) => (view(&object), Some(object)),
            Ok(Err(error)) => {
                tracing::debug!(name, error = %logs::chain(&error), "Could not read the AppliedWork");
                (AppliedWorkView::Unknown, None)
            }
            Err(_) => (AppliedWorkView::Unknown, None),
        }
    }

    /// What each says was last applied, however long it takes to read.
    pub(super) async fn attempts(&self) -> HashMap<String, Attempt> {
        let mut params = ListParams::default().limit(PAGE);
        let mut attempts = HashMap::new();
        loop {
            let page = match client::answered(self.api.list(&params)).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(error = %logs::chain(&error), "The AppliedWorks could not be read");
                    sleep(AGAIN).await;
                    // A token that has expired does not come back.
                    params.continue_token = None;
                    continue;
                }
            };
            attempts.extend(page.items.into_iter().filter_map(|object| {
                let inventory = Inventory::stored(&object.status?)?;
                Some((object.metadata.name?, inventory.attempt))
            }));
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                return attempts;
            }
        }
    }

    /// Creates the AppliedWork of a Work. One that is there already is an error: it has to be looked at first.
    pub(super) async fn create(&self, name: &str) -> Result<AppliedWork, Error> {
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        };
        let spec = AppliedWorkSpec {
            work_name: name.to_owned(),
            work_namespace: self.namespace.clone(),
        };
        let object = AppliedWork::from_spec(metadata, spec);
        answered(name, "created", self.api.create(&PostParams::default(), &object)).await
    }

    /// Writes the status of exactly this AppliedWork.
    pub(super) async fn write(&self, name: &str, uid: &str, status: &Value) -> Result<(), Error> {
        let body = json!({"metadata": {"uid": uid}, "status": status});
        let patch = Patch::Merge(&body);
        answered(
            name,
            "written",
            self.api.patch_status(name, &PatchParams::default(), &patch),
        )
        .await
        .map(drop)
    }

    /// Deletes exactly this AppliedWork.
    pub(super) async fn delete(&self, name: &str, uid: &str, propagation: Propagation) -> Result<(), Error> {
        let params = match propagation {
            Propagation::Foreground => DeleteParams::foreground(),
            Propagation::Orphan => DeleteParams::orphan(),
            Propagation::Background => DeleteParams::background(),
        };
        let params = params.preconditions(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        });
        match answered(name, "deleted", self.api.delete(name, &params)).await {
            // Gone, or another one already: the next look tells.
            Err(Error::Refused(_, _, error)) if matches!(&*error, kube::Error::Api(s) if matches!(s.code, 404 | 409)) => {
                Ok(())
            }
            other => other.map(drop),
        }
    }
}

async fn answered<T>(
    name: &str,
    what: &'static str,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Error> {
    match timeout(ANSWER_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| Error::Refused(name.to_owned(), what, Box::new(error))),
        Err(_) => Err(Error::Timeout(name.to_owned())),
    }
}

fn view(object: &AppliedWork) -> AppliedWorkView {
    match &object.metadata.deletion_timestamp {
        Some(since) => AppliedWorkView::Terminating { since: since.0 },
        None => AppliedWorkView::Present {
            uid: object.metadata.uid.clone().unwrap_or_default(),
        },
    }
}

/// The whole status of an AppliedWork.
pub(super) fn status(inventory: &Inventory, applied: &[AppliedResource]) -> Value {
    let listed: BTreeSet<ObjectKey> = applied
        .iter()
        .filter_map(|applied| ObjectKey::of(&applied.id))
        .collect();
    json!({"appliedResources": applied, "inventory": inventory.to_store(|key| listed.contains(key))})
}
