//! Whose Works they are.

use fleet_api::names::PlacementKey;
use fleet_api::placement::{BindingSpec, ReportBackStrategy};

/// Whose Works they are.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    /// The placement.
    pub placement: &'a PlacementKey,
    /// The binding's name; its namespace is the placement's.
    pub binding: &'a str,
    /// The binding's spec.
    pub spec: &'a BindingSpec,
    /// The index of the snapshot group that it names.
    pub index: &'a str,
    /// `reportBackStrategy` of the placement; not in bindings, so an edit reaches all Works at once.
    pub report_back: Option<&'a ReportBackStrategy>,
    /// Whether the placement asks to leave everything on the members when it is deleted; as the one above.
    pub abandon: bool,
}
