//! Figures beside their aims: for people as a table, for programs as JSON.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// One figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The part it belongs to.
    pub part: String,
    /// What was measured.
    pub what: String,
    /// The number.
    pub value: f64,
    /// Its unit; empty for a count or ratio.
    pub unit: String,
    /// What it should be.
    pub aim: Option<Aim>,
    /// How KubeFleet does, as published with its version for this kind of machine.
    pub kubefleet: Option<f64>,
    /// More about it.
    pub note: String,
}

/// What a figure should be.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Aim {
    /// Less than this.
    Below(f64),
    /// No more than this.
    AtMost(f64),
}

impl Row {
    /// A figure without an aim.
    pub fn new(part: super::Part, what: impl Into<String>, value: f64, unit: &str) -> Self {
        Self {
            part: part.to_string(),
            what: what.into(),
            value,
            unit: unit.to_owned(),
            aim: None,
            kubefleet: None,
            note: String::new(),
        }
    }

    /// With an aim.
    pub fn aim(self, aim: Aim) -> Self {
        Self { aim: Some(aim), ..self }
    }

    /// With what KubeFleet shows.
    pub fn kubefleet(self, value: f64) -> Self {
        Self {
            kubefleet: Some(value),
            ..self
        }
    }

    /// With a remark.
    pub fn note(self, note: impl Into<String>) -> Self {
        Self {
            note: note.into(),
            ..self
        }
    }

    /// Whether the aim is met; true without one.
    pub fn is_met(&self) -> bool {
        match self.aim {
            None => true,
            Some(Aim::Below(most)) => self.value < most,
            Some(Aim::AtMost(most)) => self.value <= most,
        }
    }
}

/// KiB in MiB.
#[expect(clippy::cast_precision_loss, reason = "a process has fewer than 2^52 KiB")]
pub fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

/// A count as a figure.
#[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 of anything")]
pub fn count(n: usize) -> f64 {
    n as f64
}

/// So many per so many; zero of nothing.
pub fn ratio(n: usize, of: usize) -> f64 {
    if of == 0 { 0.0 } else { count(n) / count(of) }
}

/// The value below which this share of the samples lies.
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// The table.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<8} {:<58} {:>12} {:>10} {:>10}  {}\n",
        "PART", "FIGURE", "MEASURED", "AIM", "KUBEFLEET", "REMARKS"
    );
    for row in rows {
        let aim = row.aim.map_or(String::new(), |aim| match aim {
            Aim::Below(most) => format!("< {}", number(most)),
            Aim::AtMost(most) => format!("≤ {}", number(most)),
        });
        let missed = if row.is_met() { "" } else { "MISSED " };
        let unit = if row.unit.is_empty() {
            String::new()
        } else {
            format!(" {}", row.unit)
        };
        let _ = writeln!(
            text,
            "{:<8} {:<58} {:>12} {aim:>10} {:>10}  {missed}{}",
            row.part,
            row.what,
            format!("{}{unit}", number(row.value)),
            row.kubefleet.map_or(String::new(), number),
            row.note
        );
    }
    text
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 || value.abs() >= 100.0 {
        format!("{value:.0}")
    } else if value.abs() >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Writes all of it for programs.
pub fn write(path: &Path, rows: &[Row]) -> Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let document = json!({
        "date": super::now().strftime("%Y-%m-%d").to_string(),
        "machine": {"cores": cores, "memoryMiB": memory_mib()},
        "rows": rows,
    });
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    std::fs::write(path, format!("{document:#}\n")).with_context(|| format!("cannot write {}", path.display()))
}

fn memory_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() / 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Part;

    #[test]
    fn aims_are_compared() {
        let row = |value| Row::new(Part::Idle, "x", value, "MiB");
        assert!(row(9.0).is_met());
        assert!(!row(15.0).aim(Aim::Below(15.0)).is_met());
        assert!(row(15.0).aim(Aim::AtMost(15.0)).is_met());
        let text = table(&[row(20.5).aim(Aim::Below(15.0)).kubefleet(77.0).note("why")]);
        assert!(
            text.contains("20.5 MiB") && text.contains("< 15") && text.contains("MISSED why"),
            "{text}"
        );
    }

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(
            [50, 99, 100].map(|p| percentile(&samples, p)).map(|v| v.to_string()),
            ["100", "198", "200"]
        );
        assert!(percentile(&[], 99).abs() < f64::EPSILON);
    }
}
