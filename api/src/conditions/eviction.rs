//! Conditions of an eviction. `Valid` is true together with `Executed`, or alone while a binding is being deleted for it
//! or while it waits for its budget.

states! {
    /// Whether there is something to evict. False is final.
    pub enum Valid = "Valid" {
        Valid => True "ClusterResourcePlacementEvictionValid" "Eviction is valid";
        PlacementMissing => False "ClusterResourcePlacementEvictionInvalid"
            "Failed to find ClusterResourcePlacement targeted by eviction";
        PlacementDeleting => False "ClusterResourcePlacementEvictionInvalid"
            "Found deleting ClusterResourcePlacement targeted by eviction";
        PickFixed => False "ClusterResourcePlacementEvictionInvalid"
            "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction";
        SeveralBindings => False "ClusterResourcePlacementEvictionInvalid"
            "Found more than one scheduler decision for placement in cluster targeted by eviction";
        BindingMissing => False "ClusterResourcePlacementEvictionInvalid"
            "Failed to find scheduler decision for placement in cluster targeted by eviction";
    }
}

states! {
    /// Whether the placement was evicted. Any status is final.
    pub enum Executed = "Executed" {
        Deleting => True "ClusterResourcePlacementEvictionExecuted"
            "Eviction is allowed, resources propagated by placement is currently being removed from cluster targeted \
             by eviction";
        Failed => True "ClusterResourcePlacementEvictionExecuted" "Eviction is allowed, placement has failed";
        NoBudget => True "ClusterResourcePlacementEvictionExecuted"
            "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified";
        WithinBudget { available: usize, total: usize } => True "ClusterResourcePlacementEvictionExecuted"
            "Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: \
             {available}, totalPlacements: {total}";
        /// What was noted before the binding was deleted.
        Recorded { message: String } => True "ClusterResourcePlacementEvictionExecuted" "{message}";
        NotPlaced => False "ClusterResourcePlacementEvictionNotExecuted"
            "Eviction is blocked, placement has not propagated resources to target cluster yet";
        Misconfigured => False "ClusterResourcePlacementEvictionNotExecuted"
            "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is \
             specified or MinAvailable is specified as a percentage for PickAll ClusterResourcePlacement";
        OverBudget { available: usize, total: usize } => False "ClusterResourcePlacementEvictionNotExecuted"
            "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: \
             {available}, totalPlacements: {total}";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::{ConditionState, Status, Words, assert_rows};

    #[test]
    fn valid_words() {
        assert_rows(&[(
            &Valid::Valid,
            "Valid=True ClusterResourcePlacementEvictionValid: Eviction is valid",
        )]);
        let rows = [
            (
                Valid::PlacementMissing,
                "Failed to find ClusterResourcePlacement targeted by eviction",
            ),
            (
                Valid::PlacementDeleting,
                "Found deleting ClusterResourcePlacement targeted by eviction",
            ),
            (
                Valid::PickFixed,
                "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction",
            ),
            (
                Valid::SeveralBindings,
                "Found more than one scheduler decision for placement in cluster targeted by eviction",
            ),
            (
                Valid::BindingMissing,
                "Failed to find scheduler decision for placement in cluster targeted by eviction",
            ),
        ];
        for (state, message) in rows {
            assert_eq!(
                (
                    state.type_name(),
                    state.status(),
                    state.reason(),
                    state.message().as_str()
                ),
                (
                    "Valid",
                    Status::False,
                    "ClusterResourcePlacementEvictionInvalid",
                    message
                )
            );
        }
    }

    #[test]
    fn executed_words() {
        assert_rows(&[
            (
                &Executed::Deleting,
                "Executed=True ClusterResourcePlacementEvictionExecuted: Eviction is allowed, resources propagated by \
                 placement is currently being removed from cluster targeted by eviction",
            ),
            (
                &Executed::Failed,
                "Executed=True ClusterResourcePlacementEvictionExecuted: Eviction is allowed, placement has failed",
            ),
            (
                &Executed::NoBudget,
                "Executed=True ClusterResourcePlacementEvictionExecuted: Eviction is allowed, no \
                 ClusterResourcePlacementDisruptionBudget specified",
            ),
            (
                &Executed::WithinBudget { available: 2, total: 3 },
                "Executed=True ClusterResourcePlacementEvictionExecuted: Eviction is allowed by specified \
                 ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, totalPlacements: 3",
            ),
            (
                &Executed::Recorded {
                    message: Executed::Failed.message(),
                },
                "Executed=True ClusterResourcePlacementEvictionExecuted: Eviction is allowed, placement has failed",
            ),
            (
                &Executed::NotPlaced,
                "Executed=False ClusterResourcePlacementEvictionNotExecuted: Eviction is blocked, placement has not \
                 propagated resources to target cluster yet",
            ),
            (
                &Executed::Misconfigured,
                "Executed=False ClusterResourcePlacementEvictionNotExecuted: Eviction is blocked by misconfigured \
                 ClusterResourcePlacementDisruptionBudget, either MaxUnavailable is specified or MinAvailable is \
                 specified as a percentage for PickAll ClusterResourcePlacement",
            ),
            (
                &Executed::OverBudget { available: 2, total: 3 },
                "Executed=False ClusterResourcePlacementEvictionNotExecuted: Eviction is blocked by specified \
                 ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, totalPlacements: 3",
            ),
        ]);
    }
}
