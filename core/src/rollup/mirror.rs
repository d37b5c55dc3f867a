//! The namespaced copy of a cluster-scoped placement's status, for people who may only read their namespace.

use fleet_api::conditions::placement::{Scheduled, StatusSynced};
use fleet_api::placement::{PlacementSpec, PlacementStatus, ResourceIdentifier};

/// The status to show in the namespace: all but the word on the copy itself, and what this version does not know.
pub fn mirrored(status: &PlacementStatus) -> PlacementStatus {
    let mut copy = status.clone();
    copy.other.clear();
    copy.conditions
        .retain(|condition| condition.type_ != StatusSynced::TYPE);
    copy
}

/// The namespace that was selected first, from a status.
pub fn recorded_namespace(selected: &[ResourceIdentifier]) -> Option<&str> {
    let namespace = |r: &&ResourceIdentifier| r.group.is_empty() && r.version == "v1" && r.kind == "Namespace";
    selected.iter().find(namespace).map(|resource| resource.name.as_str())
}

/// The namespace that the copy goes to, or why there is none.
///
/// `original` is the namespace that was picked first, from an existing copy or [`recorded_namespace`]; it can never
/// change, since the old copy would stay behind with nobody to keep it true.
pub fn target_namespace<'a>(spec: &'a PlacementSpec, original: Option<&str>) -> Result<&'a str, Scheduled> {
    let selector = spec.resource_selectors.iter().find(|selector| {
        selector.group.is_empty()
            && selector.version == "v1"
            && selector.kind == "Namespace"
            && !selector.name.is_empty()
    });
    let namespace = selector
        .map(|selector| selector.name.as_str())
        .ok_or(Scheduled::NoNamespaceSelector)?;
    match original {
        Some(original) if original != namespace => Err(Scheduled::NamespaceChanged {
            namespace: namespace.into(),
            original: original.into(),
        }),
        _ => Ok(namespace),
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::conditions::Words as _;
    use serde_json::{Value, json};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "always called with a literal")]
    fn spec(selector: Value) -> PlacementSpec {
        serde_json::from_value(json!({ "resourceSelectors": [selector] })).unwrap()
    }

    #[test]
    fn the_namespace_is_named_once_and_for_all() {
        let app = spec(json!({ "group": "", "version": "v1", "kind": "Namespace", "name": "app" }));
        assert_eq!(target_namespace(&app, None), Ok("app"));
        assert_eq!(target_namespace(&app, Some("app")), Ok("app"));
        assert_eq!(
            target_namespace(&app, Some("old")).unwrap_err().message(),
            "namespace resource selector is choosing a different namespace 'app' from what was originally picked 'old'. \
             This is not allowed for NamespaceAccessible ClusterResourcePlacement"
        );
        for selector in [
            json!({ "group": "", "version": "v1", "kind": "Namespace", "labelSelector": {} }),
            json!({ "group": "other", "version": "v1", "kind": "Namespace", "name": "app" }),
        ] {
            assert_eq!(
                target_namespace(&spec(selector), None).unwrap_err().message(),
                "NamespaceAccessible ClusterResourcePlacement doesn't specify a resource selector which selects a namespace"
            );
        }
    }
}
