//! `make bench`: figures beside what they should be.
//!
//! ```text
//! fleet-bench ── fleets of its own ── fleet-bench again, inside each ── rows ──► table, target/bench/figures.json
//!                hub + 3 members: idle, writes, place, apply (real agents)
//!                hub alone:       scale, restart, explain    (one hub agent, a thousand simulated members over the real channel)
//!                hub alone:       fanout                     (the same with a hundred)
//!                hub alone:       hostile                    (strangers, a flooding member; sixty neighbours)
//!                hub alone:       safety                     (six simulated members: evictions, draining, admission)
//!                hub without agents: dashboard (a thousand members with a hundred placements, that are only there)
//!                hub + 3 members: run                        (update runs; then three hundred simulated members, then all)
//! ```
//!
//! Requests are counted from the hub's audit log, by user; CPU and memory come from /proc. Counts and ratios say more than
//! times, which depend on the machine and on what else runs there.

pub mod application;
pub mod applier;
pub mod audit;
pub mod dashboard;
pub mod explain;
pub mod fanout;
pub mod figures;
pub mod hostile;
pub mod hub;
pub mod place;
pub mod quiet;
pub mod restart;
pub mod runs;
pub mod safety;
pub mod scale;
pub mod simulated;
pub mod times;
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
    /// How soon placements reach real members, and what they ask of the hub.
    Place,
    /// How soon Works are applied, available and gone, and what they take.
    Apply,
    /// Many simulated members against one hub agent.
    Scale,
    /// What a restart of the hub agent writes.
    Restart,
    /// How long `kubectl fleet status` and `why` take, and how often they ask.
    Explain,
    /// Placements on a hundred simulated members.
    Fanout,
    /// What hostile parties cost, and whether others notice.
    Hostile,
    /// Evictions, draining, and what admission costs.
    Safety,
    /// Staged update runs.
    Run,
    /// The dashboard with many members and placements.
    Dashboard,
}

/// The fleet that parts need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// Real members.
    Real,
    /// As many simulated members as are asked for.
    Crowd,
    /// A hundred simulated members, that the figures are theirs and not of what was measured before.
    Hundred,
    /// A few simulated members, and whoever is hostile.
    Hostile,
    /// A few simulated members, and a hub agent that begins to serve webhooks.
    Safety,
    /// Real members, and simulated ones after them.
    Both,
    /// No agent at all.
    Alone,
}

impl Site {
    /// All, in the order in which they are built.
    pub const ALL: [Self; 7] = [
        Self::Real,
        Self::Crowd,
        Self::Hundred,
        Self::Hostile,
        Self::Safety,
        Self::Both,
        Self::Alone,
    ];
}

impl Part {
    /// All, in the order in which they run.
    pub const ALL: [Self; 12] = [
        Self::Idle,
        Self::Writes,
        Self::Place,
        Self::Apply,
        Self::Scale,
        Self::Restart,
        Self::Explain,
        Self::Fanout,
        Self::Hostile,
        Self::Safety,
        Self::Run,
        Self::Dashboard,
    ];

    /// Where it is measured.
    pub fn site(self) -> Site {
        match self {
            Self::Idle | Self::Writes | Self::Place | Self::Apply => Site::Real,
            Self::Scale | Self::Restart | Self::Explain => Site::Crowd,
            Self::Fanout => Site::Hundred,
            Self::Hostile => Site::Hostile,
            Self::Safety => Site::Safety,
            Self::Run => Site::Both,
            Self::Dashboard => Site::Alone,
        }
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
pub fn clusters(site: Site) -> Vec<ClusterSpec> {
    let has_members = matches!(site, Site::Real | Site::Both);
    let mut clusters = ClusterSpec::fleet(if has_members { REAL_MEMBERS } else { 0 });
    clusters[0].audit = true;
    // One file: a rotated log would lose requests.
    clusters[0].apiserver_args.push("--audit-log-maxsize=4000".into());
    clusters
}

/// Measures parts that need the same kind of fleet, inside of it.
pub async fn measure(fleet: &Fleet, parts: &[Part], settings: Settings) -> Result<Vec<Row>> {
    let has = |part| parts.contains(&part);
    let site = parts.first().context("nothing to measure")?.site();
    if site == Site::Alone {
        return Box::pin(dashboard::measure(fleet, settings)).await;
    }
    let hub = hub::Hub::start(fleet).await?;
    let mut rows = Vec::new();
    match site {
        Site::Real => {
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
            if has(Part::Place) {
                rows.extend(place::measure(&hub).await?);
            }
            if has(Part::Apply) {
                rows.extend(applier::measure(&hub).await?);
            }
            if has(Part::Writes) {
                rows.extend(writes::leave(&hub).await?);
            }
        }
        Site::Crowd => {
            let members = simulated::Members::new(&hub).await?;
            rows.extend(scale::join(&hub, &members, settings, has(Part::Scale)).await?);
            if has(Part::Scale) {
                rows.extend(scale::steady(&hub, &members, settings).await?);
            }
            if has(Part::Restart) {
                rows.extend(restart::measure(&hub, &members).await?);
            }
            // The last: it stops the hub agent.
            if has(Part::Explain) {
                rows.extend(Box::pin(explain::measure(&hub, settings)).await?);
            }
        }
        Site::Hundred => {
            let members = simulated::Members::new(&hub).await?;
            members.join(FIRST).await?;
            rows.extend(fanout::measure(&hub, &members).await?);
        }
        Site::Hostile => rows.extend(Box::pin(hostile::measure(&hub)).await?),
        Site::Safety => rows.extend(Box::pin(safety::measure(&hub)).await?),
        Site::Both => rows.extend(Box::pin(runs::measure(&hub, settings)).await?),
        Site::Alone => {}
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
