//! Which events of a placement's own objects ask for a decision. Clusters are a matter of their own: [`super::Watchers`].

use fleet_api::{annotations, finalizers, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Whether an event of a policy snapshot asks for a decision. `before` is none for one that is seen for the first time,
/// also after a restart. Status writes, our own among them, do not count.
pub fn snapshot_wakes(before: Option<&ObjectMeta>, after: &ObjectMeta) -> bool {
    let orphan = label(after, labels::PARENT_PLACEMENT).is_none();
    if after.deletion_timestamp.is_some() || orphan || !is_latest(after) {
        return false;
    }
    let Some(before) = before else { return true };
    let differs = |key| annotation(before, key) != annotation(after, key);
    differs(annotations::NUMBER_OF_CLUSTERS) || differs(annotations::PLACEMENT_GENERATION) || !is_latest(before)
}

/// Whether an event of a binding asks for a decision about its placement: only the beginning of its deletion does.
pub fn binding_wakes(before: Option<&ObjectMeta>, after: &ObjectMeta) -> bool {
    deletion_begins(before, after, finalizers::SCHEDULER_BINDING)
}

fn deletion_begins(before: Option<&ObjectMeta>, after: &ObjectMeta, finalizer: &str) -> bool {
    after.deletion_timestamp.is_some()
        && before.is_none_or(|before| before.deletion_timestamp.is_none())
        && after.finalizers.iter().flatten().any(|held| held == finalizer)
}

fn is_latest(metadata: &ObjectMeta) -> bool {
    label(metadata, labels::IS_LATEST_SNAPSHOT).and_then(labels::parse_bool) == Some(true)
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'a>(metadata: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn snapshot(latest: &str, number: &str) -> ObjectMeta {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        ObjectMeta {
            labels: Some(pairs(&[
                (labels::PARENT_PLACEMENT, "app"),
                (labels::IS_LATEST_SNAPSHOT, latest),
            ])),
            annotations: Some(pairs(&[
                (annotations::NUMBER_OF_CLUSTERS, number),
                (annotations::PLACEMENT_GENERATION, "1"),
            ])),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_snapshot_counts_when_it_is_new_becomes_the_latest_or_wants_something_else() {
        let now = snapshot("true", "1");
        assert!(snapshot_wakes(None, &now));
        assert!(!snapshot_wakes(Some(&now), &now), "a status write");
        assert!(snapshot_wakes(Some(&snapshot("true", "2")), &now));
        assert!(snapshot_wakes(Some(&snapshot("maybe", "1")), &now));
        assert!(snapshot_wakes(Some(&snapshot("false", "1")), &now));
        assert!(!snapshot_wakes(None, &snapshot("maybe", "1")));
        assert!(!snapshot_wakes(Some(&now), &snapshot("false", "2")));
        let orphan = ObjectMeta {
            labels: None,
            ..now.clone()
        };
        assert!(!snapshot_wakes(None, &orphan));
        let deleting = ObjectMeta {
            deletion_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
            ..now
        };
        assert!(!snapshot_wakes(None, &deleting));
    }

    #[test]
    fn a_deletion_counts_once_and_also_when_it_began_before_a_restart() {
        let live = ObjectMeta {
            finalizers: Some(vec![finalizers::SCHEDULER.into(), finalizers::SCHEDULER_BINDING.into()]),
            ..ObjectMeta::default()
        };
        let deleting = ObjectMeta {
            deletion_timestamp: Some(Time(Timestamp::UNIX_EPOCH)),
            ..live.clone()
        };
        let released = ObjectMeta {
            finalizers: None,
            ..deleting.clone()
        };
        assert!(binding_wakes(Some(&live), &deleting));
        assert!(binding_wakes(None, &deleting));
        assert!(!binding_wakes(Some(&deleting), &deleting));
        assert!(!binding_wakes(None, &live) && !binding_wakes(Some(&live), &live));
        assert!(!binding_wakes(Some(&live), &released), "nothing is left to do for us");
    }
}
