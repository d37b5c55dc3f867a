//! What one hostile party costs the hub agent, and whether its neighbours notice: each case on a hub agent of its own life,
//! beside honest members whose heartbeats are timed.

mod channel;
mod tenant;

use std::time::Duration;

use anyhow::Result;

use super::figures::{Aim, Row, mib, percentile};
use super::hub::Hub;
use super::simulated::Members;
use super::usage::Watched;
use super::{HEARTBEAT, Part, progress};
use crate::agents::HUB_AGENT;

/// Honest members beside the hostile one.
const NEIGHBOURS: usize = 60;
/// How long each case lasts: several beats of every neighbour, and the minute that stored bytes are counted in.
const WINDOW: Duration = Duration::from_mins(1);
/// What the chart gives the hub agent.
const LIMIT_MIB: f64 = 256.0;

/// All cases.
pub async fn measure(hub: &Hub) -> Result<Vec<Row>> {
    let members = Members::new(hub).await?;
    members.join(NEIGHBOURS).await?;
    let case = Case::begin(hub, &members).await?;
    tokio::time::sleep(WINDOW).await;
    let (quiet, mut rows) = case.end("nobody", None)?;
    rows.extend(channel::strangers(hub, &members, quiet).await?);
    rows.extend(channel::flood(hub, &members, quiet).await?);
    rows.extend(tenant::fat_objects(hub, &members, quiet).await?);
    Ok(rows)
}

/// A case under way.
struct Case<'a> {
    members: &'a Members,
    agent: Watched,
}

impl<'a> Case<'a> {
    /// A new life of the hub agent, and all neighbours back.
    async fn begin(hub: &Hub, members: &'a Members) -> Result<Self> {
        progress("the hub agent begins anew");
        hub.fleet.crash(HUB_AGENT).await?;
        while members.board().connected() < NEIGHBOURS {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // One beat of everybody that is of no interest.
        tokio::time::sleep(HEARTBEAT.mul_f64(1.2)).await;
        members.board().clear();
        let agent = Watched::begin(&hub.fleet, HUB_AGENT).await?;
        Ok(Self { members, agent })
    }

    /// The neighbours' p99 in milliseconds, and the rows. `quiet`: the same while nobody was hostile.
    fn end(self, who: &str, quiet: Option<f64>) -> Result<(f64, Vec<Row>)> {
        let usage = self.agent.end()?;
        let (delays, ended) = self.members.board().take();
        let p99 = percentile(&delays, 99) * 1000.0;
        let peak = Row::new(
            Part::Hostile,
            format!("{who}: hub agent, peak memory"),
            mib(usage.memory.peak),
            "MiB",
        );
        let beats = Row::new(
            Part::Hostile,
            format!("{who}: neighbours' beat until visible, p99"),
            p99,
            "ms",
        );
        let beats = beats.note(format!("{} beats, {ended} sessions ended", delays.len()));
        let beats = match quiet {
            Some(quiet) => beats.aim(Aim::AtMost(2.0 * quiet)),
            None => beats,
        };
        let cpu = format!("CPU {:.0} % of one core", usage.cpu_percent);
        Ok((p99, vec![peak.aim(Aim::Below(LIMIT_MIB)).note(cpu), beats]))
    }
}
