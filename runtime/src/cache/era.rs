//! Whether an API server still counts its versions where it did before.
//!
//! An etcd that is restored from a backup starts again at a lower revision. A watch that goes on from the higher one is
//! accepted and shows nothing until the revisions have caught up, and what was kept from before may never have happened.
//! Whoever notices says so here, and every watch of the same API server begins anew.

use std::sync::Arc;

use tokio::sync::watch;

/// The time of one API server, until it goes back. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Era {
    ended: watch::Sender<u64>,
    /// The era of the API server in front.
    within: Option<Arc<Era>>,
}

impl Default for Era {
    fn default() -> Self {
        Self {
            ended: watch::Sender::new(0),
            within: None,
        }
    }
}

impl Era {
    /// The era of kinds that may be another API server's, behind this one: it ends with this one, and also alone.
    #[must_use]
    pub fn behind(&self) -> Self {
        Self {
            within: Some(Arc::new(self.clone())),
            ..Self::default()
        }
    }

    /// How often the API server has gone back while this process looked.
    pub fn number(&self) -> u64 {
        *self.ended.borrow() + self.within.as_ref().map_or(0, |outer| outer.number())
    }

    /// The API server went back during this era. Many notice the same: only the first ends it.
    pub fn end(&self, era: u64) {
        let outer = self.within.as_ref().map_or(0, |outer| outer.number());
        self.ended.send_if_modified(|now| {
            let first = *now + outer == era;
            *now += u64::from(first);
            first
        });
    }

    /// Resolves when this era is over, with the number of the one that is.
    pub async fn over(&self, era: u64) -> u64 {
        let (mut own, mut outer) = (
            self.ended.subscribe(),
            self.within.as_ref().map(|outer| outer.ended.subscribe()),
        );
        loop {
            let now = self.number();
            if now != era {
                return now;
            }
            let outer = async {
                match &mut outer {
                    Some(outer) => outer.changed().await,
                    None => std::future::pending().await,
                }
            };
            // The senders live as long as we do.
            tokio::select! {
                _ = own.changed() => {}
                _ = outer => {}
            }
        }
    }
}

/// Whether a version lies before another of the same API server. Versions that are no numbers say nothing.
pub fn is_before(version: &str, held: &str) -> bool {
    matches!((version.parse::<u64>(), held.parse::<u64>()), (Ok(version), Ok(held)) if version < held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_many_notice_ends_one_era() {
        let era = Era::default();
        let other = era.clone();
        era.end(0);
        other.end(0);
        assert_eq!(other.number(), 1);
        assert_eq!(era.over(0).await, 1, "also for who asks late");
        other.end(1);
        assert_eq!(era.number(), 2);
    }

    #[tokio::test]
    async fn an_era_behind_another_ends_with_it_and_alone() {
        let front = Era::default();
        let behind = front.behind();
        behind.end(0);
        assert_eq!((front.number(), behind.over(0).await), (0, 1));
        front.end(0);
        assert_eq!(behind.over(1).await, 2);
        behind.end(2);
        assert_eq!((front.number(), behind.number()), (1, 3));
    }

    #[test]
    fn only_numbers_are_compared() {
        assert!(is_before("9", "10"));
        assert!(!is_before("10", "10") && !is_before("", "10") && !is_before("a", "b") && !is_before("9", ""));
    }
}
