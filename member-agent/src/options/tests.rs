use clap::CommandFactory;

use super::*;

fn read(args: &[&str]) -> Result<Options, String> {
    let args = std::iter::once("member-agent")
        .chain(args.iter().copied())
        .map(OsString::from);
    Options::read(args).map_err(|e| e.to_string())
}

#[test]
fn the_flags_fit_together() {
    Options::command().debug_assert();
}

#[test]
fn defaults_are_those_of_the_chapter() {
    let options = read(&[]).unwrap();
    assert_eq!(options.hub.hub_health_probe_bind_address, Bind::Port(8081));
    assert_eq!(options.hub.hub_metrics_bind_address, Bind::Port(8080));
    assert_eq!(options.admin.health_probe_bind_address, Bind::Port(8091));
    assert_eq!(options.admin.metrics_bind_address, Bind::Port(8090));
    assert_eq!(options.lease.leader_election_namespace, "kube-system");
    assert!(!options.properties.azure());
    assert!(options.properties.use_cost_properties_in_azure_provider);
    assert!(!options.properties.enable_namespace_collection_in_property_provider);
    assert_eq!(options.applier.work_applier_priority_linear_equation_coeff_a, -3);
}

#[test]
fn what_installations_pass_is_accepted() {
    let options = read(&[
        "-v=5",
        "-add_dir_header",
        "--leader-elect=true",
        "--enable-v1beta1-apis=true",
        "--enable-pprof=true",
        "--pprof-port=1",
        "--hub-pprof-port=2",
        "--cloud-config=/x",
        "--property-provider=azure",
        "--region=eastus",
        "--hub-api-qps",
        "-1",
        "--work-applier-priority-linear-equation-coeff-a",
        "-5",
        "--enable-work-applier-priority-queue",
        "--work-applier-requeue-rate-limiter-fixed-delay-seconds=2.5",
        "--log-format=json",
        "--vm-price-file=/prices.json",
    ])
    .unwrap();
    assert!(options.lease.leader_elect && options.properties.azure());
    assert_eq!(options.log.filter(), "debug");
    assert_eq!(options.applier.work_applier_priority_linear_equation_coeff_a, -5);
}

#[test]
fn what_cannot_be_is_refused_with_the_known_words() {
    for (args, says) in [
        (
            &["--hub-api-qps=600"][..],
            "The burst limit for hub cluster client-side throttling must be greater than or equal to its QPS limit",
        ),
        (
            &["--member-api-burst=20"],
            "The burst limit for member cluster client-side throttling must be greater than or equal to its QPS limit",
        ),
        (
            &["--work-applier-requeue-rate-limiter-initial-slow-backoff-delay-seconds=16"],
            "The initial delay for the slow backoff stage must not exceed",
        ),
        (
            &["--work-applier-requeue-rate-limiter-max-slow-backoff-delay-seconds=901"],
            "The maximum delay for the slow backoff stage must not exceed",
        ),
        (
            &["--work-applier-requeue-rate-limiter-exponential-base-for-slow-backoff=1.6"],
            "The exponential base for the fast backoff stage must be greater",
        ),
        (&["--deletion-wait-time=61"], "must be in the range [1, 60]"),
        (
            &["--work-applier-requeue-rate-limiter-exponential-base-for-fast-backoff=1"],
            "must be in the range",
        ),
        (
            &["--work-applier-priority-linear-equation-coeff-a=0"],
            "must be in the range [-100, -1]",
        ),
        (
            &["--leader-lease-duration=5s"],
            "--leader-lease-duration must be greater",
        ),
        (&["--no-such-flag"], "unexpected argument"),
    ] {
        let error = read(args).unwrap_err();
        assert!(error.contains(says), "{args:?}: {error}");
    }
}
