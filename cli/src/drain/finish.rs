//! The end of a drain, whatever ended it: what is left is explained, and what was made is tidied up.

use std::{collections::BTreeSet, time::Duration};

use anyhow::Result;
use futures::{StreamExt as _, stream};

use super::{
    explain,
    report::{DrainOutcome, HeldUp, Row},
    state::{Cut, Drain, Key, TOGETHER},
};
use crate::{
    evictions::{self, Eviction},
    hub::Named,
    terminal::now,
};

/// What is asked for after the end may take so long.
const AFTERWARDS: Duration = Duration::from_secs(15);

impl Drain<'_> {
    /// Explains what is left, tidies up, and says what to do.
    pub(super) async fn finish(&mut self, cut: Option<Cut>, failed: Option<&anyhow::Error>) {
        // An API server that has just failed is not asked any more.
        if failed.is_none() {
            let afterwards = async {
                self.look_again().await?;
                self.explain().await;
                self.tidy_up().await
            };
            let tidied = tokio::time::timeout(AFTERWARDS, afterwards).await;
            if let Ok(Err(error)) = tidied {
                (self.say)(&format!("note: {error:#}"));
            }
        }
        for row in self.rows.values_mut() {
            if row.outcome == DrainOutcome::Evicted && self.options.wait {
                row.outcome = DrainOutcome::Removing;
            }
            match (row.outcome, &self.silent) {
                (DrainOutcome::Removing, Some(since)) => row.held_up_by.push(HeldUp::Silent { since: since.clone() }),
                (DrainOutcome::Removing, None) => row.held_up_by.push(HeldUp::Cleanup),
                (DrainOutcome::Undecided, _) if row.held_up_by.is_empty() => row.held_up_by.push(HeldUp::NoAnswer),
                _ => {}
            }
            if row.outcome.is_left() {
                let runs = self.runs.get(&(row.namespace.clone(), row.name.clone()));
                row.held_up_by.extend(runs.into_iter().flatten().cloned());
            }
        }
        self.conclude(cut, failed);
    }

    /// Asks what holds up those that were blocked.
    async fn explain(&mut self) {
        let is_open = |row: &&Row| {
            matches!(row.outcome, DrainOutcome::Blocked | DrainOutcome::Waiting) && row.held_up_by.is_empty()
        };
        let names: Vec<_> = self.rows.values().filter(is_open).map(|row| row.name.clone()).collect();
        let own: BTreeSet<_> = self.rows.values().filter_map(|row| row.eviction.clone()).collect();
        if names.is_empty() {
            return;
        }
        // Without these it is nearly the same.
        let is_another = |it: &Eviction| {
            evictions::end(it).is_none() && !own.contains(it.metadata.name.as_deref().unwrap_or_default())
        };
        let others = self
            .hub
            .list("", is_another)
            .await
            .map(|it| it.items)
            .unwrap_or_default();
        let (hub, cluster, others) = (self.hub, self.cluster, others.as_slice());
        let decide = async |name: String| {
            let decision = explain::decision(hub, &name, cluster, others, now()).await;
            (name, decision)
        };
        let mut decided = stream::iter(names).map(decide).buffer_unordered(TOGETHER);
        while let Some((name, decision)) = decided.next().await {
            let row = self.row(Key::of(&name));
            let why = decision.map(|it| explain::held_up(&it).unwrap_or(HeldUp::AllowedNow));
            let said = row.message.clone();
            row.held_up_by.push(why.unwrap_or(HeldUp::Other { message: said }));
        }
    }

    /// Deletes the evictions of drains, if asked to: those that have ended, and all of this one.
    async fn tidy_up(&mut self) -> Result<()> {
        if !self.options.cleanup {
            return Ok(());
        }
        let is_ours = |it: &Eviction| {
            let is_made = it.metadata.name.as_ref().is_some_and(|name| self.made.contains(name));
            it.spec.cluster_name == self.cluster
                && evictions::is_of_drain(it)
                && (is_made || evictions::end(it).is_some())
        };
        let ended = self.hub.list("", is_ours).await?;
        for eviction in ended.items {
            let name = eviction.metadata.name.unwrap_or_default();
            let named = Named {
                namespace: None,
                name: &name,
            };
            self.hub.delete::<Eviction>(named).await?;
            self.open.remove(&name);
        }
        Ok(())
    }

    /// The last lines.
    fn conclude(&self, cut: Option<Cut>, failed: Option<&anyhow::Error>) {
        let (cluster, say) = (self.cluster, self.say);
        let left = self.rows.values().filter(|row| row.outcome.is_left()).count();
        match cut {
            Some(Cut::Timeout) => say(&format!("the time is up, and {cluster} is not drained: see --timeout")),
            Some(Cut::Interrupted) => say(&format!("interrupted before {cluster} was drained")),
            None => {}
        }
        if !self.open.is_empty() {
            let names: Vec<_> = self.open.keys().map(String::as_str).collect();
            say(&format!(
                "evictions that the hub may still carry out; to take them back: kubectl delete crpe {}",
                names.join(" ")
            ));
        }
        if self.options.dry_run || failed.is_some() || cut.is_some() {
            return;
        }
        match (self.rows.is_empty(), left) {
            (true, _) => say(&format!("nothing is placed on {cluster}")),
            (false, 0) => say(&format!(
                "{cluster} is drained; `kubectl fleet uncordon {cluster}` takes it back"
            )),
            (false, left) => say(&format!("{cluster} is not drained: left {left}")),
        }
    }
}
