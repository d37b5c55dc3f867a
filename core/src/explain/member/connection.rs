//! Whether the member agent is heard of, and if not, what may be in the way.

use fleet_api::cluster::{AgentType, MemberCluster};
use fleet_api::conditions::decision::Ineligible;

use super::super::chain::{Cause, Step};
use super::super::fleet::Fleet;
use super::super::names::Names;
use crate::membership::eligibility::eligibility;

const NAME: &str = "Connected";

/// What an agent's readyz says, what that means, and what to do.
const READYZ: &[(&[&str], &str, &str)] = &[
    (
        &["session failed", "certificate"],
        "the member agent does not trust the hub's channel: its channel CA is not the one that the hub uses, or the \
         certificate has another name",
        "kubectl get imc {cluster} -n fleet-member-{cluster} -o jsonpath='{.metadata.annotations}'",
    ),
    (
        &["hub-watch failed", "certificate"],
        "the member agent does not trust the hub's API server: config.hubCA is not its CA",
        "kubectl fleet join {cluster} --dry-run",
    ),
    (
        &["does not accept our credential"],
        "the hub does not accept the member's token: it is wrong or has expired",
        "kubectl fleet join {cluster}",
    ),
    (
        &["no MemberCluster"],
        "the hub refuses the member's identity: it is not the one in spec.identity",
        "kubectl get membercluster {cluster} -o jsonpath='{.spec.identity}'",
    ),
    (
        &["names no channel endpoint"],
        "the hub announces no channel address: channel.advertiseAddress is not set",
        "kubectl fleet check",
    ),
    (
        &["hub-watch failed"],
        "the member agent cannot read the hub: {message}",
        "kubectl fleet check --member-context {cluster}",
    ),
    (
        &["session failed"],
        "the member agent has no session with the hub: {message}",
        "kubectl fleet check --member-context {cluster}",
    ),
];

pub(super) fn step(fleet: &Fleet<'_>, member: &MemberCluster, names: &Names<'_>) -> Step {
    let agent = member
        .status
        .as_ref()
        .and_then(|status| status.agent(&AgentType::MemberAgent));
    let heard = agent.and_then(|agent| agent.last_received_heartbeat.as_ref());
    let why = match (eligibility(member, fleet.now), heard) {
        (Err(Ineligible::HeartbeatLost(_)), Some(last)) => {
            format!("no heartbeat for {}", fleet.ago(last.0))
        }
        (Err(Ineligible::NotOnline | Ineligible::HeartbeatLost(_)), _) => "the member agent has never connected".into(),
        (_, last) => {
            let says = last.map(|last| format!("last heartbeat {} ago", fleet.ago(last.0)));
            return Step::done(NAME, says.unwrap_or_default());
        }
    };
    let (text, next) = known(fleet, names).unwrap_or_else(|| guess(heard.is_some(), names));
    Step::failed(NAME, Cause::new(format!("{why}: {text}"), next)).since(heard)
}

/// What Events and the agent itself say.
fn known(fleet: &Fleet<'_>, names: &Names<'_>) -> Option<(String, String)> {
    for reason in ["MemberClusterIdentityMismatch", "MemberClusterAlreadyConnected"] {
        if let Some(event) = fleet.event("MemberCluster", names.cluster, reason) {
            let text = event.message.clone().unwrap_or_default();
            return Some((text, names.fill("kubectl edit membercluster {cluster}")));
        }
    }
    of_readyz(fleet.readyz.get(names.cluster)?, names)
}

/// What the readyz of an agent says that is not ready, and what to do; none if it is.
fn of_readyz(readyz: &str, names: &Names<'_>) -> Option<(String, String)> {
    let fits = |line: &&str, words: &[&str]| words.iter().all(|word| line.contains(word));
    let found = READYZ.iter().find_map(|(words, text, next)| {
        let line = readyz.lines().find(|line| fits(line, words))?;
        Some((line, text, next))
    });
    let (line, text, next) = found?;
    let names = Names {
        message: line.split_once(" failed: ").map_or(line, |(_, why)| why),
        ..names.clone()
    };
    Some((names.fill(text), names.fill(next)))
}

/// Why the agent of a member is not ready, from its readyz; none if it is.
pub fn unready(cluster: &str, readyz: &str) -> Option<Cause> {
    let names = Names {
        cluster,
        ..Names::default()
    };
    of_readyz(readyz, &names).map(|(text, next)| Cause::new(text, next))
}

/// What it may be when nobody has looked at the member.
fn guess(was_connected: bool, names: &Names<'_>) -> (String, String) {
    let text = if was_connected {
        "the agent or the cluster is down, the network is cut, or its token has expired"
    } else {
        "the agent is not installed, cannot reach the channel, or has the wrong channel CA or token"
    };
    (
        text.into(),
        names.fill("kubectl fleet check --member-context {cluster}"),
    )
}
