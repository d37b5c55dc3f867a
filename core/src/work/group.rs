//! The snapshots that share an index, in order.

use fleet_api::names::PlacementKey;
use fleet_api::raw::RawJson;
use fleet_api::{annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::WorkFailure;

/// One snapshot of a group.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// None for the master.
    pub subindex: Option<usize>,
    /// What it holds.
    pub resources: &'a [RawJson],
}

/// A complete group: the master, then the others by subindex.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// The index that they share.
    pub index: &'a str,
    /// The snapshots.
    pub snapshots: Vec<Snapshot<'a>>,
}

/// A snapshot as it is stored, of either scope.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// What it holds.
    pub resources: &'a [RawJson],
}

impl<'a> Group<'a> {
    /// The group of `master`, out of all snapshots of the placement with its index (the master may be among them).
    pub fn collect(
        placement: &PlacementKey,
        master: Stored<'a>,
        same_index: impl IntoIterator<Item = Stored<'a>>,
    ) -> Result<Self, WorkFailure> {
        let metadata = master.metadata;
        let name = metadata.name.clone().unwrap_or_default();
        let count = annotation(metadata, annotations::NUMBER_OF_RESOURCE_SNAPSHOTS).unwrap_or_default();
        let Some(total) = count.parse::<usize>().ok().filter(|total| *total > 0) else {
            return Err(WorkFailure::BadCount {
                snapshot: name,
                placement: placement.to_string(),
                count: count.into(),
            });
        };
        let Some(index) = label(metadata, labels::RESOURCE_INDEX) else {
            return Err(WorkFailure::BadTrackingLabel { snapshot: name });
        };
        let mut snapshots = vec![Snapshot {
            subindex: None,
            resources: master.resources,
        }];
        for snapshot in same_index
            .into_iter()
            .filter(|snapshot| snapshot.metadata.name != metadata.name)
        {
            if label(snapshot.metadata, labels::RESOURCE_INDEX) != Some(index) {
                continue;
            }
            let subindex = subindex(snapshot.metadata)?;
            snapshots.push(Snapshot {
                subindex: Some(subindex),
                resources: snapshot.resources,
            });
        }
        if snapshots.len() < total {
            let (existing, placement) = (snapshots.len(), placement.to_string());
            return Err(WorkFailure::GroupIncomplete {
                snapshot: name,
                total,
                existing,
                placement,
            });
        }
        snapshots.sort_by_key(|snapshot| snapshot.subindex);
        Ok(Self { index, snapshots })
    }

    /// All resources, in the order of the selection.
    pub fn resources(&self) -> impl Iterator<Item = &'a RawJson> {
        self.snapshots.iter().flat_map(|snapshot| snapshot.resources)
    }
}

fn subindex(metadata: &ObjectMeta) -> Result<usize, WorkFailure> {
    let text = annotation(metadata, annotations::SUBINDEX_OF_RESOURCE_SNAPSHOT).unwrap_or_default();
    text.parse().map_err(|_| WorkFailure::BadSubindex {
        snapshot: metadata.name.clone().unwrap_or_default(),
        subindex: text.into(),
    })
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}
