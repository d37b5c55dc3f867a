//! The namespaces that a cluster reports, up to a limit.

use std::collections::BTreeMap;

/// How many namespaces are reported.
pub const TRACK_LIMIT: usize = 200;

/// Namespaces that are not terminating, each with the AppliedWork that owns it or `""`.
///
/// The first that came are reported and stay, so that a cluster at the limit does not flap; the others wait, and the
/// first of them by name moves up when one goes.
#[derive(Debug, Default)]
pub struct Namespaces {
    reported: BTreeMap<String, String>,
    waiting: BTreeMap<String, String>,
}

impl Namespaces {
    /// A namespace appeared or changed its owner. True if the report changed.
    pub fn set(&mut self, name: &str, owner: &str) -> bool {
        if let Some(known) = self.reported.get_mut(name) {
            if known == owner {
                return false;
            }
            owner.clone_into(known);
            return true;
        }
        if self.reported.len() < TRACK_LIMIT {
            self.reported.insert(name.into(), owner.into());
            return true;
        }
        let was_complete = self.complete();
        self.waiting.insert(name.into(), owner.into());
        was_complete
    }

    /// A namespace is gone or terminating. True if the report changed.
    pub fn remove(&mut self, name: &str) -> bool {
        if self.reported.remove(name).is_some() {
            if let Some((next, owner)) = self.waiting.pop_first() {
                self.reported.insert(next, owner);
            }
            return true;
        }
        self.waiting.remove(name).is_some() && self.complete()
    }

    /// Forgets what a new listing does not contain. True if the report changed.
    pub fn retain(&mut self, listed: impl Fn(&str) -> bool) -> bool {
        let was_complete = self.complete();
        self.waiting.retain(|name, _| listed(name));
        let gone: Vec<String> = self.reported.keys().filter(|n| !listed(n)).cloned().collect();
        for name in &gone {
            self.remove(name);
        }
        !gone.is_empty() || was_complete != self.complete()
    }

    /// What is reported.
    pub fn reported(&self) -> &BTreeMap<String, String> {
        &self.reported
    }

    /// Whether that is all of them; otherwise collection is degraded.
    pub fn complete(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_hundred_and_first_waits_and_moves_up() {
        let mut namespaces = Namespaces::default();
        for i in 0..TRACK_LIMIT {
            assert!(namespaces.set(&format!("n{i:03}"), ""));
        }
        assert!(namespaces.complete());
        assert!(namespaces.set("z", "w"), "the report turns degraded");
        assert!(!namespaces.set("y", ""), "it already was");
        assert!(!namespaces.complete());
        assert!(namespaces.remove("n007"));
        assert_eq!(namespaces.reported().get("y").map(String::as_str), Some(""));
        assert!(!namespaces.complete(), "z still waits");
        assert!(namespaces.remove("z"), "all are reported again");
        assert!(namespaces.complete());
        assert_eq!(namespaces.reported().len(), TRACK_LIMIT);
    }

    #[test]
    fn a_change_of_owner_is_reported_once() {
        let mut namespaces = Namespaces::default();
        assert!(namespaces.set("a", ""));
        assert!(namespaces.set("a", "w"));
        assert!(!namespaces.set("a", "w"));
        assert!(!namespaces.remove("b"));
        assert!(namespaces.retain(|_| false));
        assert!(namespaces.reported().is_empty());
    }
}
