//! Patches that put finalizers on and take them off.

use kube::{Resource, ResourceExt as _};
use serde_json::{Value, json};

/// Puts those of `ours` on an object that it does not have. None if it has them all, or is going: then the API server lets
/// nobody add one.
pub(crate) fn with_finalizers<K: Resource>(found: &K, ours: &[&str]) -> Option<Value> {
    let held = found.finalizers();
    let missing = ours.iter().filter(|name| !held.iter().any(|held| held == *name));
    let missing: Vec<_> = missing.copied().collect();
    if missing.is_empty() || found.meta().deletion_timestamp.is_some() {
        return None;
    }
    let list: Vec<_> = held.iter().map(String::as_str).chain(missing).collect();
    Some(json!({ "metadata": { "finalizers": list } }))
}

/// Takes `ours` off an object. None if it has none of them.
pub(crate) fn without_finalizers<K: Resource>(found: &K, ours: &[&str]) -> Option<Value> {
    let held = found.finalizers();
    let rest: Vec<_> = held.iter().filter(|held| !ours.contains(&held.as_str())).collect();
    (rest.len() < held.len()).then(|| json!({ "metadata": { "finalizers": rest } }))
}

#[cfg(test)]
mod tests {
    use fleet_api::cluster::MemberCluster;

    use super::*;

    fn object(finalizers: &[&str], going: bool) -> MemberCluster {
        let mut object: MemberCluster = serde_json::from_value(json!({
            "metadata": { "name": "a", "finalizers": finalizers },
            "spec": { "identity": { "kind": "User", "name": "a" } },
        }))
        .unwrap();
        if going {
            let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
            object.metadata.deletion_timestamp = Some(now);
        }
        object
    }

    fn list(names: &[&str]) -> Value {
        json!({ "metadata": { "finalizers": names } })
    }

    #[test]
    fn others_stay_in_their_order() {
        let held = object(&["b", "a"], false);
        assert_eq!(
            with_finalizers(&held, &["c", "a", "d"]),
            Some(list(&["b", "a", "c", "d"]))
        );
        assert_eq!(without_finalizers(&held, &["b", "c"]), Some(list(&["a"])));
        assert_eq!(without_finalizers(&object(&["a"], true), &["a"]), Some(list(&[])));
    }

    #[test]
    fn what_is_so_already_is_not_written() {
        let held = object(&["a"], false);
        assert_eq!(with_finalizers(&held, &["a"]), None);
        assert_eq!(without_finalizers(&held, &["b"]), None);
        assert_eq!(with_finalizers(&object(&[], true), &["a"]), None);
    }
}
