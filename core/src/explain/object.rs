//! Where an object on a member comes from: which placement, snapshot, overrides and run put it there, and how it fares.

use fleet_api::conditions::{self, Status};
use fleet_api::names::MEMBER_NAMESPACE_PREFIX;
use fleet_api::placement::{BindingStatus, ManifestCondition, ResourceIdentifier, Work, WorkResourceIdentifier};
use fleet_api::{annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use super::chain::{Cause, Chain, Step};
use super::fleet::{Binding, Fleet, get};
use super::names::{Names, object as as_typed};
use super::{manifest, member, reasons};
use crate::selection::ObjectId;

/// Where an object on one member comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    /// The member.
    pub cluster: String,
    /// The Work that carries it.
    pub work: String,
    /// The placement, as kubectl takes it.
    pub placement: String,
    /// The binding; empty if it is gone, and the Work is an orphan.
    pub binding: String,
    /// The resource snapshot that it was taken from.
    pub snapshot: String,
    /// When that was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_at: Option<Time>,
    /// The snapshots of overrides that apply on the member.
    pub overrides: Vec<String>,
    /// The update run that brought it; empty if none did.
    pub run: String,
    /// The envelope that it was wrapped in; empty if it was not.
    pub envelope: String,
    /// How it fares.
    pub chain: Chain,
}

/// Where an object comes from, on each member that has it. Nothing if no Work carries it.
pub fn object(fleet: &Fleet<'_>, id: &ResourceIdentifier) -> Vec<Lineage> {
    let works = fleet.works.iter().filter_map(|work| {
        let found = reported(work, id);
        (found.is_some() || carries(work, id)).then_some((*work, found))
    });
    works
        .filter_map(|(work, found)| lineage(fleet, id, work, found))
        .collect()
}

/// What the member has said about the object.
fn reported<'a>(work: &'a Work, id: &ResourceIdentifier) -> Option<&'a ManifestCondition> {
    let mut reported = work.status.iter().flat_map(|status| &status.manifest_conditions);
    reported.find(|manifest| is_same(&manifest.identifier, id))
}

/// Whether a Work carries an object of which nothing is said yet.
fn carries(work: &Work, id: &ResourceIdentifier) -> bool {
    let manifests = work.spec.workload.manifests.iter();
    let mut ids = manifests.filter_map(|manifest| ObjectId::of(manifest).ok());
    ids.any(|known| {
        (&known.group, &known.kind, &known.namespace, &known.name) == (&id.group, &id.kind, &id.namespace, &id.name)
    })
}

/// Versions do not matter: one object has many.
fn is_same(known: &WorkResourceIdentifier, id: &ResourceIdentifier) -> bool {
    (&known.group, &known.kind, &known.namespace, &known.name) == (&id.group, &id.kind, &id.namespace, &id.name)
}

fn lineage(
    fleet: &Fleet<'_>,
    id: &ResourceIdentifier,
    work: &Work,
    found: Option<&ManifestCondition>,
) -> Option<Lineage> {
    let labelled = work.metadata.labels.as_ref();
    let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
    let cluster = namespace.strip_prefix(MEMBER_NAMESPACE_PREFIX)?;
    let names = Names {
        namespace: get(labelled, labels::PARENT_PLACEMENT_NAMESPACE),
        placement: get(labelled, labels::PARENT_PLACEMENT),
        cluster,
        object: as_typed(id),
        group: id.group.clone(),
        ..Names::default()
    };
    let of_family = names.namespace == fleet.namespace;
    let binding = get(labelled, labels::PARENT_BINDING);
    let binding = fleet.bindings.iter().find(|known| of_family && known.name() == binding);
    let snapshot = get(
        work.metadata.annotations.as_ref(),
        annotations::PARENT_RESOURCE_SNAPSHOT_NAME,
    );
    let taken = fleet
        .snapshots
        .iter()
        .find(|meta| meta.name.as_deref() == Some(snapshot));
    Some(Lineage {
        cluster: cluster.into(),
        work: work.metadata.name.clone().unwrap_or_default(),
        placement: names.fill("{placement}{n}"),
        binding: binding.map(|binding| binding.name().to_owned()).unwrap_or_default(),
        snapshot: snapshot.into(),
        taken_at: taken.and_then(|meta| meta.creation_timestamp.clone()),
        overrides: binding.map(overrides).unwrap_or_default(),
        run: binding.map(|binding| binding.run().to_owned()).unwrap_or_default(),
        envelope: get(labelled, labels::ENVELOPE_NAME).into(),
        chain: chain(fleet, id, binding, found, &names, of_family),
    })
}

fn overrides(binding: &Binding<'_>) -> Vec<String> {
    let namespaced = binding.spec.resource_override_snapshots.iter();
    let namespaced = namespaced.map(|snapshot| format!("{}/{}", snapshot.namespace, snapshot.name));
    let wide = binding.spec.cluster_resource_override_snapshots.iter().cloned();
    wide.chain(namespaced).collect()
}

/// How the object fares on its member.
fn chain(
    fleet: &Fleet<'_>,
    id: &ResourceIdentifier,
    binding: Option<&Binding<'_>>,
    found: Option<&ManifestCondition>,
    names: &Names<'_>,
    of_family: bool,
) -> Chain {
    let mut chain = Chain::new(names.fill("{object} on {cluster}"));
    let is_gone = fleet.gone.contains(&(names.namespace, names.placement));
    let text = match binding {
        None if is_gone => {
            Some("the Work is an orphan: {placement}{n} is gone, and nobody keeps or removes the object")
        }
        None if of_family && !fleet.bindings.is_empty() => {
            Some("the Work is an orphan: its binding to {placement}{n} is gone, and nobody keeps or removes the object")
        }
        _ => None,
    };
    chain.push(match text {
        Some(text) => Step::failed("Placed", Cause::new(names.fill(text), names.fill(super::orphans::LOOK))),
        None => Step::done("Placed", names.fill("by {placement}{n}")),
    });
    let none = BindingStatus::default();
    let status = binding.and_then(|binding| binding.status).unwrap_or(&none);
    let list = found.map(|found| found.conditions.as_slice()).unwrap_or_default();
    let compared = conditions::find(list, "DiffReported").is_some();
    let types: &[&str] = if compared {
        &["DiffReported"]
    } else {
        &["Applied", "Available"]
    };
    for type_name in types {
        let condition = conditions::find(list, type_name);
        let unmet = condition.filter(|condition| Status::of(condition) != Status::True);
        let trouble = member::trouble(fleet, names.cluster);
        chain.push(match (unmet, condition, trouble) {
            (Some(condition), ..) => {
                let verdict = reasons::step(type_name, condition, names).verdict;
                Step::unmet(
                    *type_name,
                    verdict,
                    manifest::cause(fleet, status, id, condition, names),
                )
                .since(Some(&condition.last_transition_time))
            }
            (None, Some(condition), _) => reasons::step(type_name, condition, names),
            (None, None, Some(Step { cause: Some(cause), .. })) => {
                let text = format!("{}: {}", names.cluster, cause.text);
                Step::waiting(*type_name, Cause::new(text, cause.next))
            }
            (None, None, _) => Step::waiting(
                *type_name,
                Cause::new(
                    names.fill("{cluster} has not reported about it yet"),
                    names.fill("kubectl fleet why {placement} {cluster}{n}"),
                ),
            ),
        });
    }
    chain
}
