//! Evictions of a drain: made, or found from an earlier one, and followed to their end.

use std::{ops::ControlFlow, time::Duration};

use anyhow::Result;
use fleet_api::{
    conditions::{Words as _, eviction::Valid},
    placement::{ClusterResourcePlacement, PlacementType},
};
use futures::{StreamExt as _, future, stream};
use parking_lot::Mutex;

use super::{
    explain,
    report::{DrainOutcome, HeldUp},
    state::{Drain, Key, TOGETHER},
};
use crate::{
    evictions::{self, End, Eviction},
    hub::{Hub, News},
    old,
    problem::Problem,
    terminal::now,
};

/// How often it is asked whether what holds evictions up is still the same: bindings and budgets may change at any time.
const ASKED_EVERY: Duration = Duration::from_secs(10);

impl Drain<'_> {
    /// Asks the hub to take these off, and waits for its answers.
    pub(super) async fn evict(&mut self, placements: Vec<String>) -> Result<()> {
        let (hub, cluster) = (self.hub, self.cluster);
        let is_here = |it: &Eviction| it.spec.cluster_name == cluster;
        let listed = hub.list("", is_here).await?;
        let mut version = listed.version;
        let (mut to_make, mut waiting) = (Vec::new(), Vec::new());
        for placement in self.without_fixed(placements).await? {
            let found = listed
                .items
                .iter()
                .find(|it| it.spec.placement_name == placement && self.serves(it));
            match found {
                // Another drain is at it, or one before was interrupted. It may have been waiting for long.
                Some(eviction) => {
                    self.is_open(&placement, eviction.metadata.name.clone().unwrap_or_default());
                    waiting.extend(self.is(eviction));
                }
                None => to_make.push(placement),
            }
        }
        self.create(to_make).await?;
        loop {
            if !waiting.is_empty() {
                self.tell(reasons(hub, cluster, waiting).await);
            }
            if self.open.is_empty() {
                return Ok(());
            }
            waiting = self.until_some_wait(&mut version).await?;
        }
    }

    /// Follows evictions until all have ended or some have begun to wait, which are returned. Of those that wait already it
    /// tells what for whenever that is something else.
    async fn until_some_wait(&mut self, version: &mut String) -> Result<Vec<String>, Problem> {
        let (hub, cluster) = (self.hub, self.cluster);
        let is_here = |it: &Eviction| it.spec.cluster_name == cluster;
        let mut waiting = Vec::new();
        let own = Mutex::new(self);
        let heard = |news| {
            let mut own = own.lock();
            waiting = own.heard(news);
            if waiting.is_empty() && !own.open.is_empty() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let telling = async {
            loop {
                tokio::time::sleep(ASKED_EVERY).await;
                let waiting = own.lock().waiting();
                let reasons = reasons(hub, cluster, waiting).await;
                own.lock().tell(reasons);
            }
        };
        tokio::select! {
            followed = hub.follow(version, is_here, heard) => followed?,
            () = telling => {}
        }
        Ok(waiting)
    }

    /// Reads once more what has not ended: something may have become of it in the moment in which the drain was cut off.
    pub(super) async fn look_again(&mut self) -> Result<(), Problem> {
        let names: Vec<_> = self.open.keys().cloned().collect();
        for name in names {
            match self.hub.find::<Eviction>(&name).await? {
                Some(eviction) => _ = self.is(&eviction),
                None => self.was_deleted(&name),
            }
        }
        Ok(())
    }

    /// Names those that stay because their policy names the cluster; the others are returned.
    async fn without_fixed(&mut self, placements: Vec<String>) -> Result<Vec<String>, Problem> {
        let hub = self.hub;
        let read = async |name: String| {
            let found = hub.find::<ClusterResourcePlacement>(&name).await;
            found.map(|found| (name, found))
        };
        let mut others = Vec::new();
        let mut found = stream::iter(placements).map(read).buffered(TOGETHER);
        while let Some(found) = found.next().await {
            let (name, placement) = found?;
            if placement.is_some_and(|it| it.spec.placement_type() == PlacementType::PickFixed) {
                let row = self.row(Key::of(&name));
                (row.outcome, row.held_up_by) = (DrainOutcome::Stays, vec![HeldUp::PickFixed]);
            } else {
                others.push(name);
            }
        }
        Ok(others)
    }

    /// Whether an eviction that is there does what this drain wants.
    fn serves(&self, eviction: &Eviction) -> bool {
        let waits = evictions::view(eviction).wait.is_some();
        evictions::end(eviction).is_none() && (waits || !self.options.wait)
    }

    fn is_open(&mut self, placement: &str, eviction: String) {
        self.row(Key::of(placement)).eviction = Some(eviction.clone());
        self.open.insert(eviction, placement.to_owned());
    }

    async fn create(&mut self, placements: Vec<String>) -> Result<()> {
        let (hub, cluster) = (self.hub, self.cluster);
        let wait = self.options.wait.then_some(self.options.timeout);
        let create = async |placement: String| {
            let made = evictions::create(hub, &placement, cluster, wait).await;
            (placement, made)
        };
        let mut made = stream::iter(placements).map(create).buffered(TOGETHER);
        while let Some((placement, made)) = made.next().await {
            let error = match made {
                Ok(eviction) => {
                    let name = eviction.metadata.name.unwrap_or_default();
                    self.made.insert(name.clone());
                    self.is_open(&placement, name);
                    continue;
                }
                Err(error) => error,
            };
            if old::is_about_deletion(&error, &placement) {
                let row = self.row(Key::of(&placement));
                (row.outcome, row.message) = (DrainOutcome::Gone, Valid::PlacementDeleting.message());
                let message = row.message.clone();
                (self.say)(&format!("{placement}: {message}"));
                continue;
            }
            // What is wrong with one placement does not keep the others.
            match error.downcast_ref::<Problem>().filter(|problem| problem.is_denied()) {
                Some(problem) => {
                    let message = problem.to_string();
                    let row = self.row(Key::of(&placement));
                    (row.outcome, row.held_up_by) = (DrainOutcome::Refused, vec![HeldUp::Other { message }]);
                }
                None => return Err(error),
            }
        }
        Ok(())
    }

    /// Notes what became of evictions. Returns the placements of those that have begun to wait.
    fn heard(&mut self, news: News<Eviction>) -> Vec<String> {
        match news {
            News::Is(eviction) => self.is(&eviction).into_iter().collect(),
            News::Gone(eviction) => {
                self.was_deleted(&eviction.metadata.name.unwrap_or_default());
                Vec::new()
            }
            News::All(all) => {
                let there = |name: &String| all.iter().any(|it| it.metadata.name.as_ref() == Some(name));
                let deleted: Vec<_> = self.open.keys().filter(|name| !there(name)).cloned().collect();
                for name in deleted {
                    self.was_deleted(&name);
                }
                all.iter().filter_map(|eviction| self.is(eviction)).collect()
            }
        }
    }

    fn is(&mut self, eviction: &Eviction) -> Option<String> {
        let name = eviction.metadata.name.as_deref().unwrap_or_default();
        let placement = self.open.get(name)?.clone();
        let Some(end) = evictions::end(eviction) else {
            let view = evictions::view(eviction);
            let waits = view.is_under_way() && view.wait.is_some() && view.status.target.is_none();
            let row = self.row(Key::of(&placement));
            let is_new = waits && row.outcome != DrainOutcome::Waiting;
            if is_new {
                row.outcome = DrainOutcome::Waiting;
            }
            return is_new.then_some(placement);
        };
        self.open.remove(name);
        let row = self.row(Key::of(&placement));
        let (outcome, message, held_up) = match end {
            End::Executed(message) => (DrainOutcome::Evicted, message, None),
            End::Gone(message) => (DrainOutcome::Gone, message, None),
            End::Blocked(message) => (DrainOutcome::Blocked, message, None),
            End::Invalid(message) if message == Valid::PickFixed.message() => {
                (DrainOutcome::Stays, message, Some(HeldUp::PickFixed))
            }
            End::Invalid(message) => (DrainOutcome::Blocked, message.clone(), Some(HeldUp::Other { message })),
        };
        row.outcome = outcome;
        row.message.clone_from(&message);
        row.held_up_by.extend(held_up);
        (self.say)(&format!("{placement}: {message}"));
        None
    }

    fn was_deleted(&mut self, name: &str) {
        let Some(placement) = self.open.remove(name) else {
            return;
        };
        let message = format!("eviction {name} was deleted before it ended");
        let row = self.row(Key::of(&placement));
        (row.outcome, row.held_up_by) = (DrainOutcome::Undecided, vec![HeldUp::Other { message }]);
    }

    /// The placements whose evictions wait.
    fn waiting(&self) -> Vec<String> {
        let waits = |name: &&String| {
            let row = self.rows.get(&Key::of(name));
            row.is_some_and(|row| row.outcome == DrainOutcome::Waiting)
        };
        self.open.values().filter(waits).cloned().collect()
    }

    /// Says what placements wait for, unless that was the last that was said of them.
    fn tell(&mut self, reasons: Vec<(String, String)>) {
        for (placement, why) in reasons {
            if self.told.get(&placement) != Some(&why) {
                (self.say)(&format!("{placement}: waiting{why}"));
                self.told.insert(placement, why);
            }
        }
    }
}

/// What each of them waits for now, in words. Of one that may go, or cannot be read, there is nothing to say.
async fn reasons(hub: &Hub, cluster: &str, placements: Vec<String>) -> Vec<(String, String)> {
    let ask = async |placement: String| {
        let decision = explain::decision(hub, &placement, cluster, &[], now()).await.ok()?;
        let held_up = explain::held_up(&decision)?;
        let word = if matches!(held_up, HeldUp::Budget { .. }) {
            " for its"
        } else {
            ":"
        };
        let why = format!("{word} {}", held_up.to_string().replace('\n', "; "));
        Some((placement, why))
    };
    let asked = stream::iter(placements).map(ask).buffered(TOGETHER);
    asked.filter_map(future::ready).collect().await
}
