//! How the fields of a kind merge, from the cluster's OpenAPI document, kept per kind.

use std::{collections::BTreeMap, sync::Arc};

use fleet_core::apply::merge::Rules;
use fleet_runtime::{client::answered, logs};
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Mutex as Turn;

use crate::applier::member_api::kinds::Gvk;

/// The rules of a kind; none if it merges as plain JSON.
pub(in crate::applier) type Known = Option<Arc<Rules>>;

/// What is known of how kinds merge.
pub(in crate::applier) struct MergeRules {
    client: Client,
    known: Mutex<BTreeMap<Gvk, Known>>,
    /// One document at a time: decoded it takes several megabytes.
    turn: Turn<()>,
}

impl MergeRules {
    pub(in crate::applier) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
            turn: Turn::new(()),
        }
    }

    /// The rules of a kind. Custom kinds have none, so nothing is asked for them.
    pub(in crate::applier) async fn of(&self, gvk: &Gvk) -> Result<Known, String> {
        if !is_built_in(&gvk.group) {
            return Ok(None);
        }
        if let Some(known) = self.known(gvk) {
            return Ok(known);
        }
        let _turn = self.turn.lock().await;
        if let Some(known) = self.known(gvk) {
            return Ok(known);
        }
        let path = if gvk.group.is_empty() {
            format!("/openapi/v3/api/{}", gvk.version)
        } else {
            format!("/openapi/v3/apis/{}/{}", gvk.group, gvk.version)
        };
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(|error| error.to_string())?;
        let document: Value = match answered(self.client.request(request)).await {
            Ok(document) => document,
            // A server without OpenAPI v3 for this group: everything merges as JSON.
            Err(kube::Error::Api(status)) if status.code == 404 => Value::Null,
            Err(error) => return Err(logs::chain(&error).to_string()),
        };
        let rules = Rules::from_openapi(&document, &gvk.group, &gvk.version, &gvk.kind).map(Arc::new);
        self.known.lock().insert(gvk.clone(), rules.clone());
        Ok(rules)
    }

    fn known(&self, gvk: &Gvk) -> Option<Known> {
        self.known.lock().get(gvk).cloned()
    }
}

/// Groups of Kubernetes itself have no domain, or one of its own.
fn is_built_in(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}
