use fleet_api::placement::{ReportBackStrategy, WorkSpec};

use super::*;

fn policy(text: Value) -> PlacementPolicy {
    serde_json::from_value(text).unwrap()
}

#[test]
fn only_a_mirror_to_the_original_asks_for_it() {
    let table = [
        (json!(null), false),
        (json!({}), false),
        (json!({ "type": "Disabled", "destination": "OriginalResource" }), false),
        (json!({ "type": "Mirror" }), false),
        (json!({ "type": "Mirror", "destination": "WorkAPI" }), false),
        (json!({ "type": "Mirror", "destination": "Elsewhere" }), false),
        (json!({ "type": "Mirror", "destination": "OriginalResource" }), true),
    ];
    for (strategy, asked) in table {
        let report_back: Option<ReportBackStrategy> = serde_json::from_value(strategy.clone()).unwrap();
        let strategy_of = RolloutStrategy {
            report_back_strategy: report_back,
            ..RolloutStrategy::default()
        };
        assert_eq!(asks_for(Some(&strategy_of)), asked, "{strategy}");
    }
    assert!(!asks_for(None));
}

#[test]
fn only_policies_of_one_cluster_permit_it() {
    let end = "cannot back-report status to original resources";
    let table = [
        (
            json!({ "placementType": "PickAll" }),
            Some("the scheduling policy in use is of the PickAll type; "),
        ),
        (
            json!({ "placementType": "PickFixed", "clusterNames": ["a", "b"] }),
            Some(
                "the scheduling policy in use is of the PickFixed type, but it has more than one target cluster (2 \
                 clusters); ",
            ),
        ),
        (json!({ "placementType": "PickFixed", "clusterNames": ["a"] }), None),
        (
            json!({ "placementType": "PickN" }),
            Some("the scheduling policy in use is of the PickN type, but no number of target clusters is specified; "),
        ),
        (
            json!({ "placementType": "PickN", "numberOfClusters": 2 }),
            Some(
                "the scheduling policy in use is of the PickN type, but the number of target clusters is not set to 1; ",
            ),
        ),
        (
            json!({ "placementType": "PickN", "numberOfClusters": 0 }),
            Some(
                "the scheduling policy in use is of the PickN type, but the number of target clusters is not set to 1; ",
            ),
        ),
        (json!({ "placementType": "PickN", "numberOfClusters": 1 }), None),
    ];
    for (given, refused) in table {
        let said = permit(Some(&policy(given.clone())))
            .err()
            .map(|error| error.to_string());
        assert_eq!(said, refused.map(|begin| format!("{begin}{end}")), "{given}");
    }
    let said = permit(None).unwrap_err().to_string();
    assert_eq!(
        said,
        format!("no scheduling policy specified (the PickAll type is in use); {end}")
    );
}

#[test]
fn the_only_binding_that_is_bound_and_stays_speaks() {
    let binding = |cluster: &str, state: &str, deleting: bool| {
        let meta = ObjectMeta {
            deletion_timestamp: deleting.then(|| serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap()),
            ..ObjectMeta::default()
        };
        let spec: BindingSpec = serde_json::from_value(json!({
            "state": state, "targetCluster": cluster, "resourceSnapshotName": "s", "schedulingPolicySnapshotName": "p",
            "clusterDecision": { "clusterName": cluster, "selected": true, "reason": "" },
        }))
        .unwrap();
        (meta, spec)
    };
    let speaks = |list: &[(ObjectMeta, BindingSpec)]| {
        source(list, |(meta, spec)| (meta, spec)).map(|(_, spec)| spec.target_cluster.clone())
    };
    let (a, b) = (binding("a", "Bound", false), binding("b", "Bound", false));
    assert_eq!(speaks(&[]), None);
    assert_eq!(speaks(std::slice::from_ref(&a)).as_deref(), Some("a"));
    assert_eq!(speaks(&[a.clone(), b]), None, "two clusters, two statuses");
    assert_eq!(speaks(&[binding("b", "Scheduled", false)]), None, "it has nothing yet");
    assert_eq!(
        speaks(&[binding("b", "Unscheduled", false), a.clone()]).as_deref(),
        Some("a")
    );
    assert_eq!(speaks(&[binding("b", "Bound", true), a]).as_deref(), Some("a"));
}

/// An applied Work of generation 2 that mirrors a Deployment, a Namespace and a ConfigMap without a status.
fn work() -> Work {
    let entry = |group: &str, kind: &str, namespace: &str, name: &str, status: Value| {
        let shown = json!({ "apiVersion": "v1", "kind": kind, "status": status });
        json!({
            "identifier": { "ordinal": 0, "group": group, "version": "v1", "kind": kind, "namespace": namespace, "name": name },
            "conditions": [],
            "backReportedStatus": { "observedStatus": shown, "observationTime": "2026-01-01T00:00:00Z" },
        })
    };
    let mut config = entry("", "ConfigMap", "app", "settings", json!(null));
    config["backReportedStatus"] = json!(null);
    let applied = json!({ "type": "Applied", "status": "True", "reason": "R", "message": "", "observedGeneration": 2,
                          "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let status = json!({
        "conditions": [applied],
        "manifestConditions": [
            entry("apps", "Deployment", "app", "web", json!({ "replicas": 2 })),
            entry("", "Namespace", "", "app", json!({ "phase": "Active" })),
            config,
        ],
    });
    Work {
        metadata: ObjectMeta {
            generation: Some(2),
            ..ObjectMeta::default()
        },
        spec: WorkSpec::default(),
        // As text: raw JSON decodes from nothing else.
        status: Some(serde_json::from_str(&status.to_string()).unwrap()),
    }
}

fn selected(work: &Work) -> Vec<ResourceIdentifier> {
    let entries = &work.status.as_ref().unwrap().manifest_conditions;
    let ids = entries
        .iter()
        .map(|entry| ObjectId::from(&entry.identifier).to_identifier());
    ids.collect()
}

#[test]
fn what_the_member_says_of_selected_objects_is_reported() {
    let work = work();
    let said = reports(&work, &selected(&work), None);
    let expected = ObjectStatus {
        object: ObjectId {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            namespace: "app".into(),
            name: "web".into(),
        },
        status: json!({ "replicas": 2 }),
    };
    assert_eq!(
        said,
        [expected],
        "no Namespace, which is the cluster's own, and nothing without status"
    );
}

#[test]
fn what_is_not_applied_not_selected_or_from_an_envelope_is_not() {
    let full = work();
    let selected = selected(&full);
    let silent = |what: &str, change: &dyn Fn(&mut Work, &mut Vec<ResourceIdentifier>)| {
        let (mut work, mut selected) = (full.clone(), selected.clone());
        change(&mut work, &mut selected);
        assert_eq!(reports(&work, &selected, None), [], "{what}");
    };
    silent("no status", &|work, _| work.status = None);
    silent("stale", &|work, _| work.metadata.generation = Some(3));
    silent("failed", &|work, _| {
        work.status.as_mut().unwrap().conditions[0].status = "False".into();
    });
    silent("not selected", &|_, selected| selected.clear());
    silent("another version", &|_, selected| selected[0].version = "v2".into());
    silent("another name", &|_, selected| selected[0].name = "other".into());
    silent("an envelope's content", &|_, selected| {
        selected[0].envelope = Some(serde_json::from_value(json!({ "name": "e" })).unwrap());
    });
    silent("an envelope's Work", &|work, _| {
        let label = (labels::ENVELOPE_TYPE.to_owned(), "ResourceEnvelope".to_owned());
        work.metadata.labels = Some([label].into());
    });
    silent("no object", &|work, _| {
        let entry = &mut work.status.as_mut().unwrap().manifest_conditions[0];
        let shown = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "status": "fine" });
        entry.back_reported_status.as_mut().unwrap().observed_status = Some((&shown).into());
    });
}

#[test]
fn of_a_namespaced_placement_nothing_else_is_reported_whatever_its_status_lists() {
    let work = work();
    assert_eq!(reports(&work, &selected(&work), Some("app")).len(), 1);
    assert_eq!(reports(&work, &selected(&work), Some("other")), []);
}

#[test]
fn a_status_that_others_trust_is_never_written() {
    let of = |group: &str, kind: &str| {
        is_trusted(&ObjectId {
            group: group.into(),
            kind: kind.into(),
            ..ObjectId::default()
        })
    };
    for (group, kind) in [
        ("", "ResourceQuota"),
        ("", "Service"),
        ("networking.k8s.io", "Ingress"),
        ("policy", "PodDisruptionBudget"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("", "Node"),
        ("", "Namespace"),
        ("", "Pod"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
        ("placement.kubernetes-fleet.io", "ResourceBinding"),
        ("cluster.kubernetes-fleet.io", "MemberCluster"),
        ("networking.fleet.azure.com", "ServiceExport"),
        ("multicluster.x-k8s.io", "ClusterProfile"),
    ] {
        assert!(of(group, kind), "{group} {kind}");
    }
    for (group, kind) in [
        ("apps", "Deployment"),
        ("example.com", "Service"),
        ("notkubernetes-fleet.io", "X"),
    ] {
        assert!(!of(group, kind), "{group} {kind}");
    }
}

#[test]
fn a_patch_replaces_the_status_of_the_version_that_was_read() {
    let hub = json!({ "metadata": { "uid": "u", "resourceVersion": "7" }, "status": { "old": 1, "same": [1], "in": { "a": 1, "b": 2 } } });
    let wanted = json!({ "same": [1], "in": { "b": 3 } });
    let pinned = json!({ "uid": "u", "resourceVersion": "7" });
    assert_eq!(
        patch(&hub, &wanted),
        Some(json!({ "metadata": pinned, "status": { "old": null, "in": { "a": null, "b": 3 } } }))
    );
    assert_eq!(patch(&hub, &hub["status"]), None);
    let bare = json!({ "metadata": { "uid": "u", "resourceVersion": "7" } });
    assert_eq!(patch(&bare, &json!({})), None);
    assert_eq!(
        patch(&bare, &wanted),
        Some(json!({ "metadata": pinned, "status": wanted }))
    );
}

#[test]
fn who_else_writes_the_status_is_named() {
    let entry = |manager: &str, subresource: &str, time: &str| json!({ "manager": manager, "subresource": subresource, "time": time });
    let hub = json!({ "metadata": { "managedFields": [
        { "manager": "kubectl", "time": "2026-01-09T00:00:00Z" },
        entry("old", "status", "2026-01-01T00:00:00Z"),
        entry("kube-controller-manager", "status", "2026-01-02T00:00:00Z"),
        entry("hub-agent", "status", "2026-01-03T00:00:00Z"),
        entry("scaler", "scale", "2026-01-04T00:00:00Z"),
    ] } });
    assert_eq!(other_writer(&hub, "hub-agent"), Some("kube-controller-manager"));
    assert_eq!(other_writer(&json!({ "metadata": {} }), "hub-agent"), None);
}

#[test]
fn answers_are_told_apart() {
    let of = |code| Obstacle::of(code, "said", "deployments.apps");
    let forbidden = of(403).unwrap();
    assert!(forbidden.is_worth_a_retry());
    assert_eq!(
        forbidden.to_string(),
        "the hub agent may not: said; install its chart with reportBack.originalResource=true, or grant \"patch\" on \
         deployments.apps/status"
    );
    assert_eq!(of(422).unwrap().to_string(), "the API server refuses it: said");
    assert!(!of(422).unwrap().is_worth_a_retry());
    for repeated in [404, 409, 429, 500, 503] {
        assert_eq!(of(repeated), None, "{repeated}");
    }
}
