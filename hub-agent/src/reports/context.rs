//! What reports are written down with.

use std::sync::Arc;

use super::cluster::ClusterReports;
use crate::channel::{Live, Outgoing, Shared};

/// What every report of a session needs.
pub(super) struct ReportContext {
    pub(super) shared: Arc<Shared>,
    pub(super) live: Arc<Live>,
    pub(super) out: Outgoing,
    pub(super) cluster: Arc<ClusterReports>,
}
