//! Where things are placed.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::TaintEffect;
use crate::lenient::{self, field_default};
use crate::schema::{self, rule};
use crate::words::{closed_enum, open_enum};

/// Which clusters the selected resources are placed on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementPolicy {
    /// How clusters are picked. Cannot be changed.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub placement_type: PlacementType,
    /// The clusters to place on. Only with PickFixed.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 100))]
    pub cluster_names: Vec<String>,
    /// How many clusters to place on. Required with PickN, and only allowed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub number_of_clusters: Option<i32>,
    /// Which clusters are fit and which are preferred. Not with PickFixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How the picked clusters spread over groups of clusters, such as regions. Only with PickN.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// The taints of clusters that this placement tolerates. They can be added but not changed or removed. Not with
    /// PickFixed.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 100), extend("x-kubernetes-validations" = [
        rule(
            "self.all(x, x.operator != 'Exists' || !has(x.value) || size(x.value) == 0)",
            "value must be empty when operator is Exists",
        ),
        rule(
            "self.all(x, (has(x.key) && size(x.key) > 0) || x.operator == 'Exists')",
            "operator must be Exists when key is empty",
        ),
    ]))]
    pub tolerations: Vec<Toleration>,
}

closed_enum! {
    /// How clusters are picked.
    PlacementType {
        /// Every cluster that is fit.
        PickAll = "PickAll",
        /// The best numberOfClusters of those that are fit.
        PickN = "PickN",
        /// The clusters in clusterNames.
        PickFixed = "PickFixed",
    }
}

/// Which clusters are fit and which are preferred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Affinity {
    /// Rules about the clusters themselves: their labels and their properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
}

/// Rules about clusters. They are looked at when clusters are picked; a cluster that was picked stays picked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAffinity {
    /// What a cluster must match to be fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required_during_scheduling_ignored_during_execution: Option<ClusterSelector>,
    /// What makes a fit cluster better than another: each term that it matches adds to its score.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred_during_scheduling_ignored_during_execution: Vec<PreferredClusterSelector>,
}

/// Selects clusters that match at least one term.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// The terms, of which one must match.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default, length(max = 10))]
    pub cluster_selector_terms: Vec<ClusterSelectorTerm>,
}

/// Matches clusters for which everything in the term holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelectorTerm {
    /// The labels of the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::LabelSelector>")]
    pub label_selector: Option<LabelSelector>,
    /// The properties that the clusters report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_selector: Option<PropertySelector>,
    /// Ranks the clusters by a property, so that the best of them gets the full weight. Only in preferred terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub property_sorter: Option<PropertySorter>,
}

/// Selects clusters by what they report about themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySelector {
    /// Requirements on properties, all of which must hold.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default)]
    pub match_expressions: Vec<PropertyRequirement>,
}

/// A requirement on one property.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertyRequirement {
    /// The name of the property, such as kubernetes-fleet.io/node-count or resources.kubernetes-fleet.io/available-cpu.
    pub name: String,
    /// How the property relates to the value.
    pub operator: PropertyOperator,
    /// The one value to compare with, a quantity such as 4 or 16Gi.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default, length(max = 1))]
    pub values: Vec<String>,
}

open_enum! { any
    /// How a property relates to a value.
    PropertyOperator {
        /// Greater.
        Gt = "Gt",
        /// Greater or equal.
        Ge = "Ge",
        /// Equal.
        Eq = "Eq",
        /// Not equal.
        Ne = "Ne",
        /// Less.
        Lt = "Lt",
        /// Less or equal.
        Le = "Le",
    }
}

/// Ranks clusters by a property.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertySorter {
    /// The name of the property.
    pub name: String,
    /// Which end of the ranking is preferred.
    pub sort_order: SortOrder,
}

closed_enum! {
    /// Which end of a ranking is preferred.
    SortOrder or Descending {
        /// Clusters with smaller values are preferred.
        Ascending = "Ascending",
        /// Clusters with greater values are preferred.
        Descending = "Descending",
    }
}

/// A preference for some clusters over others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreferredClusterSelector {
    /// How much a match adds to a cluster's score. Negative to avoid clusters.
    #[schemars(range(min = -100, max = 100))]
    pub weight: i32,
    /// Which clusters match.
    pub preference: ClusterSelectorTerm,
}

field_default! { max_skew: i32 = 1 }

/// How picked clusters spread over groups of clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// By how many picked clusters the fullest group may exceed the emptiest.
    #[serde(default = "max_skew::value", deserialize_with = "max_skew::deserialize")]
    #[schemars(range(min = 1))]
    pub max_skew: i32,
    /// The label whose values make the groups. Clusters without it are in no group: the constraint neither keeps them out nor favours them.
    pub topology_key: String,
    /// What happens when a pick would exceed maxSkew.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub when_unsatisfiable: UnsatisfiableAction,
}

closed_enum! {
    /// What happens when a pick would exceed maxSkew.
    UnsatisfiableAction {
        /// The cluster is not picked.
        DoNotSchedule = "DoNotSchedule",
        /// The cluster is only less preferred.
        ScheduleAnyway = "ScheduleAnyway",
    }
}

/// Lets a placement be placed on clusters with a matching taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The key of the taint. Empty, with operator Exists, for every key.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub key: String,
    /// How the taint's value relates to value.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub operator: TolerationOperator,
    /// The value of the taint. Empty with operator Exists.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub value: String,
    /// The effect of the taint. Absent for every effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,
}

closed_enum! {
    /// How a taint's value relates to a toleration's.
    TolerationOperator {
        /// They are the same.
        Equal = "Equal",
        /// Any value is tolerated.
        Exists = "Exists",
    }
}
