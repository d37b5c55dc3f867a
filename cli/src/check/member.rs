//! A member's own side.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fleet_api::{
    annotations::{CHANNEL_CA, CHANNEL_ENDPOINT},
    cluster::InternalMemberCluster,
    kind::Kind as _,
    names::{FLEET_SYSTEM_NAMESPACE, MEMBER_LEASE},
    placement::AppliedWork,
};
use fleet_core::explain::{self, quoted};
use jiff::SignedDuration;
use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::PodSpec},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, core::ObjectMeta};

use super::{
    CheckResults, agent,
    hub::{SKEW_MAX, time},
    rights::Right,
};
use crate::{clusters::KnownCluster, hub::Hub, problem::said, reading::member_namespace, terminal::now};

const CHECK: &str = "member";
/// What the member agent must be able to do, besides what placements bring.
const RIGHTS: [Right; 7] = [
    ("patch", "placement.kubernetes-fleet.io", "appliedworks"),
    ("create", "placement.kubernetes-fleet.io", "appliedworks"),
    ("patch", "placement.kubernetes-fleet.io", "appliedworks/status"),
    ("create", "", "namespaces"),
    ("list", "", "nodes"),
    ("delete", "apps", "deployments"),
    ("create", "", "events"),
];
/// And in its own namespace.
const RIGHTS_AT_HOME: [Right; 2] = [("create", "coordination.k8s.io", "leases"), ("list", "", "secrets")];
/// An agent that has not renewed its lease for so long does not run.
const LEASE_AGE_MAX: SignedDuration = SignedDuration::from_secs(60);

pub(super) async fn check(client: &Client, context: &str, hub: &KnownCluster, report: &mut CheckResults) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let install = "helm upgrade --install member-agent deploy/charts/member-agent -n fleet-system";
    let crd = format!("{}.{}", AppliedWork::CRD.plural, AppliedWork::GROUP);
    match crds.get_opt(&crd).await {
        Ok(Some(_)) => report.ok(CHECK, format!("{context} has the CRD {crd}")),
        Ok(None) => report.fail(CHECK, format!("{context} lacks the CRD {crd}"), install),
        Err(error) => {
            let text = format!("{context} does not answer: {}", said(&error));
            return report.fail(CHECK, text, format!("{} cluster-info", kubectl(context)));
        }
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), FLEET_SYSTEM_NAMESPACE);
    let logs = format!(
        "{} logs -n {FLEET_SYSTEM_NAMESPACE} deployment/member-agent",
        kubectl(context)
    );
    match leases.get_opt(MEMBER_LEASE).await {
        Err(error) => {
            let right = format!("get lease/{MEMBER_LEASE} -n {FLEET_SYSTEM_NAMESPACE}");
            report.unread_core(CHECK, &kubectl(context), &right, &error);
        }
        Ok(lease) => {
            let renewed = lease.and_then(|lease| lease.spec).and_then(|spec| spec.renew_time);
            let age = renewed.map(|time| now().duration_since(time.0));
            match age {
                Some(age) if age <= LEASE_AGE_MAX => report.ok(CHECK, format!("the agent of {context} runs")),
                Some(age) => {
                    let text = format!("the agent of {context} has been still for {} s", age.as_secs());
                    report.fail(CHECK, text, logs);
                }
                None => report.fail(CHECK, format!("no agent has ever run on {context}"), install),
            }
        }
    }
    clock(client, context, hub, report).await;
    let kubectl = kubectl(context);
    let found = match agent::deployment(client, "member-agent").await {
        Ok(found) => found,
        Err(error) => {
            let right = format!("list deployments.apps -n {FLEET_SYSTEM_NAMESPACE}");
            return report.unread_core(CHECK, &kubectl, &right, &error);
        }
    };
    let Some(pod) = found.as_ref().and_then(agent::pod) else {
        let text = format!(
            "the agent of {context} runs in no Deployment of {FLEET_SYSTEM_NAMESPACE}: its rights and CAs cannot be told"
        );
        return report.warn(CHECK, text, format!("{kubectl} get pods --all-namespaces"));
    };
    let who = format!("the agent of {context}");
    agent::rights(client, CHECK, (&who, &kubectl), pod, (&RIGHTS, &RIGHTS_AT_HOME), report).await;
    says(client, context, pod, report).await;
    trust(context, pod, hub, report);
    channel(context, pod, hub, report).await;
}

/// What the agent says of itself: whether it reads the hub and has a session with it.
async fn says(client: &Client, context: &str, pod: &PodSpec, report: &mut CheckResults) {
    let kubectl = kubectl(context);
    let says = match Hub::new(client.clone()).readyz().await {
        Ok(Some(says)) => says,
        // The lines above say whether it runs.
        Ok(None) => return,
        Err(error) => {
            let right = format!("get pods/proxy -n {FLEET_SYSTEM_NAMESPACE}");
            return report.unread_core(CHECK, &kubectl, &right, &error);
        }
    };
    let name = agent::variable(pod, "MEMBER_CLUSTER_NAME").unwrap_or(context);
    let logs = || format!("{kubectl} logs -n {FLEET_SYSTEM_NAMESPACE} deployment/member-agent");
    match explain::unready(name, &says) {
        Some(cause) => {
            // This is that check.
            let next = Some(cause.next).filter(|next| !next.starts_with("kubectl fleet check"));
            report.fail(CHECK, format!("{context}: {}", cause.text), next.unwrap_or_else(logs));
        }
        None if says.contains("[-]") => {
            let parts = says.lines().filter(|line| line.starts_with("[-]"));
            let parts: Vec<_> = parts.map(|line| line.trim_start_matches("[-]")).collect();
            let text = format!("the agent of {context} is not ready: {}", parts.join("; "));
            report.fail(CHECK, text, logs());
        }
        None => report.ok(CHECK, format!("the agent of {context} has a session with the hub")),
    }
}

/// Heartbeats are judged by the hub's clock, but tokens and certificates by the member's.
async fn clock(client: &Client, context: &str, hub: &KnownCluster, report: &mut CheckResults) {
    let (there, here) = tokio::join!(time(client), time(&hub.client));
    let (Some(there), Some(here)) = (there, here) else {
        return;
    };
    let skew = there.duration_since(here);
    if skew.abs() > SKEW_MAX {
        let text = format!("the clock of {context} differs from the hub's by {} s", skew.as_secs());
        report.warn(
            CHECK,
            text,
            "compare `date -u` on the nodes of both: tokens and certificates are judged by the clock",
        );
    } else {
        report.ok(CHECK, format!("the clock of {context} agrees with the hub's"));
    }
}

/// The agent must trust the CA of the hub's API server that this kubeconfig trusts.
fn trust(context: &str, pod: &PodSpec, hub: &KnownCluster, report: &mut CheckResults) {
    let (Some(theirs), Some(ours)) = (agent::variable(pod, "HUB_CERTIFICATE_AUTHORITY"), &hub.ca) else {
        return;
    };
    if plain(&decoded(theirs)) == plain(ours) {
        report.ok(CHECK, format!("{context} trusts the hub's CA"));
    } else {
        let text = format!("{context} trusts another CA than this kubeconfig does for the hub");
        let hint = format!(
            "kubectl fleet join NAME --member-cluster-context {} --dry-run # prints the values with today's CA",
            quoted(context)
        );
        report.fail(CHECK, text, hint);
    }
}

/// What the member's chart says of the channel counts more than what the hub announces. It must be the same.
async fn channel(context: &str, pod: &PodSpec, hub: &KnownCluster, report: &mut CheckResults) {
    let (url, ca) = (
        agent::variable(pod, "HUB_CHANNEL_URL"),
        agent::variable(pod, "HUB_CHANNEL_CA"),
    );
    let name = agent::variable(pod, "MEMBER_CLUSTER_NAME").unwrap_or_default();
    if url.is_none() && ca.is_none() {
        return report.ok(
            CHECK,
            format!("{context} takes the channel's address and CA from the hub"),
        );
    }
    let api: Api<InternalMemberCluster> = Api::namespaced(hub.client.clone(), &member_namespace(name));
    let announced: ObjectMeta = match api.get_metadata_opt(name).await {
        Ok(found) => found.map(|found| found.metadata).unwrap_or_default(),
        Err(error) => {
            let right = format!("get internalmemberclusters -n {}", member_namespace(name));
            return report.unread_core(CHECK, "kubectl", &right, &error);
        }
    };
    let annotation = |key| {
        announced
            .annotations
            .as_ref()
            .and_then(|all| all.get(key))
            .filter(|text| !text.is_empty())
    };
    let hint = format!(
        "helm --kube-context {} upgrade member-agent deploy/charts/member-agent -n {FLEET_SYSTEM_NAMESPACE} --reuse-values \
         --set config.channelURL= --set config.channelCA=",
        quoted(context)
    );
    if let (Some(own), Some(announced)) = (ca, annotation(CHANNEL_CA))
        && plain(&decoded(own)) != plain(&decoded(announced))
    {
        let text = format!("the chart of {context} names another CA of the channel than the hub announces");
        return report.fail(CHECK, text, hint);
    }
    let host = |text: &str| text.trim_start_matches("https://").trim_end_matches('/').to_owned();
    if let (Some(own), Some(announced)) = (url, annotation(CHANNEL_ENDPOINT))
        && host(own) != host(announced)
    {
        let text = format!("the chart of {context} names another channel ({own}) than the hub announces ({announced})");
        return report.warn(CHECK, text, hint);
    }
    report.ok(
        CHECK,
        format!("the chart of {context} names the channel that the hub announces"),
    );
}

/// kubectl, as it speaks to the member.
fn kubectl(context: &str) -> String {
    format!("kubectl --context {}", quoted(context))
}

fn decoded(base64: &str) -> String {
    let bytes = STANDARD.decode(base64.trim()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn plain(text: &str) -> String {
    text.split_whitespace().collect()
}
