use super::super::policy as rules;
use super::*;

#[test]
fn each_type_is_refused_what_belongs_to_another() {
    let spread = json!([{"topologyKey": "region"}]);
    let long = "x".repeat(64);
    let long_text = format!("PickFixed cluster name {long} cannot have length exceeding 63");
    let rows: Vec<(Value, &str)> = vec![
        (
            json!({"placementType": "PickFixed", "clusterNames": ["A"]}),
            "PickFixed cluster name A is not a valid member name: a lowercase RFC 1123 subdomain must consist of lower \
             case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
             'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        ),
        (
            json!({"placementType": "PickFixed", "clusterNames": [long]}),
            &long_text,
        ),
        (
            json!({"placementType": "PickFixed", "clusterNames": ["a", "b", "a", "b"]}),
            "cluster names must be unique for policy type PickFixed",
        ),
        (
            json!({"placementType": "PickFixed", "numberOfClusters": 0}),
            "number of clusters must be nil for policy type PickFixed, only valid for PickN placement policy type",
        ),
        (
            json!({"placementType": "PickFixed", "affinity": {}}),
            "affinity must be nil for policy type PickFixed, only valid for PickAll/PickN placement policy types",
        ),
        (
            json!({"placementType": "PickFixed", "topologySpreadConstraints": spread}),
            "topology spread constraints needs to be empty for policy type PickFixed, only valid for PickN policy type",
        ),
        (
            json!({"placementType": "PickFixed", "tolerations": [{"key": "a"}]}),
            "tolerations needs to be empty for policy type PickFixed, only valid for PickAll/PickN",
        ),
        (
            json!({"clusterNames": ["a"]}),
            "cluster names needs to be empty for policy type PickAll, only valid for PickFixed policy type",
        ),
        (
            json!({"numberOfClusters": 1}),
            "number of clusters must be nil for policy type PickAll, only valid for PickN placement policy type",
        ),
        (
            json!({"topologySpreadConstraints": spread}),
            "topology spread constraints needs to be empty for policy type PickAll, only valid for PickN policy type",
        ),
        (
            json!({"affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {}}]}}}),
            "PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll",
        ),
        (
            json!({"placementType": "PickN", "numberOfClusters": 1, "clusterNames": ["a"]}),
            "cluster names needs to be empty for policy type PickN, only valid for PickFixed policy type",
        ),
        (
            json!({"placementType": "PickN"}),
            "number of cluster cannot be nil for policy type PickN",
        ),
        (
            json!({"placementType": "PickN", "numberOfClusters": -1}),
            "number of clusters cannot be -1 for policy type PickN",
        ),
    ];
    for (policy, text) in rows {
        assert_eq!(policy_errors(&policy), text);
    }
    for good in [
        json!({"placementType": "PickFixed"}),
        json!({"placementType": "PickN", "numberOfClusters": 0, "topologySpreadConstraints": spread}),
        json!({}),
    ] {
        assert!(created(&with_policy(&good)).is_allowed(), "{good}");
    }
}

fn required(term: &Value) -> Value {
    json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"clusterSelectorTerms": [term]}}}})
}

fn preferred(term: &Value) -> Value {
    json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}}})
}

fn properties(requirements: &Value) -> Value {
    required(&json!({"propertySelector": {"matchExpressions": requirements}}))
}

#[test]
fn terms_are_refused_what_they_cannot_say() {
    let labels = json!({"labelSelector": {"matchLabels": {"a": "b c"}}});
    let sorter = |name: &str| json!({"propertySorter": {"name": name, "sortOrder": "Ascending"}});
    let selector = json!({"propertySelector": {"matchExpressions": []}});
    let bad = "&LabelSelector{MatchLabels:map[string]string{a: b c,},MatchExpressions:[]LabelSelectorRequirement{},} is \
               invalid: values[0][a]: Invalid value: \"b c\": a valid label must be";
    for (policy, text) in [
        (
            required(&labels),
            format!("the labelSelector in cluster selector {bad}"),
        ),
        (
            required(&sorter("size")),
            "PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity".into(),
        ),
        (
            preferred(&labels),
            format!("the labelSelector in preferred cluster selector {bad}"),
        ),
        (
            preferred(&selector),
            "PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity".into(),
        ),
        (
            preferred(&sorter("a b")),
            "property name a b is not valid: name part must consist of".into(),
        ),
    ] {
        let found = policy_errors(&policy);
        assert!(found.starts_with(&text), "{found}");
    }
    assert!(created(&with_policy(&preferred(&sorter("example.com/size")))).is_allowed());
}

#[test]
fn what_is_no_quantity_is_refused_in_the_words_of_kubernetes() {
    let rule = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let suffix = "unable to parse quantity's suffix";
    for (value, why) in [
        ("", rule),
        ("big", rule),
        ("1 ", rule),
        ("1.2.3", rule),
        ("1Gib", rule),
        ("--1", rule),
        ("1é", rule),
        ("1g", rule),
        ("1KI", rule),
        ("1kk", suffix),
        ("1e", suffix),
        ("-2.5iM", suffix),
        ("1K", suffix),
        ("1n5", suffix),
    ] {
        let requirement = json!([{"name": "size", "operator": "Ge", "values": [value]}]);
        let found = policy_errors(&properties(&requirement));
        let wanted =
            format!("invalid requirement on property size: value {value:?} is not a valid resource.Quantity: {why}");
        assert!(found.starts_with(&wanted), "{found}");
    }
}

#[test]
fn requirements_are_refused_each_for_itself() {
    let one = |name: &str, operator: &str, values: &[&str]| {
        properties(&json!([{"name": name, "operator": operator, "values": values}]))
    };
    for (policy, text) in [
        (
            one("size", "About", &["1"]),
            "invalid requirement on property size: unsupported operator About",
        ),
        (
            one("size", "Ge", &[]),
            "invalid requirement on property size: operator Ge requires exactly one value, got 0",
        ),
        (
            one("size", "Ge", &["big"]),
            "invalid requirement on property size: value \"big\" is not a valid resource.Quantity: quantities must match",
        ),
        (
            one("resources.kubernetes-fleet.io/cpu", "Ge", &["1"]),
            "invalid property name resources.kubernetes-fleet.io/cpu: invalid resource property name \
             resources.kubernetes-fleet.io/cpu, expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]",
        ),
        (
            one("resources.kubernetes-fleet.io/free-cpu", "Ge", &["1"]),
            "invalid property name resources.kubernetes-fleet.io/free-cpu: invalid capacity type in resource property name \
             resources.kubernetes-fleet.io/free-cpu, supported values are [allocatable available total]",
        ),
        (
            one("resources.kubernetes-fleet.io/total-", "Ge", &["1"]),
            "invalid property name resources.kubernetes-fleet.io/total-: property name \
             resources.kubernetes-fleet.io/total- is not valid: name part must consist of",
        ),
        (
            one("a b", "Ge", &["1"]),
            "invalid property name a b: property name a b is not valid: name part must consist of",
        ),
        (
            one("-/a", "Ge", &["1"]),
            "invalid property name -/a: property name first segment - is not valid: it is neither a valid DNS subdomain (a \
             lowercase RFC 1123 subdomain must consist of",
        ),
        (
            one("a/b//c", "Ge", &["1"]),
            "invalid property name a/b//c: property name segment  is not valid: name part must be non-empty",
        ),
    ] {
        let found = policy_errors(&policy);
        assert!(found.starts_with(text), "{found}");
    }
    for good in [
        "size",
        "a/b/c_d",
        "A_b/c",
        "resources.kubernetes-fleet.io/available-ephemeral-storage",
    ] {
        assert!(created(&with_policy(&one(good, "Ge", &["1Ki"]))).is_allowed(), "{good}");
    }
}

#[test]
fn requirements_that_cannot_hold_together_are_refused() {
    let all = |requirements: &[(&str, &str)]| {
        let all = requirements
            .iter()
            .map(|(operator, value)| json!({"name": "p", "operator": operator, "values": [value]}));
        policy_errors(&properties(&all.collect()))
    };
    for (requirements, why) in [
        (&[("Eq", "1"), ("Eq", "2")][..], Some("conflicting Eq values 1 and 2")),
        (
            &[("Eq", "1000m"), ("Ne", "1")],
            Some("conflicting Eq and Ne on same value 1"),
        ),
        (
            &[("Gt", "10"), ("Le", "10")],
            Some("lower bound (10) and upper bound (10) exclude all values"),
        ),
        (
            &[("Ge", "10"), ("Gt", "10"), ("Le", "10")],
            Some("lower bound (10) and upper bound (10) exclude all values"),
        ),
        (
            &[("Ge", "11"), ("Ge", "9"), ("Le", "10")],
            Some("lower bound (11) and upper bound (10) exclude all values"),
        ),
        (
            &[("Lt", "1024"), ("Eq", "1Ki")],
            Some("eq value 1Ki violates upper bound 1024"),
        ),
        (
            &[("Le", "20"), ("Le", "5"), ("Eq", "6")],
            Some("eq value 6 violates upper bound 5"),
        ),
        (&[("Gt", "1"), ("Eq", "1")], Some("eq value 1 violates lower bound 1")),
        (&[("Ge", "2"), ("Eq", "1")], Some("eq value 1 violates lower bound 2")),
        (&[("Ge", "10"), ("Le", "10"), ("Eq", "10"), ("Ne", "11")], None),
        (&[("Eq", "1000m"), ("Eq", "1")], None),
        (&[("Gt", "1"), ("Lt", "1100m")], None),
    ] {
        let found = all(requirements);
        let text = why.map(|why| format!("inconsistent requirements on property p: {why}"));
        assert_eq!(found, text.unwrap_or_default(), "{requirements:?}");
    }
    let found = all(&[("Eq", "garbage"), ("Eq", "5")]);
    assert!(
        found.starts_with("invalid requirement on property p: value \"garbage\"") && !found.contains("inconsistent"),
        "{found}"
    );
}

#[test]
fn tolerations_are_refused_with_what_is_wrong_with_each() {
    for (tolerations, text) in [
        (
            json!([{"key": "a b", "operator": "Exists"}]),
            "invalid toleration key {Key:a b Operator:Exists Value: Effect:}: name part must consist of",
        ),
        (
            json!([{"key": "a", "operator": "Exists", "value": "v"}]),
            "invalid toleration {Key:a Operator:Exists Value:v Effect:}: toleration value needs to be empty, when operator \
             is Exists",
        ),
        (
            json!([{"effect": "NoSchedule"}]),
            "invalid toleration {Key: Operator:Equal Value: Effect:NoSchedule}: toleration key cannot be empty, when \
             operator is Equal",
        ),
        (
            json!([{"key": "a", "value": "b c"}]),
            "invalid toleration value {Key:a Operator:Equal Value:b c Effect:}: a valid label must be",
        ),
        (
            json!([{"key": "a"}, {"key": "b"}, {"key": "a", "operator": "Equal"}]),
            "toleration {Key:a Operator:Equal Value: Effect:} already exists, tolerations must be unique",
        ),
    ] {
        let found = policy_errors(&json!({"tolerations": tolerations}));
        assert!(found.starts_with(text), "{found}");
    }
    let good = json!({"tolerations": [{"operator": "Exists"}, {"key": "a"}, {"key": "a", "value": "b"}]});
    assert!(created(&with_policy(&good)).is_allowed());
}

#[test]
fn the_longest_lists_are_judged_in_one_pass() {
    // The shortest of some times, so that nothing else on the machine counts.
    let took = |n: usize| {
        let all = (0..n).map(|i| json!({"name": format!("p{i}"), "operator": "Eq", "values": ["1"]}));
        let policy = serde_json::from_value(properties(&all.collect())).expect("a policy");
        let once = || {
            let started = std::time::Instant::now();
            assert!(rules::policy(&policy).is_empty());
            started.elapsed()
        };
        (0..5).map(|_| once()).min().unwrap_or_default()
    };
    let (few, many) = (took(4_000), took(16_000));
    assert!(many < few * 9, "{many:?} for four times as many as took {few:?}");
}

#[test]
fn the_longest_lists_are_refused_in_few_words() {
    let bad = |first: &str| {
        let all = (0..20_000).map(|i| json!({"name": format!("{first} é{i}"), "operator": "", "values": []}));
        with_policy(&properties(&all.collect()))
    };
    let (old, new) = (bad("a"), bad("b"));
    let said = created(&new);
    assert!(
        !said.is_allowed() && said.message().len() < 64 * 1024,
        "{}",
        said.message().len()
    );
    assert!(!changed(&old, &new).is_allowed());
    assert!(changed(&old, &old).is_allowed());
}
