//! What became of each placement, and what holds up those that stay.

use std::fmt;

use serde::Serialize;

use crate::output::{Shown, Table};

/// A drain, as it is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DrainSummary {
    pub(crate) cluster: String,
    pub(crate) dry_run: bool,
    /// Whether the cluster is cordoned.
    pub(crate) cordoned: bool,
    /// Whether nothing is left to do.
    pub(crate) complete: bool,
    pub(crate) placements: Vec<Row>,
}

/// One placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) cluster: String,
    pub(crate) outcome: DrainOutcome,
    /// The eviction that asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) eviction: Option<String>,
    /// What its condition says.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) held_up_by: Vec<HeldUp>,
}

/// What became of a placement on the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum DrainOutcome {
    /// It was taken off; the cluster removes its resources.
    Evicted,
    /// It was taken off before; the cluster still removes its resources.
    Removing,
    /// It was taken off, and its resources are removed.
    Removed,
    /// It was not there any more.
    Gone,
    /// It may not be taken off now.
    Blocked,
    /// Its eviction waits for the budget.
    Waiting,
    /// The hub has not answered.
    Undecided,
    /// Admission refused the eviction.
    Refused,
    /// It cannot be taken off by an eviction.
    Stays,
    /// In a dry run: it would be taken off.
    WouldBeEvicted,
    /// In a dry run: it may not be taken off now.
    WouldBeBlocked,
}

impl DrainOutcome {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Removing => "removing",
            Self::Removed => "removed",
            Self::Gone => "gone",
            Self::Blocked => "blocked",
            Self::Waiting => "waiting",
            Self::Undecided => "undecided",
            Self::Refused => "refused",
            Self::Stays => "stays",
            Self::WouldBeEvicted => "would be evicted",
            Self::WouldBeBlocked => "would be blocked",
        }
    }

    /// Whether it is off the cluster, or going.
    pub(crate) const fn is_off(self) -> bool {
        matches!(self, Self::Evicted | Self::Removing | Self::Removed | Self::Gone)
    }

    /// Whether something has to happen yet before the cluster is empty.
    pub(crate) const fn is_left(self) -> bool {
        match self {
            Self::Evicted | Self::Removing | Self::Removed | Self::Gone | Self::WouldBeEvicted => false,
            Self::Blocked | Self::Waiting | Self::Undecided | Self::Refused | Self::Stays | Self::WouldBeBlocked => {
                true
            }
        }
    }
}

/// What a placement waits for, or why it stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "type")]
pub(crate) enum HeldUp {
    /// Its disruption budget.
    Budget {
        /// As the budget says it.
        limit: String,
        /// Why no number of available clusters is enough; empty if one is.
        #[serde(skip_serializing_if = "String::is_empty")]
        never: String,
        /// How many have to be available before one may go.
        #[serde(skip_serializing_if = "Option::is_none")]
        needed: Option<usize>,
        available: usize,
        total: usize,
        unavailable: Vec<Unavailable>,
    },
    /// Nothing is placed there yet.
    NotPlaced,
    /// The list of clusters in its policy.
    PickFixed,
    /// Evictions are for ClusterResourcePlacements.
    Namespaced,
    /// It tolerates the cordon, and was placed there again.
    PlacedAgain,
    /// It was placed there again, before the scheduler had seen the cordon.
    PlacedMeanwhile,
    /// An update run that has yet to do with the cluster.
    UpdateRun {
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<String>,
        name: String,
        stage: String,
        /// Whether it is to remove the placement, and not to update it.
        removes: bool,
    },
    /// The hub agent has not answered the eviction.
    NoAnswer,
    /// The cluster is not heard, so nobody removes the resources.
    Silent { since: String },
    /// The cluster is removing the resources.
    Cleanup,
    /// The budget would allow it by now.
    AllowedNow,
    /// What the hub says.
    Other { message: String },
}

/// A cluster that does not count as available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Unavailable {
    pub(crate) cluster: String,
    pub(crate) reason: String,
}

/// One line for people; the budget may need two.
impl fmt::Display for HeldUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget {
                limit,
                never,
                needed,
                available,
                unavailable,
                ..
            } => {
                write!(f, "budget {limit}: ")?;
                match needed {
                    _ if !never.is_empty() => f.write_str(never)?,
                    Some(needed) => write!(f, "needs {needed} available, has {available}")?,
                    None => f.write_str("allows no eviction")?,
                }
                let names: Vec<_> = unavailable
                    .iter()
                    .map(|it| format!("{} ({})", it.cluster, it.reason))
                    .collect();
                if names.is_empty() {
                    return Ok(());
                }
                write!(f, "\nnot available: {}", names.join(", "))
            }
            Self::NotPlaced => f.write_str("nothing is placed there yet"),
            Self::PickFixed => f.write_str("PickFixed: take the cluster out of its clusterNames"),
            Self::Namespaced => f.write_str("a ResourcePlacement cannot be evicted: change or delete it"),
            Self::PlacedAgain => f.write_str("it was placed there again: it tolerates the cordon"),
            Self::PlacedMeanwhile => f.write_str("it was placed there again meanwhile: run it again"),
            Self::UpdateRun {
                namespace,
                name,
                stage,
                removes,
            } => {
                let namespace = namespace.as_ref().map(|it| format!("{it}/")).unwrap_or_default();
                let what = if *removes {
                    "will remove it"
                } else {
                    "will place it there"
                };
                write!(f, "update run {namespace}{name} {what} (stage {stage})")
            }
            Self::NoAnswer => {
                f.write_str("the hub agent has not answered: does it run, and with --enable-eviction-apis?")
            }
            Self::Silent { since } => write!(f, "{since}: its resources are removed once it is heard again"),
            Self::Cleanup => f.write_str("the cluster is removing its resources"),
            Self::AllowedNow => f.write_str("it would be allowed now: run it again"),
            Self::Other { message } => f.write_str(message),
        }
    }
}

impl Shown for DrainSummary {
    fn table(&self) -> Table {
        let mut table = Table::new(&["PLACEMENT", "CLUSTER", "OUTCOME", "HELD UP BY"]);
        for row in &self.placements {
            let namespace = row.namespace.as_ref().map(|it| format!("{it}/")).unwrap_or_default();
            let held_up: Vec<_> = row.held_up_by.iter().map(HeldUp::to_string).collect();
            table.row([
                format!("{namespace}{}", row.name),
                row.cluster.clone(),
                row.outcome.word().to_owned(),
                held_up.join("\n"),
            ]);
        }
        table
    }

    fn names(&self) -> Vec<String> {
        let name = |row: &Row| {
            let namespace = row.namespace.as_ref().map(|it| format!(" -n {it}")).unwrap_or_default();
            format!("{}/{}{namespace}", row.kind.to_lowercase(), row.name)
        };
        self.placements.iter().map(name).collect()
    }
}
