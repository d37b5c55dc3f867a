//! A pass over a run that has a plan: what it is made from, and what it comes to.

use std::collections::BTreeMap;

use fleet_api::conditions::update_run::{Abort, Progressing};
use fleet_api::placement::{ClusterUpdatingStatus, StageStatus, UpdateRunOptions, UpdateRunState};
use jiff::{SignedDuration, Timestamp};

use super::closed::Closed;
use super::names::index_of;
use super::options::Options;
use super::spans::{Moment, Spans};
use super::standing::Wish;
use super::state::{Pen, StageEntry as _};
use super::step::{Content, Step};
use super::world::{Binding, Memory, Run, World};
use crate::overrides::choose::Lists;

/// The master resource snapshot that a run with a plan rolls out.
pub fn snapshot_name(run: &Run<'_>) -> String {
    format!(
        "{}-{}-snapshot",
        run.spec.placement_name, run.status.resource_snapshot_index_used
    )
}

/// How a run signs the bindings that it starts.
#[derive(Debug)]
pub(super) struct Signature {
    pub(super) annotation: String,
    pub(super) sentence: String,
}

/// What a pass is made from, and what it comes to.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    pub(super) run: Run<'a>,
    pub(super) world: &'a World<'a>,
    pub(super) pen: Pen,
    pub(super) signature: &'a Signature,
    pub(super) memory: Memory,
    pub(super) step: Step,
    pub(super) at: Moment,
    /// What was measured in this pass.
    pub(super) spans: Spans,
    pub(super) bindings: BTreeMap<&'a str, &'a Binding<'a>>,
    pub(super) options: Options,
    /// The settings as they are to be recorded.
    pub(super) recorded: Option<UpdateRunOptions>,
    /// How many clusters the plan has.
    pub(super) planned: usize,
    /// The clusters of other stages than the one at hand that have failed.
    pub(super) failed: Vec<String>,
    /// Clusters that may not be started yet.
    pub(super) closed: Closed,
}

/// What the stage at hand means for the run.
#[derive(Debug)]
pub(super) enum Verdict {
    /// This is what the run is doing.
    Doing(Progressing),
    /// The stage has ended; the next one can begin once that is stored.
    StageEnded,
    /// All stages have ended.
    Ended,
    /// It is to take back what it did.
    Tripped,
    /// It cannot go on.
    Failed(Abort),
}

/// What ends a stage.
#[derive(Debug)]
pub(super) enum Halt {
    /// The run cannot go on.
    Abort(Abort),
    /// The run is to start nothing more, and takes back what it did if it is told to.
    Trip(Abort),
}

impl From<Abort> for Halt {
    fn from(abort: Abort) -> Self {
        Self::Abort(abort)
    }
}

impl<'a> Pass<'a> {
    pub(super) fn now(&self) -> Timestamp {
        self.pen.now
    }

    /// How long a cluster may take before the run says that it is stuck.
    pub(super) fn threshold(&self) -> SignedDuration {
        self.options.stuck_threshold.unwrap_or(self.world.stuck_threshold)
    }

    /// What ends a stage, as the stage and the run show it.
    pub(super) fn halt(&self, stage: &mut StageStatus, halt: Halt) -> Verdict {
        let (Halt::Abort(abort) | Halt::Trip(abort)) = &halt;
        stage.fail(self.pen, abort);
        match halt {
            Halt::Trip(_) if self.options.rollback => Verdict::Tripped,
            Halt::Abort(abort) | Halt::Trip(abort) => Verdict::Failed(abort),
        }
    }

    /// A stop asks for no waits, which go on all the same.
    pub(super) fn keep_spans(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        if self.run.spec.state == UpdateRunState::Stop {
            self.memory.spans.absorb(spans);
        } else {
            self.memory.spans = spans;
        }
    }

    /// When it was, by today's clock, that the stored status says `stamp` of `subject`.
    pub(super) fn since(&mut self, subject: &str, stamp: Timestamp) -> Timestamp {
        let subject = subject.to_owned();
        self.memory.spans.since(subject, stamp, self.at, &mut self.spans)
    }

    /// The binding of a cluster that is not being deleted.
    pub(super) fn binding(&self, cluster: &str) -> Option<&'a Binding<'a>> {
        self.bindings.get(cluster).copied()
    }

    /// Whether a cluster whose turn has come is passed over.
    pub(super) fn is_to_be_skipped(&self, cluster: &str) -> bool {
        let healthy = self.world.clusters.get(cluster).is_some_and(|facts| facts.healthy);
        self.options.skip_unhealthy && !healthy
    }

    pub(super) fn is_refused(&self, binding: &Binding<'_>) -> bool {
        self.world.refused.bindings.contains(binding.name)
    }

    /// What the plan gives a cluster.
    pub(super) fn content(&self, cluster: &ClusterUpdatingStatus) -> Content {
        Content {
            snapshot: snapshot_name(&self.run),
            overrides: Lists {
                cluster_wide: cluster.cluster_resource_override_snapshots.clone(),
                namespaced: cluster.resource_override_snapshots.clone(),
            },
            apply_strategy: self.run.status.apply_strategy.clone().unwrap_or_default(),
        }
    }

    pub(super) fn wish<'c>(&self, content: &'c Content) -> Wish<'c>
    where
        'a: 'c,
    {
        Wish {
            content,
            annotation: &self.signature.annotation,
            sentence: &self.signature.sentence,
        }
    }

    /// The index of a master snapshot of this placement, by its name.
    pub(super) fn index_of(&self, snapshot: &str) -> String {
        index_of(&self.run.spec.placement_name, snapshot).to_owned()
    }

    /// An object's name as messages about it show it.
    pub(super) fn shown(&self, name: &str) -> String {
        if self.run.namespace.is_empty() {
            name.to_owned()
        } else {
            self.run.key(name)
        }
    }
}

/// All that ends the run, as one.
pub(super) fn abort_of(aborts: &mut Vec<Abort>) -> Option<Abort> {
    if aborts.len() <= 1 {
        return aborts.pop();
    }
    let mut messages: Vec<String> = Vec::new();
    for message in aborts.iter().map(Abort::message) {
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    Some(Abort::Several { messages })
}
