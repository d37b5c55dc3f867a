//! What `/readyz` answers: named checks, each ready or not for a reason.

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use parking_lot::RwLock;

/// The checks of a process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Health(Arc<RwLock<BTreeMap<&'static str, Result<(), String>>>>);

/// One check, set by whoever knows.
#[derive(Clone, Debug)]
pub struct Check {
    name: &'static str,
    health: Health,
}

impl Health {
    /// Adds a check that is not ready yet.
    pub fn check(&self, name: &'static str) -> Check {
        let check = Check {
            name,
            health: self.clone(),
        };
        check.not_ready("starting");
        check
    }

    /// Whether every check is ready, and a text with a line for each in the form of Kubernetes' own components.
    pub fn report(&self) -> (bool, String) {
        let checks = self.0.read();
        let ready = checks.values().all(Result::is_ok);
        let mut text = String::from("[+]ping ok\n");
        for (name, state) in checks.iter() {
            // Writing to a string cannot fail.
            let _ = match state {
                Ok(()) => writeln!(text, "[+]{name} ok"),
                Err(reason) => writeln!(text, "[-]{name} failed: {reason}"),
            };
        }
        text.push_str(if ready {
            "readyz check passed\n"
        } else {
            "readyz check failed\n"
        });
        (ready, text)
    }

    /// One check: ready, not ready and why, or unknown.
    pub fn get(&self, name: &str) -> Option<Result<(), String>> {
        self.0.read().get(name).cloned()
    }
}

impl Check {
    /// This part works.
    pub fn ready(&self) {
        self.set(Ok(()));
    }

    /// This part does not work, and why.
    pub fn not_ready(&self, reason: impl Into<String>) {
        self.set(Err(reason.into()));
    }

    fn set(&self, state: Result<(), String>) {
        self.health.0.write().insert(self.name, state);
    }
}
