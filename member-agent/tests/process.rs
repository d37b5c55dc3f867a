//! The process as whoever starts it sees it: its exit codes and last words.

use std::process::{Command, Output};

const RECIPE: &[(&str, &str)] = &[
    ("HUB_SERVER_URL", "https://127.0.0.1:1"),
    ("MEMBER_CLUSTER_NAME", "east"),
    ("CONFIG_PATH", "/dev/null"),
];
const NO_PORTS: &[&str] = &[
    "--hub-health-probe-bind-address=0",
    "--hub-metrics-bind-address=0",
    "--health-probe-bind-address=0",
    "--metrics-bind-address=0",
];

fn start(args: &[&str], environment: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_member-agent"))
        .args(args)
        .env_clear()
        .envs(environment.iter().copied())
        .output()
        .expect("the agent starts")
}

#[track_caller]
fn fails(args: &[&str], changes: &[(&str, &str)], says: &str) {
    let environment = [RECIPE, changes].concat();
    let output = start(&[NO_PORTS, args].concat(), &environment);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(says), "{text}");
}

#[test]
fn what_cannot_work_ends_at_once_with_a_reason() {
    fails(&[], &[("HUB_SERVER_URL", "")], "hub server api cannot be empty");
    fails(
        &[],
        &[("MEMBER_CLUSTER_NAME", "")],
        "member cluster name cannot be empty",
    );
    fails(&["--use-ca-auth"], &[], "identity key file path cannot be empty");
    fails(
        &[],
        &[("CA_BUNDLE", "/a"), ("HUB_CERTIFICATE_AUTHORITY", "YQ==")],
        "environment variables CA_BUNDLE and HUB_CERTIFICATE_AUTHORITY should not be set at same time",
    );
    fails(
        &[],
        &[("CONFIG_PATH", "/no/such/token")],
        "cannot find the hub token file /no/such/token",
    );
    fails(&[], &[], "not running in a cluster, and no --kubeconfig given");
    fails(&["--no-such-flag"], &[], "unexpected argument '--no-such-flag'");
    fails(
        &["--hub-api-qps=600"],
        &[],
        "invalid parameter: The burst limit for hub cluster",
    );
    fails(&["--log-filter=a=b=c"], &[], "--log-filter");
}

#[test]
fn help_and_version_are_no_failures() {
    assert!(start(&["--help"], &[]).status.success());
    let output = start(&["--version"], &[]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("member-agent "));
}

#[test]
fn headers_of_hub_requests_are_never_logged() {
    let output = start(NO_PORTS, &[RECIPE, &[("HUB_KUBE_HEADER", "X-Key: s3cret")]].concat());
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("x-key") && !text.contains("s3cret"), "{text}");
}
