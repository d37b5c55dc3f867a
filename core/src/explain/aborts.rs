//! Why an update run has ended before its time: known words of its message, and what to do.

use super::chain::Cause;
use super::names::Names;
use super::rollout::create_run;

/// Words of the message, what they mean, and what to do first; nothing for what only another run can mend.
const LINES: &[(&str, &str, &str)] = &[
    (
        "parent placement not found",
        "the placement does not exist any more",
        "kubectl get crp; kubectl get rp -A",
    ),
    (
        "does not have an external rollout strategy",
        "the strategy of {placement} is not External",
        "kubectl edit {placement}{n}",
    ),
    (
        "no resourceSnapshots with index",
        "the placement has no resource snapshot of that index",
        "kubectl get {crs} -l kubernetes-fleet.io/parent-CRP={name}{n}",
    ),
    (
        "invalid resource snapshot index",
        "resourceSnapshotIndex is not a number",
        "",
    ),
    (
        "referenced updateStrategy not found",
        "the update strategy does not exist",
        "kubectl get csus; kubectl get sus -A",
    ),
    (
        "stage tasks are invalid",
        "a task of the update strategy is not allowed",
        "kubectl get csus; kubectl get sus -A",
    ),
    (
        "stage label selector is invalid",
        "a stage of the update strategy has a label selector that cannot be used",
        "kubectl get csus; kubectl get sus -A",
    ),
    (
        "the stage name",
        "two stages of the update strategy have one name",
        "kubectl get csus; kubectl get sus -A",
    ),
    (
        "appears in more than one stages",
        "a cluster fits two stages of the update strategy",
        "kubectl get memberclusters --show-labels",
    ),
    (
        "are not placed in any stage",
        "clusters fit no stage of the update strategy",
        "kubectl get memberclusters --show-labels",
    ),
    (
        "the sorting label",
        "the label by which a stage sorts is no number on a cluster",
        "kubectl get memberclusters --show-labels",
    ),
    (
        "not fully scheduled yet",
        "the placement has fewer clusters than it asks for",
        "kubectl fleet why {placement}{n}",
    ),
    (
        "no scheduled or to-be-deleted bindings",
        "the placement has no clusters",
        "kubectl fleet why {placement}{n}",
    ),
    (
        "is not up-to-date with the desired status",
        "another update run, or somebody, gave a cluster other content while this run was updating it",
        "kubectl get {csur}{n}",
    ),
    (
        "is outdated",
        "the placement was changed while the run was under way",
        "",
    ),
    ("no longer exists", "the resource snapshot of the run was deleted", ""),
    (
        "the annotation rollout.kubernetes-fleet.io/",
        "a setting of the run or of its strategy cannot be read",
        "kubectl get {csur}{n} -o yaml",
    ),
    (
        "the failure budget is exhausted",
        "more clusters have failed than may",
        "kubectl fleet why {placement}{n}",
    ),
    ("the gate ", "a gate has failed", "kubectl get {csur}{n} -o yaml"),
    (
        "a rollback was requested",
        "somebody asked it to take back what it did",
        "",
    ),
    (
        "the plan differs",
        "the plan is another than the one that was approved",
        "",
    ),
    (
        "the approval request task",
        "an approval request of the run's name was made for something else",
        "kubectl get careq; kubectl get areq -A",
    ),
];

/// The cause that the message of an ended run tells of. It never goes on: what follows the repair is another run.
pub(super) fn cause(message: &str, names: &Names<'_>) -> Cause {
    let bare = message
        .trim_start_matches("cannot continue the updateRun: ")
        .trim_start_matches("failed to validate the updateRun: ");
    let bare = fleet_api::conditions::error_class::ErrorClass::strip(bare);
    let known = LINES.iter().find(|(words, ..)| bare.contains(words));
    let (text, next) = known.map_or(("the run has failed", ""), |(_, text, next)| (*text, *next));
    let next = match next {
        "" => create_run(names),
        next => names.fill(next),
    };
    never_again(&format!("{} ({bare})", names.fill(text)), next)
}

/// A run that has ended for this reason never goes on.
pub(super) fn never_again(text: &str, next: String) -> Cause {
    let text = format!("{text}; the run cannot go on: create another");
    Cause::new(text, next).holding("all clusters that it has not updated")
}
