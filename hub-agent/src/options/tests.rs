use clap::CommandFactory;

use super::*;

fn parse(args: &[&str]) -> Result<Options, String> {
    let options = Options::try_parse_from([&["hub-agent"], args].concat()).map_err(|e| e.to_string())?;
    options.validate().map(|()| options)
}

#[test]
fn the_flags_are_consistent() {
    Options::command().debug_assert();
}

#[test]
fn flags_of_existing_deployments_are_taken() {
    parse(&[
        "--leader-elect=true",
        "--v=5",
        "--enable-webhook=true",
        "--webhook-client-connection-type=service",
        "--whitelisted-users=a,b",
        "--enable-guard-rail=true",
        "--deny-modify-member-cluster-labels",
        "--resource-changes-collection-duration=15s",
    ])
    .unwrap();
}

#[test]
fn flags_for_safety_that_do_nothing_say_so_in_a_line_each() {
    let all = [
        "--enable-guard-rail=true",
        "--whitelisted-users=a,b",
        "--deny-modify-member-cluster-labels",
        "--enable-pdbs=false",
        "--enable-admission-policy-manager",
        "--admission-policy-manager-config=/etc/policies",
    ];
    let lines = parse(&all).unwrap().ignored();
    assert_eq!(lines.len(), all.len(), "{lines:#?}");
    for (flag, line) in all.iter().zip(&lines) {
        let name = flag.split('=').next().unwrap();
        assert!(
            line.starts_with(name) && line.contains(" is ignored: "),
            "{flag}: {line}"
        );
    }
    // What is switched off, or is as it would be anyway, is missed by nobody.
    let none = ["--max-fleet-size=50"];
    assert_eq!(parse(&none).unwrap().ignored(), [""; 0]);
    // What the chart's policies do is theirs to do, on or off.
    for (flag, value) in [
        ("--enable-guard-rail=false", "enableGuardRail: false"),
        ("--enable-pdbs", "enablePDBs: true"),
    ] {
        let lines = parse(&[flag]).unwrap().ignored();
        assert!(lines.len() == 1 && lines[0].ends_with(value), "{flag}: {lines:?}");
    }
}

#[test]
fn defaults_are_valid() {
    let options = parse(&[]).unwrap();
    assert_eq!(options.membership.force_delete_wait_time, seconds(900));
    assert!(options.membership.enable_cluster_inventory_apis);
    assert!(options.update_runs.enable_staged_update_run_apis);
    assert_eq!(options.update_runs.update_run_stuck_threshold, seconds(300));
    assert_eq!(options.update_runs.update_run_ttl, Duration::ZERO, "kept for ever");
    assert!(options.evictions.enable_eviction_apis);
    assert_eq!(options.evictions.eviction_ttl, Duration::ZERO, "kept for ever");
    assert_eq!(options.namespace, "fleet-system");
}

#[test]
fn what_is_placed_and_how_soon_is_what_the_flags_say() {
    let options = parse(&[]).unwrap().placement;
    assert_eq!(options.delay(), Flags::default(), "none given: adaptive");
    assert!(options.enable_resource_placement && !options.enable_workload);
    assert_eq!(options.rbac(), Rbac::Allowed);
    let options = parse(&[
        "--skipped-propagating-apis=apps; v1/Secret,ConfigMap ;",
        "--skipped-propagating-namespaces=one, two;three",
        "--resource-snapshot-creation-minimum-interval=0s",
        "--resource-changes-collection-duration=5s",
        "--enable-workload",
        "--forbid-rbac-in-namespaced-placements",
    ]);
    let options = options.unwrap().placement;
    assert_eq!(options.rbac(), Rbac::Forbidden);
    let rules = options.rules().unwrap();
    assert!(!rules.apis.is_enabled("apps", "v1", "Deployment") && !rules.apis.is_enabled("", "v1", "Secret"));
    assert!(rules.apis.is_enabled("", "v1", "Service") && rules.workload_enabled);
    assert_eq!(
        rules.skipped_namespaces.into_iter().collect::<Vec<_>>(),
        ["one", "three", "two"]
    );
    let delay = options.delay();
    assert_eq!(delay.minimum_interval, Some(SignedDuration::ZERO));
    assert_eq!(delay.collection, Some(SignedDuration::from_secs(5)));
    let both = parse(&[
        "--skipped-propagating-apis=apps",
        "--allowed-propagating-apis=v1/Secret",
    ]);
    assert!(both.unwrap_err().contains("mutually exclusive: give only one of them"));
}

#[test]
fn wrong_values_are_refused_with_their_range() {
    let table = [
        (
            "--force-delete-wait-time=29s",
            "duration must be in the range [30s, 1h]",
        ),
        ("--force-delete-wait-time=2h", "duration must be in the range [30s, 1h]"),
        (
            "--cluster-unhealthy-threshold=1s",
            "duration must be in the range [30s, 1h]",
        ),
        ("--enable-v1beta1-apis=false", "must be enabled"),
        (
            "--hub-api-burst=100",
            "Options.HubBurst: Invalid value: 100: The burst limit",
        ),
        (
            "--skipped-propagating-apis=a/b/c/d",
            "--skipped-propagating-apis: invalid list of skipped for propagation APIs: failed to parse token: invalid \
             parameter: a/b/c/d; write group,",
        ),
        (
            "--allowed-propagating-apis=a/b/c/d",
            "--allowed-propagating-apis: invalid list of allowed",
        ),
        (
            "--skipped-propagating-namespaces=a,B_c",
            "--skipped-propagating-namespaces: \"B_c\" is no name of a namespace",
        ),
        (
            "--resource-changes-collection-duration=2m",
            "duration must be in the range",
        ),
        ("--eviction-ttl=10000h", "duration must be in the range"),
        ("--channel-bind-address=0", "members need an address"),
        ("--channel-advertise-address=hub", "\"hub\" is not host:port"),
        (
            "--webhook-advertise-address=:1",
            "--webhook-advertise-address: \":1\" is not host:port",
        ),
        (
            "--webhook-bind-address=0",
            "--webhook-bind-address: the webhooks need an address",
        ),
        (
            "--webhook-client-connection-type=dns",
            "invalid webhook client connection type: must be \"service\" or \"url\"",
        ),
        (
            "--webhook-service-name=",
            "Options.WebhookServiceName: Invalid value: \"\": A webhook service name is required when webhooks are enabled",
        ),
        (
            "--use-cert-manager",
            "Options.UseCertManager: Invalid value: true: If cert manager is used for securing webhook connections, the \
             EnableWorkload option must be set to true, so that cert manager pods can run in the hub cluster.",
        ),
        ("--namespace=", "fail to obtain Pod namespace from POD_NAMESPACE"),
    ];
    for (flag, says) in table {
        let error = parse(&[flag]).unwrap_err();
        assert!(error.contains(says), "{flag}: {error}");
    }
}

#[test]
fn the_webhooks_are_where_the_flags_say() {
    let webhook = parse(&[]).unwrap().webhook;
    assert!(webhook.enable_webhook && !webhook.use_cert_manager);
    assert_eq!(webhook.webhook_client_connection_type, ConnectionType::Url);
    assert_eq!(webhook.address("ns"), "fleetwebhook.ns.svc.cluster.local:9443");
    for (text, type_) in [("", ConnectionType::Url), ("Service", ConnectionType::Service)] {
        let webhook = parse(&[&format!("--webhook-client-connection-type={text}")])
            .unwrap()
            .webhook;
        assert_eq!(webhook.webhook_client_connection_type, type_);
    }
    let webhook = parse(&[
        "--webhook-advertise-address=10.0.0.1:1",
        "--enable-workload",
        "--use-cert-manager",
    ]);
    assert_eq!(webhook.unwrap().webhook.address("ns"), "10.0.0.1:1");
    // Without webhooks none of it matters.
    parse(&[
        "--enable-webhook=false",
        "--webhook-service-name=",
        "--webhook-bind-address=0",
    ])
    .unwrap();
}
