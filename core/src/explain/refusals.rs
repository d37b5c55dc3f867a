//! What an API server, an override or an envelope says when it refuses: known words in a message, what they mean, and what
//! to do. The first line that fits decides.

use super::chain::Cause;
use super::names::Names;

/// Words that all have to be in a message, the meaning and the next command; both are templates.
type Line = (&'static [&'static str], &'static str, &'static str);

const EDIT: &str = "kubectl edit {placement}{n}";
const LOOK: &str = "kubectl --context {cluster} get {object} -o yaml --show-managed-fields";
const DIFF: &str = "kubectl fleet diff {placement} {cluster}{n}";
const CHECK: &str = "kubectl fleet check --member-context {cluster}";

/// Why the hub's API server, an envelope or the selection keeps Works from being written.
const ON_HUB: &[Line] = &[
    (
        &["because it is being terminated"],
        "the namespace fleet-member-{cluster} is being deleted on the hub: the member is leaving, or somebody deleted it",
        "kubectl fleet why membercluster/{cluster}",
    ),
    (
        &["exceeded quota"],
        "a quota on the hub refuses the Work: {message}",
        "kubectl describe quota -n fleet-member-{cluster}",
    ),
    (
        &["it belongs to"],
        "another placement has a Work of this name: {message}",
        "kubectl get works -n fleet-member-{cluster} --show-labels",
    ),
    (
        &["already exists"],
        "the Work of before is still being deleted: the member has to clean up first",
        "kubectl fleet why membercluster/{cluster}",
    ),
    (
        &["work objects found for the same envelope"],
        "several Works claim one envelope: delete all but the oldest",
        "kubectl get works -n fleet-member-{cluster} --show-labels --sort-by=.metadata.creationTimestamp",
    ),
    (
        &["wrapped manifest data"],
        "an envelope holds something that is not an object: {message}",
        "kubectl get resourceenvelopes,clusterresourceenvelopes -A",
    ),
    (
        &["has been wrapped in"],
        "an envelope holds an object of the wrong scope or namespace: {message}",
        "kubectl get resourceenvelopes,clusterresourceenvelopes -A",
    ),
    (
        &["bytes, but at most"],
        "what is placed is too large for one Work: {message}",
        EDIT,
    ),
    (
        &["would grant rights on members"],
        "this hub does not let the placement grant rights on members: {message}",
        EDIT,
    ),
    (
        &["leaves its namespace"],
        "an object would leave the namespace of its placement: {message}",
        EDIT,
    ),
    (
        &["admission webhook"],
        "a webhook on the hub refuses the Work: {message}",
        "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
    ),
    (
        &["forbidden"],
        "the hub's API server forbids it: {message}",
        "kubectl auth can-i create works -n fleet-member-{cluster} --as \
         system:serviceaccount:fleet-system:hub-agent-sa",
    ),
];

/// Why overrides cannot be applied, or the content of a binding cannot be found.
const OVERRIDES: &[Line] = &[
    (
        &["the master resource snapshot is not found"],
        "the resource snapshot that the cluster should get no longer exists",
        "kubectl get {crs} -l kubernetes-fleet.io/parent-CRP={name}{n}",
    ),
    (
        &["not all resource snapshot in the same index group are created"],
        "the resource snapshots are still being written",
        "kubectl get {crs} -l kubernetes-fleet.io/parent-CRP={name}{n}",
    ),
    (
        &["verrideSnapshot", "is not found"],
        "an override that the cluster should get no longer exists: {message}",
        "kubectl get clusterresourceoverridesnapshots,resourceoverridesnapshots -A",
    ),
    (
        &["failed to apply overrides", "from envelope"],
        "an override does not fit an object in an envelope: {message}",
        "kubectl get clusterresourceoverrides,resourceoverrides -A",
    ),
    (
        &["failed to apply on"],
        "an override does not fit an object: {message}",
        "kubectl get clusterresourceoverrides,resourceoverrides -A",
    ),
    (
        &["invalid label selector"],
        "an override has a label selector that cannot be used: {message}",
        "kubectl get clusterresourceoverrides,resourceoverrides -A",
    ),
];

/// Why a member does not take an object.
const ON_MEMBER: &[Line] = &[
    (
        &["failed to find GVR from member cluster"],
        "the member does not know the kind: its CRD is missing there. Place the CRD too, or install it",
        "kubectl --context {cluster} api-resources --api-group={group}",
    ),
    (
        &["unexpected apply strategy"],
        "the member agent is older than the hub agent and does not know what it asks for: {message}",
        CHECK,
    ),
    (
        &["exceeded quota"],
        "a quota on the member refuses the object: {message}",
        "kubectl --context {cluster} describe quota -A",
    ),
    (
        &["because it is being terminated"],
        "the object's namespace is being deleted on the member",
        "kubectl --context {cluster} get namespaces",
    ),
    (
        &["namespaces ", "not found"],
        "the object's namespace does not exist on the member: place the namespace too",
        "kubectl --context {cluster} get namespaces",
    ),
    (
        &["keeps changing the object back"],
        "two write the object: {message}",
        LOOK,
    ),
    (
        &["already owned by another Fleet AppliedWork"],
        "another placement has put the object there: only one can own it",
        "kubectl fleet why {object}",
    ),
    (
        &["co-ownership is disallowed"],
        "the object has another owner on the member, and allowCoOwnership is off: {message}",
        LOOK,
    ),
    (
        &["object is already owned by another AppliedWork"],
        "another placement has put the object there: only one can own it",
        "kubectl fleet why {object}",
    ),
    (
        &["failed to validate owner references"],
        "the object's owners do not allow it: {message}",
        LOOK,
    ),
    (
        &["cannot take over object: configuration differences"],
        "the object was on the member before and differs, and whenToTakeOver is IfNoDiff",
        DIFF,
    ),
    (
        &["no ownership of the object"],
        "the object was on the member before, and whenToTakeOver is Never: it is left alone",
        EDIT,
    ),
    (
        &["conflict with"],
        "another field manager owns a field, and force is off: {message}",
        LOOK,
    ),
    (
        &["field is immutable"],
        "a field cannot be changed once it is set: delete the object on the member, and it is made anew",
        "kubectl --context {cluster} delete {object}",
    ),
    (
        &["admission webhook"],
        "a webhook on the member refuses the object: {message}",
        "kubectl --context {cluster} get validatingwebhookconfigurations,mutatingwebhookconfigurations",
    ),
    (
        &["which a ResourcePlacement or ResourceEnvelope"],
        "the object would leave the namespace of its placement",
        EDIT,
    ),
    (
        &["is cluster-scoped in the member cluster"],
        "the kind has no namespaces on the member: hub and member have different definitions of it",
        "kubectl --context {cluster} api-resources --api-group={group}",
    ),
    (
        &["is namespaced in the member cluster"],
        "the kind has namespaces on the member: hub and member have different definitions of it",
        "kubectl --context {cluster} api-resources --api-group={group}",
    ),
    (
        &["is forbidden"],
        "the member agent may not write the object: {message}",
        CHECK,
    ),
    (
        &["is invalid"],
        "the member considers the object invalid: {message}",
        "kubectl fleet plan {placement}{n}",
    ),
];

fn first(lines: &[Line], message: &str, names: &Names<'_>) -> Option<Cause> {
    let fits = |line: &&Line| line.0.iter().all(|words| message.contains(words));
    let (_, text, next) = lines.iter().find(fits)?;
    let names = Names {
        message,
        ..names.clone()
    };
    Some(Cause::new(names.fill(text), names.fill(next)))
}

/// What keeps Works from being written, if the words are known.
pub(super) fn on_hub(message: &str, names: &Names<'_>) -> Option<Cause> {
    first(ON_HUB, message, names)
}

/// What keeps overrides from being applied, if the words are known.
pub(super) fn of_overrides(message: &str, names: &Names<'_>) -> Option<Cause> {
    first(OVERRIDES, message, names)
}

/// What keeps a member from taking an object, if the words are known.
pub(super) fn on_member(message: &str, names: &Names<'_>) -> Option<Cause> {
    first(ON_MEMBER, message, names)
}

/// An API server's answer without the layers around it.
pub(super) fn bare(message: &str) -> &str {
    let mut bare = message;
    for layer in [
        "Failed to apply the manifest (error: ",
        "failed to decode manifest: ",
        "failed to apply the manifest: ",
        "failed to take over a pre-existing object: ",
        "failed to create manifest object: ",
        "failed to patch the manifest object: ",
        "failed to apply the manifest object: ",
        "error returned by the API server: ",
        "an error is returned by the API server: ",
        "Failed to synchronize the work to the latest: ",
        "Failed to apply the override rules on the resources: ",
    ] {
        bare = bare.strip_prefix(layer).unwrap_or(bare);
    }
    if bare.len() < message.len() && message.starts_with("Failed to apply the manifest (") {
        bare = bare.strip_suffix(')').unwrap_or(bare);
    }
    bare
}

#[cfg(test)]
mod tests;
