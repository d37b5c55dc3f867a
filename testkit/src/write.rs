//! Writes that clients ask for.

use serde_json::{Value, json};

use crate::{
    fault::refusal,
    objects::{How, Objects},
    path::{Place, Target, value},
    read,
};

/// What a client wants to be written.
pub(crate) struct Wish<'a> {
    pub(crate) method: &'a str,
    pub(crate) query: &'a str,
    pub(crate) content: &'a str,
    pub(crate) body: &'a Value,
}

impl Wish<'_> {
    /// Whether it is only to be tried. Deletions say so in their body.
    pub(crate) fn is_trial(&self) -> bool {
        let asked = value(self.query, "dryRun").is_some_and(|how| how == "All");
        asked || self.method == "DELETE" && self.body["dryRun"] == json!(["All"])
    }
}

impl Objects {
    /// Carries out a write. One that is only tried is answered as if it were, and leaves nothing behind.
    pub(crate) fn write(&mut self, target: &Target, wish: &Wish<'_>) -> (u16, Value) {
        if !wish.is_trial() {
            return self.carry_out(target, wish);
        }
        let (code, mut answer) = self.clone().carry_out(target, wish);
        let old = target.place().and_then(|place| self.all.get(&place));
        if answer["metadata"]["resourceVersion"].is_string() {
            // As real ones: what is not stored has no new version, and what is not there has none.
            answer["metadata"]["resourceVersion"] =
                old.map_or(Value::Null, |old| old["metadata"]["resourceVersion"].clone());
        }
        (code, answer)
    }

    fn carry_out(&mut self, target: &Target, wish: &Wish<'_>) -> (u16, Value) {
        let status_only = target.subresource.as_deref() == Some("status");
        match (wish.method, target.place()) {
            ("POST", None) => self.create(target, wish.body),
            ("DELETE", Some(place)) => self.delete(&place, &wish.body["preconditions"]),
            ("DELETE", None) => {
                let all = self.all.iter();
                let chosen =
                    |(place, object): &(&Place, &Value)| target.has(place) && read::is_selected(object, wish.query);
                let places: Vec<Place> = all.filter(chosen).map(|(place, _)| place.clone()).collect();
                for place in places {
                    self.delete(&place, &Value::Null);
                }
                (
                    200,
                    json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }),
                )
            }
            ("PUT", Some(place)) => self.change(&place, status_only, How::Replace, wish.body),
            // What is applied and not there yet is made.
            ("PATCH", Some(place))
                if wish.content.starts_with("application/apply-patch") && !self.all.contains_key(&place) =>
            {
                self.create(target, wish.body)
            }
            ("PATCH", Some(place)) => {
                let how = if wish.content.starts_with("application/json-patch") {
                    How::Operations
                } else {
                    How::Merge
                };
                self.change(&place, status_only, how, wish.body)
            }
            _ => refusal(405, "the method is not allowed here", None),
        }
    }
}
