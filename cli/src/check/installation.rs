//! What is installed on the hub: CRDs, what KubeFleet has left, the hub agent.

use fleet_api::{
    crds,
    kind::VERSION,
    names::{FLEET_SYSTEM_NAMESPACE, HUB_LEASE},
};
use jiff::SignedDuration;
use k8s_openapi::{
    api::{
        admissionregistration::v1::{
            MutatingWebhookConfiguration, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
        },
        coordination::v1::Lease,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, ResourceExt as _, api::ListParams};

use super::{CheckResults, agent, certificates, rights::Right};
use crate::terminal::now;

const CRDS: &str = "CRDs";
const LEFTOVERS: &str = "leftovers of KubeFleet";
const AGENT: &str = "hub agent";
/// A leader that has not renewed its lease for so long does not lead.
const LEASE_AGE_MAX: SignedDuration = SignedDuration::from_secs(60);
/// What the hub agent must be able to do whatever the values of its chart.
const RIGHTS: [Right; 12] = [
    ("patch", CLUSTER, "memberclusters"),
    ("patch", CLUSTER, "memberclusters/status"),
    ("create", CLUSTER, "internalmemberclusters"),
    ("create", PLACEMENT, "works"),
    ("update", PLACEMENT, "works/status"),
    ("create", PLACEMENT, "clusterresourcebindings"),
    ("create", PLACEMENT, "clusterresourcesnapshots"),
    ("update", PLACEMENT, "clusterresourceplacements/status"),
    ("list", "*", "*"),
    ("create", "", "namespaces"),
    ("create", "rbac.authorization.k8s.io", "roles"),
    ("create", "authentication.k8s.io", "tokenreviews"),
];
/// And in its own namespace.
const RIGHTS_AT_HOME: [Right; 2] = [("create", "coordination.k8s.io", "leases"), ("create", "", "secrets")];
const CLUSTER: &str = "cluster.kubernetes-fleet.io";
const PLACEMENT: &str = "placement.kubernetes-fleet.io";
/// What KubeFleet's hub agent writes when it runs and no release owns.
const WEBHOOKS: [&str; 3] = [
    "fleet-validating-webhook-configuration",
    "fleet-guard-rail-webhook-configuration",
    "fleet-mutating-webhook-configuration",
];
const POLICIES: [&str; 2] = [
    "deny-pods-and-replicasets-outside-reserved-namespaces-binding",
    "deny-serviceaccounts-and-tokenrequests-in-reserved-namespaces-binding",
];

pub(super) async fn check(client: &Client, pre: bool, report: &mut CheckResults) {
    definitions(client, pre, report).await;
    leftovers(client, report).await;
    if pre {
        return;
    }
    leader(client, report).await;
    deployment(client, report).await;
}

async fn definitions(client: &Client, pre: bool, report: &mut CheckResults) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let found = match api.list(&ListParams::default()).await {
        Ok(found) => found.items,
        Err(error) => {
            return report.unread_core(
                CRDS,
                "kubectl",
                "list customresourcedefinitions.apiextensions.k8s.io",
                &error,
            );
        }
    };
    let wanted = crds::all();
    let (mut missing, mut lacking, mut stored, mut pending) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for own in &wanted {
        let name = own.name_any();
        let Some(there) = found.iter().find(|it| it.name_any() == name) else {
            missing.push(name);
            continue;
        };
        let served = |crd: &CustomResourceDefinition| -> Vec<String> {
            let versions = crd.spec.versions.iter().filter(|version| version.served);
            versions.map(|version| version.name.clone()).collect()
        };
        let has = served(there);
        if served(own).iter().any(|version| !has.contains(version)) {
            lacking.push(name.clone());
        }
        let status = there.status.as_ref();
        let versions = status
            .and_then(|status| status.stored_versions.as_deref())
            .unwrap_or_default();
        if versions.iter().any(|version| version != VERSION) {
            stored.push(format!("{name} ({})", versions.join(", ")));
        }
        let conditions = status
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default();
        let established = conditions
            .iter()
            .any(|it| it.type_ == "Established" && it.status == "True");
        if !established {
            pending.push(name);
        }
    }
    let install = "helm upgrade --install hub-agent deploy/charts/hub-agent -n fleet-system";
    match missing.len() {
        0 => report.ok(CRDS, format!("all {} are there", wanted.len())),
        all if all == wanted.len() && pre => report.ok(CRDS, "none are there yet: the chart brings them"),
        all if all == wanted.len() => report.fail(CRDS, "none are there: is this the context of the hub?", install),
        _ => report.fail(CRDS, format!("missing: {}", missing.join(", ")), install),
    }
    if !lacking.is_empty() {
        report.fail(
            CRDS,
            format!(
                "older than this program, some version is not served: {}",
                lacking.join(", ")
            ),
            install,
        );
    }
    if !pending.is_empty() {
        let hint = format!("kubectl describe crd {}", pending[0]);
        report.fail(CRDS, format!("not established: {}", pending.join(", ")), hint);
    }
    if stored.is_empty() {
        if missing.len() < wanted.len() {
            report.ok(CRDS, format!("everything is stored as {VERSION}"));
        }
    } else {
        let text = format!(
            "objects are stored in other versions than {VERSION}: {}",
            stored.join("; ")
        );
        report.warn(
            CRDS,
            text,
            "docs/operations/migrating-from-kubefleet.md tells how to rewrite them",
        );
    }
}

async fn leftovers(client: &Client, report: &mut CheckResults) {
    let mut found = Vec::new();
    for name in WEBHOOKS {
        let validating = Api::<ValidatingWebhookConfiguration>::all(client.clone())
            .get_opt(name)
            .await;
        let mutating = Api::<MutatingWebhookConfiguration>::all(client.clone())
            .get_opt(name)
            .await;
        match (validating, mutating) {
            (Err(error), _) | (_, Err(error)) => {
                let right = "get validatingwebhookconfigurations.admissionregistration.k8s.io";
                return report.unread_core(LEFTOVERS, "kubectl", right, &error);
            }
            (Ok(validating), Ok(mutating)) => {
                // Ours may stand under the same names; each has a condition, and none of KubeFleet's has.
                let hooks = validating.iter().flat_map(|it| it.webhooks.iter().flatten());
                if hooks
                    .clone()
                    .any(|hook| hook.match_conditions.iter().flatten().next().is_none())
                {
                    found.push(format!("validatingwebhookconfiguration/{name}"));
                }
                let hooks = mutating.iter().flat_map(|it| it.webhooks.iter().flatten());
                if hooks
                    .clone()
                    .any(|hook| hook.match_conditions.iter().flatten().next().is_none())
                {
                    found.push(format!("mutatingwebhookconfiguration/{name}"));
                }
            }
        }
    }
    for name in POLICIES {
        match Api::<ValidatingAdmissionPolicyBinding>::all(client.clone())
            .get_opt(name)
            .await
        {
            Ok(Some(binding)) if !binding.labels().contains_key("helm.sh/chart") => {
                found.push(format!("validatingadmissionpolicybinding/{name}"));
            }
            _ => {}
        }
    }
    if found.is_empty() {
        report.ok(LEFTOVERS, "no webhooks or policies");
    } else {
        let text = format!(
            "{}: without a server they refuse every Pod of the hub",
            found.join(", ")
        );
        report.fail(LEFTOVERS, text, format!("kubectl delete {}", found.join(" ")));
    }
}

async fn leader(client: &Client, report: &mut CheckResults) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), FLEET_SYSTEM_NAMESPACE);
    let logs = format!("kubectl logs -n {FLEET_SYSTEM_NAMESPACE} deployment/hub-agent");
    match leases.get_opt(HUB_LEASE).await {
        Err(error) => {
            let right = format!("get lease/{HUB_LEASE} -n {FLEET_SYSTEM_NAMESPACE}");
            report.unread_core(AGENT, "kubectl", &right, &error);
        }
        Ok(None) => report.fail(AGENT, "no hub agent has ever led", logs),
        Ok(Some(lease)) => {
            let spec = lease.spec.unwrap_or_default();
            let holder = spec.holder_identity.unwrap_or_default();
            let age = spec.renew_time.map(|time| now().duration_since(time.0));
            match age {
                _ if holder.is_empty() => report.fail(AGENT, "nobody leads", logs),
                Some(age) if age <= LEASE_AGE_MAX => report.ok(AGENT, format!("{holder} leads")),
                Some(age) => {
                    let text = format!("{holder} led until {} s ago, and nobody has since", age.as_secs());
                    report.fail(AGENT, text, logs);
                }
                None => report.fail(AGENT, format!("{holder} has never renewed its lease"), logs),
            }
        }
    }
}

/// The replicas of the hub agent, its rights, and its certificates.
async fn deployment(client: &Client, report: &mut CheckResults) {
    let found = match agent::deployment(client, "hub-agent").await {
        Ok(found) => found,
        Err(error) => {
            let right = format!("list deployments.apps -n {FLEET_SYSTEM_NAMESPACE}");
            report.unread_core(AGENT, "kubectl", &right, &error);
            None
        }
    };
    // It may run elsewhere; the lease says that it does.
    if let Some(found) = &found {
        let wanted = found.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let ready = found.status.as_ref().and_then(|status| status.ready_replicas);
        let ready = ready.unwrap_or_default();
        let text = format!("{ready} of {wanted} replicas are ready");
        if ready >= wanted {
            report.ok(AGENT, text);
        } else {
            report.fail(
                AGENT,
                text,
                format!("kubectl describe pods -n {FLEET_SYSTEM_NAMESPACE}"),
            );
        }
    }
    let pod = found.as_ref().and_then(agent::pod);
    if let Some(pod) = pod {
        let who = ("the hub agent", "kubectl");
        agent::rights(client, AGENT, who, pod, (&RIGHTS, &RIGHTS_AT_HOME), report).await;
    }
    certificates::check(client, pod, now(), report).await;
}
