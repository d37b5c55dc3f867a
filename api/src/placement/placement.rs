//! The placements: what users write to have something run on members.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::{PlacementPolicy, PlacementType};
use super::selector::ResourceSelector;
use super::status::PlacementStatus;
use super::strategy::{RolloutStrategy, RolloutStrategyType};
use crate::kind::{Column, Crd, kind};
use crate::lenient::{self, field_default};
use crate::schema::rule;
use crate::words::closed_enum;

/// The columns of a placement, whose condition types begin with its kind.
macro_rules! placement_columns {
    ($kind:literal) => {
        &[
            Column::GENERATION,
            Column::string("Type", ".spec.policy.placementType").wide(),
            Column::string("Scheduled", placement_columns!($kind, "Scheduled", "status")),
            Column::string(
                "Scheduled-Gen",
                placement_columns!($kind, "Scheduled", "observedGeneration"),
            ),
            Column::string(
                "Work-Synchronized",
                placement_columns!($kind, "WorkSynchronized", "status"),
            )
            .wide(),
            Column::string(
                "Work-Synchronized-Gen",
                placement_columns!($kind, "WorkSynchronized", "observedGeneration"),
            )
            .wide(),
            Column::string("Available", placement_columns!($kind, "Available", "status")),
            Column::string(
                "Available-Gen",
                placement_columns!($kind, "Available", "observedGeneration"),
            ),
            Column::AGE,
        ]
    };
    ($kind:literal, $condition:literal, $field:literal) => {
        concat!(
            r#".status.conditions[?(@.type==""#,
            $kind,
            $condition,
            r#"")]."#,
            $field
        )
    };
}

kind! {
    /// Places cluster-scoped objects, and namespaces with what is in them, on member clusters.
    ClusterResourcePlacement in super::GROUP, Cluster { spec: PlacementSpec, status: PlacementStatus }
    Crd::new("clusterresourceplacements")
        .short_names(&["crp"])
        .columns(placement_columns!("ClusterResourcePlacement"))
        .spec_rules(&[
            (
                "!(self.statusReportingScope == 'NamespaceAccessible' && \
                 size(self.resourceSelectors.filter(x, x.kind == 'Namespace')) != 1)",
                "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required",
            ),
            (
                "!has(oldSelf.statusReportingScope) || self.statusReportingScope == oldSelf.statusReportingScope",
                "statusReportingScope is immutable",
            ),
        ])
        .with_v1();
}

kind! {
    /// Places objects of its own namespace on member clusters. The namespace must already be there.
    ResourcePlacement in super::GROUP, Namespaced { spec: PlacementSpec, status: PlacementStatus }
    Crd::new("resourceplacements")
        .short_names(&["rp"])
        .columns(placement_columns!("ResourcePlacement"))
        .with_v1();
}

kind! {
    /// A copy of a ClusterResourcePlacement's status in the namespace that it places, for users who may only read that
    /// namespace. It has the name of the placement, and exists while statusReportingScope is NamespaceAccessible.
    ClusterResourcePlacementStatus in super::GROUP, Namespaced {
        /// The status of the ClusterResourcePlacement.
        pub source_status: PlacementStatus,
        /// When the copy was last written.
        #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
        #[schemars(!default)]
        pub last_updated_time: Time,
    }
    Crd::new("clusterresourceplacementstatuses")
        .short_names(&["crps"])
        .columns(&[
            Column::string("Resource-Index", ".sourceStatus.observedResourceIndex"),
            Column::string("Last-Updated", ".lastUpdatedTime"),
            Column::AGE,
        ])
        .with_v1();
}

field_default! { revision_history_limit: i32 = 10 }

/// Selectors that take a namespace without all that is in it, in CEL.
macro_rules! with_resource_selectors {
    ($more:literal) => {
        concat!(
            "size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == \"\" && x.version == 'v1' && ",
            "has(x.selectionScope) && x.selectionScope == 'NamespaceWithResourceSelectors'",
            $more,
            "))"
        )
    };
}

/// What is placed, where, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule("!(has(oldSelf.policy) && !has(self.policy))", "policy cannot be removed once set"),
    rule(
        concat!(with_resource_selectors!(""), " <= 1"),
        "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
    ),
    rule(
        concat!(
            with_resource_selectors!(""), " == 0 || (",
            with_resource_selectors!(" && has(x.name) && size(x.name) > 0 && !has(x.labelSelector)"), " == 1)",
        ),
        "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)",
    ),
    rule(
        concat!(
            with_resource_selectors!(""), " == 0 || ",
            "size(self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == \"\" && x.version == 'v1')) == 1",
        ),
        "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed \
         (cannot mix with other namespace selectors)",
    ),
]))]
pub struct PlacementSpec {
    /// What is placed: everything that at least one of these selects.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default, length(min = 1, max = 100), extend("x-kubernetes-validations" = [rule(
        "self.all(x, !(has(x.name) && size(x.name) > 0 && has(x.labelSelector)))",
        "name and labelSelector are mutually exclusive in a resource selector",
    )]))]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Where it is placed. Absent for every cluster. Cannot be removed once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [
        rule("!(self.placementType != oldSelf.placementType)", "placement type is immutable"),
        rule(
            "self.placementType != 'PickFixed' || (!has(self.affinity) && !has(self.numberOfClusters) && \
             !has(self.topologySpreadConstraints) && !has(self.tolerations))",
            "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType is PickFixed",
        ),
        rule(
            "self.placementType != 'PickAll' || (!has(self.clusterNames) && !has(self.numberOfClusters) && \
             !has(self.topologySpreadConstraints))",
            "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll",
        ),
        rule(
            "self.placementType != 'PickN' || (!has(self.clusterNames) && has(self.numberOfClusters))",
            "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
        ),
    ]))]
    pub policy: Option<PlacementPolicy>,
    /// How it gets there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<RolloutStrategy>,
    /// How many old versions of the policy, and of the selected resources, are kept as snapshots.
    #[serde(
        default = "revision_history_limit::value",
        deserialize_with = "revision_history_limit::deserialize"
    )]
    #[schemars(range(min = 1, max = 1000))]
    pub revision_history_limit: i32,
    /// Who can read the placement's status. Cannot be changed.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub status_reporting_scope: StatusReportingScope,
}

impl Default for PlacementSpec {
    fn default() -> Self {
        Self {
            resource_selectors: Vec::new(),
            policy: None,
            strategy: None,
            revision_history_limit: revision_history_limit::value(),
            status_reporting_scope: StatusReportingScope::default(),
        }
    }
}

impl PlacementSpec {
    /// How clusters are picked; without a policy, all are.
    pub fn placement_type(&self) -> PlacementType {
        self.policy
            .as_ref()
            .map(|policy| policy.placement_type)
            .unwrap_or_default()
    }

    /// Who rolls changes out.
    pub fn rollout_type(&self) -> RolloutStrategyType {
        self.strategy
            .as_ref()
            .map(|strategy| strategy.type_)
            .unwrap_or_default()
    }
}

closed_enum! {
    /// Who can read a placement's status.
    StatusReportingScope {
        /// Those who may read the placement.
        ClusterScopeOnly = "ClusterScopeOnly",
        /// Also those who may read the one namespace that is placed: it gets a ClusterResourcePlacementStatus.
        NamespaceAccessible = "NamespaceAccessible",
    }
}
