//! Many members on one hub agent: how fast they join, and what their heartbeats cost.

use anyhow::{Result, ensure};

use super::figures::{Aim, Row, count, mib, percentile, ratio};
use super::hub::Hub;
use super::simulated::Members;
use super::usage::{Usage, Watched};
use super::{FIRST, HEARTBEAT, Part, Settings, progress};
use crate::agents::HUB_AGENT;

/// Lets the members join, the first hundred apart. Without `report` only a hundred.
pub async fn join(hub: &Hub, members: &Members, settings: Settings, report: bool) -> Result<Vec<Row>> {
    let (first, all) = (settings.members.min(FIRST), settings.members);
    let agent = Watched::begin(&hub.fleet, HUB_AGENT).await?;
    let mark = hub.log.mark()?;
    let mut took = members.join(first).await?;
    let writes = hub.requests(mark)?.iter().filter(|r| r.is_write()).count();
    if !report {
        return Ok(vec![]);
    }
    let row = Row::new(
        Part::Scale,
        format!("{first} members joined after"),
        took.as_secs_f64(),
        "s",
    );
    let row = row.note(format!("{:.1} hub agent writes per member", ratio(writes, first)));
    let mut rows = vec![if first == FIRST {
        row.aim(Aim::Below(16.0)).kubefleet(16.0)
    } else {
        row
    }];
    if all > first {
        took += members.join(all).await?;
        let peak = mib(agent.end()?.memory.peak);
        let row = Row::new(
            Part::Scale,
            format!("{all} members joined after"),
            took.as_secs_f64(),
            "s",
        );
        rows.push(row.note(format!("the hub agent's peak {peak:.1} MiB")));
    }
    Ok(rows)
}

/// Heartbeats and nothing else.
pub async fn steady(hub: &Hub, members: &Members, settings: Settings) -> Result<Vec<Row>> {
    let window = HEARTBEAT * settings.periods;
    progress(&format!(
        "{} members beat for {} s",
        settings.members,
        (HEARTBEAT + window).as_secs()
    ));
    tokio::time::sleep(HEARTBEAT).await;
    let connected = members.board().connected();
    ensure!(
        connected * 100 >= settings.members * 99,
        "{connected} of {} members are connected; last trouble: {}",
        settings.members,
        members.board().trouble()
    );
    let watched = [HUB_AGENT, "hub/kube-apiserver", "hub/etcd"];
    let agent = Watched::begin(&hub.fleet, watched[0]).await?;
    let server = Watched::begin(&hub.fleet, watched[1]).await?;
    let (etcd, own) = (Watched::begin(&hub.fleet, watched[2]).await?, Watched::begin_self()?);
    let (mark, before) = (hub.log.mark()?, hub.messages().await?);
    members.board().take();
    tokio::time::sleep(window).await;
    let (agent, server, etcd, own) = (agent.end()?, server.end()?, etcd.end()?, own.end()?);
    let (delays, ended) = members.board().take();
    let beats = hub.messages().await?.since(&before, "heartbeat");
    let requests = hub.requests(mark)?;
    let writes = requests.iter().filter(|r| r.is_write()).count();

    let per_beat = |usage: &Usage| usage.cpu_percent * 10.0 * window.as_secs_f64() / count(beats.max(1));
    let row = |what: &str, value, unit| {
        Row::new(
            Part::Scale,
            format!("{} members: {what}", settings.members),
            value,
            unit,
        )
    };
    let resident = row("hub agent, resident memory", mib(agent.memory.resident), "MiB").note(format!(
        "anonymous {:.1}, peak {:.1}, {:.0} KiB anonymous per member, {} threads",
        mib(agent.memory.anonymous),
        mib(agent.memory.peak),
        mib(agent.memory.anonymous) * 1024.0 / count(settings.members),
        agent.memory.threads
    ));
    Ok(vec![
        if settings.members <= 1000 {
            resident.aim(Aim::Below(150.0))
        } else {
            resident
        },
        row("hub agent, CPU of one core", agent.cpu_percent, "%").note(format!("{:.2} ms per beat", per_beat(&agent))),
        row("hub API server, CPU of one core", server.cpu_percent, "%").note(format!(
            "{:.1} ms per beat; etcd {:.0} %, the simulated members {:.0} %",
            per_beat(&server),
            etcd.cpu_percent,
            own.cpu_percent
        )),
        row("hub agent, writes per second", count(writes) / window.as_secs_f64(), "").note(format!("{beats} beats")),
        row("hub agent, writes per beat", ratio(writes, beats), "")
            .aim(Aim::AtMost(1.3))
            .kubefleet(2.0)
            .note("one, and a refresh with every fifth"),
        row("beat sent until visible, p50", percentile(&delays, 50) * 1000.0, "ms")
            .note(format!("{} beats seen by a watcher of MemberClusters", delays.len())),
        row("beat sent until visible, p99", percentile(&delays, 99) * 1000.0, "ms"),
        row(
            "beat sent until visible, longest",
            percentile(&delays, 100) * 1000.0,
            "ms",
        ),
        row("sessions that ended", count(ended), "").aim(Aim::AtMost(0.0)),
    ])
}
