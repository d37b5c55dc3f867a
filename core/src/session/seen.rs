//! What a session has already processed, so that a repeated or late message changes nothing.

use std::collections::BTreeMap;

/// What a message is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Joined and Healthy.
    AgentStatus,
    /// Properties, usage, namespaces.
    Properties,
    /// The end of applying.
    Stopped,
    /// A Work's status.
    Work(String),
    /// A Work's finalizer: claims.
    Claim(String),
    /// A Work's finalizer: clean-up.
    Cleanup(String),
}

/// The last sequence number processed per subject, bounded.
#[derive(Debug, Default)]
pub struct Seen {
    last: BTreeMap<Subject, u64>,
    /// Everything up to here counts as seen for subjects that were forgotten.
    floor: u64,
    limit: usize,
}

impl Seen {
    /// Remembers at most `limit` subjects.
    pub fn new(limit: usize) -> Self {
        Self {
            last: BTreeMap::new(),
            floor: 0,
            limit: limit.max(1),
        }
    }

    /// Whether this message is newer than any processed before about the same subject.
    pub fn is_newer(&self, subject: &Subject, seq: u64) -> bool {
        seq > self.last.get(subject).copied().unwrap_or(self.floor)
    }

    /// It was processed. Only after what it asked for is stored: until then a repetition must be processed again.
    pub fn processed(&mut self, subject: Subject, seq: u64) {
        let last = self.last.entry(subject).or_default();
        *last = (*last).max(seq);
        if self.last.len() > self.limit {
            // The subject that has been quiet for longest. Its late messages are then older than the floor.
            if let Some((oldest, seq)) = self
                .last
                .iter()
                .min_by_key(|(_, seq)| **seq)
                .map(|(k, s)| (k.clone(), *s))
            {
                self.last.remove(&oldest);
                self.floor = self.floor.max(seq);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_older_message_never_counts_and_memory_is_bounded(
            messages in prop::collection::vec((0..9u8, 1..100u64), 0..200),
        ) {
            let mut seen = Seen::new(4);
            let mut newest: BTreeMap<Subject, u64> = BTreeMap::new();
            for (work, seq) in messages {
                let subject = Subject::Work(format!("w{work}"));
                let before = newest.get(&subject).copied().unwrap_or(0);
                if seen.is_newer(&subject, seq) {
                    prop_assert!(seq > before, "{} after {}", seq, before);
                    seen.processed(subject.clone(), seq);
                    prop_assert!(!seen.is_newer(&subject, seq), "a duplicate");
                    newest.insert(subject, seq);
                }
                prop_assert!(seen.last.len() <= 4);
            }
        }
    }
}
