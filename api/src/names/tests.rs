use super::*;

fn placement(key: &str) -> PlacementKey {
    key.parse().unwrap()
}

fn cluster(name: &str) -> ClusterName {
    name.parse().unwrap()
}

#[test]
fn a_cluster_name_leaves_room_for_its_namespace() {
    assert_eq!(ClusterName::MAX, 50);
    let longest = cluster(&"a".repeat(50));
    assert_eq!(longest.namespace().len(), LABEL_MAX);
    for name in ["a", "kind-cluster-1", "1", "a-1"] {
        assert!(ClusterName::new(name).is_ok(), "{name}");
    }
    for name in ["a".repeat(51), "a".repeat(63), "a".repeat(64)] {
        assert_eq!(ClusterName::new(name.clone()), Err(ClusterNameError::TooLong(name)));
    }
    for name in ["", "a.b", "A", "-a", "a-", "a_b", "ä", "a/b"] {
        assert_eq!(
            ClusterName::new(name),
            Err(ClusterNameError::NotALabel(name.into())),
            "{name}"
        );
    }
    // Too long and with a dot: both are wrong, but shortening alone would not help.
    let dotted = format!("{}.b", "a".repeat(62));
    assert_eq!(
        ClusterName::new(dotted.clone()),
        Err(ClusterNameError::NotALabel(dotted))
    );
}

#[test]
fn cluster_name_errors_name_the_fix() {
    assert_eq!(
        ClusterName::new("a".repeat(51)).unwrap_err().to_string(),
        format!(
            "the cluster name {0} has 51 characters, but at most 50 are allowed, since its namespace on the hub is \
             named fleet-member-{0}: create the MemberCluster again with a shorter name",
            "a".repeat(51)
        )
    );
    assert_eq!(
        ClusterName::new("a.b").unwrap_err().to_string(),
        "the cluster name \"a.b\" is not a valid part of its namespace's name on the hub, fleet-member-a.b: create the \
         MemberCluster again with a name of lower-case letters, digits and '-' that begins and ends with a letter or \
         digit"
    );
}

#[test]
fn names_of_what_the_hub_keeps_for_a_cluster() {
    let c = cluster("c1");
    assert_eq!(c.namespace(), "fleet-member-c1");
    assert_eq!(c.role(), "fleet-role-c1");
    assert_eq!(c.role_binding(), "fleet-rolebinding-c1");
    assert_eq!(c.service_account(), "c1-hub-cluster-access");
    assert_eq!(c.token_secret(), "c1-hub-cluster-access-token");
    assert_eq!(c.renewal_role(), "c1-hub-cluster-access-renewal");
    assert_eq!(ClusterName::of_namespace("fleet-member-c1"), Some(c));
    assert_eq!(ClusterName::of_namespace("fleet-system"), None);
    assert_eq!(ClusterName::of_namespace("fleet-member-"), None);
    assert!(is_reserved_namespace("fleet-member-c1") && is_reserved_namespace("kube-system"));
    assert!(!is_reserved_namespace("default") && !is_reserved_namespace("my-fleet-x"));
}

#[test]
fn placement_keys() {
    for (key, scope, slashed) in [
        ("crp", Scope::Cluster, "/crp"),
        ("my.app", Scope::Cluster, "/my.app"),
        ("ns/rp", Scope::Namespaced, "ns/rp"),
    ] {
        let parsed = placement(key);
        assert_eq!((parsed.to_string().as_str(), parsed.scope()), (key, scope));
        assert_eq!(parsed.with_slash(), slashed);
    }
    for key in ["", "/", "/a", "a/", "a/b/c", "ns.x/a", "A"] {
        assert!(
            matches!(key.parse::<PlacementKey>(), Err(PlacementKeyError::Malformed(_))),
            "{key}"
        );
    }
    assert!("a".repeat(63).parse::<PlacementKey>().is_ok());
    assert!(matches!(
        "a".repeat(64).parse::<PlacementKey>(),
        Err(PlacementKeyError::TooLong(_))
    ));
}

#[test]
fn snapshot_names() {
    for p in [placement("app"), placement("ns/app")] {
        assert_eq!(policy_snapshot(&p, 0), "app-0");
        assert_eq!(resource_snapshot(&p, 3), "app-3-snapshot");
        assert_eq!(resource_snapshot(&p, "3"), "app-3-snapshot");
        assert_eq!(resource_subsnapshot(&p, 3, 0), "app-3-0");
    }
    assert_eq!(override_snapshot("cro", 12).unwrap(), "cro-12");
    assert!(override_snapshot(&"o".repeat(63), u64::MAX).is_ok());
    assert!(override_snapshot(&"o".repeat(64), 0).is_err());
}

#[test]
fn a_binding_name_is_stable_until_its_predecessor_is_replaced() {
    let (p, c) = (placement("example-placement"), cluster("member2"));
    let first = binding(&p, "uid", &c, [""; 0]);
    assert!(first.starts_with("example-placement-member2-"), "{first}");
    assert_eq!(first.len(), "example-placement-member2-".len() + 8);
    assert_eq!(binding(&p, "uid", &c, [""; 0]), first);
    assert_ne!(binding(&p, "other", &c, [""; 0]), first);
    let second = binding(&p, "uid", &c, ["b1", "b2"]);
    assert_ne!(second, first);
    assert_eq!(binding(&p, "uid", &c, ["b2", "b1"]), second);
    assert_ne!(binding(&p, "uid", &c, ["b1b2"]), second);
}

#[test]
fn a_binding_name_is_a_label() {
    let p = placement(&format!("{}.{}", "a".repeat(25), "b".repeat(37)));
    let c = cluster(&"c".repeat(50));
    let name = binding(&p, "uid", &c, [""; 0]);
    assert_eq!(name.len(), LABEL_MAX);
    assert!(
        name.starts_with(&format!("{}--{}-", "a".repeat(25), "c".repeat(27))),
        "{name}"
    );
    assert!(is_dns_label(&name));
    assert!(is_dns_label(&binding(
        &placement("my.app"),
        "uid",
        &cluster("a"),
        [""; 0]
    )));
}

#[test]
fn work_names() {
    let (crp, rp) = (placement("app"), placement("ns/app"));
    assert_eq!(work(&crp, None), "app-work");
    assert_eq!(work(&crp, Some(0)), "app-0");
    assert_eq!(work(&rp, None), "ns.app-work");
    assert_eq!(work(&rp, Some(1)), "ns.app-1");
    assert_eq!(
        envelope_work("app-work", "ResourceEnvelope", "app", "web-envelope"),
        "app-work-envelope-d20e1acfce766fe7"
    );
    assert_eq!(
        envelope_work("ns.app-0", "ClusterResourceEnvelope", "", "cluster-envelope"),
        "ns.app-0-envelope-d8d0b00b024c99cc"
    );
    let longest = placement(&format!("{}/{}", "n".repeat(63), "p".repeat(63)));
    assert!(is_dns_subdomain(&envelope_work(
        &work(&longest, Some(usize::MAX)),
        "ResourceEnvelope",
        "a",
        "b"
    )));
}

#[test]
fn other_names() {
    assert_eq!(
        before_stage_approval("example-run", "staging"),
        "example-run-before-staging"
    );
    assert_eq!(
        after_stage_approval("example-run", "staging"),
        "example-run-after-staging"
    );
    assert_eq!(
        drain_eviction(&placement("app"), &cluster("c1"), 0xab),
        "drain-eviction-app-c1-000000ab"
    );
    assert_eq!(
        manifest_identity("apps", "v1", "Deployment", "app", "web").unwrap(),
        "GV=apps/v1, Kind=Deployment, Namespace=app, Name=web"
    );
    assert_eq!(
        manifest_identity("", "v1", "Namespace", "", "app").unwrap(),
        "GV=/v1, Kind=Namespace, Namespace=, Name=app"
    );
    assert_eq!(manifest_identity("", "", "X", "", "x"), None);
}

#[test]
fn hashes_are_lower_case_hex() {
    let rows = [
        (
            "null",
            "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
        ),
        (
            r#"{"placementType":"PickAll"}"#,
            "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a",
        ),
    ];
    for (text, hash) in rows {
        assert_eq!(sha256_hex(text), hash);
    }
}

#[test]
fn dns_names() {
    assert!(is_dns_label(&"a".repeat(63)) && !is_dns_label(&"a".repeat(64)));
    assert!(!is_dns_label("a.b") && is_dns_subdomain("a.b"));
    assert!(!is_dns_subdomain("a..b") && !is_dns_subdomain("a.-b") && !is_dns_subdomain(""));
    assert!(is_dns_subdomain(&"a".repeat(253)) && !is_dns_subdomain(&"a".repeat(254)));
}
