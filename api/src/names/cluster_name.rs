//! The name of a member cluster, and the names of what the hub keeps for it.

use std::fmt;
use std::str::FromStr;

use super::{LABEL_MAX, MEMBER_NAMESPACE_PREFIX, is_dns_label};

/// The name of a MemberCluster that can join: its hub namespace is a valid namespace name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterName(String);

/// Why a MemberCluster of this name can never join. The texts are ours: upstream accepts such names and retries for
/// ever.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClusterNameError {
    /// The hub namespace would have too long a name.
    #[error(
        "the cluster name {0} has {len} characters, but at most {max} are allowed, since its namespace on the hub is \
         named {MEMBER_NAMESPACE_PREFIX}{0}: create the MemberCluster again with a shorter name",
        len = .0.len(),
        max = ClusterName::MAX,
    )]
    TooLong(String),
    /// The hub namespace would not have a valid name.
    #[error(
        "the cluster name {0:?} is not a valid part of its namespace's name on the hub, {MEMBER_NAMESPACE_PREFIX}{0}: \
         create the MemberCluster again with a name of lower-case letters, digits and '-' that begins and ends with a \
         letter or digit"
    )]
    NotALabel(String),
}

impl ClusterName {
    /// The longest name with which a cluster can join.
    pub const MAX: usize = LABEL_MAX - MEMBER_NAMESPACE_PREFIX.len();

    /// Checks that a cluster of this name can join.
    pub fn new(name: impl Into<String>) -> Result<Self, ClusterNameError> {
        let name = name.into();
        if !is_dns_label(&name) && (name.len() <= LABEL_MAX || !name.bytes().all(is_label_byte)) {
            Err(ClusterNameError::NotALabel(name))
        } else if name.len() > Self::MAX {
            Err(ClusterNameError::TooLong(name))
        } else {
            Ok(Self(name))
        }
    }

    /// The cluster to which a hub namespace belongs, if it is one of a member.
    pub fn of_namespace(namespace: &str) -> Option<Self> {
        namespace
            .strip_prefix(MEMBER_NAMESPACE_PREFIX)
            .and_then(|name| name.parse().ok())
    }

    /// The name as such; also that of the InternalMemberCluster and of the ClusterProfile.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The cluster's namespace on the hub.
    pub fn namespace(&self) -> String {
        format!("{MEMBER_NAMESPACE_PREFIX}{self}")
    }

    /// The Role in that namespace.
    pub fn role(&self) -> String {
        format!("fleet-role-{self}")
    }

    /// The RoleBinding in that namespace.
    pub fn role_binding(&self) -> String {
        format!("fleet-rolebinding-{self}")
    }

    /// The ServiceAccount that the join recipe makes for the member.
    pub fn service_account(&self) -> String {
        format!("{self}-hub-cluster-access")
    }

    /// The Role, and its RoleBinding, by which that ServiceAccount may renew its own token.
    pub fn renewal_role(&self) -> String {
        format!("{self}-hub-cluster-access-renewal")
    }

    /// The Secret with a token of that ServiceAccount that never ends.
    pub fn token_secret(&self) -> String {
        format!("{self}-hub-cluster-access-token")
    }
}

fn is_label_byte(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-'
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for ClusterName {
    type Err = ClusterNameError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::new(name)
    }
}

impl AsRef<str> for ClusterName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}
