//! Whether a caller is who it claims to be.

use fleet_api::names::ClusterName;
use k8s_openapi::api::rbac::v1::Subject;

/// Who an authenticated stream belongs to, as a TokenReview or a client certificate says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// User name.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
}

/// Whether the caller is the identity of this MemberCluster. The MemberCluster decides, not its RoleBinding, so that a
/// half-deleted namespace locks nobody out. One identity may belong to several MemberClusters; each names it.
pub fn is_identity(caller: &Caller, identity: &Subject, cluster: &ClusterName) -> bool {
    let anonymous = caller.user.is_empty() || caller.user == "system:anonymous";
    if anonymous || identity.name.is_empty() {
        return false;
    }
    match identity.kind.as_str() {
        "User" => caller.user == identity.name,
        "Group" => caller.groups.contains(&identity.name),
        "ServiceAccount" => {
            let own = cluster.namespace();
            let namespace = identity.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or(&own);
            caller.user == format!("system:serviceaccount:{namespace}:{}", identity.name)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_subject() {
        let cluster = ClusterName::new("c1").expect("valid");
        let is = |user: &str, groups: &[&str], kind: &str, name: &str, namespace: Option<&str>| {
            let caller = Caller {
                user: user.into(),
                groups: groups.iter().map(|g| (*g).into()).collect(),
            };
            let identity = Subject {
                kind: kind.into(),
                name: name.into(),
                namespace: namespace.map(Into::into),
                api_group: None,
            };
            is_identity(&caller, &identity, &cluster)
        };
        assert!(is("u", &[], "User", "u", None));
        assert!(!is("v", &["u"], "User", "u", None));
        assert!(is("v", &["g"], "Group", "g", None));
        assert!(!is("g", &[], "Group", "g", None));
        assert!(is(
            "system:serviceaccount:ns:sa",
            &[],
            "ServiceAccount",
            "sa",
            Some("ns")
        ));
        assert!(is(
            "system:serviceaccount:fleet-member-c1:sa",
            &[],
            "ServiceAccount",
            "sa",
            None
        ));
        assert!(is(
            "system:serviceaccount:fleet-member-c1:sa",
            &[],
            "ServiceAccount",
            "sa",
            Some("")
        ));
        assert!(!is(
            "system:serviceaccount:other:sa",
            &[],
            "ServiceAccount",
            "sa",
            Some("ns")
        ));
        assert!(!is("sa", &[], "ServiceAccount", "sa", Some("ns")));
        assert!(!is("u", &["u"], "Robot", "u", None));
        assert!(!is("", &[], "User", "", None), "an empty name is nobody");
        assert!(!is(
            "system:anonymous",
            &["system:unauthenticated"],
            "Group",
            "system:unauthenticated",
            None
        ));
        assert!(!is("system:anonymous", &[], "User", "system:anonymous", None));
    }
}
