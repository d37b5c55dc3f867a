//! What KubeFleet's hub agent writes when it runs and no release owns, so that it outlives its chart: webhook
//! configurations, which refuse every Pod and ReplicaSet of the hub as soon as their Service is gone, and the admission
//! policies of its policy manager, which stay in force whatever our chart says.

use std::time::Duration;

use fleet_api::{
    events::{Event as _, WebhookConfigurationEvent},
    names::Scope,
};
use fleet_runtime::{backoff::Backoff, client::answered, events::Recorder, logs};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::{
    admission::configuration,
    writer::{delete_exactly, record},
};

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

const RETRY: Backoff = Backoff {
    min: Duration::from_secs(1),
    max: Duration::from_mins(1),
};

/// One of these objects.
#[derive(Debug, Clone, Copy)]
enum Left {
    Validating(&'static str),
    Mutating(&'static str),
    Policy(&'static str),
}

/// Looks for each of them once, and says so of those that are there, or removes them. With webhooks of our own those of
/// the same names are taken over, and so nothing is said of them. What could not be looked for is returned.
pub(crate) async fn look(client: &Client, events: &Recorder, remove: bool, webhooks: bool) -> Again {
    let ours = [configuration::VALIDATING, configuration::MUTATING];
    let left = |name: &&str| !webhooks || !ours.contains(name);
    let validating = VALIDATING.into_iter().filter(left).map(Left::Validating);
    let mutating = MUTATING.into_iter().filter(left).map(Left::Mutating);
    let all = validating.chain(mutating).chain(POLICIES.map(Left::Policy));
    let mut again = Again {
        client: client.clone(),
        events: events.clone(),
        remove,
        left: all.collect(),
    };
    again.pass().await;
    again
}

/// What has yet to be looked for: the API server did not answer.
pub(crate) struct Again {
    client: Client,
    events: Recorder,
    remove: bool,
    left: Vec<Left>,
}

impl Again {
    /// Goes on until all has been looked for. Never ends.
    pub(crate) async fn run(mut self) {
        let mut failures = 0;
        while !self.left.is_empty() {
            failures += 1;
            tokio::time::sleep(RETRY.delay(failures)).await;
            self.pass().await;
        }
        std::future::pending::<()>().await;
    }

    async fn pass(&mut self) {
        for left in std::mem::take(&mut self.left) {
            let (client, events, remove) = (&self.client, &self.events, self.remove);
            let looked = match left {
                Left::Validating(name) => {
                    look_for::<ValidatingWebhookConfiguration>(client, events, name, remove).await
                }
                Left::Mutating(name) => look_for::<MutatingWebhookConfiguration>(client, events, name, remove).await,
                Left::Policy(name) => look_for_policy(client, events, name).await,
            };
            if let Err(error) = looked {
                tracing::warn!(?left, error = %logs::chain(&error), "Could not look for what KubeFleet has left");
                self.left.push(left);
            }
        }
    }
}

/// Policies are named and never removed: they work without a server, and somebody wanted what they do. Webhooks do not.
async fn look_for_policy(client: &Client, events: &Recorder, name: &str) -> kube::Result<()> {
    let binding = format!("{name}-binding");
    let api = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
    let found = answered(api.get_opt(&binding)).await?;
    if let Some(found) = found.filter(|found| !found.labels().contains_key(OF_A_CHART)) {
        let command =
            format!("kubectl delete validatingadmissionpolicybinding/{binding} validatingadmissionpolicy/{name}");
        let event = WebhookConfigurationEvent::PolicyLeftByKubeFleet { command };
        tracing::warn!("ValidatingAdmissionPolicyBinding {binding}: {}", event.message());
        record(events, Scope::Cluster, &found, &event);
    }
    Ok(())
}

async fn look_for<K: Configuration>(client: &Client, events: &Recorder, name: &str, remove: bool) -> kube::Result<()> {
    let api = Api::<K>::all(client.clone());
    let kind = K::kind(&());
    let found = answered(api.get_opt(name)).await?;
    let Some(found) = found.filter(|found| !found.hooks().is_empty()) else {
        return Ok(());
    };
    if remove {
        match delete_exactly(&api, &found).await {
            Ok(()) => {
                let event = WebhookConfigurationEvent::Removed;
                tracing::warn!("{kind} {name}: {}", event.message());
                record(events, Scope::Cluster, &found, &event);
                return Ok(());
            }
            Err(error) => {
                tracing::warn!(%kind, name, error = %logs::chain(&error), "Could not remove what KubeFleet has left");
            }
        }
    }
    let event = left(&found);
    tracing::warn!("{kind} {name}: {}", event.message());
    record(events, Scope::Cluster, &found, &event);
    Ok(())
}

/// What is wrong with it, for whoever has to act.
fn left<K: Configuration>(found: &K) -> WebhookConfigurationEvent {
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
    let name = found.name_any();
    let command = format!("kubectl delete {}/{name}", K::kind(&()).to_lowercase());
    WebhookConfigurationEvent::LeftByKubeFleet { effect, command }
}

#[cfg(test)]
mod tests {
    use fleet_runtime::{clock::Clock, metrics::Metrics, writes::Writes};
    use fleet_testkit::{Fault, Server};
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
                 Service fleet-system/fleetwebhook is gone; to remove it, run kubectl delete \
                 validatingwebhookconfiguration/fleet-validating-webhook-configuration, or start"
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

    #[tokio::test(start_paused = true)]
    async fn what_could_not_be_looked_for_is_looked_for_again() {
        let server = Server::new();
        server.fail(Fault::new("webhookconfigurations", 503));
        let metrics = Metrics::new();
        let writes = Writes::new("hub", &metrics);
        let (events, _sender) = Recorder::new(server.client(), writes, Clock::system(), "hub", &metrics);
        let mut again = look(&server.client(), &events, false, false).await;
        assert_eq!(again.left.len(), 3);
        server.recover();
        again.pass().await;
        assert!(again.left.is_empty());
    }
}
