//! Reporting back: the status that a placed object has on the only cluster of its placement becomes the status of the
//! object on the hub that it was placed from.
//!
//! ```text
//! placement ─► asks_for, permit ─► source (which binding) ─► reports (of its Works) ─► patch (of each object)
//! ```
//!
//! A member can lie about its own cluster only: what it says reaches an object only if the placement has that one cluster
//! and selects that very object, and nobody on the hub trusts the status of its kind ([`is_trusted`]).

use std::collections::BTreeSet;

use fleet_api::conditions::{is_true, work::Applied};
use fleet_api::labels;
use fleet_api::patch::merge_patch;
use fleet_api::placement::{
    BindingSpec, BindingState, PlacementPolicy, PlacementType, ReportBackDestination, ReportBackStrategyType,
    ResourceIdentifier, RolloutStrategy, Work,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::selection::ObjectId;

/// Whether the originals are to show the status of what was placed.
pub fn asks_for(strategy: Option<&RolloutStrategy>) -> bool {
    let strategy = strategy.and_then(|strategy| strategy.report_back_strategy.as_ref());
    strategy.is_some_and(|strategy| {
        strategy.type_ == ReportBackStrategyType::Mirror
            && strategy.destination == Some(ReportBackDestination::OriginalResource)
    })
}

/// Why a placement's policy does not allow it: an original has one status, so there may be one cluster only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPermitted {
    /// None, which means all clusters.
    #[error(
        "no scheduling policy specified (the PickAll type is in use); cannot back-report status to original resources"
    )]
    NoPolicy,
    /// All clusters.
    #[error("the scheduling policy in use is of the PickAll type; cannot back-report status to original resources")]
    PickAll,
    /// A list of so many clusters.
    #[error(
        "the scheduling policy in use is of the PickFixed type, but it has more than one target cluster ({0} clusters); \
         cannot back-report status to original resources"
    )]
    PickFixed(usize),
    /// A number that is not given.
    #[error(
        "the scheduling policy in use is of the PickN type, but no number of target clusters is specified; cannot \
         back-report status to original resources"
    )]
    NoNumber,
    /// Another number than 1.
    #[error(
        "the scheduling policy in use is of the PickN type, but the number of target clusters is not set to 1; cannot \
         back-report status to original resources"
    )]
    Number,
}

/// What a user can do about [`NotPermitted`].
pub const PERMITTED: &str = "use PickFixed with one cluster, PickN with numberOfClusters 1, or the destination WorkAPI";

/// Whether the policy names one cluster.
///
/// # Errors
/// Why not, in KubeFleet's words.
pub fn permit(policy: Option<&PlacementPolicy>) -> Result<(), NotPermitted> {
    let policy = policy.ok_or(NotPermitted::NoPolicy)?;
    match policy.placement_type {
        PlacementType::PickFixed => match policy.cluster_names.len() {
            1 => Ok(()),
            other => Err(NotPermitted::PickFixed(other)),
        },
        PlacementType::PickN => match policy.number_of_clusters {
            Some(1) => Ok(()),
            Some(_) => Err(NotPermitted::Number),
            None => Err(NotPermitted::NoNumber),
        },
        PlacementType::PickAll => Err(NotPermitted::PickAll),
    }
}

/// The binding whose cluster speaks for the placement: the only one that is bound and stays. None while the placement
/// moves from one cluster to another, or from several to one.
pub fn source<B>(bindings: impl IntoIterator<Item = B>, look: impl Fn(&B) -> (&ObjectMeta, &BindingSpec)) -> Option<B> {
    let stays = |binding: &B| {
        let (meta, spec) = look(binding);
        meta.deletion_timestamp.is_none() && spec.state == BindingState::Bound
    };
    let mut found = bindings.into_iter().filter(stays);
    found.next().filter(|_| found.next().is_none())
}

/// The status that an object has on the member.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectStatus {
    /// The object, here and there.
    pub object: ObjectId,
    /// Its status there.
    pub status: Value,
}

/// What a Work says about objects that the placement selects. Nothing while it is not applied as it is; nothing about
/// what comes out of an envelope, since the hub has no such object; nothing about kinds whose status is about the
/// cluster that serves them; of a namespaced placement nothing about objects elsewhere, whatever its status lists.
pub fn reports(work: &Work, selected: &[ResourceIdentifier], within: Option<&str>) -> Vec<ObjectStatus> {
    let Some(status) = &work.status else { return Vec::new() };
    let generation = work.metadata.generation.unwrap_or_default();
    let enveloped = work
        .metadata
        .labels
        .as_ref()
        .is_some_and(|l| l.contains_key(labels::ENVELOPE_TYPE));
    if enveloped || !is_true(&status.conditions, Applied::TYPE, generation) {
        return Vec::new();
    }
    let plain = selected.iter().filter(|resource| resource.envelope.is_none());
    let selected: BTreeSet<ObjectId> = plain.map(ObjectId::from).collect();
    let entries = status.manifest_conditions.iter().filter_map(|entry| {
        let object = ObjectId::from(&entry.identifier);
        let outside = within.is_some_and(|namespace| object.namespace != namespace);
        if outside || !selected.contains(&object) || is_about_its_cluster(&object) {
            return None;
        }
        let shown = entry.back_reported_status.as_ref()?.observed_status.as_ref()?;
        let status = shown.to_value().get("status").filter(|s| s.is_object())?.clone();
        Some(ObjectStatus { object, status })
    });
    entries.collect()
}

/// Kinds whose status says what the API server itself does with them: another cluster's would break this one.
fn is_about_its_cluster(object: &ObjectId) -> bool {
    matches!(
        (object.group.as_str(), object.kind.as_str()),
        ("", "Namespace")
            | ("apiextensions.k8s.io", "CustomResourceDefinition")
            | ("apiregistration.k8s.io", "APIService")
    )
}

/// Whether somebody on the hub acts on the status of this kind as if the hub's own controllers had written it: quotas,
/// traffic, volumes, certificates, nodes. A member, or whoever may write the object there, could then say what it likes.
pub fn is_trusted(object: &ObjectId) -> bool {
    is_about_its_cluster(object)
        || is_ours(&object.group)
        || match object.group.as_str() {
            "" => matches!(
                object.kind.as_str(),
                "Node" | "PersistentVolume" | "PersistentVolumeClaim" | "Pod" | "ResourceQuota" | "Service"
            ),
            "networking.k8s.io" | "extensions" => object.kind == "Ingress",
            "policy" => object.kind == "PodDisruptionBudget",
            "multicluster.x-k8s.io" => object.kind == "ClusterProfile",
            group => matches!(
                group,
                "gateway.networking.k8s.io"
                    | "certificates.k8s.io"
                    | "cert-manager.io"
                    | "resource.k8s.io"
                    | "snapshot.storage.k8s.io"
                    | "storage.k8s.io"
            ),
        }
}

/// Kinds of fleets: their status decides what is placed where.
fn is_ours(group: &str) -> bool {
    ["kubernetes-fleet.io", "fleet.azure.com"].iter().any(|domain| {
        group
            .strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// The merge patch that gives the hub's object this status; none if it has it. It holds only for the very object and
/// version that was read.
pub fn patch(hub: &Value, status: &Value) -> Option<Value> {
    let none = json!({});
    let change = merge_patch(hub.get("status").unwrap_or(&none), status)?;
    let meta = |field: &str| hub.pointer(&format!("/metadata/{field}"));
    Some(json!({
        "metadata": { "uid": meta("uid"), "resourceVersion": meta("resourceVersion") },
        "status": change,
    }))
}

/// Who besides `own` wrote the object's status last.
pub fn other_writer<'a>(hub: &'a Value, own: &str) -> Option<&'a str> {
    let text = |entry: &'a Value, field: &str| entry.get(field).and_then(Value::as_str);
    let entries = hub.pointer("/metadata/managedFields")?.as_array()?.iter();
    let others = entries.filter(|entry| text(entry, "subresource") == Some("status"));
    others
        .filter(|entry| text(entry, "manager").is_some_and(|manager| manager != own))
        .max_by_key(|entry| text(entry, "time"))
        .and_then(|entry| text(entry, "manager"))
}

/// Why an object on the hub does not show what the member says, as far as somebody can do something about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// There is nothing to write to.
    #[error(
        "its kind has no status subresource on the hub; add one to its CustomResourceDefinition, or use the destination \
         WorkAPI"
    )]
    NoSubresource,
    /// It would be believed.
    #[error("others on the hub trust the status of this kind, so it is never written; use the destination WorkAPI")]
    Trusted,
    /// The agent lacks the right. Given later it is used without anybody's doing.
    #[error(
        "the hub agent may not: {said}; install its chart with reportBack.originalResource=true, or grant \"patch\" on \
         {resource}/status"
    )]
    Forbidden {
        /// `deployments.apps`.
        resource: String,
        /// What the API server said.
        said: String,
    },
    /// The API server does not take the status, say because of another version of the schema.
    #[error("the API server refuses it: {said}")]
    Refused {
        /// What the API server said.
        said: String,
    },
}

impl Obstacle {
    /// What an answer of the API server means; none if the same request may succeed when it is repeated.
    pub fn of(code: u16, said: &str, resource: &str) -> Option<Self> {
        match code {
            403 => Some(Self::Forbidden {
                resource: resource.to_owned(),
                said: said.to_owned(),
            }),
            400 | 405 | 413 | 422 => Some(Self::Refused { said: said.to_owned() }),
            _ => None,
        }
    }

    /// Whether it may go away without anything that the agent sees.
    pub fn is_worth_a_retry(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }
}

#[cfg(test)]
mod tests;
