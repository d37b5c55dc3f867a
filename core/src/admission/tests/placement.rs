use super::*;

const BEFORE: &str = "deny create/update v1beta1 CRP has invalid fields ";

#[test]
fn selectors_are_refused_with_what_is_wrong_with_each() {
    let maps = || json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let foo = || json!({"group": "g", "version": "v1", "kind": "Foo"});
    let both = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "n",
        "labelSelector": {"matchLabels": {"a": "b"}}});
    let bad = json!({"group": "", "version": "v1", "kind": "Namespace",
        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}});
    let skipped = json!({"group": "cluster.kubernetes-fleet.io", "version": "v1beta1", "kind": "MemberCluster"});
    let starting = json!({"group": "starting", "version": "v1", "kind": "Thing"});
    let rows = [
        (
            json!([both]),
            "the labelSelector and name fields are mutually exclusive in selector {Group: Version:v1 Kind:Namespace \
             Name:n LabelSelector:&LabelSelector{MatchLabels:map[string]string{a: b,},\
             MatchExpressions:[]LabelSelectorRequirement{},} SelectionScope:NamespaceWithResources}",
        ),
        (
            json!([bad]),
            "the labelSelector in resource selector &LabelSelector{MatchLabels:map[string]string{},MatchExpressions:\
             []LabelSelectorRequirement{LabelSelectorRequirement{Key:a,Operator:In,Values:[],},},} is invalid: values: \
             Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            json!([foo(), maps()]),
            "failed to get GVR of the selector: no matches for kind \"Foo\" in version \"g/v1\"",
        ),
        (
            json!([starting]),
            "cannot perform resource scope check for now, please retry",
        ),
        (
            json!([maps()]),
            "the resource is not found in schema (please retry) or it is not a cluster scoped resource: /v1, \
             Kind=ConfigMap",
        ),
        (
            json!([skipped]),
            "the resource is not found in schema (please retry) or it is not a cluster scoped resource: \
             cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster",
        ),
    ];
    for (selectors, text) in rows {
        let verdict = created(&json!({"resourceSelectors": selectors}));
        assert_eq!(verdict, Verdict::Denied(format!("{BEFORE}{text}")));
    }
}

#[test]
fn of_an_unknown_kind_nothing_else_is_said() {
    let foo = json!({"group": "", "version": "v9", "kind": "Foo"});
    let bad = json!({"resourceSelectors": [foo], "policy": {"placementType": "PickN"}});
    let verdict = created(&bad);
    assert_eq!(
        verdict.message(),
        format!("{BEFORE}failed to get GVR of the selector: no matches for kind \"Foo\" in version \"v9\"")
    );
}

#[test]
fn the_name_is_no_longer_than_a_label() {
    let good = json!({"resourceSelectors": [roles()]});
    let name = "x".repeat(64);
    let verdict = judged(PlacementScope::Cluster, &name, &good, None);
    assert_eq!(
        verdict.message(),
        format!("{BEFORE}the name field cannot have length exceeding 63")
    );
    assert!(judged(PlacementScope::Cluster, &name[1..], &good, None).is_allowed());
    // It cannot be changed any more.
    assert!(judged(PlacementScope::Cluster, &name, &good, Some(&good)).is_allowed());
}

#[test]
fn a_namespaced_kind_is_placed_where_its_namespace_is_named() {
    let maps = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let inside = json!({"group": "", "version": "v1", "kind": "Namespace", "name": "app",
        "selectionScope": "NamespaceWithResourceSelectors"});
    let verdict = created(&json!({"resourceSelectors": [maps.clone(), inside]}));
    assert_eq!(verdict, Verdict::allowed("any user is allowed to modify v1beta1 CRP"));

    let namespaced = |selectors: Value| {
        judged(
            PlacementScope::Namespaced,
            "p",
            &json!({"resourceSelectors": selectors}),
            None,
        )
    };
    assert_eq!(
        namespaced(json!([maps])),
        Verdict::allowed("any user is allowed to modify v1beta1 RP")
    );
    assert_eq!(
        namespaced(json!([roles()])).message(),
        "deny create/update v1beta1 RP has invalid fields the resource is not found in schema (please retry) or it is a \
         cluster scoped resource: rbac.authorization.k8s.io/v1, Kind=ClusterRole"
    );
}

#[test]
fn several_parts_are_refused_in_one_text() {
    let bad = json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap"}],
        "policy": {"placementType": "PickFixed", "clusterNames": ["a", "a"], "numberOfClusters": 1},
        "strategy": {"applyStrategy": {"serverSideApplyConfig": {}}}});
    assert_eq!(
        created(&bad).message(),
        format!(
            "{BEFORE}[the resource is not found in schema (please retry) or it is not a cluster scoped resource: /v1, \
             Kind=ConfigMap, the placement policy field is invalid: [cluster names must be unique for policy type \
             PickFixed, number of clusters must be nil for policy type PickFixed, only valid for PickN placement policy \
             type], the rollout Strategy field  is invalid: serverSideApplyConfig is only valid for ServerSideApply \
             strategy type]"
        )
    );
}

#[test]
fn a_strategy_is_refused_with_what_is_wrong_with_it() {
    let rows = [
        (
            json!({"type": "External", "rollingUpdate": {}}),
            "rollingUpdateConifg is not valid for ExternalRollout strategy type",
        ),
        (
            json!({"rollingUpdate": {"unavailablePeriodSeconds": -1}}),
            "unavailablePeriodSeconds must be greater than or equal to 0, got -1",
        ),
        (
            json!({"rollingUpdate": {"maxUnavailable": "5"}}),
            "maxUnavailable `5` is invalid: invalid value for IntOrString: invalid type: string is not a percentage",
        ),
        (
            json!({"rollingUpdate": {"maxSurge": "x%"}}),
            "maxSurge `x%` is invalid: invalid value for IntOrString: invalid value \"x%\": strconv.Atoi: parsing \
             \"x\": invalid syntax",
        ),
        (
            json!({"rollingUpdate": {"maxUnavailable": -1}}),
            "maxUnavailable must be greater than or equal to 0, got `-1`",
        ),
        (
            json!({"rollingUpdate": {"maxSurge": "-50%"}}),
            "maxSurge must be greater than or equal to 0, got `-50%`",
        ),
        (
            json!({"applyStrategy": {"type": "ReportDiff", "serverSideApplyConfig": {}}}),
            "serverSideApplyConfig is only valid for ServerSideApply strategy type",
        ),
    ];
    for (strategy, text) in rows {
        let verdict = created(&with_strategy(&strategy));
        assert_eq!(
            verdict.message(),
            format!("{BEFORE}the rollout Strategy field  is invalid: {text}")
        );
    }
    for good in [
        json!({}),
        json!({"type": "External"}),
        json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}}),
    ] {
        assert!(created(&with_strategy(&good)).is_allowed(), "{good}");
    }
}

#[test]
fn the_type_stays_and_no_toleration_goes() {
    let none = json!({"resourceSelectors": [roles()]});
    let all = with_policy(&json!({"placementType": "PickAll"}));
    let one = with_policy(&json!({"placementType": "PickN", "numberOfClusters": 1}));
    for (old, new) in [(&none, &all), (&all, &none)] {
        assert!(changed(old, new).is_allowed());
    }
    for (old, new) in [(&none, &one), (&one, &none), (&all, &one)] {
        assert_eq!(changed(old, new), Verdict::denied("placement type is immutable"));
    }
    let tolerating = |keys: &[&str]| {
        let all: Vec<_> = keys
            .iter()
            .map(|key| json!({"key": key, "operator": "Exists"}))
            .collect();
        with_policy(&json!({"tolerations": all}))
    };
    assert!(changed(&tolerating(&["a"]), &tolerating(&["b", "a"])).is_allowed());
    for new in [tolerating(&["b"]), none] {
        assert_eq!(
            changed(&tolerating(&["a"]), &new),
            Verdict::denied("tolerations have been updated/deleted, only additions to tolerations are allowed")
        );
    }
}

#[test]
fn what_was_wrong_before_can_be_repaired_and_does_not_hold_up_the_rest() {
    let maps = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let gone = json!({"group": "g", "version": "v1", "kind": "Gone"});
    let bad_policy = |n: i32| json!({"placementType": "PickN", "numberOfClusters": n, "clusterNames": ["a"]});
    let old = json!({"resourceSelectors": [maps, gone], "policy": bad_policy(1),
        "strategy": {"rollingUpdate": {"maxSurge": "5"}}});
    let mut repaired = old.clone();
    repaired["resourceSelectors"] = json!([roles()]);
    assert!(changed(&old, &repaired).is_allowed());
    let mut other = old.clone();
    other["revisionHistoryLimit"] = json!(3);
    assert!(changed(&old, &other).is_allowed());
    // A field beside the wrong one.
    other["policy"] = bad_policy(2);
    assert!(changed(&old, &other).is_allowed());
    // A new fault is still one, and no old one is told with it.
    other["policy"] = bad_policy(-2);
    assert_eq!(
        changed(&old, &other).message(),
        format!("{BEFORE}the placement policy field is invalid: number of clusters cannot be -2 for policy type PickN")
    );
}
