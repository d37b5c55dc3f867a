//! One budget in bytes for all that members have on the way here: read, decoded, waiting to be written.
//!
//! A message is paid for when its length is known and before it is read; the charge is given back when it has been dealt
//! with. Each member has a share, so that it waits for itself before others wait for it. Large messages have a pool of
//! their own: a report of a megabyte must not stand in the way of a heartbeat, and the smallest messages cost nothing.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a message comes to at most while it is decoded, merged with what is stored and written, by its length.
const FACTOR: usize = 16;
/// Messages up to this length are free: each stream holds one of them at a time, and few wait.
const FREE_BYTES: usize = 2 * 1024;
/// Above this length a message is a large one.
const SMALL_BYTES: usize = 64 * 1024;
/// Charges are counted in units of so many bytes.
const UNIT: usize = 1024;

/// What all small messages may come to at once, and those of one member.
const SMALL: (usize, usize) = (32 * 1024 * 1024, 8 * 1024 * 1024);
/// What all large messages may come to at once, and those of one member: a single one of the largest Work.
const LARGE: (usize, usize) = (96 * 1024 * 1024, 24 * 1024 * 1024);

/// What the first messages of those who are no member's identity may come to at once.
const STRANGERS: usize = 2 * 1024 * 1024;

/// Two pools of bytes: of the process, or one member's share.
#[derive(Debug)]
pub(crate) struct Pools {
    small: Pool,
    large: Pool,
}

#[derive(Debug)]
struct Pool {
    units: Arc<Semaphore>,
    size: u32,
}

/// What a message has taken, until it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    _of_member: Option<OwnedSemaphorePermit>,
    _of_all: Option<OwnedSemaphorePermit>,
}

impl Pools {
    /// The process's.
    pub(crate) fn of_process() -> Self {
        Self::new(SMALL.0, LARGE.0)
    }

    /// One member's share.
    pub(crate) fn of_member() -> Self {
        Self::new(SMALL.1, LARGE.1)
    }

    /// That of all who are no member's identity, beside the process's: they wait for each other, and no member for them.
    pub(crate) fn of_strangers() -> Self {
        Self::new(STRANGERS, STRANGERS)
    }

    fn new(small: usize, large: usize) -> Self {
        Self {
            small: Pool::new(small),
            large: Pool::new(large),
        }
    }

    /// Pays for a message of `bytes`, first from the member's share, then from what all have. Waits until both have it.
    pub(crate) async fn pay(&self, share: &Self, bytes: usize) -> Charge {
        if bytes <= FREE_BYTES {
            return Charge::default();
        }
        let (share, pool) = if bytes <= SMALL_BYTES {
            (&share.small, &self.small)
        } else {
            (&share.large, &self.large)
        };
        let charge = bytes.saturating_mul(FACTOR);
        Charge {
            _of_member: share.take(charge).await,
            _of_all: pool.take(charge).await,
        }
    }
}

impl Pool {
    fn new(bytes: usize) -> Self {
        let units = bytes / UNIT;
        Self {
            units: Arc::new(Semaphore::new(units)),
            size: u32::try_from(units).unwrap_or(u32::MAX),
        }
    }

    /// All there is, if it is more than that.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).min(self.size);
        // Never closed.
        self.units.clone().acquire_many_owned(units).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const LARGEST_WORK: usize = 1_415_578;

    #[test]
    fn a_member_waits_for_itself_and_nobody_for_it() {
        let (all, one, other) = (Pools::of_process(), Pools::of_member(), Pools::of_member());
        let first = all.pay(&one, LARGEST_WORK).now_or_never();
        assert!(first.is_some());
        assert!(
            all.pay(&one, LARGEST_WORK).now_or_never().is_none(),
            "its share is used up"
        );
        assert!(
            all.pay(&one, 10_000).now_or_never().is_some(),
            "small ones pass beside it"
        );
        assert!(all.pay(&other, LARGEST_WORK).now_or_never().is_some());
        drop(first);
        assert!(all.pay(&one, LARGEST_WORK).now_or_never().is_some());
    }

    #[test]
    fn together_they_stay_below_the_pool_and_heartbeats_always_pass() {
        let all = Pools::of_process();
        let members: Vec<_> = (0..100).map(|_| Pools::of_member()).collect();
        let held: Vec<_> = members
            .iter()
            .filter_map(|member| all.pay(member, LARGEST_WORK).now_or_never())
            .collect();
        assert_eq!(held.len(), 4);
        let more: Vec<_> = members
            .iter()
            .filter_map(|member| all.pay(member, SMALL_BYTES).now_or_never())
            .collect();
        assert_eq!(more.len(), 32);
        assert!(all.pay(&members[0], FREE_BYTES).now_or_never().is_some());
    }

    #[test]
    fn what_is_larger_than_a_share_takes_all_of_it() {
        let (all, one) = (Pools::of_process(), Pools::of_member());
        let whole = all.pay(&one, 8 << 20).now_or_never();
        assert!(whole.is_some());
        assert!(all.pay(&Pools::of_member(), SMALL_BYTES + 1).now_or_never().is_none());
    }
}
