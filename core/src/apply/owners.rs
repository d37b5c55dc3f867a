//! Owner references: whose an object is.

use fleet_api::conditions::manifest::{ApplyFailure, InvalidOwners};
use serde_json::{Value, json};

use super::identify::group_version;
use super::json::{list, object_mut, text};

const GROUP: &str = "placement.kubernetes-fleet.io";
const API_VERSION: &str = "placement.kubernetes-fleet.io/v1beta1";
const KIND: &str = "AppliedWork";
const OWNERS: [&str; 2] = ["metadata", "ownerReferences"];

/// The AppliedWork that owns what its Work brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its name, which is the Work's.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Owner {
    /// The reference that applied objects carry.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": API_VERSION, "kind": KIND, "name": self.name, "uid": self.uid, "blockOwnerDeletion": true,
        })
    }

    fn is(&self, reference: &Value) -> bool {
        text(reference, &["apiVersion"]) == API_VERSION
            && text(reference, &["kind"]) == KIND
            && text(reference, &["name"]) == self.name
            && text(reference, &["uid"]) == self.uid
    }

    /// Whether `object` carries our reference.
    pub fn owns(&self, object: &Value) -> bool {
        list(object, &OWNERS).iter().any(|reference| self.is(reference))
    }

    /// Whether `object` has owners besides us.
    pub fn shares(&self, object: &Value) -> bool {
        list(object, &OWNERS).iter().any(|reference| !self.is(reference))
    }

    /// `object` without our reference.
    pub fn released(&self, object: &Value) -> Value {
        with_owners(
            object,
            list(object, &OWNERS)
                .iter()
                .filter(|reference| !self.is(reference))
                .cloned()
                .collect(),
        )
    }

    /// `object` whose deletion no longer waits for other owners that will never go: `blockOwnerDeletion` is off on our
    /// reference. Nothing if that is not needed.
    pub fn unblocked(&self, object: &Value) -> Option<Value> {
        let blocks = |reference: &Value| self.is(reference) && reference["blockOwnerDeletion"] == true;
        if !self.shares(object) || !list(object, &OWNERS).iter().any(blocks) {
            return None;
        }
        let owners = list(object, &OWNERS).iter().cloned().map(|mut reference| {
            if self.is(&reference) {
                reference["blockOwnerDeletion"] = json!(false);
            }
            reference
        });
        Some(with_owners(object, owners.collect()))
    }

    /// The live object as it is after take-over, or why it cannot be taken over. `work_exists` tells whether a Work of
    /// that name is in this member's namespace: an owner that stands for none was left behind and is dropped.
    pub fn taken_over(
        &self,
        live: &Value,
        allow_co_ownership: bool,
        work_exists: &dyn Fn(&str) -> Result<bool, String>,
    ) -> Result<Value, ApplyFailure> {
        let mut owners = Vec::new();
        for reference in list(live, &OWNERS) {
            let left_behind = is_applied_work(reference)
                && !work_exists(text(reference, &["name"])).map_err(|error| ApplyFailure::OwnersUnknown { error })?;
            if !left_behind {
                owners.push(reference.clone());
            }
        }
        if !owners.is_empty() && !allow_co_ownership {
            return Err(ApplyFailure::OwnedByOthers {
                owners: render(&owners),
            });
        }
        // One object cannot be placed twice, whatever co-ownership says.
        if owners
            .iter()
            .any(|reference| is_applied_work(reference) && text(reference, &["uid"]) != self.uid)
        {
            return Err(ApplyFailure::OwnedByAnotherWork);
        }
        owners.push(self.reference());
        Ok(with_owners(live, owners))
    }

    /// Whether the owners named in the manifest and on the live object allow applying.
    pub fn validate(
        &self,
        manifest: &Value,
        live: Option<&Value>,
        allow_co_ownership: bool,
    ) -> Result<(), InvalidOwners> {
        let wanted = list(manifest, &OWNERS);
        if !wanted.is_empty() && !allow_co_ownership {
            return Err(InvalidOwners::InManifest);
        }
        if wanted.iter().any(is_applied_work) {
            return Err(InvalidOwners::AppliedWorkInManifest);
        }
        let Some(live) = live else { return Ok(()) };
        let owners = list(live, &OWNERS);
        if owners.len() > 1 && !allow_co_ownership {
            return Err(InvalidOwners::CoOwned);
        }
        if !self.owns(live) {
            return Err(InvalidOwners::NotOwned);
        }
        if owners
            .iter()
            .any(|reference| is_applied_work(reference) && text(reference, &["uid"]) != self.uid)
        {
            return Err(InvalidOwners::OwnedByAnotherWork);
        }
        Ok(())
    }
}

/// Group and kind must both fit: other kinds of that group are none of the applier's.
fn is_applied_work(reference: &Value) -> bool {
    group_version(text(reference, &["apiVersion"])).0 == GROUP && text(reference, &["kind"]) == KIND
}

fn with_owners(object: &Value, owners: Vec<Value>) -> Value {
    let mut object = object.clone();
    object_mut(&mut object, &["metadata"]).insert("ownerReferences".into(), Value::Array(owners));
    object
}

/// The same text in every round, so that it does not cause a status write.
fn render(owners: &[Value]) -> String {
    let mut shown: Vec<String> = owners
        .iter()
        .map(|owner| {
            let word = |key: &str| text(owner, &[key]);
            format!(
                "{} {} {} (uid {})",
                word("apiVersion"),
                word("kind"),
                word("name"),
                word("uid")
            )
        })
        .collect();
    shown.sort_unstable();
    format!("[{}]", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us() -> Owner {
        Owner {
            name: "work".into(),
            uid: "u1".into(),
        }
    }

    fn foreign() -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c1"})
    }

    fn applied_work(name: &str, uid: &str) -> Value {
        Owner {
            name: name.into(),
            uid: uid.into(),
        }
        .reference()
    }

    fn owned_by(owners: &[Value]) -> Value {
        json!({"metadata": {"name": "x", "ownerReferences": owners}})
    }

    fn works(name: &str) -> Result<bool, String> {
        match name {
            "unknown" => Err("timeout".into()),
            name => Ok(name == "living"),
        }
    }

    #[test]
    fn take_over_of_every_kind_of_owner() {
        let group_only = json!({"apiVersion": API_VERSION, "kind": "Other", "name": "gone", "uid": "o"});
        for (owners, co_ownership, expected) in [
            (vec![], false, Ok(1)),
            (vec![foreign()], false, Err("ConfigMap c")),
            (vec![foreign()], true, Ok(2)),
            (
                vec![applied_work("living", "u2")],
                true,
                Err("already owned by another Fleet AppliedWork"),
            ),
            (
                vec![applied_work("living", "u2")],
                false,
                Err("AppliedWork living (uid u2)"),
            ),
            (vec![applied_work("gone", "u2")], false, Ok(1)),
            (vec![applied_work("gone", "u2"), foreign()], true, Ok(2)),
            (
                vec![applied_work("unknown", "u2")],
                false,
                Err("failed to get the Work object: timeout"),
            ),
            // Left behind are AppliedWorks, not everything of their group.
            (vec![group_only], false, Err("Other gone")),
        ] {
            match (us().taken_over(&owned_by(&owners), co_ownership, &works), expected) {
                (Ok(object), Ok(count)) => {
                    assert!(us().owns(&object));
                    assert_eq!(list(&object, &OWNERS).len(), count, "{owners:?}");
                }
                (Err(failure), Err(part)) => {
                    assert_eq!(failure.reason(), "FailedToTakeOver");
                    assert!(failure.to_string().contains(part), "{failure}");
                }
                (got, _) => panic!("{owners:?}: {got:?}"),
            }
        }
    }

    #[test]
    fn validation_row_by_row() {
        let ours = us().reference();
        let other = applied_work("other", "u2");
        for (manifest, live, co_ownership, expected) in [
            (vec![], None, false, Ok(())),
            (vec![foreign()], None, false, Err(InvalidOwners::InManifest)),
            (vec![foreign()], None, true, Ok(())),
            (
                vec![other.clone()],
                None,
                true,
                Err(InvalidOwners::AppliedWorkInManifest),
            ),
            (vec![], Some(vec![ours.clone()]), false, Ok(())),
            (
                vec![],
                Some(vec![ours.clone(), foreign()]),
                false,
                Err(InvalidOwners::CoOwned),
            ),
            (vec![], Some(vec![ours.clone(), foreign()]), true, Ok(())),
            (vec![], Some(vec![]), false, Err(InvalidOwners::NotOwned)),
            (
                vec![],
                Some(vec![ours, other]),
                true,
                Err(InvalidOwners::OwnedByAnotherWork),
            ),
        ] {
            let live = live.map(|owners| owned_by(&owners));
            assert_eq!(
                us().validate(&owned_by(&manifest), live.as_ref(), co_ownership),
                expected
            );
        }
    }

    #[test]
    fn release_and_unblock_touch_only_our_reference() {
        let shared = owned_by(&[us().reference(), foreign()]);
        assert_eq!(us().released(&shared), owned_by(&[foreign()]));
        let unblocked = us().unblocked(&shared).unwrap();
        assert_eq!(unblocked["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], false);
        assert_eq!(us().unblocked(&unblocked), None);
        assert_eq!(us().unblocked(&owned_by(&[us().reference()])), None);
    }
}
