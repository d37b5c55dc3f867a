//! Policy snapshots.

use std::collections::BTreeMap;

use fleet_api::names::{self, PlacementKey};
use fleet_api::placement::{PlacementPolicy, PlacementType, PolicySnapshotSpec};
use fleet_api::{annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{OldSnapshot, is_latest, number, surplus};

/// One of a placement's policy snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// Its name.
    pub name: String,
    /// Its index; none if the label cannot be read. Such a one is never the latest.
    pub index: Option<u64>,
    /// Whether it carries the label of the latest.
    pub labelled_latest: bool,
    /// The hash in its spec.
    pub hash: Vec<u8>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whether a binding names it.
    pub in_use: bool,
}

impl Existing {
    /// A policy snapshot of either scope. `in_use` tells whether a binding names it.
    pub fn of(metadata: &ObjectMeta, spec: &PolicySnapshotSpec, in_use: bool) -> Self {
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            index: number(metadata, labels::POLICY_INDEX),
            labelled_latest: is_latest(metadata),
            hash: spec.policy_hash.0.clone(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            in_use,
        }
    }
}

/// What to write: first take the label away, then delete, then create or update.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Take the label of the latest from these.
    pub demote: Vec<String>,
    /// Delete these.
    pub delete: Vec<String>,
    /// Create this one.
    pub create: Option<New>,
    /// Write these labels and annotations to this one.
    pub update: Option<Update>,
}

/// A snapshot to create. Its owner is the placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct New {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The hash for its spec, as it is stored: the hex text as bytes.
    pub hash: Vec<u8>,
}

/// A snapshot to correct. Only what differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Its name.
    pub name: String,
    /// Labels to set.
    pub labels: BTreeMap<String, String>,
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
}

/// The hash of a policy. The number of clusters is not part of it: scaling is no new policy.
pub fn hash(policy: Option<&PlacementPolicy>) -> serde_json::Result<String> {
    let policy = policy.map(|policy| PlacementPolicy {
        number_of_clusters: None,
        ..policy.clone()
    });
    Ok(names::sha256_hex(serde_json::to_string(&policy)?))
}

/// What the placement's policy needs, given its snapshots.
///
/// Of several that carry the label the one with the highest index counts, and the others lose it; a missing label or
/// annotation on the current one is written again. Whatever a crash left behind is repaired by doing the same again.
pub fn plan(
    placement: &PlacementKey,
    generation: i64,
    policy: Option<&PlacementPolicy>,
    history_limit: usize,
    existing: &[Existing],
) -> serde_json::Result<Changes> {
    let hash = hash(policy)?.into_bytes();
    let newest = existing
        .iter()
        .filter(|s| s.index.is_some())
        .max_by_key(|s| (s.labelled_latest, s.index));
    let highest = existing.iter().filter_map(|s| s.index).max();
    let wanted = wanted_annotations(generation, policy);

    let mut changes = Changes::default();
    let current = newest.filter(|newest| newest.hash == hash);
    if let Some(current) = current {
        changes.update = update(current, &wanted);
    } else {
        let index = highest.map_or(0, |index| index + 1);
        changes.create = Some(New {
            name: names::policy_snapshot(placement, index),
            labels: [
                (labels::PARENT_PLACEMENT, placement.name().to_owned()),
                (labels::IS_LATEST_SNAPSHOT, labels::TRUE.to_owned()),
                (labels::POLICY_INDEX, index.to_string()),
            ]
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
            annotations: wanted,
            hash,
        });
    }
    let current = current.map(|current| current.name.as_str());
    let others = || {
        existing
            .iter()
            .filter(|snapshot| Some(snapshot.name.as_str()) != current)
    };
    let held: Vec<_> = others()
        .filter_map(|s| {
            Some(OldSnapshot {
                index: s.index?,
                in_use: s.in_use,
            })
        })
        .collect();
    // The current one, new or not, is one of those that remain.
    let gone = surplus(&held, history_limit, true);
    changes.delete = others()
        .filter(|s| s.index.is_some_and(|i| gone.contains(&i)))
        .map(|s| s.name.clone())
        .collect();
    changes.demote = others()
        .filter(|s| s.labelled_latest && !changes.delete.contains(&s.name))
        .map(|s| s.name.clone())
        .collect();
    Ok(changes)
}

fn wanted_annotations(generation: i64, policy: Option<&PlacementPolicy>) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::from([(annotations::PLACEMENT_GENERATION.to_owned(), generation.to_string())]);
    if let Some(policy) = policy.filter(|policy| policy.placement_type == PlacementType::PickN) {
        let number = policy.number_of_clusters.unwrap_or_default();
        wanted.insert(annotations::NUMBER_OF_CLUSTERS.into(), number.to_string());
    }
    wanted
}

fn update(current: &Existing, wanted: &BTreeMap<String, String>) -> Option<Update> {
    let differs = |(key, value): &(&String, &String)| current.annotations.get(*key) != Some(*value);
    let annotations: BTreeMap<_, _> = wanted
        .iter()
        .filter(differs)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let label = (labels::IS_LATEST_SNAPSHOT.to_owned(), labels::TRUE.to_owned());
    let labels: BTreeMap<_, _> = (!current.labelled_latest).then_some(label).into_iter().collect();
    (!labels.is_empty() || !annotations.is_empty()).then(|| Update {
        name: current.name.clone(),
        labels,
        annotations,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(json: Value) -> PlacementPolicy {
        serde_json::from_value(json).unwrap()
    }

    fn crp() -> PlacementKey {
        PlacementKey::new(None, "crp").unwrap()
    }

    fn stored(new: &New) -> Existing {
        Existing {
            name: new.name.clone(),
            index: new.labels["kubernetes-fleet.io/policy-index"].parse().ok(),
            labelled_latest: true,
            hash: new.hash.clone(),
            annotations: new.annotations.clone(),
            in_use: false,
        }
    }

    #[test]
    fn hashes_are_upstreams() {
        for (json, hex) in [
            (None, "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b"),
            (
                Some(json!({ "placementType": "PickAll" })),
                "8cc57dee59684ff88766e26936c8fb125f4bde234a2beb5c54aded4569db0d5a",
            ),
            (
                Some(json!({ "placementType": "PickN", "numberOfClusters": 3 })),
                "479f405eb7808cfc58366b2648680a3a815ef914fe6756ae8df0d6f74885416a",
            ),
            (
                Some(json!({ "placementType": "PickFixed", "clusterNames": ["cluster1", "cluster2"] })),
                "b8975317ebeb6da0c5f546d493e27fc11cdcb1c854931d34d6deb141e691e84f",
            ),
        ] {
            let policy = json.map(policy);
            assert_eq!(hash(policy.as_ref()).unwrap(), hex);
        }
    }

    #[test]
    fn the_first_snapshot_has_index_zero_and_no_number() {
        let changes = plan(&crp(), 4, None, 10, &[]).unwrap();
        let new = changes.create.unwrap();
        assert_eq!(new.name, "crp-0");
        assert_eq!(
            new.annotations,
            BTreeMap::from([("kubernetes-fleet.io/CRP-generation".into(), "4".into())])
        );
        assert_eq!(new.labels["kubernetes-fleet.io/is-latest-snapshot"], "true");
    }

    #[test]
    fn scaling_only_changes_annotations() {
        let three = policy(json!({ "placementType": "PickN", "numberOfClusters": 3 }));
        let five = policy(json!({ "placementType": "PickN", "numberOfClusters": 5 }));
        let first = stored(&plan(&crp(), 1, Some(&three), 10, &[]).unwrap().create.unwrap());
        assert_eq!(
            plan(&crp(), 1, Some(&three), 10, std::slice::from_ref(&first)).unwrap(),
            Changes::default()
        );
        let changes = plan(&crp(), 2, Some(&five), 10, &[first]).unwrap();
        let update = changes.update.unwrap();
        assert_eq!(changes.create, None);
        assert_eq!(update.annotations["kubernetes-fleet.io/number-of-clusters"], "5");
        assert_eq!(update.annotations["kubernetes-fleet.io/CRP-generation"], "2");
        assert!(update.labels.is_empty());
    }

    #[test]
    fn another_policy_is_another_index_and_going_back_is_too() {
        let all = policy(json!({ "placementType": "PickAll" }));
        let first = stored(&plan(&crp(), 1, None, 10, &[]).unwrap().create.unwrap());
        let changes = plan(&crp(), 2, Some(&all), 10, std::slice::from_ref(&first)).unwrap();
        assert_eq!(changes.demote, ["crp-0"]);
        let second = stored(&changes.create.unwrap());
        let first = Existing {
            labelled_latest: false,
            ..first
        };
        assert_eq!(
            plan(&crp(), 3, None, 10, &[first, second])
                .unwrap()
                .create
                .unwrap()
                .name,
            "crp-2"
        );
    }

    #[test]
    fn a_crash_between_relabelling_and_creating_is_repaired() {
        let first = stored(&plan(&crp(), 1, None, 10, &[]).unwrap().create.unwrap());
        let unlabelled = Existing {
            labelled_latest: false,
            ..first
        };
        let same = plan(&crp(), 1, None, 10, std::slice::from_ref(&unlabelled)).unwrap();
        assert_eq!(
            same.update.unwrap().labels["kubernetes-fleet.io/is-latest-snapshot"],
            "true"
        );
        let all = policy(json!({ "placementType": "PickAll" }));
        assert_eq!(
            plan(&crp(), 2, Some(&all), 10, &[unlabelled])
                .unwrap()
                .create
                .unwrap()
                .name,
            "crp-1"
        );
    }

    #[test]
    fn of_two_latest_the_higher_counts() {
        let first = stored(&plan(&crp(), 1, None, 10, &[]).unwrap().create.unwrap());
        let second = Existing {
            name: "crp-1".into(),
            index: Some(1),
            ..first.clone()
        };
        let odd = Existing {
            name: "odd".into(),
            index: None,
            ..first.clone()
        };
        let changes = plan(&crp(), 1, None, 10, &[first, second, odd]).unwrap();
        assert_eq!(
            (changes.create, changes.demote),
            (None, vec!["crp-0".to_owned(), "odd".to_owned()])
        );
    }

    #[test]
    fn old_policies_go_unless_a_binding_names_them() {
        let first = stored(&plan(&crp(), 1, None, 1, &[]).unwrap().create.unwrap());
        let all = policy(json!({ "placementType": "PickAll" }));
        let used = Existing {
            in_use: true,
            ..first.clone()
        };
        assert!(plan(&crp(), 2, Some(&all), 1, &[used]).unwrap().delete.is_empty());
        assert_eq!(plan(&crp(), 2, Some(&all), 1, &[first]).unwrap().delete, ["crp-0"]);
    }
}
