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
    owners::Owner,
    status::{ManifestReport, Round, status},
};
use fleet_runtime::queue::Next;
use tokio::time::Instant;

use super::{
    Applying, Failure,
    held::{Held, Kept},
    leftovers,
    measures::Stage,
    owners, report,
    round::Common,
    works::Seen,
};

impl Applying {
    /// Leftovers, status, report, and when to come back.
    pub(super) async fn conclude(&self, common: &Common<'_>, held: &mut Held) -> Result<Next, Failure> {
        let work = common.work;
        let left = self.leftovers(common, held).await;
        let left = (!left.is_empty()).then(|| left.join("; "));
        let reports: Vec<ManifestReport> = held.kept.iter().map(Kept::report).collect();
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
        self.say(work, held, &status, &reports, common.now);
        self.time(work, held, &status);
        self.write_result(work, held, common.owner, &reports).await?;
        Ok(self.next(work, held, &status, left.is_some()))
    }

    fn time(&self, work: &Seen, held: &mut Held, status: &WorkStatus) {
        let Some(since) = held.since else { return };
        for (stage, condition) in [
            (Stage::Applied, words::Applied::TYPE),
            (Stage::Available, words::Available::TYPE),
        ] {
            let reached = conditions::is_true(&status.conditions, condition, work.generation());
            if reached && !held.reached.contains(&stage) {
                held.reached.push(stage);
                self.measures.stage(stage, since);
            }
        }
    }

    async fn leftovers(&self, common: &Common<'_>, held: &mut Held) -> Vec<String> {
        if common.report_diff() {
            return Vec::new();
        }
        let manifests: Vec<Manifest> = held.kept.iter().map(Kept::outline_manifest).collect();
        let current: BTreeSet<String> = held
            .kept
            .iter()
            .filter_map(|kept| kept.owned.as_deref().map(str::to_owned))
            .collect();
        let failures = leftovers::remove(
            &self.objects,
            &self.kinds,
            common.owner,
            &mut held.inventory,
            &manifests,
            &current,
        )
        .await;
        let mut texts = Vec::new();
        for (object, error) in failures {
            texts.push(format!("{object} could not be removed: {error}"));
            self.announce(common.work, &WorkEvent::LeftoverNotRemoved { object, error });
        }
        texts
    }

    async fn write_result(
        &self,
        work: &Seen,
        held: &mut Held,
        owner: &Owner,
        reports: &[ManifestReport],
    ) -> Result<(), Failure> {
        let status = owners::status(&held.inventory, &applied_resources(reports));
        let digest = report::digest_of(&status.to_string());
        if held.written != digest {
            self.owners.write(work.name(), &owner.uid, &status).await?;
            held.written = digest;
        }
        Ok(())
    }

    fn next(&self, work: &Seen, held: &mut Held, status: &WorkStatus, left: bool) -> Next {
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
        let mut delay = held
            .quiet
            .next(&self.delays, work.generation(), results.collect(), good && !left);
        if good && !left && self.watches.sees_all_of(work.name()) {
            // Nothing changes unseen, so there is nothing to look for in a hurry.
            delay = jiff::SignedDuration::from_secs_f64(self.delays.fast_max_secs);
        }
        let now = self.clock.now();
        let held_until = held.kept.iter().filter_map(|kept| kept.until).min();
        let delay = held_until.map_or(delay, |until| delay.min(until.duration_since(now)));
        let due = Instant::now() + Duration::try_from(delay).unwrap_or_default();
        held.due = Some(due);
        Next::At(due)
    }
}
