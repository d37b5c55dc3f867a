//! One row for each situation: the objects, and what is said about them. Each is looked at in both scopes.

mod applying;
mod evictions;
mod members;
mod objects;
mod overview;
mod picking;
mod rolling;
mod runs;
mod world;

use serde_json::Value;

use super::*;
use world::World;

/// Commands of `kubectl fleet` that exist or are on their way.
const FLEET_COMMANDS: [&str; 14] = [
    "approve", "check", "cordon", "diff", "drain", "events", "join", "leave", "plan", "rollout", "status", "top",
    "uncordon", "why",
];

/// What kubectl itself has.
const KUBECTL_COMMANDS: [&str; 11] = [
    "annotate",
    "api-resources",
    "auth",
    "create",
    "delete",
    "describe",
    "edit",
    "get",
    "label",
    "logs",
    "patch",
];

/// That `next` can be typed: `kubectl`, a command that exists, and no hole in it.
#[track_caller]
pub(super) fn assert_command(next: &str) {
    let mut words = next.split_whitespace();
    assert_eq!(words.next(), Some("kubectl"), "{next:?}");
    let (verb, known) = match words.next() {
        Some("fleet") => (words.next(), &FLEET_COMMANDS[..]),
        Some("--context" | "-n") => (words.nth(1), &KUBECTL_COMMANDS[..]),
        verb => (verb, &KUBECTL_COMMANDS[..]),
    };
    assert!(verb.is_some_and(|verb| known.contains(&verb)), "{next:?}");
    assert!(
        !next.contains("  ") && !next.contains("/ ") && !next.ends_with('/'),
        "a name is missing: {next:?}"
    );
}

/// What is asked about.
#[derive(Debug, Clone, Copy)]
enum Subject {
    Placement,
    On(&'static str),
    Run,
    Member(&'static str),
    Eviction,
}

/// A situation, and the first step that is not done with its cause and the next command.
struct Row {
    what: &'static str,
    world: Value,
    subject: Subject,
    step: &'static str,
    cause: &'static str,
    next: &'static str,
}

fn row(
    what: &'static str,
    world: Value,
    subject: Subject,
    step: &'static str,
    cause: &'static str,
    next: &'static str,
) -> Row {
    Row {
        what,
        world,
        subject,
        step,
        cause,
        next,
    }
}

fn ask(fleet: &Fleet<'_>, subject: Subject) -> Chain {
    match subject {
        Subject::Placement => placement(fleet, "web"),
        Subject::On(cluster) => placement_on(fleet, "web", cluster),
        Subject::Run => run(fleet, "release"),
        Subject::Member(name) => member(fleet, name),
        Subject::Eviction => eviction(fleet, "evict"),
    }
}

/// All rows are judged before any is complained about.
#[track_caller]
fn assert_rows(rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for row in rows {
        let world = World::new("", &row.world);
        let chain = ask(&world.fleet(), row.subject);
        let unmet = chain.first_unmet();
        let step = unmet.map_or("", |step| step.name.as_str());
        let cause = unmet.and_then(|step| step.cause.as_ref());
        let text = cause.map_or("", |cause| cause.text.as_str());
        let next = cause.map_or("", |cause| cause.next.as_str());
        if (step, text, next) != (row.step, row.cause, row.next) {
            wrong.push(format!("{}:\n  {step:?}\n  {text:?}\n  {next:?}", row.what));
        }
        if unmet.is_some() {
            assert_command(next);
        }
        in_a_namespace(&row, step);
    }
    assert!(wrong.is_empty(), "not as expected:\n{}", wrong.join("\n"));
}

/// The namespaced family is explained alike, in its own words.
#[track_caller]
fn in_a_namespace(row: &Row, step: &str) {
    if matches!(row.subject, Subject::Eviction) {
        return; // There are none in namespaces.
    }
    let world = World::new("shop", &row.world);
    let chain = ask(&world.fleet(), row.subject);
    let unmet = chain.first_unmet();
    assert_eq!(unmet.map_or("", |step| step.name.as_str()), step, "{}", row.what);
    let Some(cause) = unmet.and_then(|step| step.cause.as_ref()) else {
        return;
    };
    assert_command(&cause.next);
    for word in ["crp/", "csur/", "clusterapprovalrequest ", "clusterresourcebindings"] {
        let (found, said) = (cause.next.contains(word), cause.text.contains(word));
        assert!(!found && !said, "{}: {cause:?}", row.what);
    }
}

#[test]
#[should_panic(expected = "not as expected:\nsomething else")]
fn a_row_that_is_not_so_is_noticed() {
    let world = serde_json::json!({});
    assert_rows(vec![row(
        "something else",
        world,
        Subject::Placement,
        "Found",
        "there is a placement",
        "kubectl get crp; kubectl get rp -A",
    )]);
}
