//! Whether the hub went back in time; then nothing is touched until somebody has said to go on.

use fleet_api::{
    conditions::{self, work::Applied},
    events::InternalMemberClusterEvent as Told,
    placement::WorkStatus,
};
use fleet_core::session::recovery::Recovery;

use super::Admission;
use crate::applier::{memory::Timing, works::HubWork};

impl Admission {
    /// Reads what is written down on this cluster, however long it takes, and compares every Work with it.
    pub(in crate::applier) async fn load_records(&self) {
        self.records.replace(self.owners.attempts().await);
        for work in self.works.all() {
            self.records.is_older(&work);
        }
        self.judge();
    }

    /// The hub's versions went back.
    pub(in crate::applier) fn hub_went_back(&self) {
        self.records.hub_went_back();
        self.judge();
    }

    /// What the InternalMemberCluster says about it.
    pub(in crate::applier) fn heed(&self, imc_uid: &str, recovery: Recovery) {
        self.records.heed(imc_uid, recovery);
        self.judge();
    }

    /// Holds still, or goes on.
    pub(super) fn judge(&self) {
        let why = self.records.why_held();
        if !self.barrier.hold(why.is_some()) {
            return;
        }
        let imc_uid = self.records.imc_uid();
        self.measures.hold(why.is_some());
        if let Some(why) = why {
            tracing::error!(why, "The hub went back in time: nothing is applied or removed");
            self.reporter.record_on_cluster(&imc_uid, &Told::HubWentBack { why });
        } else {
            tracing::info!("The hub has recovered: Works are applied again");
            self.reporter.record_on_cluster(&imc_uid, &Told::HubRecovered);
            // Each is looked at as if for the first time, and what it does not name is kept.
            self.forget_rounds();
        }
        self.wake_all();
    }

    /// Says of a Work that is older than what was applied why nothing is done about it.
    pub(super) fn say_held(&self, work: &HubWork) {
        if !self.records.was_older(work.name()) {
            return;
        }
        let now = self.clock.now();
        let condition = conditions::to_condition(&Applied::HubWentBack, work.generation(), now);
        let status = WorkStatus {
            conditions: vec![condition],
            ..WorkStatus::default()
        };
        self.reporter.say(work, &mut Timing::default(), &status, now);
    }
}
