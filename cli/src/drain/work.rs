//! A drain from its beginning to its end.

use std::{collections::BTreeMap, ops::ControlFlow};

use anyhow::{Context as _, Result};
use fleet_api::{labels::PARENT_PLACEMENT, placement::ClusterResourceBinding};

use super::{
    report::{DrainOutcome, HeldUp},
    state::{Drain, Key},
};
use crate::{cordon, hub::News};

/// The scheduler may have decided for the cluster before it saw the cordon, so one looks again; but not for ever.
const ROUNDS_MAX: usize = 4;

impl Drain<'_> {
    pub(super) async fn work(&mut self) -> Result<()> {
        self.meet().await?;
        if self.options.dry_run {
            return self.foresee().await;
        }
        let cluster = self.cluster;
        let cordoned = cordon::add(self.hub, cluster).await.map_err(anyhow::Error::from);
        let is_new = cordoned.with_context(|| format!("failed to cordon member cluster {cluster}"))?;
        let already = if is_new { "" } else { " already" };
        (self.say)(&format!("member cluster {cluster} is cordoned{already}"));
        self.is_cordoned = true;
        for _ in 0..ROUNDS_MAX {
            let survey = self.look().await?;
            let placements: Vec<String> = survey.placements.into_iter().filter(|it| self.is_to_go(it)).collect();
            if placements.is_empty() {
                break;
            }
            for name in &placements {
                self.rows.remove(&Key::of(name));
            }
            self.evict(placements).await?;
        }
        if self.options.wait {
            self.until_removed().await?;
            self.look().await?;
        }
        Ok(())
    }

    /// Whether an eviction is due: of what was not looked at yet, or came back before the scheduler saw the cordon.
    fn is_to_go(&self, placement: &str) -> bool {
        let row = self.rows.get(&Key::of(placement));
        row.is_none_or(|row| row.held_up_by == [HeldUp::PlacedMeanwhile])
    }

    /// Waits until the cluster has removed what was taken off.
    async fn until_removed(&mut self) -> Result<()> {
        let (hub, cluster) = (self.hub, self.cluster);
        let is_there = |it: &ClusterResourceBinding| it.spec.target_cluster == cluster;
        let listed = hub.list("", is_there).await?;
        let mut version = listed.version.clone();
        let mut left = Going::of(&listed.items);
        self.settle(&left);
        if self.removing().is_empty() {
            return Ok(());
        }
        (self.say)(&format!(
            "waiting until {cluster} has removed {}",
            self.removing().join(", ")
        ));
        let mut heard = |news| {
            left.heard(news);
            self.settle(&left);
            if self.removing().is_empty() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        hub.follow(&mut version, is_there, &mut heard).await?;
        Ok(())
    }

    fn settle(&mut self, left: &Going) {
        for row in self.rows.values_mut() {
            let was_taken_off = matches!(row.outcome, DrainOutcome::Evicted | DrainOutcome::Removing);
            if was_taken_off && row.namespace.is_none() && !left.has(&row.name) {
                row.outcome = DrainOutcome::Removed;
            }
        }
    }

    fn removing(&self) -> Vec<&str> {
        let rows = self.rows.values();
        let removing = rows.filter(|row| matches!(row.outcome, DrainOutcome::Evicted | DrainOutcome::Removing));
        removing.map(|row| row.name.as_str()).collect()
    }
}

/// Bindings that are being removed, and whose they are.
#[derive(Debug, Default)]
struct Going(BTreeMap<String, String>);

impl Going {
    fn of(bindings: &[ClusterResourceBinding]) -> Self {
        let going = bindings.iter().filter(|it| it.metadata.deletion_timestamp.is_some());
        let named = |it: &ClusterResourceBinding| {
            let placement = it.metadata.labels.as_ref()?.get(PARENT_PLACEMENT)?;
            Some((it.metadata.name.clone()?, placement.clone()))
        };
        Self(going.filter_map(named).collect())
    }

    fn has(&self, placement: &str) -> bool {
        self.0.values().any(|it| it == placement)
    }

    fn heard(&mut self, news: News<ClusterResourceBinding>) {
        match news {
            News::Is(_) => {}
            News::Gone(binding) => _ = self.0.remove(binding.metadata.name.as_deref().unwrap_or_default()),
            News::All(all) => *self = Self::of(&all),
        }
    }
}
