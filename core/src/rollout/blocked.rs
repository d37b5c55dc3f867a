//! Why a binding is held back, in words.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Counts, Member, Readiness, State, World};
use crate::text;

/// Clusters named in a message; a rollout to a thousand clusters must not make a message of a thousand names.
const NAMED_MAX: usize = 3;

/// How long a text names clusters of before, for each binding that waits: with a hundred of them, each of which would be
/// told of each cluster that becomes available, there would be thousands of writes.
const RENEW_EACH: Duration = Duration::from_millis(500);
/// The same for a few.
const RENEW_MIN: Duration = Duration::from_secs(2);

/// How long after the last texts newer ones may be written to so many bindings that wait.
pub fn renew_after(waiting: usize) -> Duration {
    let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
    RENEW_EACH.saturating_mul(waiting).max(RENEW_MIN)
}

/// Why a binding does not move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocked {
    /// One available cluster less would be too few.
    MaxUnavailable(Waiting),
    /// One cluster more would be too many.
    MaxSurge(Waiting),
    /// An earlier binding on the same cluster is not gone yet.
    Predecessor {
        /// The cluster.
        cluster: String,
        /// The earlier binding, `namespace/name`.
        binding: String,
    },
    /// Two bindings claim the cluster; the text says which. Somebody has to delete one.
    Clash(String),
    /// The overrides for this cluster cannot be told.
    Overrides(String),
    /// Its cluster may not be changed now.
    Window(String),
}

impl Blocked {
    /// Whether the budget is what holds it back, so that more available clusters would help.
    pub fn is_budget(&self) -> bool {
        matches!(self, Self::MaxUnavailable(_) | Self::MaxSurge(_))
    }

    /// Whether its cluster's window is what holds it back.
    pub(super) fn is_window(&self) -> bool {
        matches!(self, Self::Window(_))
    }

    /// Whether both tell a user the same story, though perhaps with other names in it.
    ///
    /// A held binding is written when it becomes held or when the kind of reason changes; for other names in the same
    /// story there is time ([`renew_after`]).
    pub fn same_kind(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxUnavailable(waiting) => waiting.fmt_unavailable(f),
            Self::MaxSurge(waiting) => waiting.fmt_surge(f),
            Self::Predecessor { cluster, binding } => {
                write!(
                    f,
                    "waiting for the earlier binding {binding} on cluster {cluster} to be deleted"
                )
            }
            Self::Clash(text) | Self::Overrides(text) | Self::Window(text) => f.write_str(text),
        }
    }
}

/// What somebody who is held back by the budget waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    max_unavailable: String,
    max_surge: String,
    /// What the budget allows at all; with 0 no event will ever help.
    allowance: (u32, u32),
    /// Clusters whose availability is to be kept.
    of: u32,
    /// Bound clusters that are not available, with the reason.
    unavailable: Vec<String>,
}

impl Waiting {
    pub(super) fn new(world: &World<'_>, counts: &Counts, members: &[&Member]) -> Self {
        let holding = |m: &&&Member| m.state != State::Scheduled && !m.readiness.is_ready();
        Self {
            max_unavailable: world.budget.max_unavailable.to_string(),
            max_surge: world.budget.max_surge.to_string(),
            allowance: (
                world.budget.max_unavailable.of(counts.reachable),
                world.budget.max_surge.of(counts.reachable),
            ),
            of: counts.reachable,
            unavailable: members.iter().filter(holding).map(|m| Self::describe(m)).collect(),
        }
    }

    fn describe(member: &Member) -> String {
        let why = match &member.readiness {
            Readiness::InProgress { reason } | Readiness::Failed { reason } => reason.clone(),
            Readiness::Settling { until } => format!("not trackable, counts as available at {until}"),
            Readiness::Unheard | Readiness::Unsure => "nothing reported yet".into(),
            Readiness::Ready => "available".into(),
        };
        format!("{} ({why})", member.cluster)
    }

    fn fmt_unavailable(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.allowance.0 == 0 {
            return write!(
                f,
                "maxUnavailable is {}, so no available cluster may be updated or left",
                self.max_unavailable
            );
        }
        if self.unavailable.is_empty() {
            return write!(
                f,
                "maxUnavailable is {}, and fewer clusters than wanted are available",
                self.max_unavailable
            );
        }
        self.fmt_names(f)
    }

    fn fmt_surge(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unavailable.is_empty() || self.allowance.1 == 0 {
            return write!(f, "maxSurge is {}, so a cluster has to be left first", self.max_surge);
        }
        self.fmt_names(f)
    }

    fn fmt_names(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.unavailable.len();
        write!(f, "waiting for {count} of {} clusters to become available: ", self.of)?;
        f.write_str(&text::few(&self.unavailable, NAMED_MAX))
    }
}

/// Bindings that share their cluster with another one, by name, with what keeps them where they are.
pub(super) fn clashes<'a>(members: &[&'a Member]) -> BTreeMap<&'a str, Blocked> {
    let mut by_cluster: BTreeMap<&str, Vec<&Member>> = BTreeMap::new();
    for member in members {
        by_cluster.entry(member.cluster.as_str()).or_default().push(member);
    }
    let mut clashes = BTreeMap::new();
    for (cluster, sharing) in by_cluster.into_iter().filter(|(_, sharing)| sharing.len() > 1) {
        let (deleting, live): (Vec<&Member>, Vec<&Member>) = sharing.into_iter().partition(|m| m.deleting);
        for member in &live {
            let blocked = match (live.as_slice(), deleting.first()) {
                ([a, b, ..], _) => Blocked::Clash(format!(
                    "the same cluster `{cluster}` has bindings `{}` and `{}` pointing to it",
                    key(a),
                    key(b)
                )),
                (_, Some(gone)) if member.state == State::Bound => Blocked::Clash(format!(
                    "find a cluster `{cluster}` that has a bound binding `{}` and a deleting binding point to it; \
                     waiting for `{}` to be deleted",
                    key(member),
                    key(gone)
                )),
                (_, Some(gone)) if member.state == State::Unscheduled && member.holds_content => {
                    Blocked::Clash(format!(
                        "find a cluster `{cluster}` that has a unscheduled binding `{}` with previous state is `bound` and \
                     a deleting binding point to it; waiting for `{}` to be deleted",
                        key(member),
                        key(gone)
                    ))
                }
                (_, Some(gone)) => Blocked::Predecessor {
                    cluster: cluster.into(),
                    binding: key(gone),
                },
                (_, None) => continue,
            };
            clashes.insert(member.binding.as_str(), blocked);
        }
    }
    clashes
}

fn key(member: &Member) -> String {
    format!("{}/{}", member.namespace, member.binding)
}
