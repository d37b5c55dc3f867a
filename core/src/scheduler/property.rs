//! Cluster properties as policies name them.

use std::fmt;

use super::world::Cluster;
use crate::membership::properties::{NotAQuantity, Quantity};

/// Properties under this prefix are read from the cluster's resource usage.
pub const RESOURCE_PREFIX: &str = "resources.kubernetes-fleet.io/";

/// A property that a policy names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Property {
    /// One of `status.properties`.
    Reported(String),
    /// One amount of `status.resourceUsage`.
    Usage(Usage, String),
}

/// Which of a cluster's amounts is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// What all nodes have together: `capacity`.
    Total,
    /// What is there for pods.
    Allocatable,
    /// What is left for further pods.
    Available,
}

/// A property name under [`RESOURCE_PREFIX`] that names no amount.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a valid property: after {RESOURCE_PREFIX:?} comes total, allocatable or available, a dash, and a \
     resource name"
)]
pub struct BadName(pub String);

impl Property {
    /// The property of this name.
    pub fn new(name: &str) -> Result<Self, BadName> {
        let Some(rest) = name.strip_prefix(RESOURCE_PREFIX) else {
            return Ok(Self::Reported(name.into()));
        };
        // At the first dash, as admission does: resource names have dashes of their own (`ephemeral-storage`).
        let usage = match rest.split_once('-') {
            Some((kind, resource)) if !resource.is_empty() => match kind {
                "total" => Some(Self::Usage(Usage::Total, resource.into())),
                "allocatable" => Some(Self::Usage(Usage::Allocatable, resource.into())),
                "available" => Some(Self::Usage(Usage::Available, resource.into())),
                _ => None,
            },
            _ => None,
        };
        usage.ok_or_else(|| BadName(name.into()))
    }

    /// What `cluster` reports, as text; none if it does not report this property.
    pub fn text<'a>(&self, cluster: &Cluster<'a>) -> Option<&'a str> {
        match self {
            Self::Reported(name) => cluster.properties.get(name).map(|property| property.value.as_str()),
            Self::Usage(kind, resource) => {
                let usage = cluster.usage?;
                let amounts = match kind {
                    Usage::Total => &usage.capacity,
                    Usage::Allocatable => &usage.allocatable,
                    Usage::Available => &usage.available,
                };
                amounts.get(resource).map(|amount| amount.0.as_str())
            }
        }
    }

    /// What `cluster` reports, as a number; none if it does not report this property.
    pub fn quantity(&self, cluster: &Cluster<'_>) -> Result<Option<Quantity>, NotAQuantity> {
        self.text(cluster).map(str::parse).transpose()
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reported(name) => f.write_str(name),
            Self::Usage(kind, resource) => {
                let kind = match kind {
                    Usage::Total => "total",
                    Usage::Allocatable => "allocatable",
                    Usage::Available => "available",
                };
                write!(f, "{RESOURCE_PREFIX}{kind}-{resource}")
            }
        }
    }
}
