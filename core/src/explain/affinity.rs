//! How far a cluster is from what a policy requires: what it lacks, and which label would do.

use std::collections::BTreeMap;

use fleet_api::placement::{
    Affinity, ClusterAffinity, ClusterSelector, ClusterSelectorTerm, PlacementPolicy, PropertyRequirement,
    PropertySelector,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

use super::shell::quoted;
use crate::scheduler::Cluster;
use crate::scheduler::plugins::Filters;

/// What a cluster lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Miss {
    /// In words.
    pub text: String,
    /// What `kubectl label` takes to mend it; none if no label does.
    pub label: Option<String>,
}

/// The misses of a cluster in the term that it comes nearest to. None if nothing is required; empty if it matches.
pub(super) fn misses(policy: &PlacementPolicy, cluster: &Cluster<'_>) -> Option<Vec<Miss>> {
    let terms = required(policy)?.iter().map(|term| of_term(term, cluster));
    // Labels are mended with one command, properties are not.
    terms.min_by_key(|misses| {
        let unmendable = misses.iter().filter(|miss| miss.label.is_none()).count();
        (unmendable, misses.len())
    })
}

fn required(policy: &PlacementPolicy) -> Option<&[ClusterSelectorTerm]> {
    let affinity = policy.affinity.as_ref()?.cluster_affinity.as_ref()?;
    let required = affinity.required_during_scheduling_ignored_during_execution.as_ref()?;
    Some(required.cluster_selector_terms.as_slice()).filter(|terms| !terms.is_empty())
}

fn of_term(term: &ClusterSelectorTerm, cluster: &Cluster<'_>) -> Vec<Miss> {
    let selector = term.label_selector.iter();
    let equal = selector
        .clone()
        .flat_map(|selector| selector.match_labels.iter().flatten());
    let equal = equal.filter_map(|(key, value)| equals(key, std::slice::from_ref(value), cluster.labels));
    let expressions = selector.flat_map(|selector| selector.match_expressions.iter().flatten());
    let expressions = expressions.filter_map(|expression| label(expression, cluster.labels));
    let properties = term.property_selector.iter();
    let properties = properties.flat_map(|selector| &selector.match_expressions);
    let properties = properties.filter_map(|requirement| property(requirement, cluster));
    equal.chain(expressions).chain(properties).collect()
}

fn label(expression: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> Option<Miss> {
    let LabelSelectorRequirement { key, operator, values } = expression;
    let values = values.as_deref().unwrap_or_default();
    let has = labels.get(key);
    match operator.as_str() {
        "In" => equals(key, values, labels),
        "NotIn" => has.filter(|has| values.contains(has)).map(|has| Miss {
            text: format!("it has label {key}={has}"),
            label: Some(quoted(&format!("{key}-")).into_owned()),
        }),
        "Exists" if has.is_none() => Some(Miss {
            text: format!("it lacks label {key}"),
            label: Some(quoted(&format!("{key}=true")).into_owned()),
        }),
        "DoesNotExist" => has.map(|has| Miss {
            text: format!("it has label {key}={has}"),
            label: Some(quoted(&format!("{key}-")).into_owned()),
        }),
        _ => None,
    }
}

fn equals(key: &str, values: &[String], labels: &BTreeMap<String, String>) -> Option<Miss> {
    let has = labels.get(key);
    if has.is_some_and(|has| values.contains(has)) {
        return None;
    }
    let wanted = match values {
        [one] => format!("{key}={one}"),
        several => format!("{key} in ({})", several.join(", ")),
    };
    Some(Miss {
        text: match has {
            Some(has) => format!("it has label {key}={has}, not {wanted}"),
            None => format!("it lacks label {wanted}"),
        },
        label: values.first().map(|first| {
            let label = format!("{key}={first}");
            let label = quoted(&label);
            match has {
                Some(_) => format!("--overwrite {label}"),
                None => label.into_owned(),
            }
        }),
    })
}

/// Judged by the scheduler's own code, with a policy that requires nothing else.
fn property(requirement: &PropertyRequirement, cluster: &Cluster<'_>) -> Option<Miss> {
    let PropertyRequirement { name, operator, values } = requirement;
    let wanted = format!("{name} {operator} {}", values.join(", "));
    let term = ClusterSelectorTerm {
        property_selector: Some(PropertySelector {
            match_expressions: vec![requirement.clone()],
        }),
        ..ClusterSelectorTerm::default()
    };
    let required = ClusterSelector {
        cluster_selector_terms: vec![term],
    };
    let alone = PlacementPolicy {
        affinity: Some(Affinity {
            cluster_affinity: Some(ClusterAffinity {
                required_during_scheduling_ignored_during_execution: Some(required),
                ..ClusterAffinity::default()
            }),
        }),
        ..PlacementPolicy::default()
    };
    let fits = Filters::new(Some(&alone), None).is_ok_and(|filters| filters.required.filter(cluster).is_ok());
    let has = cluster.properties.get(name).map(|property| property.value.as_str());
    (!fits).then(|| Miss {
        text: match has {
            Some(has) => format!("its property {name} is {has}, want {wanted}"),
            None => format!("it does not meet {wanted}"),
        },
        label: None,
    })
}

/// What the cluster lacks, in one sentence.
pub(super) fn sentence(misses: &[Miss]) -> String {
    let texts: Vec<_> = misses.iter().map(|miss| miss.text.as_str()).collect();
    texts.join(", and ")
}

/// The command that makes the cluster match, if labels do.
pub(super) fn mend(cluster: &str, misses: &[Miss]) -> Option<String> {
    let labels: Option<Vec<_>> = misses.iter().map(|miss| miss.label.as_deref()).collect();
    let labels = labels.filter(|labels| !labels.is_empty())?.join(" ");
    Some(format!("kubectl label membercluster {} {labels}", quoted(cluster)))
}

#[cfg(test)]
mod tests {
    use fleet_api::cluster::MemberCluster;
    use serde_json::{Value, json};

    use super::*;

    /// What east (env=prod, three nodes) lacks of these terms, and the command that mends it.
    fn lacks(terms: &Value) -> (String, Option<String>) {
        let east: MemberCluster = serde_json::from_value(json!({
            "metadata": {"name": "east", "labels": {"env": "prod"}},
            "spec": {"identity": {"kind": "User", "name": "east"}},
            "status": {"properties": {
                "kubernetes-fleet.io/node-count": {"value": "3", "observationTime": "2026-01-01T00:00:00Z"},
            }},
        }))
        .unwrap();
        let policy: PlacementPolicy = serde_json::from_value(json!({"affinity": {"clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms},
        }}}))
        .unwrap();
        let misses = misses(&policy, &Cluster::new(&east, jiff::Timestamp::UNIX_EPOCH)).unwrap();
        (sentence(&misses), mend("east", &misses))
    }

    fn expression(key: &str, operator: &str, values: &Value) -> Value {
        json!({"labelSelector": {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}})
    }

    fn nodes(count: &str) -> Value {
        json!({"propertySelector": {"matchExpressions": [
            {"name": "kubernetes-fleet.io/node-count", "operator": "Ge", "values": [count]},
        ]}})
    }

    #[test]
    fn each_requirement_says_what_would_do() {
        let label = |args: &str| Some(format!("kubectl label membercluster east {args}"));
        for (terms, text, mends) in [
            (
                json!([expression("env", "In", &json!(["test", "dev"]))]),
                "it has label env=prod, not env in (test, dev)",
                label("--overwrite env=test"),
            ),
            (
                json!([expression("env", "NotIn", &json!(["prod"]))]),
                "it has label env=prod",
                label("env-"),
            ),
            (
                json!([expression("gpu", "Exists", &json!([]))]),
                "it lacks label gpu",
                label("gpu=true"),
            ),
            (
                json!([expression("env", "DoesNotExist", &json!([]))]),
                "it has label env=prod",
                label("env-"),
            ),
            (
                json!([nodes("5")]),
                "its property kubernetes-fleet.io/node-count is 3, want kubernetes-fleet.io/node-count Ge 5",
                None,
            ),
            // A label is mended with one command, so its term is nearer than that of the property.
            (
                json!([nodes("5"), expression("gpu", "Exists", &json!([]))]),
                "it lacks label gpu",
                label("gpu=true"),
            ),
            (json!([nodes("2")]), "", None),
            (
                json!([expression("env", "In", &json!(["a; reboot"]))]),
                "it has label env=prod, not env=a; reboot",
                label(r"--overwrite $'env=a\073 reboot'"),
            ),
        ] {
            assert_eq!(lacks(&terms), (text.to_owned(), mends), "{terms}");
        }
    }
}
