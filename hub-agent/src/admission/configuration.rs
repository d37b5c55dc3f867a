//! How the API server is told about the webhooks: two objects, written as a whole.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use serde_json::{Value, json};

use super::{hooks::Hook, server::REQUEST_TIMEOUT};

/// The object for webhooks that change requests.
pub(crate) const MUTATING: &str = "fleet-mutating-webhook-configuration";
/// The object for those that only judge.
pub(crate) const VALIDATING: &str = "fleet-validating-webhook-configuration";
/// Where each replica serves, unless told otherwise.
pub(crate) const PORT: u16 = 9443;

/// How the API server reaches the webhooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum At {
    /// By a Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// At an address, `host:port`.
    Address(String),
}

/// Who says whom to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trust {
    /// PEM, filled in by us.
    Bundle(String),
    /// cert-manager fills it in, from this Certificate (`namespace/name`).
    InjectedFrom(String),
}

/// What the two objects say.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Configuration {
    /// Where.
    pub(crate) at: At,
    /// Whom to trust.
    pub(crate) trust: Trust,
    /// What they go with.
    pub(crate) owner: OwnerReference,
    /// Whether members are asked what they export before they leave.
    pub(crate) networking: bool,
}

/// A reference to an owner in whose deletion nobody waits for them.
pub(crate) fn owner<K: Resource<DynamicType = ()>>(object: &K) -> OwnerReference {
    let meta = object.meta();
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: meta.name.clone().unwrap_or_default(),
        uid: meta.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(false),
        controller: None,
    }
}

impl Configuration {
    /// The MutatingWebhookConfiguration.
    pub(crate) fn mutating(&self) -> Value {
        let hooks: Vec<Value> = Hook::MUTATING.into_iter().map(|hook| self.hook(hook)).collect();
        self.object("MutatingWebhookConfiguration", MUTATING, &hooks)
    }

    /// The ValidatingWebhookConfiguration.
    pub(crate) fn validating(&self) -> Value {
        let used = Hook::VALIDATING
            .into_iter()
            .filter(|hook| self.networking || *hook != Hook::Member);
        let hooks: Vec<Value> = used.map(|hook| self.hook(hook)).collect();
        self.object("ValidatingWebhookConfiguration", VALIDATING, &hooks)
    }

    fn object(&self, kind: &str, name: &str, hooks: &[Value]) -> Value {
        let mut metadata = json!({
            "name": name,
            // Other admission enforcers leave it alone.
            "labels": {"admissions.enforcer/disabled": "true"},
            "ownerReferences": [self.owner],
        });
        if let Trust::InjectedFrom(certificate) = &self.trust {
            metadata["annotations"] = json!({"cert-manager.io/inject-ca-from": certificate});
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "webhooks": hooks,
        })
    }

    fn hook(&self, hook: Hook) -> Value {
        let (group, plural, scope) = hook.resource();
        let (condition, expression) = hook.condition();
        let mut client = match &self.at {
            At::Service { namespace, name } => json!({"service":
                {"namespace": namespace, "name": name, "path": hook.path(), "port": PORT}}),
            At::Address(address) => json!({"url": format!("https://{address}{}", hook.path())}),
        };
        if let Trust::Bundle(pem) = &self.trust {
            client["caBundle"] = json!(BASE64_STANDARD.encode(pem));
        }
        json!({
            "name": hook.name(),
            "clientConfig": client,
            "failurePolicy": hook.failure_policy(),
            "sideEffects": "None",
            "admissionReviewVersions": ["v1", "v1beta1"],
            "timeoutSeconds": REQUEST_TIMEOUT.as_secs(),
            "matchConditions": [{"name": condition, "expression": expression}],
            "rules": [{
                "apiGroups": [group], "apiVersions": ["v1beta1"], "operations": hook.operations(),
                "resources": [plural], "scope": scope,
            }],
        })
    }
}

/// The bundle that trusts `current`, and beside it the newest of those that were trusted before: replicas may still serve
/// under that.
pub(crate) fn bundle(current: &str, before: &str) -> String {
    let (current, others) = (current.trim(), certificates(before));
    let previous = others.into_iter().find(|other| !current.contains(other.as_str()));
    match previous {
        Some(previous) => format!("{current}\n{previous}\n"),
        None => format!("{current}\n"),
    }
}

fn certificates(pem: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let parts = pem.split_inclusive(END).map(str::trim);
    parts
        .filter(|part| part.ends_with(END))
        .map(ToOwned::to_owned)
        .collect()
}
