//! Hostile peers of the channel: a thousand strangers, and one member that floods and reconnects.

use std::time::Instant;

use anyhow::Result;
use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use super::super::figures::{Aim, Row};
use super::super::hub::Hub;
use super::super::simulated::{ACCOUNT, Members, address};
use super::super::{HEARTBEAT, Part, progress};
use super::{Case, WINDOW};
use crate::agents::NAMESPACE;
use crate::hostile::{self, Stored};
use crate::scripted_member::Address;
use crate::wait;

const NAME: &str = "hostile";
/// Works of the hostile member, of either kind.
const WORKS: usize = 4;

/// A MemberCluster of its own, without an agent.
async fn member(hub: &Hub) -> Result<Address> {
    let members = Api::<MemberCluster>::all(hub.client.clone());
    if members.get_opt(NAME).await?.is_none() {
        let identity = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE});
        let spec = json!({"identity": identity, "heartbeatPeriodSeconds": HEARTBEAT.as_secs()});
        let object = serde_json::from_value(json!({"metadata": {"name": NAME}, "spec": spec}))?;
        members.create(&PostParams::default(), &object).await?;
    }
    let internals = Api::<InternalMemberCluster>::namespaced(hub.client.clone(), &namespace());
    let imc = wait::until_present(internals, NAME, "announces the channel", |imc| address(imc).is_some()).await?;
    address(&imc).ok_or_else(|| anyhow::anyhow!("no address"))
}

fn namespace() -> String {
    format!("{}{NAME}", fleet_api::names::MEMBER_NAMESPACE_PREFIX)
}

/// A thousand connections that never say who they are, and are opened again when the hub closes them.
pub(super) async fn strangers(hub: &Hub, members: &Members, quiet: f64) -> Result<Vec<Row>> {
    let address = member(hub).await?;
    let case = Case::begin(hub, members).await?;
    progress("a thousand strangers");
    let until = Instant::now() + WINDOW;
    let stored = Stored::count(&hub.client, &namespace()).await?;
    let mut opened = 0;
    while Instant::now() < until {
        opened += hostile::strangers(&address, 1_000).await?.len();
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    }
    let (_, mut rows) = case.end("1000 strangers", Some(quiet))?;
    if let Some(first) = rows.first_mut() {
        let bytes = stored.bytes();
        first.note = format!("{}; {opened} connections were opened, {bytes} bytes stored", first.note);
    }
    Ok(rows)
}

/// One member sends the largest reports as fast as it can, reads nothing and reconnects.
pub(super) async fn flood(hub: &Hub, members: &Members, quiet: f64) -> Result<Vec<Row>> {
    let address = member(hub).await?;
    let (mut fat, mut thin) = (Vec::new(), Vec::new());
    for i in 0..WORKS {
        fat.push(hostile::work(&hub.client, &namespace(), &format!("fat-{i}"), hostile::FAT).await?);
        thin.push(hostile::work(&hub.client, &namespace(), &format!("thin-{i}"), 0).await?);
    }
    let case = Case::begin(hub, members).await?;
    progress("one member floods");
    let stored = Stored::count(&hub.client, &namespace()).await?;
    let sent = hostile::flood(&address, members.token(), NAME, (&fat, &thin), Instant::now() + WINDOW).await;
    let bytes = f64::from(u32::try_from(stored.bytes() / 1024).unwrap_or(u32::MAX)) / 1024.0;
    let (_, mut rows) = case.end("a flooding member", Some(quiet))?;
    let row = Row::new(
        Part::Hostile,
        "a flooding member: stored in its first minute",
        bytes,
        "MiB",
    );
    let note = format!(
        "{} reports in {} sessions, {} attempts",
        sent.reports, sent.sessions, sent.attempts
    );
    rows.push(row.aim(Aim::AtMost(80.0)).note(note));
    Ok(rows)
}
