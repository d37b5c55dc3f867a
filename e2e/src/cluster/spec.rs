//! What a cluster should look like: its name, role, nodes and switches.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// Whether a cluster is the hub or one of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    /// The hub.
    Hub,
    /// A member.
    Member,
}

/// A cluster to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Its name, which is also its kubeconfig context.
    pub name: String,
    /// Hub or member.
    pub role: Role,
    /// Its nodes.
    #[serde(default)]
    pub nodes: NodeSpec,
    /// Whether the API server writes an audit log (level Metadata), which benchmarks count requests from.
    #[serde(default)]
    pub audit: bool,
    /// More arguments for the API server, for tests that need a special one.
    #[serde(default)]
    pub apiserver_args: Vec<String>,
}

/// The nodes of a cluster; all alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeSpec {
    /// How many.
    pub count: u32,
    /// CPU of each, as Kubernetes writes it.
    pub cpu: String,
    /// Memory of each.
    pub memory: String,
    /// Pods that fit on each.
    pub pods: u32,
    /// Labels on each.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Default for NodeSpec {
    fn default() -> Self {
        Self {
            count: 1,
            cpu: "8".into(),
            memory: "32Gi".into(),
            pods: 110,
            labels: BTreeMap::new(),
        }
    }
}

impl ClusterSpec {
    /// The hub, with one node.
    pub fn hub() -> Self {
        Self {
            name: "hub".into(),
            role: Role::Hub,
            nodes: NodeSpec::default(),
            audit: false,
            apiserver_args: Vec::new(),
        }
    }

    /// A member with `nodes` nodes.
    pub fn member(name: impl Into<String>, nodes: u32) -> Self {
        Self {
            name: name.into(),
            role: Role::Member,
            nodes: NodeSpec {
                count: nodes,
                ..NodeSpec::default()
            },
            ..Self::hub()
        }
    }

    /// A hub and `members` members called member-1, member-2, …; member n has n+1 nodes in region-n, so that clusters
    /// differ in size and labels.
    pub fn fleet(members: u32) -> Vec<Self> {
        let member = |n: u32| {
            let mut spec = Self::member(format!("member-{n}"), n + 1);
            spec.nodes
                .labels
                .insert("topology.kubernetes.io/region".into(), format!("region-{n}"));
            spec
        };
        std::iter::once(Self::hub()).chain((1..=members).map(member)).collect()
    }

    /// Refuses what would fail later with a worse message.
    pub fn validate(&self) -> Result<()> {
        let label = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = &self.name;
        ensure!(
            !name.is_empty()
                && name.len() <= 40
                && name.chars().all(label)
                && !name.starts_with('-')
                && !name.ends_with('-'),
            "{name:?} is no cluster name: use at most 40 lower-case letters, digits and inner dashes"
        );
        Ok(())
    }
}

/// `key=value` from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label(pub String, pub String);

impl FromStr for Label {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self(key.into(), value.into())),
            _ => bail!("{text:?} is no label: write key=value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fleet_is_a_hub_and_members_that_differ() {
        let fleet = ClusterSpec::fleet(3);
        let names = fleet
            .iter()
            .map(|c| (c.name.as_str(), c.nodes.count))
            .collect::<Vec<_>>();
        assert_eq!(names, [("hub", 1), ("member-1", 2), ("member-2", 3), ("member-3", 4)]);
    }

    #[test]
    fn names_are_checked() {
        assert!(ClusterSpec::member("east-1", 1).validate().is_ok());
        for wrong in ["", "East", "-x", "x-", "a/b", "a b"] {
            assert!(ClusterSpec::member(wrong, 1).validate().is_err(), "{wrong}");
        }
        assert_eq!("a=b".parse::<Label>().unwrap(), Label("a".into(), "b".into()));
        assert!("a".parse::<Label>().is_err());
    }
}
