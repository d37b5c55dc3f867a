//! What keeps a placement from being seen, selected and scheduled.

use fleet_api::conditions::Words as _;
use fleet_api::conditions::placement::Scheduled;
use fleet_api::conditions::selection::InvalidSelection as Invalid;
use serde_json::{Value, json};

use super::Subject::{On, Placement};
use super::world::{World, condition, member, policy, web, with};
use super::{assert_rows, row};

const EDIT: &str = "kubectl edit crp/web";

fn nobody() -> Value {
    web(&[])
}

fn required(labels: &Value) -> Value {
    json!({"placementType": "PickAll", "affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": labels}}]},
    }}})
}

fn pick(count: usize) -> Value {
    json!({"placementType": "PickN", "numberOfClusters": count})
}

fn tainted(key: &str, value: &str) -> Value {
    let taint = json!([{"key": key, "value": value, "effect": "NoSchedule"}]);
    let west = with(member("west", &json!({})), "/spec/taints", taint);
    let world = with(web(&["east"]), "/members/-", west);
    policy(world, &pick(2), &[("west", "taint")], false)
}

#[test]
fn placements_that_are_not_seen_or_not_there() {
    assert_rows(vec![
        row(
            "a placement that does not exist",
            json!({}),
            Placement,
            "Found",
            "there is no crp/web",
            "kubectl get crp; kubectl get rp -A",
        ),
        row(
            "no hub agent",
            with(web(&["east"]), "/unseen", json!(true)),
            Placement,
            "Seen",
            "the hub agent has not seen the placement: is it running, and does one replica lead?",
            "kubectl -n fleet-system get pods,lease",
        ),
        row(
            "an edit that the scheduler has not looked at",
            with(web(&["east"]), "/placements/0/metadata/generation", json!(2)),
            Placement,
            "Scheduled",
            "the scheduler has not decided about this generation yet",
            "kubectl -n fleet-system logs deploy/hub-agent",
        ),
        row("all done", web(&["east", "west"]), Placement, "", "", ""),
        row("all done on a cluster", web(&["east", "west"]), On("west"), "", "", ""),
    ]);
}

#[test]
fn every_bad_selector_has_its_line() {
    let text = String::new;
    for error in [
        Invalid::UnknownKind {
            placement: "/web".into(),
            kind: "Gizmo".into(),
            version: "v3".into(),
        },
        Invalid::Namespaced {
            placement: text(),
            resource: text(),
        },
        Invalid::ClusterScoped {
            placement: text(),
            resource: text(),
        },
        Invalid::ForbiddenNamespace {
            placement: text(),
            namespace: "kube-system".into(),
        },
        Invalid::NoNamespace { placement: text() },
        Invalid::Duplicate {
            group: text(),
            version: text(),
            kind: text(),
            name: text(),
            namespace: text(),
        },
    ] {
        said(&Scheduled::InvalidSelectors { error }.message());
    }
    said(&Scheduled::NoNamespaceSelector.message());
    said(
        &Scheduled::NamespaceChanged {
            namespace: "b".into(),
            original: "a".into(),
        }
        .message(),
    );
}

#[track_caller]
fn said(message: &str) {
    let invalid = condition("Scheduled", "False", "InvalidResourceSelectors", message);
    let world = World::new("", &with(web(&["east"]), "/says", json!([invalid])));
    let chain = super::placement(&world.fleet(), "web");
    let step = chain.first_unmet().unwrap();
    assert_eq!(step.name, "Selected");
    let cause = step.cause.as_ref().unwrap();
    assert!(
        !cause.text.starts_with("the resource selectors cannot"),
        "{}",
        cause.text
    );
    super::assert_command(&cause.next);
}

#[test]
#[allow(clippy::too_many_lines, reason = "one row for each situation")]
fn clusters_that_are_not_picked() {
    let two = |labels: Value| {
        let world = with(nobody(), "/members/-", member("east", &json!({"env": "prod"})));
        let world = with(world, "/members/-", member("west", &json!({})));
        policy(world, &required(&labels), &[], true)
    };
    let silent = with(
        member("west", &json!({})),
        "/status/agentStatus/0/lastReceivedHeartbeat",
        json!("2026-01-02T11:20:00Z"),
    );
    assert_rows(vec![
        row(
            "affinity that matches nobody: the nearest miss",
            two(json!({"env": "prod", "tier": "gold"})),
            Placement,
            "Scheduled",
            "no cluster fits. Nearest: east does not match the required affinity: it lacks label tier=gold",
            "kubectl label membercluster east tier=gold",
        ),
        row(
            "affinity, with another value on the cluster",
            two(json!({"env": "test"})),
            On("east"),
            "Scheduled",
            "east does not match the required affinity: it has label env=prod, not env=test",
            "kubectl label membercluster east --overwrite env=test",
        ),
        row(
            "a taint",
            tainted("team", "red"),
            Placement,
            "Scheduled",
            "1 cluster found, 1 more wanted. Nearest: west has the taint team=red:NoSchedule, which the placement does not \
             tolerate",
            EDIT,
        ),
        row(
            "a cordon",
            tainted("cordon-key", "cordon-value"),
            On("west"),
            "Scheduled",
            "west is cordoned: nothing new is placed there",
            "kubectl fleet uncordon west",
        ),
        row(
            "a taint of somebody else with the key of the cordon",
            tainted("cordon-key", "repair"),
            On("west"),
            "Scheduled",
            "west has the taint cordon-key=repair:NoSchedule, which the placement does not tolerate",
            EDIT,
        ),
        row(
            "a silent member",
            policy(
                with(web(&["east"]), "/members/-", silent),
                &pick(2),
                &[("west", "x")],
                false,
            ),
            Placement,
            "Scheduled",
            "1 cluster found, 1 more wanted. Nearest: west cannot be picked: it has been silent for 40m",
            "kubectl fleet why membercluster/west",
        ),
        row(
            "more clusters wanted than there are",
            policy(web(&["east"]), &pick(3), &[], false),
            Placement,
            "Scheduled",
            "1 cluster found, 2 more wanted, and the fleet has no other members",
            "kubectl fleet join <name>",
        ),
        row(
            "an empty fleet",
            nobody(),
            Placement,
            "Scheduled",
            "the fleet has no members",
            "kubectl fleet join <name>",
        ),
        row(
            "a named cluster that does not exist",
            policy(
                web(&["east"]),
                &json!({"placementType": "PickFixed", "clusterNames": ["east", "moon"]}),
                &[("moon", "Specified cluster \"moon\" is not found")],
                false,
            ),
            Placement,
            "Scheduled",
            "1 cluster found, 1 more wanted: the fleet has no member moon",
            "kubectl fleet join moon",
        ),
        row(
            "a cluster that is not named",
            policy(
                with(web(&["east"]), "/members/-", member("west", &json!({}))),
                &json!({"placementType": "PickFixed", "clusterNames": ["east"]}),
                &[],
                true,
            ),
            On("west"),
            "Scheduled",
            "the placement names its clusters, and west is not among them (east)",
            EDIT,
        ),
        row(
            "others fit better",
            policy(
                with(web(&["east"]), "/members/-", member("west", &json!({}))),
                &pick(1),
                &[(
                    "west",
                    "Cluster \"west\" does not score high enough (affinity score: 0, topology spread score: 0)",
                )],
                true,
            ),
            On("west"),
            "Scheduled",
            "west fits, but others fit better: ask for more clusters, or prefer it",
            EDIT,
        ),
        row(
            "an uneven spread",
            policy(
                with(web(&["east"]), "/members/-", member("west", &json!({}))),
                &pick(2),
                &[(
                    "west",
                    "violated doNotSchedule topology spread constraint \"region\" (max skew 1)",
                )],
                false,
            ),
            On("west"),
            "Scheduled",
            "one more cluster there would spread the placement too unevenly: violated doNotSchedule topology spread \
             constraint \"region\" (max skew 1)",
            EDIT,
        ),
        row(
            "no decision yet",
            with(web(&["east"]), "/members/-", member("west", &json!({}))),
            On("west"),
            "Scheduled",
            "the scheduler has not decided about west yet",
            "kubectl -n fleet-system logs deploy/hub-agent",
        ),
    ]);
}

#[test]
fn of_members_that_cannot_be_read_nothing_is_claimed() {
    let unread = with(tainted("key", "value"), "/members", json!([]));
    let unread = with(unread, "/membersUnread", json!(true));
    let ask = "kubectl auth can-i list memberclusters";
    assert_rows(vec![
        row(
            "a placement that lacks a cluster",
            unread.clone(),
            Placement,
            "Scheduled",
            "1 cluster found, 1 more wanted (members cannot be read, so nobody can say why)",
            ask,
        ),
        row(
            "a cluster that is not picked",
            unread.clone(),
            On("west"),
            "Scheduled",
            "taint",
            EDIT,
        ),
        row(
            "a member",
            unread,
            super::Subject::Member("west"),
            "Known",
            "members cannot be read",
            ask,
        ),
    ]);
}
