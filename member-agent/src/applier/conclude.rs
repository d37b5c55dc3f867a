//! The end of a round: leftovers, status, report, and when to do the next.

use std::{collections::BTreeSet, time::Duration};

use fleet_api::{
    conditions::{self, work as words},
    events::WorkEvent,
    placement::WorkStatus,
};
use fleet_core::apply::{
    identify::Manifest,
    inventory::applied_resources,
    requeue::Delays,
    status::{ManifestReport, Round, status},
};
use fleet_runtime::{clock::Clock, queue::Next};
use jiff::SignedDuration;
use tokio::time::Instant;

use super::{
    digest::hex_digest,
    handles::Handles,
    leftovers,
    measures::{Measures, Stage},
    memory::{Ledger, ManifestMemory, Timing, WorkMemory},
    owners,
    round::{Common, RoundFailure},
    works::HubWork,
};

/// Ends rounds.
pub(super) struct Conclusion {
    pub(super) handles: Handles,
    pub(super) delays: Delays,
    /// Whether a comparison in degraded mode counts as one.
    pub(super) degraded_counts: bool,
    pub(super) measures: Measures,
    pub(super) clock: Clock,
}

impl Conclusion {
    /// Leftovers, status, report, and when to come back.
    pub(super) async fn conclude(&self, common: &Common<'_>, memory: &mut WorkMemory) -> Result<Next, RoundFailure> {
        let work = common.work;
        if !self.handles.barrier.is_open() {
            return Err(RoundFailure::Interrupted);
        }
        let left = self.leftovers(common, memory).await;
        let left = (!left.is_empty()).then(|| left.join("; "));
        let reports: Vec<ManifestReport> = memory.manifests.iter().map(ManifestMemory::report).collect();
        let round = Round {
            generation: work.generation(),
            report_diff: common.report_diff(),
            mirror: common.mirror,
            degraded_counts: self.degraded_counts,
            leftovers: left.as_deref(),
            now: common.now,
        };
        // Times are the hub's to keep, so nothing of an older status is needed.
        let status = status(&WorkStatus::default(), &reports, &round);
        self.measures.round(&status);
        self.handles
            .reporter
            .say(work, &mut memory.timing, &status, self.clock.steady());
        self.time(work, &mut memory.timing, &status);
        self.write(common, &mut memory.ledger, &reports).await?;
        Ok(self.next(work, memory, &status, left.is_some()))
    }

    fn time(&self, work: &HubWork, timing: &mut Timing, status: &WorkStatus) {
        let Some(since) = timing.since else { return };
        for (stage, condition) in [
            (Stage::Applied, words::Applied::TYPE),
            (Stage::Available, words::Available::TYPE),
        ] {
            let reached = conditions::is_true(&status.conditions, condition, work.generation());
            if reached && !timing.reached.contains(&stage) {
                timing.reached.push(stage);
                self.measures.stage(stage, since);
            }
        }
    }

    /// Removes what the Work no longer names; in words, what could not be removed.
    async fn leftovers(&self, common: &Common<'_>, memory: &mut WorkMemory) -> Vec<String> {
        if common.report_diff() {
            return Vec::new();
        }
        let known = &memory.manifests;
        let manifests: Vec<Manifest> = known.iter().map(ManifestMemory::outline_manifest).collect();
        let current: BTreeSet<String> = known
            .iter()
            .filter_map(|manifest| manifest.owned.as_deref().map(str::to_owned))
            .collect();
        let inventory = &mut memory.ledger.inventory;
        let failures = leftovers::remove(&self.handles.api, &common.owner, inventory, &manifests, &current).await;
        let mut texts = Vec::new();
        for (object, error) in failures {
            texts.push(format!("{object} could not be removed: {error}"));
            let event = WorkEvent::LeftoverNotRemoved { object, error };
            self.handles.reporter.record(common.work, &event);
        }
        texts
    }

    /// Writes the result into the AppliedWork, if it says anything new.
    async fn write(
        &self,
        common: &Common<'_>,
        ledger: &mut Ledger,
        reports: &[ManifestReport],
    ) -> Result<(), RoundFailure> {
        let name = common.work.name();
        let status = owners::status(&ledger.inventory, &applied_resources(reports));
        let digest = hex_digest(&status.to_string());
        if ledger.written != digest {
            self.handles.owners.write(name, &common.owner.uid, &status).await?;
            ledger.written = digest;
        }
        self.handles.records.note(name, &ledger.inventory.attempt);
        Ok(())
    }

    fn next(&self, work: &HubWork, memory: &mut WorkMemory, status: &WorkStatus, left: bool) -> Next {
        let reason = |list: &[_], names: [&str; 2]| {
            let found = names.iter().find_map(|name| conditions::find(list, name));
            found.map(|condition| condition.reason.clone()).unwrap_or_default()
        };
        let results = status.manifest_conditions.iter().map(|entry| {
            let result = reason(&entry.conditions, ["Applied", "DiffReported"]);
            (result, reason(&entry.conditions, ["Available", "Available"]))
        });
        let is = |name| conditions::is_true(&status.conditions, name, work.generation());
        let good = is(words::Available::TYPE) || is(words::DiffReported::TYPE);
        let quiet = &mut memory.schedule.quiet;
        let mut delay = quiet.next(&self.delays, work.generation(), results.collect(), good && !left);
        if good && !left && self.handles.watches.sees_all_of(work.name()) {
            // Nothing changes unseen, so there is nothing to look for in a hurry.
            delay = SignedDuration::from_secs_f64(self.delays.fast_max_secs);
        }
        let now = self.clock.steady();
        let held_until = memory.manifests.iter().filter_map(|manifest| manifest.until).min();
        let delay = held_until.map_or(delay, |until| delay.min(until.duration_since(now)));
        let due = Instant::now() + Duration::try_from(delay).unwrap_or_default();
        memory.schedule.due = Some(due);
        Next::At(due)
    }
}
