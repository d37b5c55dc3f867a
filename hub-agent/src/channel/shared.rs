//! What sessions share.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::{
    Deps, allowance::Allowances, memory::Pools, metrics::Measures, openings::Openings, registry::Registry,
    reviews::Reviews,
};
use crate::certificates::Tls;

/// What all sessions of this replica share.
pub(crate) struct Shared {
    pub(crate) deps: Deps,
    pub(crate) measures: Measures,
    pub(super) registry: Registry,
    pub(super) allowances: Arc<Allowances>,
    pub(super) reviews: Reviews,
    pub(super) tls: watch::Receiver<Option<Tls>>,
    pub(super) places: Semaphore,
    /// Hellos whose Works are compared at once.
    pub(super) comparisons: Semaphore,
    pub(super) openings: Openings,
    /// What the Hellos of those who are no member's identity are paid from.
    pub(super) strangers: Arc<Pools>,
    pub(super) stop: CancellationToken,
}
