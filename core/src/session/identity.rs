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

/// What the API server calls somebody: by one of these an identity is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// A user name.
    User(String),
    /// A group that the user is in.
    Group(String),
}

impl Caller {
    /// Every name that the caller goes by; none if it is nobody.
    pub fn names(&self) -> impl Iterator<Item = Name> {
        let anonymous = self.user.is_empty() || self.user == "system:anonymous";
        let user = std::iter::once(Name::User(self.user.clone()));
        let groups = self.groups.iter().cloned().map(Name::Group);
        user.chain(groups).filter(move |_| !anonymous)
    }
}

/// The name of whoever is the identity of this MemberCluster; none if nobody can be. The MemberCluster decides, not its
/// RoleBinding, so that a half-deleted namespace locks nobody out. One identity may belong to several MemberClusters; each
/// names it.
pub fn name_of(identity: &Subject, cluster: &ClusterName) -> Option<Name> {
    let name = Some(&identity.name).filter(|name| !name.is_empty())?;
    match identity.kind.as_str() {
        "User" => Some(Name::User(name.clone())),
        "Group" => Some(Name::Group(name.clone())),
        "ServiceAccount" => {
            let own = cluster.namespace();
            let namespace = identity.namespace.as_deref().filter(|n| !n.is_empty()).unwrap_or(&own);
            Some(Name::User(format!("system:serviceaccount:{namespace}:{name}")))
        }
        _ => None,
    }
}

/// Whether the caller is the identity of this MemberCluster.
pub fn is_identity(caller: &Caller, identity: &Subject, cluster: &ClusterName) -> bool {
    name_of(identity, cluster).is_some_and(|name| caller.names().any(|own| own == name))
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
