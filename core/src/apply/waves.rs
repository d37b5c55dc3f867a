//! The order in which objects are applied: what others need comes first.

use fleet_api::placement::WorkResourceIdentifier;
use std::collections::BTreeMap;

/// The wave of everything that no table speaks of.
pub const LAST: u32 = 999;

/// Groups whose resources have a wave; `jobs` of another group is somebody else's word.
const GROUPS: [&str; 12] = [
    "",
    "networking.k8s.io",
    "scheduling.k8s.io",
    "policy",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "rbac.authorization.k8s.io",
    "apps",
    "autoscaling",
    "apiregistration.k8s.io",
    "admissionregistration.k8s.io",
    "batch",
];

/// The wave of a resource, by its plural name.
pub fn wave(group: &str, resource: &str) -> u32 {
    if !GROUPS.contains(&group) {
        return LAST;
    }
    match resource {
        "namespaces" | "priorityclasses" => 0,
        "networkpolicies"
        | "resourcequotas"
        | "limitranges"
        | "podsecuritypolicies"
        | "poddisruptionbudgets"
        | "serviceaccounts"
        | "secrets"
        | "configmaps"
        | "storageclasses"
        | "persistentvolumes"
        | "persistentvolumeclaims"
        | "customresourcedefinitions"
        | "ingressclasses" => 1,
        "clusterroles" | "roles" => 2,
        "clusterrolebindings" | "rolebindings" => 3,
        "services"
        | "daemonsets"
        | "pods"
        | "replicationcontrollers"
        | "replicasets"
        | "deployments"
        | "horizontalpodautoscalers"
        | "statefulsets"
        | "jobs"
        | "cronjobs"
        | "ingresses" => 4,
        "apiservices" | "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => 5,
        _ => LAST,
    }
}

/// Groups objects into waves, by their index. In `ReportDiff` mode nothing is applied, so there is one.
pub fn waves<'a>(
    ids: impl IntoIterator<Item = &'a WorkResourceIdentifier>,
    report_diff: bool,
) -> BTreeMap<u32, Vec<usize>> {
    let mut waves = BTreeMap::<u32, Vec<usize>>::new();
    for (index, id) in ids.into_iter().enumerate() {
        let wave = if report_diff { 0 } else { wave(&id.group, &id.resource) };
        waves.entry(wave).or_default().push(index);
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(group: &str, resource: &str) -> WorkResourceIdentifier {
        WorkResourceIdentifier {
            group: group.into(),
            resource: resource.into(),
            ..Default::default()
        }
    }

    #[test]
    fn every_wave() {
        for (group, resource, expected) in [
            ("", "namespaces", 0),
            ("scheduling.k8s.io", "priorityclasses", 0),
            ("", "configmaps", 1),
            ("apiextensions.k8s.io", "customresourcedefinitions", 1),
            ("rbac.authorization.k8s.io", "roles", 2),
            ("rbac.authorization.k8s.io", "clusterrolebindings", 3),
            ("apps", "deployments", 4),
            ("batch", "jobs", 4),
            ("apiregistration.k8s.io", "apiservices", 5),
            ("admissionregistration.k8s.io", "validatingwebhookconfigurations", 5),
            ("batch.volcano.sh", "jobs", 999),
            ("storage.k8s.io", "csidrivers", 999),
            ("", "", 999),
        ] {
            assert_eq!(wave(group, resource), expected, "{group}/{resource}");
        }
    }

    #[test]
    fn a_comparison_has_one_wave() {
        let ids = [id("apps", "deployments"), id("", "namespaces")];
        assert_eq!(waves(&ids, true), BTreeMap::from([(0, vec![0, 1])]));
        assert_eq!(waves(&ids, false), BTreeMap::from([(0, vec![1]), (4, vec![0])]));
    }

    proptest! {
        #[test]
        fn every_object_is_in_exactly_one_wave_in_order(
            list in prop::collection::vec(("(apps|batch|x)?", "(jobs|roles|pods|namespaces|y)"), 0..20),
        ) {
            let ids: Vec<_> = list.iter().map(|(group, resource)| id(group, resource)).collect();
            let waves = waves(&ids, false);
            prop_assert!(waves.values().all(|wave| wave.is_sorted()));
            let mut all: Vec<usize> = waves.into_values().flatten().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..ids.len()).collect::<Vec<_>>());
        }
    }
}
