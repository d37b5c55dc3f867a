//! The reasons in the decisions of a policy snapshot and its bindings. Users read them in the placement's status.

use std::fmt;
use std::time::Duration;

/// The scores with which a cluster was compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scores {
    /// How much the placement likes the cluster.
    pub affinity: i32,
    /// How much the cluster improves the spread.
    pub spread: i32,
}

impl fmt::Display for Scores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "(affinity score: {}, topology spread score: {})",
            self.affinity, self.spread
        )
    }
}

/// Why a cluster is selected or not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum Decision {
    /// Selected. Named targets have no scores.
    Picked { cluster: String, scores: Option<Scores> },
    /// It fits, but others fit better.
    Outscored { cluster: String, scores: Scores },
    /// A filter rejected it.
    Filtered(Rejection),
    /// A named target that cannot take anything now.
    Ineligible { cluster: String, why: Ineligible },
    /// A named target that does not exist.
    NotFound { cluster: String },
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Picked { cluster, scores } => {
                write!(f, "Successfully scheduled resources for placement in \"{cluster}\"")?;
                if let Some(scores) = scores {
                    write!(f, " {scores}")?;
                }
                f.write_str(": picked by scheduling policy")
            }
            Self::Outscored { cluster, scores } => {
                write!(f, "Cluster \"{cluster}\" does not score high enough {scores}")
            }
            Self::Filtered(rejection) => write!(f, "ClusterUnschedulable, {rejection}"),
            Self::Ineligible { cluster, why } => {
                write!(
                    f,
                    "Cluster \"{cluster}\" is not eligible for resource placement yet: {why}"
                )
            }
            Self::NotFound { cluster } => write!(f, "Specified cluster \"{cluster}\" is not found"),
        }
    }
}

/// Why a filter rejected a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum Rejection {
    /// No required affinity term matches.
    #[error("cluster does not match with any of the required cluster affinity terms")]
    Affinity,
    /// It cannot take anything now.
    #[error(transparent)]
    Ineligible(#[from] Ineligible),
    /// It collects namespaces and has reported none.
    #[error("cluster has no namespace information available")]
    NoNamespaces,
    /// It lacks the placement's namespace.
    #[error("target namespace does not exist on cluster")]
    NamespaceMissing,
    /// A taint is not tolerated. The Go print of a pointer to the taint is upstream's.
    #[error("taint &{{Key:{key} Value:{value} Effect:{effect}}} cannot be tolerated")]
    Taint { key: String, value: String, effect: String },
    /// One more there would spread the placement too unevenly.
    #[error("violated doNotSchedule topology spread constraint {key:?} (max skew {max_skew})")]
    Spread { key: String, max_skew: i32 },
    /// One of its property values cannot be compared. Upstream aborts the whole placement instead, so the words are
    /// ours.
    #[error("cluster property {property} cannot be compared: {error}")]
    Property { property: String, error: String },
}

/// Why a cluster cannot take anything now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    /// Its MemberCluster is being deleted.
    #[error("cluster has left the fleet")]
    Left,
    /// The agent has never reported.
    #[error("cluster is not connected to the fleet: member agent not online yet")]
    NotOnline,
    /// The last heartbeat is too old; how old.
    #[error(
        "cluster is not connected to the fleet: no recent heartbeat signals (last received {} minutes ago)",
        minutes(*.0),
    )]
    HeartbeatLost(Duration),
    /// The agent has not joined.
    #[error("cluster is not connected to the fleet: member agent not joined yet")]
    NotJoined,
    /// The agent has not said how the cluster is.
    #[error("cluster is not connected to the fleet: health condition from member agent is not available")]
    NoHealth,
    /// It has been unhealthy for too long; for how long.
    #[error(
        "cluster is not connected to the fleet: unhealthy for a prolonged period of time (last transitioned {} \
         minutes ago)",
        minutes(*.0),
    )]
    Unhealthy(Duration),
}

fn minutes(age: Duration) -> String {
    format!("{:.2}", age.as_secs_f64() / 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let cluster = || "c1".to_owned();
        let scores = Scores {
            affinity: 20,
            spread: -1,
        };
        let rows = [
            (
                Decision::Picked {
                    cluster: cluster(),
                    scores: Some(scores),
                },
                "Successfully scheduled resources for placement in \"c1\" (affinity score: 20, topology spread score: \
                 -1): picked by scheduling policy",
            ),
            (
                Decision::Picked {
                    cluster: cluster(),
                    scores: None,
                },
                "Successfully scheduled resources for placement in \"c1\": picked by scheduling policy",
            ),
            (
                Decision::Outscored {
                    cluster: cluster(),
                    scores,
                },
                "Cluster \"c1\" does not score high enough (affinity score: 20, topology spread score: -1)",
            ),
            (
                Decision::Filtered(Rejection::Affinity),
                "ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms",
            ),
            (
                Decision::Filtered(Ineligible::NotOnline.into()),
                "ClusterUnschedulable, cluster is not connected to the fleet: member agent not online yet",
            ),
            (
                Decision::Filtered(Rejection::NoNamespaces),
                "ClusterUnschedulable, cluster has no namespace information available",
            ),
            (
                Decision::Filtered(Rejection::NamespaceMissing),
                "ClusterUnschedulable, target namespace does not exist on cluster",
            ),
            (
                Decision::Filtered(Rejection::Taint {
                    key: "k".into(),
                    value: String::new(),
                    effect: "NoSchedule".into(),
                }),
                "ClusterUnschedulable, taint &{Key:k Value: Effect:NoSchedule} cannot be tolerated",
            ),
            (
                Decision::Filtered(Rejection::Spread {
                    key: "region".into(),
                    max_skew: 1,
                }),
                "ClusterUnschedulable, violated doNotSchedule topology spread constraint \"region\" (max skew 1)",
            ),
            (
                Decision::Ineligible {
                    cluster: cluster(),
                    why: Ineligible::Left,
                },
                "Cluster \"c1\" is not eligible for resource placement yet: cluster has left the fleet",
            ),
            (
                Decision::NotFound { cluster: cluster() },
                "Specified cluster \"c1\" is not found",
            ),
        ];
        for (decision, text) in rows {
            assert_eq!(decision.to_string(), text);
        }
    }

    #[test]
    fn ages_are_minutes_with_two_decimals() {
        let rows = [
            (
                Ineligible::HeartbeatLost(Duration::from_secs(331)),
                "cluster is not connected to the fleet: no recent heartbeat signals (last received 5.52 minutes ago)",
            ),
            (
                Ineligible::Unhealthy(Duration::from_secs(605)),
                "cluster is not connected to the fleet: unhealthy for a prolonged period of time (last transitioned \
                 10.08 minutes ago)",
            ),
            (
                Ineligible::NotJoined,
                "cluster is not connected to the fleet: member agent not joined yet",
            ),
            (
                Ineligible::NoHealth,
                "cluster is not connected to the fleet: health condition from member agent is not available",
            ),
        ];
        for (why, text) in rows {
            assert_eq!(why.to_string(), text);
        }
    }
}
