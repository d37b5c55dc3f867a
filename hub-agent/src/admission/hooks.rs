//! The webhooks: their names, where they are served, what they are asked about, and what happens when they are away.

use fleet_api::cluster::{self, MemberCluster};
use fleet_api::kind::Kind as _;
use fleet_api::placement::{
    ClusterResourceOverride, ClusterResourcePlacement, ClusterResourcePlacementDisruptionBudget,
    ClusterResourcePlacementEviction, GROUP, ResourceOverride, ResourcePlacement,
};

/// One webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    DefaultClusterPlacement,
    DefaultPlacement,
    ClusterPlacement,
    Placement,
    ClusterOverride,
    Override,
    Eviction,
    Budget,
    Member,
}

impl Hook {
    /// Those that fill in defaults.
    pub(super) const MUTATING: [Self; 2] = [Self::DefaultClusterPlacement, Self::DefaultPlacement];
    /// Those that only judge.
    pub(super) const VALIDATING: [Self; 7] = [
        Self::ClusterPlacement,
        Self::Placement,
        Self::ClusterOverride,
        Self::Override,
        Self::Eviction,
        Self::Budget,
        Self::Member,
    ];

    pub(super) fn all() -> impl Iterator<Item = Self> {
        Self::MUTATING.into_iter().chain(Self::VALIDATING)
    }

    /// The name that users see in front of a denial.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DefaultClusterPlacement => "fleet.clusterresourceplacementv1beta1.mutating",
            Self::DefaultPlacement => "fleet.resourceplacementv1beta1.mutating",
            Self::ClusterPlacement => "fleet.clusterresourceplacementv1beta1.validating",
            Self::Placement => "fleet.resourceplacementv1beta1.validating",
            Self::ClusterOverride => "fleet.clusterresourceoverride.validating",
            Self::Override => "fleet.resourceoverride.validating",
            Self::Eviction => "fleet.clusterresourceplacementeviction.validating",
            Self::Budget => "fleet.clusterresourceplacementdisruptionbudget.validating",
            Self::Member => "fleet.membercluster.validating",
        }
    }

    /// Where it is served.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::DefaultClusterPlacement => "/mutate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement",
            Self::DefaultPlacement => "/mutate-placement.kubernetes-fleet.io-v1beta1-resourceplacement",
            Self::ClusterPlacement => "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement",
            Self::Placement => "/validate-placement.kubernetes-fleet.io-v1beta1-resourceplacement",
            Self::ClusterOverride => "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceoverride",
            Self::Override => "/validate-placement.kubernetes-fleet.io-v1beta1-resourceoverride",
            Self::Eviction => "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacementeviction",
            Self::Budget => "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacementdisruptionbudget",
            Self::Member => "/validate-cluster.kubernetes-fleet.io-v1beta1-membercluster",
        }
    }

    /// The webhook that is served there.
    pub(super) fn at(path: &str) -> Option<Self> {
        Self::all().find(|hook| hook.path() == path)
    }

    /// Group, plural and scope of what it is asked about.
    pub(super) fn resource(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::DefaultClusterPlacement | Self::ClusterPlacement => {
                (GROUP, ClusterResourcePlacement::CRD.plural, "Cluster")
            }
            Self::DefaultPlacement | Self::Placement => (GROUP, ResourcePlacement::CRD.plural, "Namespaced"),
            Self::ClusterOverride => (GROUP, ClusterResourceOverride::CRD.plural, "Cluster"),
            Self::Override => (GROUP, ResourceOverride::CRD.plural, "Namespaced"),
            Self::Eviction => (GROUP, ClusterResourcePlacementEviction::CRD.plural, "Cluster"),
            Self::Budget => (GROUP, ClusterResourcePlacementDisruptionBudget::CRD.plural, "Cluster"),
            Self::Member => (cluster::GROUP, MemberCluster::CRD.plural, "Cluster"),
        }
    }

    /// What it is asked about is done to an object.
    pub(super) fn operations(self) -> &'static [&'static str] {
        match self {
            Self::Eviction => &["CREATE"],
            Self::Member => &["DELETE"],
            _ => &["CREATE", "UPDATE"],
        }
    }

    /// What happens while nobody answers. Where a controller judges again, or a default is all that is missing, the
    /// request passes.
    pub(super) fn failure_policy(self) -> &'static str {
        match self {
            Self::DefaultClusterPlacement | Self::DefaultPlacement | Self::Eviction | Self::Budget => "Ignore",
            Self::ClusterPlacement | Self::Placement | Self::ClusterOverride | Self::Override | Self::Member => "Fail",
        }
    }

    /// What else must hold for it to be asked, by name, in CEL.
    pub(super) fn condition(self) -> (&'static str, &'static str) {
        match self {
            // Who wants no check must not have to wait for one.
            Self::Member => (
                "deletion-is-checked",
                "!has(oldObject.metadata.deletionTimestamp) && !(has(oldObject.spec.deleteOptions) && \
                 has(oldObject.spec.deleteOptions.validationMode) && \
                 oldObject.spec.deleteOptions.validationMode == 'Skip')",
            ),
            // Finalizers, labels and all that belongs to a deletion never depend on the agent.
            _ => (
                "spec-changes",
                "request.operation == 'CREATE' || (!has(object.metadata.deletionTimestamp) && \
                 object.spec != oldObject.spec)",
            ),
        }
    }
}
