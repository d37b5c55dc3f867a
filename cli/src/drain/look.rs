//! What is to be known before anything is done, and all that a dry run does.

use anyhow::Result;
use fleet_api::{
    cluster::{MemberCluster, Taint},
    conditions::{self, Words as _, member_cluster::Healthy},
    placement::ClusterResourcePlacement,
};
use fleet_core::scheduler::plugins::taint_toleration::Tolerations;
use futures::{StreamExt as _, stream};

use super::{
    explain,
    report::{DrainOutcome, HeldUp},
    state::{Drain, Key, TOGETHER},
    survey::{self, Survey},
};
use crate::{
    evictions::{self, Eviction},
    problem::{Failure, Problem},
    terminal::now,
};

impl Drain<'_> {
    /// What is to be known of the cluster itself.
    pub(super) async fn meet(&mut self) -> Result<()> {
        let cluster = self.cluster;
        let Some(member) = self.hub.find::<MemberCluster>(cluster).await? else {
            return Err(Failure::no_member(cluster));
        };
        self.is_cordoned = member.spec.taints.contains(&Taint::cordon());
        if member.metadata.deletion_timestamp.is_some() {
            (self.say)(&format!("note: member cluster {cluster} is leaving the fleet"));
        }
        let conditions = member.status.map(|status| status.conditions).unwrap_or_default();
        let lost = Healthy::HeartbeatLost { last: now() };
        let health = conditions::find(&conditions, Healthy::TYPE).filter(|said| said.reason == lost.reason());
        if let Some(said) = health {
            (self.say)(&format!(
                "note: {}; what is evicted goes once it is heard again",
                said.message
            ));
            self.silent = Some(said.message.clone());
        }
        Ok(())
    }

    /// Looks at what is there, and notes what no eviction can take off.
    pub(super) async fn look(&mut self) -> Result<Survey> {
        let survey = survey::take(self.hub, self.cluster).await?;
        for odd in &survey.odd {
            (self.say)(&format!("note: {odd}"));
        }
        for (namespace, name) in &survey.namespaced {
            let key = Key {
                namespace: Some(namespace.clone()),
                name: name.clone(),
            };
            let row = self.row(key);
            row.kind = "ResourcePlacement";
            (row.outcome, row.held_up_by) = (DrainOutcome::Stays, vec![HeldUp::Namespaced]);
        }
        for binding in &survey.orphans {
            let message =
                format!("ClusterResourceBinding {binding} does not say whose it is: its label parent-CRP is missing");
            let row = self.row(Key::of(binding));
            row.kind = "ClusterResourceBinding";
            (row.outcome, row.held_up_by) = (DrainOutcome::Stays, vec![HeldUp::Other { message }]);
        }
        for name in &survey.removing {
            if !self.rows.contains_key(&Key::of(name)) {
                self.row(Key::of(name)).outcome = DrainOutcome::Removing;
            }
        }
        for name in &survey.placements {
            let was_off = self.rows.get(&Key::of(name)).is_some_and(|row| row.outcome.is_off());
            if let Some(why) = if was_off { self.came_back(name).await? } else { None } {
                let row = self.row(Key::of(name));
                (row.outcome, row.held_up_by) = (DrainOutcome::Stays, vec![why]);
            }
        }
        self.runs.clone_from(&survey.runs);
        Ok(survey)
    }

    /// Why a placement that was taken off is there once more; none if it is going altogether.
    async fn came_back(&self, placement: &str) -> Result<Option<HeldUp>, Problem> {
        let found = self.hub.find::<ClusterResourcePlacement>(placement).await?;
        let stays = found.filter(|it| it.metadata.deletion_timestamp.is_none());
        let why = |it: ClusterResourcePlacement| {
            if Tolerations::new(it.spec.policy.as_ref()).tolerate(&Taint::cordon()) {
                HeldUp::PlacedAgain
            } else {
                HeldUp::PlacedMeanwhile
            }
        };
        Ok(stays.map(why))
    }

    /// What would become of each placement, by the hub's own rules.
    pub(super) async fn foresee(&mut self) -> Result<()> {
        let survey = self.look().await?;
        let others = self
            .hub
            .list("", |it: &Eviction| evictions::end(it).is_none())
            .await?
            .items;
        let (hub, cluster, others) = (self.hub, self.cluster, others.as_slice());
        let decide = async |name: String| {
            let decision = explain::decision(hub, &name, cluster, others, now()).await;
            decision.map(|decision| (name, decision))
        };
        let mut decided = stream::iter(survey.placements).map(decide).buffer_unordered(TOGETHER);
        while let Some(decided) = decided.next().await {
            let (name, decision) = decided?;
            let row = self.row(Key::of(&name));
            row.outcome = explain::would_be(&decision);
            row.message = decision.message();
            row.held_up_by
                .extend(explain::held_up(&decision).filter(|_| row.outcome.is_left()));
        }
        Ok(())
    }
}
