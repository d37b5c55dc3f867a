//! `fleet_placement_step_seconds`: how long a placement takes from a change to each of its steps on all clusters.
//!
//! Counted from the moment at which the agent sees another generation, or freezes other resources. What was under way when
//! the agent started is not counted, for nobody knows since when.

use std::{collections::HashMap, fmt::Write as _, time::Duration};

use fleet_api::conditions::placement::Step;
use fleet_runtime::{
    Key,
    metrics::{self, Metrics},
};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
};
use tokio::time::Instant;

/// The metric, for both scopes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Measures(Family<Label, Histogram>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    step: &'static str,
}

impl Measures {
    /// Registers the family.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let new = Self(Family::new_with_constructor(metrics::seconds));
        let help = "Time from a change of a placement, or of its resources, to a step on all clusters";
        metrics.register(|registry| registry.register("fleet_placement_step_seconds", help, new.0.clone()));
        new
    }
}

/// The changes that are under way, by placement.
#[derive(Debug, Default)]
pub(crate) struct Steps(Mutex<HashMap<Key, Run>>);

#[derive(Debug)]
struct Run {
    generation: i64,
    since: Instant,
    reached: Vec<(Step, Duration)>,
}

impl Steps {
    /// A generation is seen that nothing is said about yet.
    pub(crate) fn begin(&self, placement: &Key, generation: i64) {
        let mut runs = self.0.lock();
        if runs.get(placement).is_none_or(|run| run.generation != generation) {
            runs.insert(placement.clone(), Run::new(generation));
        }
    }

    /// Other resources are frozen.
    pub(crate) fn begin_again(&self, placement: &Key, generation: i64) {
        self.0.lock().insert(placement.clone(), Run::new(generation));
    }

    /// Steps are taken on all clusters.
    pub(crate) fn reached(&self, placement: &Key, steps: &[Step], measures: &Measures) {
        let mut runs = self.0.lock();
        let Some(run) = runs.get_mut(placement) else { return };
        let took = run.since.elapsed();
        for step in steps
            .iter()
            .filter(|step| !run.has(**step))
            .copied()
            .collect::<Vec<_>>()
        {
            run.reached.push((step, took));
            let label = Label {
                step: step.on_cluster(),
            };
            measures.0.get_or_create(&label).observe(took.as_secs_f64());
        }
    }

    /// The placement is where it should be: how long each step took, in milliseconds, in words for the log.
    pub(crate) fn completed(&self, placement: &Key) -> Option<String> {
        let run = self.0.lock().remove(placement)?;
        let mut words = String::new();
        for (step, took) in &run.reached {
            let _ = write!(words, "{}={} ", step.on_cluster(), took.as_millis());
        }
        Some(words.trim_end().to_owned())
    }

    /// The placement is gone.
    pub(crate) fn forget(&self, placement: &Key) {
        self.0.lock().remove(placement);
    }
}

impl Run {
    fn new(generation: i64) -> Self {
        Self {
            generation,
            since: Instant::now(),
            reached: Vec::new(),
        }
    }

    fn has(&self, step: Step) -> bool {
        self.reached.iter().any(|(reached, _)| *reached == step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn steps_are_counted_once_for_each_change() {
        let (metrics, steps, key) = (Metrics::new(), Steps::default(), Key::cluster("crp"));
        let measures = Measures::new(&metrics);
        let pass = |ms| tokio::time::advance(Duration::from_millis(ms));
        steps.reached(&key, &[Step::Scheduled], &measures);
        assert_eq!(steps.completed(&key), None, "it was there when we came");

        steps.begin(&key, 1);
        pass(20).await;
        steps.begin(&key, 1);
        steps.reached(&key, &[Step::Scheduled], &measures);
        pass(30).await;
        steps.reached(&key, &[Step::Scheduled, Step::Applied], &measures);
        assert_eq!(steps.completed(&key).as_deref(), Some("Scheduled=20 Applied=50"));

        steps.begin(&key, 1);
        pass(10).await;
        steps.begin_again(&key, 1);
        pass(5).await;
        steps.reached(&key, &[Step::Applied], &measures);
        assert_eq!(steps.completed(&key).as_deref(), Some("Applied=5"));
        let text = metrics.encode();
        assert!(
            text.contains("fleet_placement_step_seconds_count{step=\"Applied\"} 2"),
            "{text}"
        );
        assert!(
            text.contains("fleet_placement_step_seconds_count{step=\"Scheduled\"} 1"),
            "{text}"
        );
        assert!(steps.0.lock().is_empty());
    }
}
