//! A placement's key, and with it its scope.

use std::fmt;
use std::str::FromStr;

use super::{LABEL_MAX, is_dns_label, is_dns_subdomain};

/// Which of two kinds with the same spec and status is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// ClusterResourcePlacement and its family.
    Cluster,
    /// ResourcePlacement and its family.
    Namespaced,
}

/// A placement in queues and logs: `name`, or `namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PlacementKey {
    namespace: Option<String>,
    name: String,
}

/// Why something is no placement's key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementKeyError {
    /// It is neither `name` nor `namespace/name`.
    #[error("the placement key {0:?} is neither a name nor namespace/name")]
    Malformed(String),
    /// Snapshots and bindings carry the name as a label value.
    #[error(
        "the placement name {0} has {len} characters, but at most {LABEL_MAX} are allowed: create the placement \
         again with a shorter name",
        len = .0.len(),
    )]
    TooLong(String),
}

impl PlacementKey {
    /// The key of a ClusterResourcePlacement, or with a namespace of a ResourcePlacement.
    pub fn new(namespace: Option<&str>, name: &str) -> Result<Self, PlacementKeyError> {
        let key = Self {
            namespace: namespace.map(Into::into),
            name: name.into(),
        };
        if key.name.len() > LABEL_MAX && is_dns_subdomain(&key.name) {
            return Err(PlacementKeyError::TooLong(key.name));
        }
        if !is_dns_subdomain(&key.name) || !key.namespace.as_deref().is_none_or(is_dns_label) {
            return Err(PlacementKeyError::Malformed(key.to_string()));
        }
        Ok(key)
    }

    /// The placement's namespace, if it has one.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The placement's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is a ClusterResourcePlacement or a ResourcePlacement.
    pub const fn scope(&self) -> Scope {
        if self.namespace.is_some() {
            Scope::Namespaced
        } else {
            Scope::Cluster
        }
    }

    /// As messages show it: `namespace/name`, and `/name` without namespace.
    pub fn with_slash(&self) -> String {
        format!("{}/{}", self.namespace().unwrap_or_default(), self.name)
    }
}

impl fmt::Display for PlacementKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl FromStr for PlacementKey {
    type Err = PlacementKeyError;

    fn from_str(key: &str) -> Result<Self, Self::Err> {
        match key.split_once('/') {
            Some((namespace, name)) => Self::new(Some(namespace), name),
            None => Self::new(None, key),
        }
    }
}
