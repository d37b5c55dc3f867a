//! Which rights the commands need, and which ClusterRole of the hub's chart has them.

/// Bound to those who may approve.
pub(crate) const APPROVER: &str = "fleet-approver";
/// Bound to those who may drain clusters and take them back.
pub(crate) const OPERATOR: &str = "fleet-operator";
/// Bound to those who look and change nothing.
pub(crate) const VIEWER: &str = "fleet-viewer";

/// What one rule of a role allows.
struct Rule {
    role: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
}

const READ: &[&str] = &["get", "list", "watch"];

/// The rules of the roles, as the chart has them. Who may do more is named first.
const RULES: &[Rule] = &[
    Rule {
        role: APPROVER,
        resources: &["clusterapprovalrequests", "approvalrequests"],
        verbs: READ,
    },
    Rule {
        role: APPROVER,
        resources: &["clusterapprovalrequests/status", "approvalrequests/status"],
        verbs: &["update", "patch"],
    },
    Rule {
        role: OPERATOR,
        resources: &["memberclusters"],
        verbs: &["get", "list", "watch", "update"],
    },
    Rule {
        role: OPERATOR,
        resources: &[
            "clusterresourceplacements",
            "resourceplacements",
            "clusterresourcebindings",
            "resourcebindings",
            "clusterresourceplacementdisruptionbudgets",
            "clusterstagedupdateruns",
            "stagedupdateruns",
        ],
        verbs: READ,
    },
    Rule {
        role: OPERATOR,
        resources: &["clusterresourceplacementevictions"],
        verbs: &["get", "list", "watch", "create", "delete"],
    },
    Rule {
        role: VIEWER,
        resources: &[
            "memberclusters",
            "internalmemberclusters",
            "clusterresourceplacements",
            "resourceplacements",
            "clusterschedulingpolicysnapshots",
            "schedulingpolicysnapshots",
            "clusterresourcesnapshots",
            "resourcesnapshots",
            "clusterresourceoverrides",
            "resourceoverrides",
            "clusterresourceoverridesnapshots",
            "resourceoverridesnapshots",
            "clusterresourcebindings",
            "resourcebindings",
            "works",
            "clusterstagedupdateruns",
            "stagedupdateruns",
            "clusterstagedupdatestrategies",
            "stagedupdatestrategies",
            "clusterapprovalrequests",
            "approvalrequests",
            "clusterresourceplacementevictions",
            "clusterresourceplacementdisruptionbudgets",
        ],
        verbs: READ,
    },
    Rule {
        role: VIEWER,
        resources: &["namespaces", "customresourcedefinitions"],
        verbs: &["list"],
    },
    Rule {
        role: VIEWER,
        resources: &["events"],
        verbs: &["list", "watch"],
    },
    Rule {
        role: VIEWER,
        resources: &["leases", "deployments"],
        verbs: &["get", "list"],
    },
    Rule {
        role: VIEWER,
        resources: &[
            "validatingwebhookconfigurations",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicybindings",
        ],
        verbs: &["get"],
    },
    Rule {
        role: VIEWER,
        resources: &["subjectaccessreviews"],
        verbs: &["create"],
    },
];

/// The ClusterRole that may do this to that resource.
pub(crate) fn role(verb: &str, resource: &str) -> Option<&'static str> {
    let mut rules = RULES.iter();
    let found = rules.find(|rule| rule.resources.contains(&resource) && rule.verbs.contains(&verb));
    found.map(|rule| rule.role)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Rules {
        rules: Vec<Granted>,
    }

    #[derive(Deserialize)]
    struct Granted {
        resources: Vec<String>,
        verbs: Vec<String>,
    }

    /// What the chart's role of this name allows.
    fn granted(role: &str) -> BTreeSet<(String, String)> {
        let chart = include_str!("../../deploy/charts/hub-agent/templates/rbac.yaml");
        let mut documents = chart.split("\n---\n");
        let document = documents.find(|text| text.contains(&format!("\n  name: {role}\n")));
        let rules = document.and_then(|text| text.split_once("\nrules:\n"));
        let text = format!("rules:\n{}", rules.expect("the chart has the role").1);
        let Rules { rules } = serde_saphyr::from_str(&text).expect("its rules have no templates in them");
        let pairs = |rule: &Granted| {
            let of =
                |resource: &String| -> Vec<_> { rule.verbs.iter().map(|v| (resource.clone(), v.clone())).collect() };
            rule.resources.iter().flat_map(of).collect::<Vec<_>>()
        };
        rules.iter().flat_map(pairs).collect()
    }

    #[test]
    fn the_charts_roles_have_exactly_the_rights_that_the_commands_name() {
        for name in [APPROVER, OPERATOR, VIEWER] {
            let own = RULES.iter().filter(|rule| rule.role == name);
            let pairs = |rule: &Rule| {
                let of =
                    |r: &&str| -> Vec<_> { rule.verbs.iter().map(|v| ((*r).to_owned(), (*v).to_owned())).collect() };
                rule.resources.iter().flat_map(of).collect::<Vec<_>>()
            };
            let wanted: BTreeSet<_> = own.flat_map(pairs).collect();
            assert_eq!(granted(name), wanted, "{name}");
        }
    }
}
