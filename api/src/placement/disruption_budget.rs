//! Disruption budgets: how many clusters evictions must leave alone.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Crd, kind};
use crate::schema::rule;

kind! {
    /// Limits evictions from the ClusterResourcePlacement of the same name.
    ClusterResourcePlacementDisruptionBudget in super::GROUP, Cluster { spec: DisruptionBudgetSpec }
    Crd::new("clusterresourceplacementdisruptionbudgets").short_names(&["crpdb"]).with_v1();
}

/// CEL: a whole number or a percentage.
const AMOUNT: (&str, &str) = (
    "type(self) == string ? self.matches('^(100|[0-9]{1,2})%$') : self >= 0",
    "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater \
     than or equal to 0",
);

/// The limit: one of the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(
    "!(has(self.maxUnavailable) && has(self.minAvailable))",
    "Both MaxUnavailable and MinAvailable cannot be specified",
)]))]
pub struct DisruptionBudgetSpec {
    /// How many clusters, as a number or as a percentage of the wanted ones (rounded up), may be unavailable after an
    /// eviction. Not for PickAll placements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [rule(AMOUNT.0, AMOUNT.1)]))]
    pub max_unavailable: Option<IntOrString>,
    /// How many clusters, as a number or as a percentage of the wanted ones (rounded up), must be available after an
    /// eviction. For PickAll placements only a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [rule(AMOUNT.0, AMOUNT.1)]))]
    pub min_available: Option<IntOrString>,
}
