//! `make bench`: figures of membership beside what they should be.
//!
//! ```text
//! fleet-bench ── a fleet of its own ── fleet-bench again, inside it ── rows ──► table, target/bench/membership.json
//!                hub + 3 members: idle, writes, apply (real agents)
//!                hub alone:       scale, restart      (one hub agent, simulated members over the real channel)
//! ```
//!
//! Requests are counted from the hub's audit log, by user; CPU and memory come from /proc. Counts and ratios say more than
//! times, which depend on the machine and on what else runs there.

pub mod applier;
pub mod audit;
pub mod figures;
pub mod hub;
pub mod quiet;
pub mod restart;
pub mod scale;
pub mod simulated;
pub mod usage;
pub mod writes;

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use crate::cluster::ClusterSpec;
use crate::fleet::Fleet;
use figures::Row;

/// A thing to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Memory and CPU of the agents while nothing happens.
    Idle,
    /// Requests to the hub per heartbeat, join and leave.
    Writes,
    /// How soon Works are applied, available and gone, and what they take.
    Apply,
    /// Many simulated members against one hub agent.
    Scale,
    /// What a restart of the hub agent writes.
    Restart,
}

impl Part {
    /// All, in the order in which they run.
    pub const ALL: [Self; 5] = [Self::Idle, Self::Writes, Self::Apply, Self::Scale, Self::Restart];

    /// Whether it needs real members.
    pub fn is_real(self) -> bool {
        matches!(self, Self::Idle | Self::Writes | Self::Apply)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().expect("no part is hidden").get_name())
    }
}

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Simulated members.
    pub members: usize,
    /// Heartbeat periods of the steady state with simulated members.
    pub periods: u32,
    /// How long the idle agents are watched.
    pub window: Duration,
}

/// Members whose join is timed first, as others have published it for that many.
pub const FIRST: usize = 100;
/// Of every member.
pub const HEARTBEAT: Duration = Duration::from_secs(15);
/// Real members of the quiet fleet.
pub const REAL_MEMBERS: u32 = 3;
/// A group of parts that takes longer is stuck.
pub const PATIENCE: Duration = Duration::from_mins(12);

/// The fleet that these parts need.
pub fn clusters(real: bool) -> Vec<ClusterSpec> {
    let mut clusters = ClusterSpec::fleet(if real { REAL_MEMBERS } else { 0 });
    clusters[0].audit = true;
    // One file: a rotated log would lose requests.
    clusters[0].apiserver_args.push("--audit-log-maxsize=4000".into());
    clusters
}

/// Measures parts that need the same kind of fleet, inside of it.
pub async fn measure(fleet: &Fleet, parts: &[Part], settings: Settings) -> Result<Vec<Row>> {
    let has = |part| parts.contains(&part);
    let real = parts.first().context("nothing to measure")?.is_real();
    let hub = hub::Hub::start(fleet).await?;
    let mut rows = Vec::new();
    if real {
        let joined = writes::join_all(&hub).await?;
        if has(Part::Idle) || has(Part::Writes) {
            let quiet = quiet::watch(&hub, settings.window).await?;
            if has(Part::Idle) {
                rows.extend(quiet.usage_rows());
            }
            if has(Part::Writes) {
                rows.extend(quiet.write_rows());
                rows.extend(writes::content_change(&hub).await?);
                rows.extend(joined);
            }
        }
        if has(Part::Apply) {
            rows.extend(applier::measure(&hub).await?);
        }
        if has(Part::Writes) {
            rows.extend(writes::leave(&hub).await?);
        }
    } else {
        let members = simulated::Members::new(&hub).await?;
        rows.extend(scale::join(&hub, &members, settings, has(Part::Scale)).await?);
        if has(Part::Scale) {
            rows.extend(scale::steady(&hub, &members, settings).await?);
        }
        if has(Part::Restart) {
            rows.extend(restart::measure(&hub, &members).await?);
        }
    }
    Ok(rows)
}

/// Says what goes on.
pub(crate) fn progress(line: &str) {
    eprintln!("  {line}");
}

#[expect(clippy::disallowed_methods, reason = "a benchmark is about real time")]
pub(crate) fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
