//! When an override gets a new snapshot, which one counts, and which are removed.
//!
//! The new one is created before the old one loses its label, and readers go by the highest index ([`current`]): at no
//! moment is an override without a snapshot, nor does it matter that for a moment two carry the label.

use std::collections::BTreeMap;

use fleet_api::labels;
use fleet_api::names::{self, NameTooLong};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

/// Snapshots kept of each override. Those in use count too, but are never deleted.
pub const HISTORY_MAX: usize = 10;

/// One of an override's snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// Its name.
    pub name: String,
    /// Its index; none if the label cannot be read. Such a one is never current and goes first.
    pub index: Option<u64>,
    /// Whether it carries the label of the latest.
    pub labelled_latest: bool,
    /// The hash in its spec.
    pub hash: Vec<u8>,
    /// Whether a binding names it, or an update run needs it that has not ended.
    pub in_use: bool,
}

/// What to write, in this order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Create this snapshot: name and index.
    pub create: Option<(String, u64)>,
    /// Give this one the label of the latest.
    pub promote: Option<String>,
    /// Take that label from these.
    pub demote: Vec<String>,
    /// Delete these.
    pub delete: Vec<String>,
}

/// The hash of an override's spec, as it is stored: the hex text as bytes.
pub fn hash(spec: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    Ok(names::sha256_hex(serde_json::to_vec(spec)?).into_bytes())
}

/// What an override with this name and hash needs, given its snapshots.
///
/// A name that a binding still has, as `is_named` says, is not given again. It means a snapshot of an earlier override of this
/// name: given to a new one, it would reach the binding before its turn has come.
pub fn plan(
    name: &str,
    hash: &[u8],
    existing: &[Existing],
    is_named: impl Fn(&str) -> bool,
) -> Result<Changes, NameTooLong> {
    let mut existing: Vec<&Existing> = existing.iter().collect();
    existing.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
    let newest = existing.iter().rev().find(|snapshot| snapshot.index.is_some()).copied();

    let mut changes = Changes::default();
    let current = match newest {
        Some(newest) if newest.hash == hash => {
            changes.promote = (!newest.labelled_latest).then(|| newest.name.clone());
            newest.name.clone()
        }
        _ => {
            let mut index = newest.and_then(|newest| newest.index).map_or(0, |index| index + 1);
            let mut own = names::override_snapshot(name, index)?;
            while is_named(&own) {
                index += 1;
                own = names::override_snapshot(name, index)?;
            }
            changes.create = Some((own.clone(), index));
            own
        }
    };
    let others = || existing.iter().filter(|snapshot| snapshot.name != current);
    changes.demote = others().filter(|s| s.labelled_latest).map(|s| s.name.clone()).collect();
    let surplus = (others().count() + 1).saturating_sub(HISTORY_MAX);
    changes.delete = others()
        .take(surplus)
        .filter(|s| !s.in_use)
        .map(|s| s.name.clone())
        .collect();
    changes.demote.retain(|name| !changes.delete.contains(name));
    Ok(changes)
}

/// The snapshot that counts, for each override: the one with the highest index, unless it is being deleted, for then
/// the override is too.
pub fn current<'a, T>(snapshots: impl IntoIterator<Item = (&'a ObjectMeta, T)>) -> Vec<T> {
    let mut newest: BTreeMap<(&str, &str), (u64, bool, T)> = BTreeMap::new();
    for (metadata, snapshot) in snapshots {
        let label = |key| {
            metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(key))
                .map(String::as_str)
        };
        let (Some(parent), Some(index)) = (label(labels::PARENT_OVERRIDE), label(labels::OVERRIDE_INDEX)) else {
            continue;
        };
        let Ok(index) = index.parse::<u64>() else { continue };
        let key = (metadata.namespace.as_deref().unwrap_or_default(), parent);
        if newest.get(&key).is_none_or(|(known, ..)| *known < index) {
            newest.insert(key, (index, metadata.deletion_timestamp.is_some(), snapshot));
        }
    }
    newest
        .into_values()
        .filter(|(_, deleting, _)| !deleting)
        .map(|(.., snapshot)| snapshot)
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::{plan as plan_named, *};

    fn plan(name: &str, hash: &[u8], existing: &[Existing]) -> Result<Changes, NameTooLong> {
        plan_named(name, hash, existing, |_| false)
    }

    fn snapshot(index: u64, labelled_latest: bool, hash: &str) -> Existing {
        Existing {
            name: format!("cro-{index}"),
            index: Some(index),
            labelled_latest,
            hash: hash.into(),
            in_use: false,
        }
    }

    #[test]
    fn the_first_snapshot_has_index_zero() {
        let changes = plan("cro", b"a", &[]).unwrap();
        assert_eq!(
            changes,
            Changes {
                create: Some(("cro-0".into(), 0)),
                ..Changes::default()
            }
        );
    }

    /// Deleted and made again while a binding waits: what that binding names is gone, and nothing else has its name.
    #[test]
    fn a_name_that_a_binding_has_is_not_given_again() {
        let named = |name: &str| ["cro-0", "cro-1"].contains(&name);
        let changes = plan_named("cro", b"a", &[], named).unwrap();
        assert_eq!(changes.create, Some(("cro-2".into(), 2)));
        let changes = plan_named("cro", b"b", &[snapshot(2, true, "a")], named).unwrap();
        assert_eq!(changes.create, Some(("cro-3".into(), 3)));
    }

    #[test]
    fn equal_content_makes_no_snapshot_and_only_repairs_the_label() {
        assert_eq!(
            plan("cro", b"a", &[snapshot(0, true, "a")]).unwrap(),
            Changes::default()
        );
        let changes = plan("cro", b"a", &[snapshot(0, true, "x"), snapshot(1, false, "a")]).unwrap();
        assert_eq!(changes.promote, Some("cro-1".into()));
        assert_eq!(changes.demote, ["cro-0"]);
    }

    #[test]
    fn a_change_makes_the_next_index_and_going_back_does_too() {
        let changes = plan("cro", b"a", &[snapshot(0, false, "a"), snapshot(1, true, "b")]).unwrap();
        assert_eq!(
            (changes.create, changes.demote),
            (Some(("cro-2".into(), 2)), vec!["cro-1".to_owned()])
        );
    }

    #[test]
    fn ten_are_kept_and_those_in_use_beyond() {
        let mut existing: Vec<_> = (0..10).map(|i| snapshot(i, i == 9, &i.to_string())).collect();
        assert_eq!(plan("cro", b"9", &existing).unwrap(), Changes::default());
        assert_eq!(plan("cro", b"new", &existing).unwrap().delete, ["cro-0"]);
        existing[0].in_use = true;
        assert!(plan("cro", b"new", &existing).unwrap().delete.is_empty());
        // Released: gone with the next look, though nothing else changes.
        existing.push(snapshot(10, false, "new"));
        existing[0].in_use = false;
        assert_eq!(plan("cro", b"new", &existing).unwrap().delete, ["cro-0"]);
    }

    #[test]
    fn the_highest_index_counts_whatever_the_label_says() {
        let metadata = |parent: &str, index: &str, deleting: bool| ObjectMeta {
            labels: Some(
                [(labels::PARENT_OVERRIDE, parent), (labels::OVERRIDE_INDEX, index)]
                    .map(|(k, v)| (k.to_owned(), v.to_owned()))
                    .into(),
            ),
            deletion_timestamp: deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        let all = [
            metadata("a", "9", false),
            metadata("a", "10", false),
            metadata("b", "1", true),
            metadata("b", "0", false),
            metadata("c", "x", false),
        ];
        let names = ["a-9", "a-10", "b-1", "b-0", "c"];
        assert_eq!(current(all.iter().zip(names)), ["a-10"]);
    }
}
