//! What is refused, and in which words.

use fleet_api::conditions::Words as _;
use fleet_api::conditions::manifest::{Applied, ApplyFailure};

use super::*;

#[test]
fn layers_are_taken_off() {
    let failure = ApplyFailure::Create {
        api: "pods \"a\" is forbidden: exceeded quota: q".into(),
    };
    let message = Applied::Failed { failure }.message();
    assert_eq!(bare(&message), "pods \"a\" is forbidden: exceeded quota: q");
    assert_eq!(bare("nothing around it)"), "nothing around it)");
}

#[test]
fn every_line_ends_with_a_command() {
    let names = Names {
        placement: "web",
        cluster: "east",
        object: "deployment.apps/web".into(),
        group: "apps".into(),
        ..Names::default()
    };
    for (words, text, next) in ON_HUB.iter().chain(OVERRIDES).chain(ON_MEMBER) {
        crate::explain::tests::assert_command(&names.fill(next));
        assert!(!words.is_empty() && !text.ends_with('.'), "{text}");
    }
}

/// What API servers, the hub agent and the member agent say: for each line, in its order, words that only it explains.
const SAID_ON_HUB: [&str; 12] = [
    "works.placement.kubernetes-fleet.io \"web-work\" is forbidden: unable to create new content in namespace \
     fleet-member-east because it is being terminated",
    "works.placement.kubernetes-fleet.io \"web-work\" is forbidden: exceeded quota: works, requested: count/works=1",
    "works.placement.kubernetes-fleet.io \"web-work\" already exists; it belongs to ResourcePlacement shop/web",
    "works.placement.kubernetes-fleet.io \"web-work\" already exists",
    "2 work objects found for the same envelope shop/env, only one expected",
    "failed to parse the wrapped manifest data to a Kubernetes runtime object (manifestKey=a,envelopeObjRef=shop/env): no kind",
    "a cluster scope object a (reader) has been wrapped in a resource envelope shop/env",
    "the manifests for Work web-work have 2000000 bytes, but at most 1500000 fit into one object: make it smaller",
    "Role \"a\" would grant rights on members, which this hub does not allow in what is placed by ResourcePlacement; have an \
     administrator place it by a ClusterResourcePlacement",
    "Pod \"a\" is not an object of namespace \"shop\", and nothing that is placed by ResourcePlacement leaves its namespace",
    "admission webhook \"policy.example.com\" denied the request: no",
    "works.placement.kubernetes-fleet.io is forbidden: User \"hub-agent\" cannot create resource \"works\"",
];
const SAID_OF_OVERRIDES: [&str; 6] = [
    "the master resource snapshot is not found",
    "not all resource snapshot in the same index group are created: resource snapshots are still being created for the \
     masterResourceSnapshot web-0-snapshot",
    "clusterResourceOverrideSnapshot cro-0 is not found",
    "failed to apply overrides to Pod \"a\" from envelope env: ResourceOverrideSnapshot \"ro-0\" failed to apply on Pod \"a\"",
    "ClusterResourceOverrideSnapshot \"cro-0\" failed to apply on Namespace \"shop\": add operation does not apply",
    "override snapshot cro-0: overrideRules[0] has an invalid label selector: \"Like\" is not a valid operator",
];
const SAID_ON_MEMBER: [&str; 20] = [
    "failed to find GVR from member cluster client REST mapping: no matches for kind \"Gadget\"",
    "unexpected apply strategy Mirror is found",
    "pods \"a\" is forbidden: exceeded quota: q",
    "pods \"a\" is forbidden: unable to create new content in namespace shop because it is being terminated",
    "namespaces \"shop\" not found",
    "rival keeps changing the object back on the member cluster; let only one of the two write it",
    "the object is already owned by another Fleet AppliedWork object",
    "manifest is set to have owner references but co-ownership is disallowed",
    "failed to validate owner references: object is already owned by another AppliedWork object",
    "failed to validate owner references: two controllers",
    "cannot take over object: configuration differences are found between the manifest object and the one on the member",
    "no ownership of the object in the member cluster; takeover is needed",
    "Apply failed with 1 conflict: conflict with \"kubectl\" using apps/v1: .spec.replicas",
    "Deployment.apps \"a\" is invalid: spec.selector: Invalid value: field is immutable",
    "admission webhook \"policy.example.com\" denied the request: no",
    "the object is not of namespace \"shop\", which a ResourcePlacement or ResourceEnvelope of that namespace cannot leave",
    "Node is cluster-scoped in the member cluster, but the manifest is of namespace \"shop\"",
    "Pod is namespaced in the member cluster, but the manifest has no namespace",
    "pods is forbidden: User \"member-agent\" cannot create resource \"pods\"",
    "Deployment.apps \"a\" is invalid: spec.replicas: Invalid value: -1",
];

#[test]
fn each_line_explains_what_no_line_before_it_does() {
    let lists: [(&[Line], &[&str]); 3] = [
        (ON_HUB, &SAID_ON_HUB),
        (OVERRIDES, &SAID_OF_OVERRIDES),
        (ON_MEMBER, &SAID_ON_MEMBER),
    ];
    for (lines, said) in lists {
        assert_eq!(lines.len(), said.len());
        for (number, (line, words)) in lines.iter().zip(said).enumerate() {
            let fits = |line: &Line| line.0.iter().all(|part| words.contains(part));
            let found = lines.iter().position(fits);
            assert_eq!(found, Some(number), "{words:?} is not explained by {:?}", line.1);
        }
    }
}
