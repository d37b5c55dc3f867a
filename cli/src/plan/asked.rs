//! What a plan is asked about.

use fleet_api::names::PlacementKey;

use super::manifests::Manifests;

/// The placement, and what of it is not as it is now.
pub(in crate::plan) struct Asked<'a> {
    pub(in crate::plan) key: &'a PlacementKey,
    /// The namespace of objects that do not name one.
    pub(in crate::plan) namespace: &'a str,
    pub(in crate::plan) manifests: &'a Manifests,
    pub(in crate::plan) strategy: Option<&'a str>,
    pub(in crate::plan) index: Option<u64>,
}
