//! An agent as its Deployment describes it, and its rights.

use fleet_api::names::FLEET_SYSTEM_NAMESPACE;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::PodSpec};
use kube::{Api, Client, api::ListParams};

use super::{
    CheckResults,
    rights::{self, Right},
};

/// The Deployment of a chart; none if the agent runs otherwise.
pub(super) async fn deployment(client: &Client, chart: &str) -> kube::Result<Option<Deployment>> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), FLEET_SYSTEM_NAMESPACE);
    if let Some(found) = api.get_opt(chart).await? {
        return Ok(Some(found));
    }
    // A release may have another name.
    let labelled = ListParams::default().labels(&format!("app.kubernetes.io/name={chart}"));
    Ok(api.list(&labelled).await?.items.into_iter().next())
}

pub(super) fn pod(deployment: &Deployment) -> Option<&PodSpec> {
    deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref())
}

/// A variable of its environment.
pub(super) fn variable<'a>(pod: &'a PodSpec, name: &str) -> Option<&'a str> {
    let variables = pod
        .containers
        .iter()
        .flat_map(|container| container.env.iter().flatten());
    let found = variables.into_iter().find(|variable| variable.name == name);
    found.and_then(|variable| variable.value.as_deref())
}

/// The value of one of its flags.
pub(super) fn flag<'a>(pod: &'a PodSpec, name: &str) -> Option<&'a str> {
    let arguments = pod
        .containers
        .iter()
        .flat_map(|container| container.args.iter().flatten());
    arguments
        .filter_map(|argument| argument.strip_prefix("--")?.split_once('='))
        .find_map(|(flag, value)| (flag == name).then_some(value))
}

/// Whether the account of an agent has its rights: these everywhere, those in its own namespace.
pub(super) async fn rights(
    client: &Client,
    check: &'static str,
    (who, kubectl): (&str, &str),
    pod: &PodSpec,
    (everywhere, at_home): (&[Right], &[Right]),
    report: &mut CheckResults,
) {
    let account = pod.service_account_name.as_deref().unwrap_or("default");
    let user = format!("system:serviceaccount:{FLEET_SYSTEM_NAMESPACE}:{account}");
    let home = Some(FLEET_SYSTEM_NAMESPACE);
    let asked = tokio::try_join!(
        rights::missing(client, &user, None, everywhere),
        rights::missing(client, &user, home, at_home),
    );
    let (mut missing, at_home) = match asked {
        Ok(missing) => missing,
        Err(error) => {
            return report.unread_core(
                check,
                kubectl,
                "create subjectaccessreviews.authorization.k8s.io",
                &error,
            );
        }
    };
    missing.extend(
        at_home
            .into_iter()
            .map(|right| format!("{right} in {FLEET_SYSTEM_NAMESPACE}")),
    );
    if missing.is_empty() {
        report.ok(check, format!("{who} has its rights ({account})"));
    } else {
        let text = format!("{who} may not: {}", missing.join(", "));
        report.fail(check, text, format!("{kubectl} auth can-i --list --as {user}"));
    }
}
