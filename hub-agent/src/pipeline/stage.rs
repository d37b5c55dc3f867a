//! A stage of the pipeline: its queue, and what it alone remembers.

use std::{ops::Deref, sync::Arc};

use fleet_api::placement::Scope;
use fleet_runtime::{Key, queue::Queue};

use super::Pipeline;

/// The way into a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// Placements: selection and snapshots.
    Selection,
    /// Placements: which clusters.
    Scheduler,
    /// Placements: who gets the latest resources when.
    Rollout,
    /// Bindings: their Works.
    Work,
    /// Bindings: their status.
    Binding,
    /// Placements: their status.
    Placement,
    /// Placements: users' objects.
    ReportBack,
    /// Update runs.
    UpdateRun,
}

/// A stage: the pipeline's handles, its own queue and its own memory `M`. Cheap to clone.
pub(crate) struct Stage<S: Scope, M> {
    pipeline: Pipeline<S>,
    /// The way in.
    pub(crate) queue: Queue<Key>,
    /// What no other stage sees. Lost with the term of leadership.
    pub(crate) memory: Arc<M>,
}

impl<S: Scope, M> Stage<S, M> {
    pub(super) fn new(pipeline: Pipeline<S>, queue: Queue<Key>, memory: M) -> Self {
        Self {
            pipeline,
            queue,
            memory: Arc::new(memory),
        }
    }
}

impl<S: Scope, M> Clone for Stage<S, M> {
    fn clone(&self) -> Self {
        Self {
            pipeline: self.pipeline.clone(),
            queue: self.queue.clone(),
            memory: self.memory.clone(),
        }
    }
}

impl<S: Scope, M> Deref for Stage<S, M> {
    type Target = Pipeline<S>;

    fn deref(&self) -> &Pipeline<S> {
        &self.pipeline
    }
}
