//! Clusters that have to wait until they may be started.

use std::collections::BTreeMap;

use fleet_api::conditions::update_run::Progressing;
use jiff::Timestamp;

/// Clusters whose turn has come and that may not be started yet.
#[derive(Debug, Default)]
pub(super) struct Closed {
    pub(super) clusters: Vec<String>,
    /// When the first of them may be; none if that cannot be told.
    pub(super) next: Option<Timestamp>,
    /// When clusters with this window of their own may be started, or why that cannot be read.
    pub(super) asked: BTreeMap<Option<String>, Result<Option<Timestamp>, String>>,
}

impl Closed {
    pub(super) fn is_empty(&self) -> bool {
        self.clusters.is_empty()
    }

    /// What a run says that waits for nothing else.
    pub(super) fn words(&self, stage: &str) -> Progressing {
        let show = |next: Timestamp| next.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        Progressing::WaitingForWindow {
            clusters: self.clusters.clone(),
            stage: stage.to_owned(),
            next: self.next.map(show),
        }
    }
}
