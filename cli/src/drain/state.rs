//! What a drain knows, and what it was asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::report::{DrainOutcome, DrainSummary, HeldUp, Row};
use crate::{hub::Hub, old, terminal::Say};

/// Requests at once.
pub(super) const TOGETHER: usize = 8;

#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct Options {
    /// Change nothing: say what would become of each placement
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Wait until budgets allow it, and until everything is removed from the cluster
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) wait: bool,
    /// How long to wait: for the hub's answers, and with --wait for all of it
    #[arg(long, default_value = "5m", value_parser = old::timeout)]
    pub(super) timeout: Duration,
    /// Delete the evictions that drains of this cluster have left, at the end
    #[arg(long, conflicts_with = "dry_run")]
    pub(super) cleanup: bool,
}

/// What ends a drain before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Timeout,
    Interrupted,
}

/// A row's place in the report: ClusterResourcePlacements first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Key {
    pub(super) fn of(placement: &str) -> Self {
        Self {
            namespace: None,
            name: placement.to_owned(),
        }
    }
}

pub(super) struct Drain<'a> {
    pub(super) hub: &'a Hub,
    pub(super) cluster: &'a str,
    pub(super) options: &'a Options,
    pub(super) say: Say<'a>,
    pub(super) rows: BTreeMap<Key, Row>,
    /// Evictions that have not ended, and whose they are.
    pub(super) open: BTreeMap<String, String>,
    /// Evictions that this drain has made.
    pub(super) made: BTreeSet<String>,
    /// What was said last of placements that wait.
    pub(super) told: BTreeMap<String, String>,
    pub(super) runs: BTreeMap<(Option<String>, String), Vec<HeldUp>>,
    pub(super) is_cordoned: bool,
    /// Since when nothing was heard of the cluster, in words.
    pub(super) silent: Option<String>,
}

impl<'a> Drain<'a> {
    pub(super) fn new(hub: &'a Hub, cluster: &'a str, options: &'a Options, say: Say<'a>) -> Self {
        Self {
            hub,
            cluster,
            options,
            say,
            rows: BTreeMap::new(),
            open: BTreeMap::new(),
            made: BTreeSet::new(),
            told: BTreeMap::new(),
            runs: BTreeMap::new(),
            is_cordoned: false,
            silent: None,
        }
    }

    /// The row of a placement.
    pub(super) fn row(&mut self, key: Key) -> &mut Row {
        let Key { namespace, name } = key.clone();
        self.rows.entry(key).or_insert_with(|| Row {
            kind: "ClusterResourcePlacement",
            namespace,
            name,
            cluster: self.cluster.to_owned(),
            outcome: DrainOutcome::Undecided,
            eviction: None,
            message: String::new(),
            held_up_by: Vec::new(),
        })
    }

    pub(super) fn report(&self) -> DrainSummary {
        let rows: Vec<_> = self.rows.values().cloned().collect();
        let is_awaited = |row: &Row| self.options.wait && row.outcome == DrainOutcome::Removing;
        DrainSummary {
            cluster: self.cluster.to_owned(),
            dry_run: self.options.dry_run,
            cordoned: self.is_cordoned,
            complete: rows.iter().all(|row| !row.outcome.is_left() && !is_awaited(row)),
            placements: rows,
        }
    }
}
