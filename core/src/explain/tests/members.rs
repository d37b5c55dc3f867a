//! What is wrong with members.

use serde_json::{Value, json};

use super::Subject::Member;
use super::world::{BEFORE, World, condition, web, with};
use super::{assert_rows, row};

const CHECK: &str = "kubectl fleet check --member-context east";
const EAST: super::Subject = Member("east");

fn east() -> Value {
    web(&["east"])
}

/// East has never said anything.
fn unheard() -> Value {
    with(east(), "/members/0/status/agentStatus", json!([]))
}

fn told(readyz: &str) -> Value {
    with(unheard(), "/readyz", json!({"east": readyz}))
}

fn event(reason: &str, message: &str) -> Value {
    json!([{
        "metadata": {"name": "e"}, "reason": reason, "message": message,
        "involvedObject": {"kind": "MemberCluster", "name": "east"},
    }])
}

fn agent(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    let index = usize::from(type_ != "Joined");
    let pointer = format!("/members/0/status/agentStatus/0/conditions/{index}");
    with(east(), &pointer, condition(type_, status, reason, message))
}

#[test]
fn members_that_do_not_join() {
    assert_rows(vec![
        row(
            "a member that does not exist",
            json!({}),
            EAST,
            "Known",
            "the fleet has no member east",
            "kubectl fleet join east",
        ),
        row("a member that is well", east(), EAST, "", "", ""),
        row(
            "no hub agent",
            with(east(), "/members/0/status", json!({})),
            EAST,
            "ReadyToJoin",
            "the hub agent has not seen the MemberCluster: is it running?",
            "kubectl -n fleet-system get pods,lease",
        ),
        row(
            "a member namespace that is terminating",
            with(east(), "/terminating", json!(["fleet-member-east"])),
            EAST,
            "ReadyToJoin",
            "the namespace fleet-member-east is being deleted on the hub; it is made again once it is gone",
            "kubectl get namespace fleet-member-east -o yaml",
        ),
        row(
            "a name that is too long",
            with(
                east(),
                "/members/0/status/conditions/0",
                condition("ReadyToJoin", "False", "MemberClusterNotReadyToJoin", "too long"),
            ),
            EAST,
            "ReadyToJoin",
            "the hub is not ready for the member: too long",
            "kubectl describe membercluster east",
        ),
        row(
            "an agent that has not joined",
            agent(
                "Joined",
                "Unknown",
                "InternalMemberClusterFailedToJoin",
                "no AppliedWork",
            ),
            EAST,
            "Joined",
            "the agent cannot join: no AppliedWork",
            CHECK,
        ),
    ]);
}

#[test]
#[allow(clippy::too_many_lines, reason = "one row for each situation")]
fn members_that_are_not_heard_of() {
    assert_rows(vec![
        row(
            "a member that never connected",
            unheard(),
            EAST,
            "Connected",
            "the member agent has never connected: the agent is not installed, cannot reach the channel, or has the wrong \
             channel CA or token",
            CHECK,
        ),
        row(
            "the wrong channel CA",
            told("[-]session failed: could not connect to hub:8443: invalid peer certificate: UnknownIssuer"),
            EAST,
            "Connected",
            "the member agent has never connected: the member agent does not trust the hub's channel: its channel CA is not \
             the one that the hub uses, or the certificate has another name",
            "kubectl get imc east -n fleet-member-east -o jsonpath='{.metadata.annotations}'",
        ),
        row(
            "the wrong CA of the API server",
            told("[-]hub-watch failed: the hub cannot be read (invalid peer certificate)"),
            EAST,
            "Connected",
            "the member agent has never connected: the member agent does not trust the hub's API server: config.hubCA is not \
             its CA",
            "kubectl fleet join east --dry-run",
        ),
        row(
            "an expired token",
            told("[-]hub-watch failed: the hub does not accept our credential (401)"),
            EAST,
            "Connected",
            "the member agent has never connected: the hub does not accept the member's token: it is wrong or has expired",
            "kubectl fleet join east",
        ),
        row(
            "an agent whose identity has no member",
            told("[-]hub-watch failed: the hub refuses us: no MemberCluster east with our identity yet? (forbidden)"),
            EAST,
            "Connected",
            "the member agent has never connected: the hub refuses the member's identity: it is not the one in spec.identity",
            "kubectl get membercluster east -o jsonpath='{.spec.identity}'",
        ),
        row(
            "a hub that names no channel",
            told(
                "[-]session failed: the InternalMemberCluster names no channel endpoint yet, and HUB_CHANNEL_URL is not set",
            ),
            EAST,
            "Connected",
            "the member agent has never connected: the hub announces no channel address: channel.advertiseAddress is not set",
            "kubectl fleet check",
        ),
        row(
            "a hub that cannot be read",
            told("[+]ping ok\n[-]hub-watch failed: the hub cannot be read (no route)\n[-]session failed: waiting\n"),
            EAST,
            "Connected",
            "the member agent has never connected: the member agent cannot read the hub: the hub cannot be read (no route)",
            CHECK,
        ),
        row(
            "a channel that cannot be reached",
            told(
                "[+]ping ok\n[+]hub-watch ok\n[-]session failed: could not connect to hub:8443: refused\nreadyz check failed\n",
            ),
            EAST,
            "Connected",
            "the member agent has never connected: the member agent has no session with the hub: could not connect to \
             hub:8443: refused",
            CHECK,
        ),
        row(
            "a wrong identity",
            with(
                unheard(),
                "/events",
                event(
                    "MemberClusterIdentityMismatch",
                    "refused a connection from eve: it is not the identity",
                ),
            ),
            EAST,
            "Connected",
            "the member agent has never connected: refused a connection from eve: it is not the identity",
            "kubectl edit membercluster east",
        ),
        row(
            "a silent member",
            with(
                east(),
                "/members/0/status/agentStatus/0/lastReceivedHeartbeat",
                json!("2026-01-02T11:40:00Z"),
            ),
            EAST,
            "Connected",
            "no heartbeat for 20m: the agent or the cluster is down, the network is cut, or its token has expired",
            CHECK,
        ),
        row(
            "an API server that has not been ready for long",
            agent("Healthy", "False", "InternalMemberClusterUnhealthy", "code 500"),
            EAST,
            "Healthy",
            "the member's API server has not been ready for 30m: nothing new is placed there",
            "kubectl --context east get --raw '/readyz?verbose'",
        ),
        row(
            "a hub that went back in time",
            with(
                east(),
                "/internals",
                json!([{
                    "metadata": {"name": "east", "namespace": "fleet-member-east",
                        "annotations": {"kubernetes-fleet.io/went-back-at": BEFORE}},
                    "spec": {"state": "Join"},
                }]),
            ),
            EAST,
            "NotHeld",
            "the hub went back in time, as after a restore from a backup: nothing is applied or removed until somebody has \
             looked",
            "kubectl annotate imc east -n fleet-member-east --overwrite kubernetes-fleet.io/recovered-at=$(date -u \
             +%Y-%m-%dT%H:%M:%SZ)",
        ),
    ]);
    let world = World::new("", &unheard());
    assert_eq!(
        super::member(&world.fleet(), "east").cause().unwrap().holds_back,
        "1 placement on it"
    );
}

fn work(name: &str, binding: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "fleet-member-east",
            "labels": {"kubernetes-fleet.io/parent-resource-binding": binding}},
        "spec": {},
    })
}

#[test]
fn members_that_leave() {
    let leaving = |world: Value| with(world, "/members/0/metadata/deletionTimestamp", json!(BEFORE));
    assert_rows(vec![
        row(
            "a member that cleans up",
            leaving(with(east(), "/works", json!([work("web-work", "web-east-1")]))),
            EAST,
            "Left",
            "the member is leaving, and has to clean up first: Works left: 1",
            "kubectl get works -n fleet-member-east",
        ),
        row(
            "a member that has cleaned up",
            leaving(east()),
            EAST,
            "Left",
            "the member is leaving: the hub removes its namespace",
            "kubectl get namespace fleet-member-east -o yaml",
        ),
        row(
            "a member that cannot leave",
            leaving(agent(
                "Joined",
                "Unknown",
                "InternalMemberClusterFailedToLeave",
                "no rights",
            )),
            EAST,
            "Left",
            "the member is leaving, but its agent cannot: no rights",
            CHECK,
        ),
    ]);
}

#[test]
fn what_stops_nothing_is_noted() {
    let mut world = with(
        east(),
        "/members/0/spec/taints",
        json!([{"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}]),
    );
    let versions = json!({
        "kubernetes-fleet.io/hub-agent-version": "1.3.0", "kubernetes-fleet.io/member-agent-version": "1.1.0",
    });
    world = with(
        world,
        "/internals",
        json!([{ "metadata": { "name": "east", "annotations": versions }, "spec": { "state": "Join" } }]),
    );
    world = with(
        world,
        "/works",
        json!([work("web-work", "web-east-1"), work("old-work", "gone")]),
    );
    let said = condition(
        "ClusterPropertyCollectionSucceeded",
        "False",
        "TimedOut",
        "The property provider does not respond in time",
    );
    world = with(world, "/members/0/status/conditions/-", said);
    let world = World::new("", &world);
    let chain = super::member(&world.fleet(), "east");
    assert_eq!(chain.first_unmet(), None);
    let notes: Vec<_> = chain.notes.iter().map(|note| note.text.as_str()).collect();
    assert_eq!(
        notes,
        [
            "cordoned: nothing new is placed here",
            "The property provider does not respond in time",
            "the member agent is version 1.1.0, the hub agent 1.3.0: what only one of them knows is not done",
            "1 Work belongs to no binding on it any more, first old-work",
        ]
    );
    for note in &chain.notes {
        super::assert_command(&note.next);
    }
}
