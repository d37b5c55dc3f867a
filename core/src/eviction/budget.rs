//! How many clusters a budget wants available before one may go.

use fleet_api::placement::DisruptionBudgetSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::rollout::Amount;

/// What a budget counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The limit as the budget says it, such as `minAvailable: 2`.
    pub limit: String,
    /// The placement's bindings in all.
    pub total: usize,
    /// Those that are available.
    pub available: usize,
    /// How many have to be available before one may go; none if no number is enough.
    pub needed: Option<usize>,
    /// Whether the limit cannot be used with the placement's policy.
    pub misconfigured: bool,
}

impl Count {
    /// Whether one may go.
    pub fn allows(&self) -> bool {
        !self.misconfigured && self.needed.is_some_and(|needed| self.available >= needed)
    }
}

/// What `limit` counts. `desired` is PickN's number of clusters; none is PickAll, which has none to take a share of.
pub(super) fn count(limit: &DisruptionBudgetSpec, desired: Option<u32>, total: usize, available: usize) -> Count {
    let scaled = |value: &IntOrString| match Amount::parse(value) {
        // A guess could cost somebody a cluster.
        Amount::Invalid(_) => None,
        amount => usize::try_from(amount.of(desired.unwrap_or_default())).ok(),
    };
    let is_share = |value: &IntOrString| matches!(value, IntOrString::String(_));
    let (limit, needed, misconfigured) = match (&limit.max_unavailable, &limit.min_available) {
        (Some(max), _) => {
            // Of so many at most `max` may be unavailable, the one that goes included; of 0, none.
            let needed = scaled(max).filter(|max| *max > 0);
            let needed = needed.map(|max| (total + 1).saturating_sub(max));
            (format!("maxUnavailable: {}", shown(max)), needed, desired.is_none())
        }
        (None, Some(min)) => {
            // Nothing is to be kept available: one may always go. A share of no clusters is not that.
            let is_nothing = Amount::parse(min).of(100) == 0;
            let needed = scaled(min).map(|min| if is_nothing { 0 } else { min.saturating_add(1) });
            let share_of_all = desired.is_none() && is_share(min);
            (format!("minAvailable: {}", shown(min)), needed, share_of_all)
        }
        (None, None) => ("an empty budget".to_owned(), None, false),
    };
    Count {
        limit,
        total,
        available,
        needed,
        misconfigured,
    }
}

fn shown(value: &IntOrString) -> String {
    match value {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `max 1`, `min 50%`, or nothing.
    fn limit(text: &str) -> DisruptionBudgetSpec {
        let Some((field, value)) = text.split_once(' ') else {
            return DisruptionBudgetSpec::default();
        };
        let field = match field {
            "max" => "maxUnavailable",
            _ => "minAvailable",
        };
        let value = value
            .parse::<i32>()
            .map_or_else(|_| json!(value), |number| json!(number));
        serde_json::from_value(json!({ field: value })).unwrap()
    }

    #[test]
    fn the_table_of_budgets() {
        for (desired, budget, total, available, allows) in [
            (Some(1), "max 0", 1, 1, false),
            (Some(2), "max 1", 1, 1, true),
            (Some(2), "max 1", 2, 1, false),
            (Some(2), "max 1", 3, 3, true),
            (Some(1), "max 10%", 1, 1, true),
            (Some(4), "max 40%", 4, 2, false),
            (Some(4), "max 40%", 4, 3, true),
            (Some(2), "max 100%", 2, 0, false),
            (Some(2), "max 5", 2, 0, true),
            (Some(1), "min 0", 1, 0, true),
            (Some(1), "min 0%", 1, 0, true),
            (Some(0), "min 100%", 1, 0, false),
            (Some(0), "min 100%", 1, 1, true),
            (Some(0), "min 0%", 1, 0, true),
            (Some(3), "min 100%", 3, 3, false),
            (Some(2), "min 100%", 3, 3, true),
            (Some(3), "min 34%", 3, 2, false),
            (Some(3), "min 33%", 3, 2, true),
            (None, "min 1", 1, 1, false),
            (None, "min 1", 2, 2, true),
            (None, "min 0", 1, 0, true),
            (Some(3), "", 3, 3, false),
            (None, "", 3, 3, false),
            // The schema refuses these; stored before it did, they allow nothing.
            (Some(3), "min many", 3, 3, false),
            (Some(3), "min -1", 3, 3, false),
            (Some(3), "max 5x", 3, 3, false),
        ] {
            let count = count(&limit(budget), desired, total, available);
            assert_eq!(
                count.allows(),
                allows,
                "{desired:?} {budget} {total}/{available}: {count:?}"
            );
            assert!(!count.misconfigured, "{desired:?} {budget}");
        }
    }

    #[test]
    fn a_share_of_all_clusters_is_none() {
        for budget in ["max 1", "max 50%", "max 0", "min 50%", "min 0%"] {
            let count = count(&limit(budget), None, 2, 2);
            assert!(count.misconfigured && !count.allows(), "{budget}");
        }
    }

    #[test]
    fn it_says_how_many_are_needed() {
        let needed = |budget, total, available| count(&limit(budget), Some(4), total, available).needed;
        assert_eq!(needed("min 2", 4, 2), Some(3));
        assert_eq!(needed("min 50%", 4, 2), Some(3));
        assert_eq!(needed("max 1", 4, 3), Some(4));
        assert_eq!(needed("max 0", 4, 4), None);
        assert_eq!(needed("", 4, 4), None);
        assert_eq!(count(&limit("min 50%"), Some(4), 4, 2).limit, "minAvailable: 50%");
    }
}
