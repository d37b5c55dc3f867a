//! A member's own side.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fleet_api::{
    kind::Kind as _,
    names::{FLEET_SYSTEM_NAMESPACE, MEMBER_LEASE},
    placement::AppliedWork,
};
use jiff::SignedDuration;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
        coordination::v1::Lease,
        core::v1::EnvVar,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, Client, api::PostParams};

use super::Report;
use crate::{clusters::Cluster, terminal::now};

const CHECK: &str = "member";
/// What the member agent must be able to do, besides what placements bring.
const RIGHTS: [(&str, &str, &str); 3] = [
    ("patch", "placement.kubernetes-fleet.io", "appliedworks"),
    ("create", "", "namespaces"),
    ("list", "", "nodes"),
];
/// An agent that has not renewed its lease for so long does not run.
const LEASE_AGE_MAX: SignedDuration = SignedDuration::from_secs(60);

pub(super) async fn check(client: &Client, context: &str, hub: &Cluster, report: &mut Report) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    let install = "helm upgrade --install member-agent deploy/charts/member-agent -n fleet-system";
    let crd = format!("{}.{}", AppliedWork::CRD.plural, AppliedWork::GROUP);
    match crds.get_opt(&crd).await {
        Ok(Some(_)) => report.ok(CHECK, format!("{context} has the CRD {crd}")),
        Ok(None) => report.fail(CHECK, format!("{context} lacks the CRD {crd}"), install),
        Err(error) => {
            let text = format!("{context} does not answer: {error}");
            return report.fail(CHECK, text, format!("kubectl --context {context} cluster-info"));
        }
    }
    let leases: Api<Lease> = Api::namespaced(client.clone(), FLEET_SYSTEM_NAMESPACE);
    let logs = format!("kubectl --context {context} logs -n {FLEET_SYSTEM_NAMESPACE} deployment/member-agent");
    match leases.get_opt(MEMBER_LEASE).await {
        Err(error) => report.unread(CHECK, &error),
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
    rights(client, context, report).await;
    trust(client, context, hub, report).await;
}

async fn rights(client: &Client, context: &str, report: &mut Report) {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let mut missing = Vec::new();
    for (verb, group, resource) in RIGHTS {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{FLEET_SYSTEM_NAMESPACE}:member-agent")),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(verb.to_owned()),
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        match reviews.create(&PostParams::default(), &review).await {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => {}
            Ok(_) => missing.push(format!("{verb} {resource}")),
            Err(error) => return report.unread(CHECK, &error),
        }
    }
    if missing.is_empty() {
        report.ok(CHECK, format!("the agent of {context} has its rights"));
    } else {
        let text = format!("the agent of {context} may not: {}", missing.join(", "));
        report.fail(
            CHECK,
            text,
            "helm upgrade member-agent deploy/charts/member-agent -n fleet-system --reuse-values",
        );
    }
}

/// The agent must trust the CA of the hub's API server that this kubeconfig trusts.
async fn trust(client: &Client, context: &str, hub: &Cluster, report: &mut Report) {
    let api: Api<Deployment> = Api::namespaced(client.clone(), FLEET_SYSTEM_NAMESPACE);
    // It may run elsewhere than in a Deployment.
    let Ok(Some(found)) = api.get_opt("member-agent").await else {
        return;
    };
    let pod = found.spec.and_then(|spec| spec.template.spec);
    let variables: Vec<EnvVar> = pod
        .into_iter()
        .flat_map(|pod| pod.containers)
        .flat_map(|container| container.env.unwrap_or_default())
        .collect();
    let value = |name: &str| {
        variables
            .iter()
            .find(|it| it.name == name)
            .and_then(|it| it.value.clone())
    };
    let (Some(theirs), Some(ours)) = (value("HUB_CERTIFICATE_AUTHORITY"), &hub.ca) else {
        return;
    };
    let theirs = STANDARD.decode(theirs.trim()).unwrap_or_default();
    let plain = |text: &str| text.split_whitespace().collect::<String>();
    if plain(&String::from_utf8_lossy(&theirs)) == plain(ours) {
        report.ok(CHECK, format!("{context} trusts the hub's CA"));
    } else {
        let text = format!("{context} trusts another CA than this kubeconfig does for the hub");
        let hint =
            format!("kubectl fleet join NAME --member-cluster-context {context} # prints the values with today's CA");
        report.fail(CHECK, text, hint);
    }
}
