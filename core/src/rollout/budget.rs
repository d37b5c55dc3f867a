//! How many clusters may be unavailable, or extra, at one time.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// `maxUnavailable` or `maxSurge`: a number of clusters, or a share of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Amount {
    /// So many clusters.
    Clusters(u32),
    /// So many clusters of a hundred, rounded up.
    Percent(u32),
    /// Text that is neither, kept for the message. Counts as none: a guess could cost somebody a cluster.
    Invalid(String),
}

impl Amount {
    /// What the API's field says.
    pub fn parse(value: &IntOrString) -> Self {
        match value {
            IntOrString::Int(n) => u32::try_from(*n).map_or_else(|_| Self::Invalid(n.to_string()), Self::Clusters),
            // A bare number in quotes passes the schema but not the webhook; upstream counts it as 0, and so do we.
            IntOrString::String(text) => text
                .strip_suffix('%')
                .and_then(|percent| percent.parse().ok())
                .map_or_else(|| Self::Invalid(text.clone()), Self::Percent),
        }
    }

    /// The number of clusters out of `target`. Shares round up, so that a share of a small fleet is not nothing.
    pub fn of(&self, target: u32) -> u32 {
        match self {
            Self::Clusters(n) => *n,
            Self::Percent(percent) => {
                let scaled = (u64::from(target) * u64::from(*percent)).div_ceil(100);
                u32::try_from(scaled).unwrap_or(u32::MAX)
            }
            Self::Invalid(_) => 0,
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Clusters(n) => write!(f, "{n}"),
            Self::Percent(n) => write!(f, "{n}%"),
            Self::Invalid(text) => write!(f, "{text:?} (neither a number nor a percentage, counts as 0)"),
        }
    }
}

/// The budget of a rolling update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    /// How many of the target clusters may be unavailable at one time.
    pub max_unavailable: Amount,
    /// How many clusters beyond the target may hold the resources at one time.
    pub max_surge: Amount,
    /// How long a cluster whose availability nobody can tell counts as unavailable.
    pub unavailable_period: SignedDuration,
}

impl Default for Budget {
    /// The API's defaults.
    fn default() -> Self {
        Self {
            max_unavailable: Amount::Percent(25),
            max_surge: Amount::Percent(25),
            unavailable_period: SignedDuration::from_secs(60),
        }
    }
}

/// How many clusters the placement is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// However many the scheduler picks: PickAll, or no policy.
    AllPicked,
    /// So many: PickN's number, or the length of PickFixed's list.
    Clusters {
        /// What the policy asks for.
        wanted: u32,
        /// What the scheduler says it could find for the policy of today, once it has said so.
        ///
        /// Availability is measured against this number when it is the smaller one: clusters that do not exist cannot
        /// be kept available, and would otherwise block every update for ever. It must come from the scheduler and not
        /// from counting bindings: a binding that was evicted a moment ago is still owed a replacement.
        found: Option<u32>,
    },
}

impl Target {
    /// The number to add surge to; `picked` is the number of clusters with a Scheduled or Bound binding.
    pub(super) fn wanted(self, picked: u32) -> u32 {
        match self {
            Self::AllPicked => picked,
            Self::Clusters { wanted, .. } => wanted,
        }
    }

    /// The number of clusters whose availability is to be kept.
    pub(super) fn reachable(self, picked: u32) -> u32 {
        match self {
            Self::AllPicked => picked,
            Self::Clusters { wanted, found } => found.map_or(wanted, |found| found.min(wanted)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_round_up_and_numbers_stay() {
        let text = |text: &str| Amount::parse(&IntOrString::String(text.into()));
        for (amount, target, clusters) in [
            (text("30%"), 10, 3),
            (text("30%"), 1, 1),
            (text("30%"), 0, 0),
            (text("25%"), 10, 3),
            (text("100%"), 7, 7),
            (text("0%"), 7, 0),
            (Amount::parse(&IntOrString::Int(3)), 10, 3),
            (Amount::parse(&IntOrString::Int(0)), 10, 0),
            // Not a percentage: nothing, as upstream.
            (text("3"), 10, 0),
            (text("many"), 10, 0),
            (Amount::parse(&IntOrString::Int(-1)), 10, 0),
        ] {
            assert_eq!(amount.of(target), clusters, "{amount} of {target}");
        }
    }

    #[test]
    fn only_the_scheduler_can_lower_the_target() {
        let target = |found| Target::Clusters { wanted: 3, found };
        assert_eq!(target(None).reachable(1), 3);
        assert_eq!(target(Some(2)).reachable(1), 2);
        assert_eq!(target(Some(5)).reachable(1), 3);
        assert_eq!(target(Some(2)).wanted(1), 3);
        assert_eq!(Target::AllPicked.reachable(4), 4);
    }
}
