//! A digest of a Work's status that both ends compute alike, so that after a reconnect only differences travel.
//!
//! It leaves out what the two ends keep differently: all times, the hub's `StatusTrimmed`, and mirrored status (whose
//! JSON the API server prints anew). A trimmed status has another digest than the report and is sent once more.

use fleet_api::conditions::work::StatusTrimmed;
use fleet_api::placement::{PatchDetail, WorkStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sha2::{Digest as _, Sha256};

/// 16 bytes: enough to tell statuses of one Work apart.
pub type Digest = [u8; 16];

/// The digest of a stored status, or of a report merged into nothing.
pub fn digest(status: &WorkStatus) -> Digest {
    let mut hash = Hash(Sha256::new());
    hash.conditions(&status.conditions);
    hash.number(status.manifest_conditions.len());
    for entry in &status.manifest_conditions {
        let id = &entry.identifier;
        hash.text(&id.ordinal.to_string());
        for part in [&id.group, &id.version, &id.kind, &id.resource, &id.namespace, &id.name] {
            hash.text(part);
        }
        hash.conditions(&entry.conditions);
        hash.number(usize::from(entry.drift_details.is_some()) + 2 * usize::from(entry.diff_details.is_some()));
        if let Some(drift) = &entry.drift_details {
            hash.text(&drift.observed_in_member_cluster_generation.to_string());
            hash.details(&drift.observed_drifts);
        }
        if let Some(diff) = &entry.diff_details {
            hash.text(&format!("{:?}", diff.observed_in_member_cluster_generation));
            hash.details(&diff.observed_diffs);
        }
    }
    let full = hash.0.finalize();
    let mut short = [0; 16];
    short.copy_from_slice(&full[..16]);
    short
}

/// Lengths before contents, so that no two different statuses read the same.
struct Hash(Sha256);

impl Hash {
    fn number(&mut self, n: usize) {
        self.0.update((n as u64).to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.0.update(text);
    }

    fn conditions(&mut self, list: &[Condition]) {
        let mut list: Vec<&Condition> = list.iter().filter(|c| c.type_ != StatusTrimmed::TYPE).collect();
        list.sort_by(|a, b| a.type_.cmp(&b.type_));
        self.number(list.len());
        for c in list {
            for part in [&c.type_, &c.status, &c.reason, &c.message] {
                self.text(part);
            }
            self.text(&c.observed_generation.unwrap_or(0).to_string());
        }
    }

    fn details(&mut self, list: &[PatchDetail]) {
        self.number(list.len());
        for d in list {
            for part in [&d.path, &d.value_in_member, &d.value_in_hub] {
                self.text(part);
            }
        }
    }
}

/// A Work as a member's Hello describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownWork {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The last generation that was processed; zero if none.
    pub generation: i64,
    /// Digest of the last report; empty if there is none.
    pub status_digest: Vec<u8>,
}

/// The Works that a member should report again: those whose stored status is not what it last sent. `stored` gives uid
/// and status of the Work of a name; Works that are gone or another one now are learnt from the watch.
pub fn to_resend<'a>(
    known: &'a [KnownWork],
    stored: impl Fn(&str) -> Option<(String, Option<Digest>)> + 'a,
) -> impl Iterator<Item = &'a str> {
    known
        .iter()
        .filter(move |k| {
            !k.status_digest.is_empty()
                && stored(&k.name)
                    .is_some_and(|(uid, digest)| uid == k.uid && digest.is_none_or(|d| d.as_slice() != k.status_digest))
        })
        .map(|k| k.name.as_str())
}

#[cfg(test)]
mod tests {
    use fleet_api::placement::ManifestCondition;

    use super::*;
    use crate::membership::fixtures::condition;

    #[test]
    fn times_do_not_count_and_everything_else_does() {
        let status = |c: Vec<Condition>, names: &[&str]| WorkStatus {
            conditions: c,
            manifest_conditions: names
                .iter()
                .map(|n| {
                    let mut entry = ManifestCondition::default();
                    entry.identifier.name = (*n).into();
                    entry
                })
                .collect(),
        };
        let plain = digest(&status(vec![condition("Applied", "True", 1)], &["a"]));
        assert_eq!(plain, digest(&status(vec![condition("Applied", "True", 99)], &["a"])));
        let trimmed = vec![condition("Applied", "True", 1), condition("StatusTrimmed", "True", 1)];
        assert_eq!(plain, digest(&status(trimmed, &["a"])));
        assert_ne!(plain, digest(&status(vec![condition("Applied", "False", 1)], &["a"])));
        assert_ne!(plain, digest(&status(vec![condition("Applied", "True", 1)], &["b"])));
        assert_ne!(plain, digest(&status(vec![condition("Applied", "True", 1)], &[])));
    }

    #[test]
    fn only_differences_are_asked_for() {
        let known = |name: &str, digest: &[u8]| KnownWork {
            name: name.into(),
            uid: "u".into(),
            generation: 1,
            status_digest: digest.into(),
        };
        let list = [
            known("same", &[1; 16]),
            known("differs", &[2; 16]),
            known("lost", &[1; 16]),
            known("gone", &[1; 16]),
            known("other", &[9; 16]),
            known("never-sent", &[]),
        ];
        let stored = |name: &str| match name {
            "gone" => None,
            "lost" => Some(("u".into(), None)),
            "other" => Some(("v".into(), Some([1; 16]))),
            _ => Some(("u".into(), Some([1; 16]))),
        };
        assert_eq!(to_resend(&list, stored).collect::<Vec<_>>(), ["differs", "lost"]);
    }
}
