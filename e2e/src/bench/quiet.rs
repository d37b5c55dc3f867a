//! A fleet where nothing happens: what the agents take, and what their heartbeats write.

use std::time::Duration;

use anyhow::Result;

use super::audit::{self, Request, tally};
use super::figures::{Aim, Row, count, mib, ratio};
use super::hub::Hub;
use super::usage::{Usage, Watched};
use super::{HEARTBEAT, Part, progress};
use crate::agents::{HUB_AGENT, member_agent};

/// What was seen.
#[derive(Debug)]
pub struct Quiet {
    usages: Vec<(String, Usage)>,
    requests: Vec<Request>,
    beats: usize,
}

/// Lets the fleet come to rest, then watches it.
pub async fn watch(hub: &Hub, window: Duration) -> Result<Quiet> {
    progress(&format!("nothing happens for {} s", (HEARTBEAT + window).as_secs()));
    tokio::time::sleep(HEARTBEAT).await;
    let mut watched = vec![Watched::begin(&hub.fleet, HUB_AGENT).await?];
    for member in hub.fleet.members() {
        watched.push(Watched::begin(&hub.fleet, &member_agent(&member.name)).await?);
    }
    let (mark, before) = (hub.log.mark()?, hub.messages().await?);
    tokio::time::sleep(window).await;
    let (after, requests) = (hub.messages().await?, hub.requests(mark)?);
    let usages = watched
        .into_iter()
        .map(|process| Ok((process.name.clone(), process.end()?)));
    Ok(Quiet {
        usages: usages.collect::<Result<_>>()?,
        requests,
        beats: after.since(&before, "heartbeat"),
    })
}

impl Quiet {
    /// Memory and CPU.
    pub fn usage_rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (name, usage) in &self.usages {
            let (aim, kubefleet) = if name == HUB_AGENT { (20.0, 77.0) } else { (15.0, 58.0) };
            let memory = usage.memory;
            let remark = format!(
                "anonymous {:.1}, peak {:.1}, {} threads",
                mib(memory.anonymous),
                mib(memory.peak),
                memory.threads
            );
            let resident = Row::new(
                Part::Idle,
                format!("{name}: resident memory"),
                mib(memory.resident),
                "MiB",
            );
            rows.push(resident.aim(Aim::Below(aim)).kubefleet(kubefleet).note(remark));
            rows.push(Row::new(
                Part::Idle,
                format!("{name}: CPU, of one core"),
                usage.cpu_percent,
                "%",
            ));
        }
        rows
    }

    /// Requests per heartbeat.
    pub fn write_rows(&self) -> Vec<Row> {
        let number = |resource: &str| self.requests.iter().filter(|r| r.resource() == resource).count();
        let (member, internal) = (number("memberclusters/status"), number("internalmemberclusters/status"));
        let is_other = |r: &&Request| {
            let known = [
                "memberclusters/status",
                "internalmemberclusters/status",
                "leases",
                "tokenreviews",
            ];
            !known.contains(&r.resource().as_str())
        };
        let others: Vec<_> = self.requests.iter().filter(is_other).collect();
        let row = |what: &str, n| Row::new(Part::Writes, what, ratio(n, self.beats), "");
        vec![
            row("heartbeat, only the time: MemberCluster writes per beat", member)
                .aim(Aim::AtMost(1.0))
                .kubefleet(2.0)
                .note(format!("{member} writes, {} beats", self.beats)),
            row("heartbeat, only the time: refreshes of the internal one", internal)
                .aim(Aim::AtMost(0.25))
                .note("every fifth beat"),
            Row::new(
                Part::Writes,
                "quiet fleet: other requests but leases",
                count(others.len()),
                "",
            )
            .aim(Aim::AtMost(0.0))
            .note(audit::line(&tally(others))),
        ]
    }
}
