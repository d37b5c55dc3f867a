//! Names derived from other names, with the limits that the API server puts on them.

mod cluster_name;
mod placement_key;

pub use cluster_name::{ClusterName, ClusterNameError};
pub use placement_key::{PlacementKey, PlacementKeyError, Scope};

use std::fmt::{Display, Write as _};

use sha2::{Digest, Sha256};

/// The longest DNS label, and so the longest namespace; label values have the same limit.
pub const LABEL_MAX: usize = 63;
/// The longest DNS subdomain, and so the longest name of most objects.
pub const SUBDOMAIN_MAX: usize = 253;

/// Where the hub agent, its Lease and the ClusterProfiles live.
pub const FLEET_SYSTEM_NAMESPACE: &str = "fleet-system";
/// What the hub namespace of every member begins with.
pub const MEMBER_NAMESPACE_PREFIX: &str = "fleet-member-";
/// What reserved namespaces begin with; nothing is placed from them.
pub const RESERVED_NAMESPACE_PREFIXES: [&str; 2] = ["fleet-", "kube-"];

/// The Lease of the hub agent on the hub, and of the hub half of the member agent on the member.
pub const HUB_LEASE: &str = "136224848560.hub.fleet.azure.com";
/// The Lease of the member half of the member agent, on the member.
pub const MEMBER_LEASE: &str = "136224848560.member.fleet.azure.com";

/// The last stage of every update run, which removes the placement from clusters that are no longer picked.
pub const DELETE_STAGE: &str = "kubernetes-fleet.io/deleteStage";

/// Field managers: who wrote a field, as the API server records it.
pub mod field_managers {
    /// Membership objects on the hub.
    pub const MEMBER_CLUSTER: &str = "member-cluster-controller";
    /// Placements, snapshots, bindings and Works on the hub.
    pub const HUB_AGENT: &str = "hub-agent";
    /// Overrides' finalizers.
    pub const OVERRIDE: &str = "override-controller";
    /// Update runs' finalizers, in both scopes.
    pub const UPDATE_RUN: &str = "cluster-staged-update-run-controller";
    /// What the API server calls fields from before the first server-side apply.
    pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";
}

/// The name is longer than the API server allows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name {name} has {} characters, but at most {max} are allowed: shorten the names that it is made of",
    .name.len(),
)]
pub struct NameTooLong {
    name: String,
    max: usize,
}

/// Whether nothing is placed from this namespace because it is Kubernetes' or the fleet's own.
pub fn is_reserved_namespace(namespace: &str) -> bool {
    RESERVED_NAMESPACE_PREFIXES
        .iter()
        .any(|prefix| namespace.starts_with(prefix))
}

/// Whether `name` is a DNS label (RFC 1123).
pub fn is_dns_label(name: &str) -> bool {
    let alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let bytes = name.as_bytes();
    bytes.len() <= LABEL_MAX
        && bytes.iter().all(|c| alphanumeric(*c) || *c == b'-')
        && bytes.first().is_some_and(|c| alphanumeric(*c))
        && bytes.last().is_some_and(|c| alphanumeric(*c))
}

/// Whether `name` is a DNS subdomain (RFC 1123). Unlike in DNS, its parts may be longer than a label.
pub fn is_dns_subdomain(name: &str) -> bool {
    let alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let part_is_valid = |part: &str| {
        let bytes = part.as_bytes();
        bytes.iter().all(|c| alphanumeric(*c) || *c == b'-')
            && bytes.first().is_some_and(|c| alphanumeric(*c))
            && bytes.last().is_some_and(|c| alphanumeric(*c))
    };
    name.len() <= SUBDOMAIN_MAX && name.split('.').all(part_is_valid)
}

/// Lower-case hex SHA-256, the form of every hash in the API.
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// The policy snapshot with this index.
pub fn policy_snapshot(placement: &PlacementKey, index: impl Display) -> String {
    format!("{}-{index}", placement.name())
}

/// The master of the resource snapshots with this index.
pub fn resource_snapshot(placement: &PlacementKey, index: impl Display) -> String {
    format!("{}-{index}-snapshot", placement.name())
}

/// A further resource snapshot with this index; subindex 0 is the second chunk.
pub fn resource_subsnapshot(placement: &PlacementKey, index: impl Display, subindex: usize) -> String {
    format!("{}-{index}-{subindex}", placement.name())
}

/// The snapshot of an override with this index.
pub fn override_snapshot(name: &str, index: impl Display) -> Result<String, NameTooLong> {
    if name.len() > LABEL_MAX {
        // The snapshot carries the override's name as a label value.
        return Err(NameTooLong {
            name: name.into(),
            max: LABEL_MAX,
        });
    }
    limited(format!("{name}-{index}"), SUBDOMAIN_MAX)
}

/// The binding of a placement to a cluster.
///
/// A retry after a lost answer gives the same name, so that it cannot make a second binding; a replacement for a
/// binding that is still being deleted gives another one.
pub fn binding(
    placement: &PlacementKey,
    placement_uid: &str,
    cluster: &ClusterName,
    deleting_uids: impl IntoIterator<Item = impl Into<String>>,
) -> String {
    let mut deleting: Vec<String> = deleting_uids.into_iter().map(Into::into).collect();
    deleting.sort_unstable();
    let mut hash = Sha256::new_with_prefix(placement_uid);
    for part in std::iter::once(cluster.as_str()).chain(deleting.iter().map(String::as_str)) {
        hash.update([b'/']); // Neither UIDs nor cluster names have one, so different lists never read the same.
        hash.update(part);
    }
    // 26 + 27 + 8 and two dashes are exactly a label.
    let placement = cut(placement.name(), 26).replace('.', "-");
    format!(
        "{placement}-{}-{}",
        cut(cluster.as_str(), 27),
        hex(&hash.finalize()[..4])
    )
}

/// The Work for a snapshot: the master's, or the one for the chunk with this subindex. The AppliedWork on the member
/// has the same name.
pub fn work(placement: &PlacementKey, subindex: Option<usize>) -> String {
    let base = match placement.namespace() {
        Some(namespace) => format!("{namespace}.{}", placement.name()),
        None => placement.name().to_owned(),
    };
    match subindex {
        Some(subindex) => format!("{base}-{subindex}"),
        None => format!("{base}-work"),
    }
}

/// The Work for an envelope that was found in a snapshot, whose own Work is `snapshot_work`. A cluster-scoped envelope
/// has an empty namespace.
pub fn envelope_work(snapshot_work: &str, envelope_type: &str, namespace: &str, name: &str) -> String {
    let hash = Sha256::digest(format!("{envelope_type}/{namespace}/{name}"));
    format!("{snapshot_work}-envelope-{}", hex(&hash[..8]))
}

/// The approval without which a stage may not start.
pub fn before_stage_approval(run: &str, stage: &str) -> String {
    // The schema limits both to 63 characters.
    format!("{run}-before-{stage}")
}

/// The approval without which a stage may not end.
pub fn after_stage_approval(run: &str, stage: &str) -> String {
    format!("{run}-after-{stage}")
}

/// The eviction that `drain` creates; `token` makes it unique.
pub fn drain_eviction(placement: &PlacementKey, cluster: &ClusterName, token: u32) -> String {
    format!("drain-eviction-{}-{cluster}-{token:08x}", placement.name())
}

/// A manifest's identity within a Work: no ordinal and no plural, so that reordering changes nothing. None if neither
/// group nor version is known.
pub fn manifest_identity(group: &str, version: &str, kind: &str, namespace: &str, name: &str) -> Option<String> {
    if group.is_empty() && version.is_empty() {
        return None;
    }
    Some(format!(
        "GV={group}/{version}, Kind={kind}, Namespace={namespace}, Name={name}"
    ))
}

fn limited(name: String, max: usize) -> Result<String, NameTooLong> {
    if name.len() > max {
        Err(NameTooLong { name, max })
    } else {
        Ok(name)
    }
}

/// The first `max` bytes of a name; names are ASCII.
fn cut(name: &str, max: usize) -> &str {
    &name[..name.floor_char_boundary(max)]
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a string succeeds");
            text
        })
}

#[cfg(test)]
mod tests;
