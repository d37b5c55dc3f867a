//! How long deciding takes, under the names that KubeFleet's dashboards have.

use fleet_runtime::{metrics::Metrics, queue::Next};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
};
use tokio::time::Instant;

use crate::pipeline::Error;

/// The scheduler's metrics, for both scopes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Measures {
    cycles: Family<CycleLabels, Histogram>,
    active: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CycleLabels {
    is_failed: &'static str,
    needs_requeue: &'static str,
}

/// What a cycle came to.
pub(super) enum Cycle {
    /// Decided, and carried out.
    Done(Next),
    /// The policy is broken; only somebody's change can help.
    Broken(Next),
}

fn milliseconds() -> Histogram {
    Histogram::new([10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0, 10000.0, 50000.0])
}

impl Measures {
    /// Registers the families.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let new = Self {
            cycles: Family::new_with_constructor(milliseconds),
            active: Gauge::default(),
        };
        metrics.register(|registry| {
            let (cycles, active) = (new.cycles.clone(), new.active.clone());
            let help = "Time of a scheduling cycle, whether it failed and whether there will be another for its sake";
            registry.register("scheduling_cycle_duration_milliseconds", help, cycles);
            registry.register("scheduling_active_workers", "Scheduling cycles under way", active);
        });
        new
    }

    /// Measures one cycle.
    pub(super) async fn cycle(&self, cycle: impl Future<Output = Result<Cycle, Error>>) -> Result<Next, Error> {
        let (began, active) = (Instant::now(), Active::new(&self.active));
        let outcome = cycle.await;
        drop(active);
        let (is_failed, needs_requeue) = match &outcome {
            Ok(Cycle::Done(Next::Wait)) => ("false", "false"),
            Ok(Cycle::Done(_)) => ("false", "true"),
            Ok(Cycle::Broken(_)) => ("true", "false"),
            Err(_) => ("true", "true"),
        };
        let labels = CycleLabels {
            is_failed,
            needs_requeue,
        };
        let took = began.elapsed().as_secs_f64() * 1000.0;
        self.cycles.get_or_create(&labels).observe(took);
        outcome.map(|cycle| match cycle {
            Cycle::Done(next) | Cycle::Broken(next) => next,
        })
    }
}

/// A cycle under way, however it ends.
struct Active<'a>(&'a Gauge);

impl<'a> Active<'a> {
    fn new(gauge: &'a Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cycle_is_counted_by_what_it_came_to() {
        let metrics = Metrics::new();
        let measures = Measures::new(&metrics);
        let soon = || Next::At(Instant::now());
        assert!(measures.cycle(async { Ok(Cycle::Done(Next::Wait)) }).await.is_ok());
        assert!(measures.cycle(async { Ok(Cycle::Done(soon())) }).await.is_ok());
        assert!(measures.cycle(async { Ok(Cycle::Broken(soon())) }).await.is_ok());
        let failed = measures.cycle(async { Err(Error::NotYet("x".to_owned())) }).await;
        assert!(failed.is_err());
        let text = metrics.encode();
        for (is_failed, needs_requeue) in [
            ("false", "false"),
            ("false", "true"),
            ("true", "false"),
            ("true", "true"),
        ] {
            let line = format!(
                "scheduling_cycle_duration_milliseconds_count{{is_failed=\"{is_failed}\",needs_requeue=\"{needs_requeue}\"}} 1"
            );
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(text.contains("scheduling_active_workers 0"), "{text}");
    }
}
