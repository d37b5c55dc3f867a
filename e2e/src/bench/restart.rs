//! A restart of the hub agent when there is nothing to do: what it writes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::audit::{self, Request, tally};
use super::figures::{Aim, Row, count, ratio};
use super::hub::{Hub, Messages};
use super::simulated::Members;
use super::{HEARTBEAT, Part, progress};
use crate::agents::HUB_AGENT;

const WINDOW: Duration = Duration::from_secs(30);

/// Restarts the hub agent and counts.
pub async fn measure(hub: &Hub, members: &Members) -> Result<Vec<Row>> {
    let all = members.board().connected();
    progress(&format!("the hub agent restarts with {all} members"));
    // What a join left behind is done by then.
    tokio::time::sleep(HEARTBEAT).await;
    let mark = hub.log.mark()?;
    hub.fleet.restart(HUB_AGENT).await?;
    let begun = Instant::now();
    let mut back = None;
    while begun.elapsed() < WINDOW {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if back.is_none() && members.board().connected() >= all {
            back = Some(begun.elapsed());
        }
    }
    let beats = hub.messages().await?.since(&Messages::default(), "heartbeat");
    let requests = hub.requests(mark)?;
    let connected = members.board().connected();
    ensure!(
        connected > 0,
        "no member has come back; last trouble: {}",
        members.board().trouble()
    );

    let is_write = |r: &&Request| r.is_write();
    let of = |resource: &str| {
        requests
            .iter()
            .filter(is_write)
            .filter(|r| r.resource() == resource)
            .count()
    };
    let expected = ["memberclusters/status", "internalmemberclusters"];
    let others: Vec<_> = requests
        .iter()
        .filter(is_write)
        .filter(|r| !expected.contains(&r.resource().as_str()))
        .collect();
    let row = |what: String, value, unit| Row::new(Part::Restart, what, value, unit);
    Ok(vec![
        row(
            "writes but lease, heartbeats and session annotations".to_owned(),
            count(others.len()),
            "",
        )
        .aim(Aim::AtMost(0.0))
        .note(audit::line(&tally(others))),
        row(
            "session annotations per member".to_owned(),
            ratio(of("internalmemberclusters"), all),
            "",
        )
        .aim(Aim::AtMost(1.0)),
        row(
            "MemberCluster status writes per heartbeat".to_owned(),
            ratio(of("memberclusters/status"), beats),
            "",
        )
        .aim(Aim::AtMost(1.0))
        .note(format!("{beats} beats in {} s", WINDOW.as_secs())),
        row(
            format!("{all} members were back after"),
            back.map_or(WINDOW.as_secs_f64(), |took| took.as_secs_f64()),
            "s",
        )
        .note(format!("from readiness; {connected} were back at the end")),
    ])
}
