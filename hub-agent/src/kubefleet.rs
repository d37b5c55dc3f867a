//! What KubeFleet's hub agent writes when it runs and no release owns, so that it outlives its chart: webhook
//! configurations, which refuse every Pod and ReplicaSet of the hub as soon as their Service is gone, and the admission
//! policies of its policy manager, which stay in force whatever our chart says.

use fleet_api::{
    events::{Event as _, WebhookConfigurationEvent},
    names::Scope,
};
use fleet_runtime::{client::answered, events::Recorder, logs};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, Preconditions},
};
use serde::de::DeserializeOwned;

use crate::{admission::configuration, writer::record};

/// The names that KubeFleet gives them.
const VALIDATING: [&str; 2] = [
    "fleet-validating-webhook-configuration",
    "fleet-guard-rail-webhook-configuration",
];
const MUTATING: [&str; 1] = ["fleet-mutating-webhook-configuration"];
/// The policies of its policy manager. A binding has the name and `-binding`; without one a policy does nothing.
const POLICIES: [&str; 2] = [
    "deny-pods-and-replicasets-outside-reserved-namespaces",
    "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces",
];
/// Our chart makes policies of the same names, with this label.
const OF_A_CHART: &str = "helm.sh/chart";

/// One webhook: its name, what happens when it cannot be reached, and where it is.
type Hook<'a> = (&'a str, Option<&'a str>, &'a WebhookClientConfig);

/// A configuration of either kind.
trait Configuration: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync {
    /// The webhooks of it that are KubeFleet's. Ours may stand under the same names; each has a condition, and none of
    /// KubeFleet's has.
    fn hooks(&self) -> Vec<Hook<'_>>;
}

macro_rules! configuration {
    ($kind:ty) => {
        impl Configuration for $kind {
            fn hooks(&self) -> Vec<Hook<'_>> {
                let hooks = self.webhooks.iter().flatten();
                hooks
                    .filter(|hook| hook.match_conditions.iter().flatten().next().is_none())
                    .map(|hook| {
                        (
                            hook.name.as_str(),
                            hook.failure_policy.as_deref(),
                            &hook.client_config,
                        )
                    })
                    .collect()
            }
        }
    };
}
configuration!(ValidatingWebhookConfiguration);
configuration!(MutatingWebhookConfiguration);

/// Looks for them once, and says so of each that is there, or removes it. With webhooks of our own those of the same names
/// are taken over, and so nothing is said of them.
pub(crate) async fn look(client: &Client, events: &Recorder, remove: bool, webhooks: bool) {
    let ours = [configuration::VALIDATING, configuration::MUTATING];
    let left = |name: &&str| !webhooks || !ours.contains(name);
    for name in VALIDATING.into_iter().filter(left) {
        look_for::<ValidatingWebhookConfiguration>(client, events, name, remove).await;
    }
    for name in MUTATING.into_iter().filter(left) {
        look_for::<MutatingWebhookConfiguration>(client, events, name, remove).await;
    }
    for name in POLICIES {
        look_for_policy(client, events, name).await;
    }
}

/// They are named and never removed: somebody wanted what they do, which is not what webhooks without a server do.
async fn look_for_policy(client: &Client, events: &Recorder, name: &str) {
    let binding = format!("{name}-binding");
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
    match answered(bindings.get_opt(&binding)).await {
        Ok(Some(found)) if !found.labels().contains_key(OF_A_CHART) => {
            let command =
                format!("kubectl delete validatingadmissionpolicybinding/{binding} validatingadmissionpolicy/{name}");
            let event = WebhookConfigurationEvent::PolicyLeftByKubeFleet { command };
            tracing::warn!("ValidatingAdmissionPolicyBinding {binding}: {}", event.message());
            record(events, Scope::Cluster, &found, &event);
        }
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(name, error = %logs::chain(&error), "Could not look for what KubeFleet has left");
        }
    }
}

async fn look_for<K: Configuration>(client: &Client, events: &Recorder, name: &str, remove: bool) {
    let api = Api::<K>::all(client.clone());
    let kind = K::kind(&());
    let found = match answered(api.get_opt(name)).await {
        Ok(Some(found)) if !found.hooks().is_empty() => found,
        Ok(_) => return,
        Err(error) => {
            tracing::warn!(%kind, name, error = %logs::chain(&error), "Could not look for what KubeFleet has left");
            return;
        }
    };
    if remove {
        // Exactly this one: somebody may have put another in its place.
        let only = DeleteParams {
            preconditions: Some(Preconditions {
                uid: found.uid(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match answered(api.delete(name, &only)).await {
            Ok(_) => {
                let event = WebhookConfigurationEvent::Removed;
                tracing::warn!("{kind} {name}: {}", event.message());
                record(events, Scope::Cluster, &found, &event);
                return;
            }
            Err(error) => {
                tracing::warn!(%kind, name, error = %logs::chain(&error), "Could not remove what KubeFleet has left");
            }
        }
    }
    let event = left(&found);
    tracing::warn!("{kind} {name}: {}", event.message());
    record(events, Scope::Cluster, &found, &event);
}

/// What is wrong with it, for whoever has to act.
fn left(found: &impl Configuration) -> WebhookConfigurationEvent {
    let hooks = found.hooks();
    let strict = hooks.iter().filter(|(_, policy, _)| *policy != Some("Ignore"));
    let strict: Vec<&str> = strict.map(|(name, ..)| *name).collect();
    let service = hooks.iter().find_map(|(.., at)| match (&at.service, &at.url) {
        (Some(service), _) => Some(format!("Service {}/{}", service.namespace, service.name)),
        (None, url) => url.clone(),
    });
    let service = service.unwrap_or_else(|| "what answers for them".to_owned());
    let effect = if strict.is_empty() {
        format!("its webhooks delay everything that they match once {service} is gone")
    } else {
        let names = strict.join(", ");
        format!("the webhooks {names} refuse everything that they match once {service} is gone")
    };
    WebhookConfigurationEvent::LeftByKubeFleet { effect }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_strict_webhooks_and_their_service_are_named() {
        let hook = |name: &str, policy: &str| {
            json!({
                "name": name, "failurePolicy": policy, "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": { "service": { "namespace": "fleet-system", "name": "fleetwebhook" } },
            })
        };
        let hooks = [
            hook("fleet.pod.validating", "Fail"),
            hook("other", "Ignore"),
            hook("fleet.replicaset.validating", "Fail"),
        ];
        let found = json!({ "metadata": { "name": VALIDATING[0] }, "webhooks": hooks });
        let found: ValidatingWebhookConfiguration = serde_json::from_value(found).unwrap();
        let message = left(&found).message();
        assert!(
            message.contains(
                "the webhooks fleet.pod.validating, fleet.replicaset.validating refuse everything that they match once \
                 Service fleet-system/fleetwebhook is gone; delete this object"
            ),
            "{message}"
        );
    }

    #[test]
    fn our_own_webhooks_under_the_same_name_are_left_alone() {
        let mut hook = json!({
            "name": "fleet.resourceplacement.validating", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {}, "matchConditions": [{ "name": "changed", "expression": "true" }],
        });
        let found = |hook: &serde_json::Value| {
            let found = json!({ "metadata": { "name": VALIDATING[0] }, "webhooks": [hook] });
            serde_json::from_value::<ValidatingWebhookConfiguration>(found).unwrap()
        };
        assert!(found(&hook).hooks().is_empty());
        hook["matchConditions"] = json!(null);
        assert_eq!(found(&hook).hooks().len(), 1);
    }
}
