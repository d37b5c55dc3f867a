//! The registry, and what the process says about itself.
//!
//! Whoever measures something owns its families and registers them here at start. Label values come from closed sets
//! (`&'static str`, enums), never from object names or error texts.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::RwLock;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};

use crate::dump::Dump;

/// The process's metrics, and what it shows to a person who debugs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<RwLock<Registry>>,
    dump: Dump,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A registry that has the process's own metrics (`process_resident_memory_bytes`, `process_cpu_seconds_total`, …).
    pub fn new() -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Process));
        Self {
            registry: Arc::new(RwLock::new(registry)),
            dump: Dump::default(),
        }
    }

    /// What the process shows in detail. Whoever measures something may also be looked at.
    pub fn dump(&self) -> &Dump {
        &self.dump
    }

    /// Registers what `register` adds. A counter's name is given without `_total`, which the encoder appends.
    pub fn register<T>(&self, register: impl FnOnce(&mut Registry) -> T) -> T {
        register(&mut self.registry.write())
    }

    /// Registers gauges that `write` reads when they are scraped, so that nothing has to be kept true in between.
    pub fn register_read<W>(&self, name: &'static str, help: &'static str, write: W)
    where
        W: Fn(&mut MetricEncoder<'_>) -> fmt::Result + Send + Sync + 'static,
    {
        self.register(|registry| registry.register_collector(Box::new(Read { name, help, write })));
    }

    /// All metrics as Prometheus reads them.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        text::encode(&mut out, &self.registry.read()).expect("writing to a string cannot fail");
        out
    }
}

/// A histogram of seconds from 1 ms to 30 s: the time of requests, passes and waits.
pub fn seconds() -> Histogram {
    Histogram::new([
        0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ])
}

/// Gauges that are read when scraped.
struct Read<W> {
    name: &'static str,
    help: &'static str,
    write: W,
}

impl<W> fmt::Debug for Read<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Read").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<W> Collector for Read<W>
where
    W: Fn(&mut MetricEncoder<'_>) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.write)(&mut encoder.encode_descriptor(self.name, self.help, None, MetricType::Gauge)?)
    }
}

/// Reads `/proc` when scraped, never in between.
#[derive(Debug)]
struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        // Elsewhere than on Linux there is no /proc; the rest of the metrics must not suffer.
        let Some(Usage {
            resident,
            resident_peak,
            cpu,
            threads,
        }) = usage()
        else {
            return Ok(());
        };
        let mut gauge = |name, help, value: u64| {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        gauge("process_resident_memory_bytes", "Resident memory", resident)?;
        gauge(
            "process_resident_memory_peak_bytes",
            "The most resident memory so far",
            resident_peak,
        )?;
        gauge("process_threads", "Threads", threads)?;
        let cpu = ConstCounter::new(cpu.as_secs_f64());
        cpu.encode(encoder.encode_descriptor("process_cpu_seconds", "CPU time used", None, cpu.metric_type())?)
    }
}

#[derive(Debug, Default)]
struct Usage {
    resident: u64,
    resident_peak: u64,
    threads: u64,
    cpu: Duration,
}

fn usage() -> Option<Usage> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    // Time on the CPU in nanoseconds would be in schedstat, but of the first thread only.
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the command may contain spaces; what follows its closing bracket does not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Usage {
        resident: field("VmRSS:")? * 1024,
        resident_peak: field("VmHWM:")? * 1024,
        threads: field("Threads:")?,
        // USER_HZ is 100 on every Linux that Kubernetes runs on.
        cpu: Duration::from_millis(ticks * 10),
    })
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    #[test]
    fn what_was_registered_is_served_beside_the_process() {
        let metrics = Metrics::new();
        let counter: Counter = Counter::default();
        metrics.register(|registry| registry.register("fleet_tests", "Tests", counter.clone()));
        counter.inc();
        let text = metrics.encode();
        assert!(text.contains("fleet_tests_total 1\n"), "{text}");
        assert!(text.contains("process_resident_memory_bytes "), "{text}");
        assert!(text.contains("process_cpu_seconds_total "), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }
}
