//! What one decision is made from, and what it comes to.

use fleet_api::placement::ClusterDecision;
use jiff::Timestamp;

use super::classes::{Classes, Fleet};
use super::plan::{Create, Patch, Unschedule};
use super::world::{Binding, World};

/// What a policy makes of the world, before it is put into a plan.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) create: Vec<Create>,
    pub(super) patch: Vec<Patch>,
    pub(super) unschedule: Vec<Unschedule>,
    pub(super) decisions: Vec<ClusterDecision>,
    /// How many clusters the placement has now.
    pub(super) found: usize,
    /// Whether these are all that the policy wants.
    pub(super) fulfilled: bool,
    pub(super) look_again: Option<Timestamp>,
}

/// The world, put in order.
#[derive(Debug)]
pub(super) struct Cycle<'a> {
    pub(super) world: &'a World<'a>,
    pub(super) fleet: Fleet<'a>,
    pub(super) classes: Classes<'a>,
}

/// The binding's way out. What it was is decided here, once, so that a repeated write cannot note `Unscheduled`.
pub(super) fn unschedule(binding: &Binding<'_>) -> Unschedule {
    Unschedule {
        binding: binding.name.into(),
        cluster: binding.cluster.into(),
        previous: binding.state.clone(),
    }
}
