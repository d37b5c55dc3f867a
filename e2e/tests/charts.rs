//! What the charts make of their values. Needs helm and the agents' programs, and no cluster.

use std::process::Command;

use anyhow::{Result, ensure};
use fleet_e2e::agents::{self, Chart};
use fleet_e2e::binaries;
use serde_json::{Value, json};

const MEMBER_FLAGS: [&str; 11] = [
    "--deletion-wait-time",
    "--work-applier-count-degraded-diff-as-reported",
    "--work-applier-compare-reserved-keys",
    "--work-applier-requeue-rate-limiter-attempts-with-fixed-delay",
    "--work-applier-requeue-rate-limiter-fixed-delay-seconds",
    "--work-applier-requeue-rate-limiter-exponential-base-for-slow-backoff",
    "--work-applier-requeue-rate-limiter-initial-slow-backoff-delay-seconds",
    "--work-applier-requeue-rate-limiter-max-slow-backoff-delay-seconds",
    "--work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff",
    "--work-applier-requeue-rate-limiter-max-fast-backoff-delay-seconds",
    "--work-applier-requeue-rate-limiter-skip-to-fast-backoff-for-available-or-diff-reported-work-objs",
];
const HUB_FLAGS: [&str; 5] = [
    "--skipped-propagating-apis",
    "--allowed-propagating-apis",
    "--skipped-propagating-namespaces",
    "--resource-snapshot-creation-minimum-interval",
    "--resource-changes-collection-duration",
];

/// The arguments and the objects that a chart gives its agent with these values. The agent has to accept the former.
async fn rendered(chart: &'static str, values: &Value) -> Result<(Vec<String>, Vec<Value>)> {
    let helm = binaries::find_or_build_helm().await?;
    let rendered = Chart::new(&helm, chart).render(values).await?;
    let args = rendered.args()?;
    // Everything before it is checked first.
    let output = Command::new(agents::program(chart)?)
        .args(&args)
        .arg("--help")
        .output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{chart} {args:?}: {complaint}");
    Ok((args, rendered.objects))
}

fn member(values: &Value) -> Value {
    let needed = json!({ "config": { "hubURL": "https://hub.example.com", "memberClusterName": "member" } });
    fleet_api::patch::applied(needed, values)
}

fn given<'a>(args: &'a [String], flags: &[&str]) -> Vec<&'a str> {
    let of = |arg: &&String| flags.iter().any(|flag| arg.starts_with(&format!("{flag}=")));
    args.iter().filter(of).map(String::as_str).collect()
}

#[tokio::test]
async fn values_of_the_applier_that_are_not_set_leave_the_agents_defaults() -> Result<()> {
    let (args, _) = rendered("member-agent", &member(&json!({}))).await?;
    ensure!(given(&args, &MEMBER_FLAGS).is_empty(), "{args:?}");
    let priorities = given(&args, &["--enable-work-applier-priority-queue"]);
    ensure!(priorities == ["--enable-work-applier-priority-queue=false"], "{args:?}");
    Ok(())
}

#[tokio::test]
async fn values_of_the_applier_reach_the_agent_false_ones_too() -> Result<()> {
    let limiter = "workApplierRequeueRateLimiter";
    let values = json!({
        "deletionWaitTime": 7,
        "priorityQueue": { "enabled": true, "priorityLinearEquationCoeffA": -5, "priorityLinearEquationCoeffB": 90 },
        "workApplierCountDegradedDiffAsReported": false,
        "workApplierCompareReservedKeys": true,
        format!("{limiter}AttemptsWithFixedDelay"): 2,
        format!("{limiter}FixedDelaySeconds"): 6,
        format!("{limiter}ExponentialBaseForSlowBackoff"): 1.3,
        format!("{limiter}InitialSlowBackoffDelaySeconds"): 3,
        format!("{limiter}MaxSlowBackoffDelaySeconds"): 20,
        format!("{limiter}ExponentialBaseForFastBackoff"): 1.75,
        format!("{limiter}MaxFastBackoffDelaySeconds"): 3600,
        format!("{limiter}SkipToFastBackoffForAvailableOrDiffReportedWorkObjs"): false,
    });
    let (args, _) = rendered("member-agent", &member(&values)).await?;
    let mut expected: Vec<String> = MEMBER_FLAGS
        .iter()
        .zip([
            "7", "false", "true", "2", "6", "1.3", "3", "20", "1.75", "3600", "false",
        ])
        .map(|(flag, value)| format!("{flag}={value}"))
        .collect();
    expected.sort();
    let mut found = given(&args, &MEMBER_FLAGS);
    found.sort_unstable();
    ensure!(found == expected, "{args:?}");
    for flag in [
        "--enable-work-applier-priority-queue=true",
        "--work-applier-priority-linear-equation-coeff-a=-5",
        "--work-applier-priority-linear-equation-coeff-b=90",
    ] {
        ensure!(args.iter().any(|arg| arg == flag), "no {flag} in {args:?}");
    }
    Ok(())
}

#[tokio::test]
async fn values_of_placements_that_are_not_set_leave_the_agents_defaults() -> Result<()> {
    let (args, objects) = rendered("hub-agent", &json!({})).await?;
    ensure!(given(&args, &HUB_FLAGS).is_empty(), "{args:?}");
    for flag in [
        "--enable-workload=false",
        "--enable-resource-placement=true",
        "--scheduler-spread-over-usable-clusters=false",
        "--scheduler-trim-unusable-first=false",
    ] {
        ensure!(args.iter().any(|arg| arg == flag), "no {flag} in {args:?}");
    }
    ensure!(may_report_back(&objects), "existing placements need the right");
    Ok(())
}

#[tokio::test]
async fn values_of_placements_reach_the_agent_empty_times_too() -> Result<()> {
    let values = json!({
        "skippedPropagatingAPIs": ["apps", "v1/Secret,ConfigMap"],
        "skippedPropagatingNamespaces": "one;two",
        "scheduler": { "spreadOverUsableClusters": true, "trimUnusableFirst": true },
        "resourceSnapshotCreationMinimumInterval": "0s",
        "resourceChangesCollectionDuration": "15s",
        "enableWorkload": true,
        "enableResourcePlacement": false,
        "reportBack": { "originalResource": false },
    });
    let (args, objects) = rendered("hub-agent", &values).await?;
    let mut found = given(&args, &HUB_FLAGS);
    found.sort_unstable();
    let expected = [
        "--resource-changes-collection-duration=15s",
        "--resource-snapshot-creation-minimum-interval=0s",
        "--skipped-propagating-apis=apps;v1/Secret,ConfigMap",
        "--skipped-propagating-namespaces=one;two",
    ];
    ensure!(found == expected, "{args:?}");
    for flag in [
        "--enable-workload=true",
        "--enable-resource-placement=false",
        "--scheduler-spread-over-usable-clusters=true",
        "--scheduler-trim-unusable-first=true",
    ] {
        ensure!(args.iter().any(|arg| arg == flag), "no {flag} in {args:?}");
    }
    ensure!(!may_report_back(&objects), "the right was taken away");
    let (args, _) = rendered("hub-agent", &json!({ "allowedPropagatingAPIs": ["v1/ConfigMap"] })).await?;
    ensure!(
        given(&args, &HUB_FLAGS) == ["--allowed-propagating-apis=v1/ConfigMap"],
        "{args:?}"
    );
    Ok(())
}

/// Whether the hub agent may write the status of any kind.
fn may_report_back(objects: &[Value]) -> bool {
    let found = objects.iter().filter(|object| object["kind"] == "ClusterRole");
    let rules = found.flat_map(|role| role["rules"].as_array().into_iter().flatten());
    let mut any = rules.filter(|rule| rule["resources"] == json!(["*/status"]) && rule["apiGroups"] == json!(["*"]));
    any.any(|rule| rule["verbs"] == json!(["patch"]))
}
