//! What each MemberCluster may cost this replica. Kept by MemberCluster, not by session: reconnecting buys nothing.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fleet_core::session::budget::{Budget, Rate, Rates};
use fleet_proto::{convert::SessionLimits, limits};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard},
    time::Instant,
};

use super::memory::Pools;

/// The rates that members are held to.
pub(crate) fn rates(said: &SessionLimits) -> Rates {
    let rate = |sustained, burst| Rate { sustained, burst };
    Rates {
        messages: rate(said.messages_per_second, limits::MESSAGES_BURST),
        bytes: rate(said.bytes_per_second, limits::BYTES_BURST),
        malformed: rate(limits::MALFORMED_PER_SECOND, limits::MALFORMED_BURST),
        events: rate(limits::EVENTS_PER_SECOND, limits::EVENTS_BURST),
        sessions: rate(limits::SESSIONS_PER_MINUTE, limits::SESSIONS_BURST),
        work: rate(limits::WORK_WRITES_PER_SECOND, limits::WORK_WRITES_BURST),
        cluster: rate(limits::CLUSTER_WRITES_PER_SECOND, limits::CLUSTER_WRITES_BURST),
        stored: rate(limits::STORED_BYTES_PER_MINUTE, limits::STORED_BYTES_BURST),
    }
}

/// One MemberCluster's.
#[derive(Debug)]
pub(crate) struct Allowance {
    pub(super) member: String,
    uid: String,
    pub(super) rates: Rates,
    budget: Mutex<Budget>,
    share: Arc<Pools>,
    /// Of its fattest objects one is written after the other, and not before then.
    fat: AsyncMutex<Instant>,
}

/// An object of that size is a fat one.
const FAT_BYTES: usize = 128 * 1024;
/// After a fat object its member writes no other for so many times as long as that one took: the API server has others to
/// serve.
const FAT_REST: u32 = 3;
/// But not for longer than that: a slow API server is not one member's fault.
const FAT_REST_MAX: Duration = Duration::from_millis(250);

/// A turn to write a fat object. Who comes next waits a while after it ends.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    next: AsyncMutexGuard<'a, Instant>,
    began: Instant,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let rest = (self.began.elapsed() * FAT_REST).min(FAT_REST_MAX);
        *self.next = Instant::now() + rest;
    }
}

impl Allowance {
    pub(crate) fn new(member: &str, uid: &str, rates: Rates, now: Timestamp) -> Self {
        Self {
            member: member.to_owned(),
            uid: uid.to_owned(),
            rates,
            budget: Mutex::new(Budget::new(rates, now)),
            share: Arc::new(Pools::of_member()),
            fat: AsyncMutex::new(Instant::now()),
        }
    }

    /// The budget itself, for what needs no words.
    pub(crate) fn budget(&self) -> MutexGuard<'_, Budget> {
        self.budget.lock()
    }

    /// A turn to write an object of this size. At once, unless it is a fat one.
    pub(crate) async fn turn(&self, bytes: usize) -> Option<Turn<'_>> {
        if bytes < FAT_BYTES {
            return None;
        }
        let next = self.fat.lock().await;
        tokio::time::sleep_until(*next).await;
        let began = Instant::now();
        Some(Turn { next, began })
    }

    /// Its share of the memory for messages.
    pub(crate) fn share(&self) -> Arc<Pools> {
        self.share.clone()
    }
}

/// Those of all MemberClusters that have connected here. As many as there are MemberClusters at most: whoever calls has been
/// judged to be one, and who is gone is forgotten.
#[derive(Debug, Default)]
pub(crate) struct Allowances(Mutex<HashMap<String, Arc<Allowance>>>);

impl Allowances {
    /// That of a MemberCluster. Another one under the same name starts anew.
    pub(crate) fn of(&self, member: &str, uid: &str, rates: Rates, now: Timestamp) -> Arc<Allowance> {
        let mut all = self.0.lock();
        match all.get(member) {
            Some(known) if known.uid == uid => known.clone(),
            _ => {
                let new = Arc::new(Allowance::new(member, uid, rates, now));
                all.insert(member.to_owned(), new.clone());
                new
            }
        }
    }

    /// The MemberCluster is gone.
    pub(crate) fn forget(&self, member: &str) {
        self.0.lock().remove(member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_a_fat_object_others_have_their_time() {
        let rates = rates(&SessionLimits::default());
        let allowance = Allowance::new("a", "1", rates, Timestamp::UNIX_EPOCH);
        assert!(allowance.turn(FAT_BYTES - 1).await.is_none());
        let turn = allowance.turn(FAT_BYTES).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        drop(turn);
        let over = Instant::now();
        let next = allowance.turn(FAT_BYTES).await;
        assert_eq!(over.elapsed(), Duration::from_millis(20) * FAT_REST);
        tokio::time::sleep(Duration::from_mins(1)).await;
        drop(next);
        let over = Instant::now();
        let _last = allowance.turn(FAT_BYTES).await;
        assert_eq!(over.elapsed(), FAT_REST_MAX);
    }

    #[test]
    fn reconnecting_buys_nothing_and_a_new_member_cluster_starts_anew() {
        let (all, now) = (Allowances::default(), Timestamp::UNIX_EPOCH);
        let rates = rates(&SessionLimits::default());
        let first = all.of("a", "1", rates, now);
        while first.budget().session(now).is_ok() {}
        assert!(all.of("a", "1", rates, now).budget().session(now).is_err());
        assert!(all.of("a", "2", rates, now).budget().session(now).is_ok());
        all.forget("a");
        assert!(all.0.lock().is_empty());
    }
}
