//! The policies that the hub's chart brings, on a hub that has nothing but the chart: no agent runs there.

mod asking;
mod cluster;
mod inside;
mod members;
mod overrides;
mod people;
mod workloads;

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::agents::Chart;
use fleet_e2e::cluster::ClusterSpec;
use fleet_e2e::fleet::Fleet;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::{binaries, wait};
use http::Request;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::{Api, Client};
use serde_json::{Value, json};

/// Everything that can be chosen, once.
fn values(webhooks: bool) -> Value {
    let manager = json!({
        // Keys as somebody might write them.
        "denyServiceAccountsAndTokenRequestsInReservedNamespaces": {
            "ReservedNamespacePrefixes": ["locked-"], "whitelistedUsernames": ["boss"], "whitelistedUserGroups": ["keepers"],
        },
    });
    json!({
        "channel": { "service": { "type": "ClusterIP" } },
        "enableWebhook": webhooks,
        "whitelistedUsers": ["boss"],
        "whitelistedGroups": "fleet-admins, others",
        "denyModifyMemberClusterLabels": true,
        "enablePDBs": false,
        "hubWorkloadNamespaces": ["tools", "ci-*"],
        "enableAdmissionPolicyManager": true,
        "admissionPolicyManagerConfigName": "policies.yaml",
        "additionalConfigData": { "policies.yaml": manager.to_string() },
    })
}

/// Namespaces and objects that the requests are about.
const THINGS: &str = include_str!("things.yaml");

#[test]
fn the_charts_policies_hold_where_no_agent_runs() {
    scenario("policies", |ctx| async move {
        let mut fleet = ctx.fleet().clone();
        fleet.add_member(ClusterSpec::member(ctx.prefix(), 1)).await?;
        let outcome = on(&ctx, &fleet).await;
        fleet.remove_member(ctx.prefix()).await?;
        outcome
    });
}

async fn on(ctx: &Ctx, fleet: &Fleet) -> Result<()> {
    let hub = ctx.prefix();
    let kubectl = fleet.kubectl(hub)?;
    kubectl.apply(people::EVERYBODY).await?;
    let chart = Chart::new(&binaries::find_or_build_helm().await?, "hub-agent");
    // With webhooks there is no policy for overrides, so that one of before can be there.
    chart.install(fleet, hub, &values(true)).await?;
    kubectl.apply(THINGS).await?;
    chart.install(fleet, hub, &values(false)).await?;
    let admin = asking::admin(fleet, hub).await?;
    let client = Client::try_from(admin.clone())?;
    in_force(&client).await?;
    let rows = [
        cluster::rows(),
        members::rows(),
        inside::rows(),
        overrides::rows(),
        workloads::rows(),
    ];
    asking::all(&admin, &rows.into_iter().flatten().collect::<Vec<_>>()).await?;
    nothing_failed(&client).await?;
    // Both of KubeFleet's policy manager as they are without configuration: the API server takes them.
    let both = chart.render(&json!({ "enableAdmissionPolicyManager": true })).await?;
    let both: Vec<_> = both.objects.iter().filter(|object| is_policy(object)).collect();
    let text: Result<Vec<_>, _> = both.iter().map(serde_saphyr::to_string).collect();
    let apply = [
        "apply",
        "--server-side",
        "--force-conflicts",
        "--dry-run=server",
        "-f",
        "-",
    ];
    kubectl.ok_with(&apply, &text?.join("---\n")).await?;
    Ok(())
}

fn is_policy(object: &Value) -> bool {
    let kind = object["kind"].as_str().unwrap_or_default();
    kind.starts_with("ValidatingAdmissionPolicy")
}

/// Waits until the API server has taken every policy up, and found nothing wrong in any of them.
async fn in_force(client: &Client) -> Result<()> {
    let policies = Api::<ValidatingAdmissionPolicy>::all(client.clone());
    let checked = |policy: &ValidatingAdmissionPolicy| {
        let status = policy.status.as_ref();
        status.is_some_and(|s| s.observed_generation == policy.metadata.generation && s.type_checking.is_some())
    };
    let policies = wait::until_list(policies, "all policies are checked", |list| {
        list.len() >= 8 && list.iter().all(checked)
    })
    .await?;
    for policy in policies {
        let warnings = policy.status.and_then(|s| s.type_checking?.expression_warnings);
        ensure!(
            warnings.iter().flatten().next().is_none(),
            "{:?}: {warnings:#?}",
            policy.metadata.name
        );
    }
    // Pods are refused for want of an account otherwise.
    for namespace in ["default", "tools", "ci-1", "fleet-system", "kube-system"] {
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), namespace);
        wait::until_present(accounts, "default", "exists", |_| true).await?;
    }
    // Policies become known in the order of their making; these are the last of both installations.
    let account = json!({ "metadata": { "name": "probe", "namespace": "locked-1" } });
    let wrong = overrides::by(&["add /kind"]);
    let overrides = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/tools/resourceoverrides";
    for (path, probe) in [
        ("/api/v1/namespaces/locked-1/serviceaccounts", account),
        (overrides, wrong),
    ] {
        let refused = async {
            loop {
                let request = Request::post(format!("{path}?dryRun=All"))
                    .header("Impersonate-User", "dev")
                    .header("Content-Type", "application/json");
                let request = request.body(serde_json::to_vec(&probe)?)?;
                if client.request_text(request).await.is_err() {
                    return anyhow::Ok(());
                }
            }
        };
        tokio::time::timeout(wait::PATIENCE, refused)
            .await
            .context("no policy is in force")??;
    }
    Ok(())
}

/// A rule that cannot be evaluated denies nothing and is seen by nobody, but the API server counts it as an error that was
/// let through. It counts nothing else so: of what is allowed only what went wrong.
async fn nothing_failed(client: &Client) -> Result<()> {
    let metrics = client.request_text(Request::get("/metrics").body(Vec::new())?).await?;
    let of = |series: &str| {
        let found = metrics.lines().filter(|line| line.starts_with(&format!("{series}{{")));
        let ours = found.filter(|line| line.contains("\"fleet-") || line.contains("\"deny-"));
        ours.map(str::to_owned).collect::<Vec<_>>()
    };
    let checks = of("apiserver_validating_admission_policy_check_total");
    ensure!(checks.len() > 5, "the API server counts otherwise: {checks:#?}");
    let allowed = checks
        .iter()
        .filter(|line| !line.contains(r#"enforcement_action="deny""#));
    let failed: Vec<_> = allowed
        .cloned()
        .chain(of("apiserver_admission_match_condition_evaluation_errors_total"))
        .collect();
    ensure!(failed.is_empty(), "{failed:#?}");
    Ok(())
}
