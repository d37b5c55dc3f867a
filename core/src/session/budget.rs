//! What one MemberCluster may cost the hub, whatever it sends and however often it connects.
//!
//! A budget belongs to the MemberCluster and outlives its sessions: reconnecting buys nothing. Time is steady time, passed
//! in. What a budget holds back is not lost: it says how long to wait, and the newest word is written then.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::bucket::Bucket;

/// How much, and how much at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Per second or per minute.
    pub sustained: u32,
    /// At once.
    pub burst: u32,
}

/// What a budget is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Messages a second.
    pub messages: Rate,
    /// Bytes of messages a second.
    pub bytes: Rate,
    /// Messages a second that cannot be understood.
    pub malformed: Rate,
    /// Events a second that are recorded on its behalf.
    pub events: Rate,
    /// Accepted sessions a minute.
    pub sessions: Rate,
    /// Writes a second of one Work's status; a large one counts as several.
    pub work: Rate,
    /// Writes a second of what the cluster says about itself.
    pub cluster: Rate,
    /// Bytes a minute that the API server stores on its behalf.
    pub stored: Rate,
}

/// What was held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Held {
    /// The status of one Work, which changes all the time.
    Work,
    /// What the cluster says about itself, which changes all the time.
    Cluster,
    /// Whatever is to be stored: it would be too much.
    Stored,
    /// A session: too many in a row.
    Session,
}

/// Something has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// For so long.
    pub time: SignedDuration,
    /// Because of that.
    pub held: Held,
    /// People should be told: it is the first time for long.
    pub tell: bool,
}

/// After so long without anything held back the next time is news again.
const SPELL: SignedDuration = SignedDuration::from_mins(10);
/// A busy cluster may change its mind for a while; whoever goes on is worth a word.
const BUSY: u32 = 60;
/// Paces of Works are thrown away, when they have become full, above this number.
const PACES: usize = 256;

/// Bytes of a Work that count as one more write: a large one keeps the API server from others for longer.
const LARGE: usize = 512 * 1024;

/// The budget of one MemberCluster.
#[derive(Debug, Clone)]
pub struct Budget {
    rates: Rates,
    /// Messages.
    pub messages: Bucket,
    /// Bytes of messages.
    pub bytes: Bucket,
    /// Messages that cannot be understood.
    pub malformed: Bucket,
    /// Events.
    pub events: Bucket,
    sessions: Bucket,
    cluster: Bucket,
    stored: Bucket,
    works: BTreeMap<String, Bucket>,
    spells: BTreeMap<Held, Spell>,
}

#[derive(Debug, Clone, Copy)]
struct Spell {
    last: Timestamp,
    times: u32,
}

impl Budget {
    /// A whole one.
    pub fn new(rates: Rates, now: Timestamp) -> Self {
        let second = |rate: Rate| Bucket::new(rate.sustained, rate.burst, now);
        let minute = |rate: Rate| Bucket::per_minute(rate.sustained, rate.burst, now);
        Self {
            messages: second(rates.messages),
            bytes: second(rates.bytes),
            malformed: second(rates.malformed),
            events: second(rates.events),
            sessions: minute(rates.sessions),
            cluster: second(rates.cluster),
            stored: minute(rates.stored),
            works: BTreeMap::new(),
            spells: BTreeMap::new(),
            rates,
        }
    }

    /// A message of this size: passes, or waits for so long. Bytes first: what waits for them has not used up a message.
    pub fn message(&mut self, bytes: u32, now: Timestamp) -> Result<(), SignedDuration> {
        self.bytes.take(bytes, now)?;
        self.messages.take(1, now)
    }

    /// One more session.
    pub fn session(&mut self, now: Timestamp) -> Result<(), Wait> {
        self.sessions
            .take(1, now)
            .map_err(|time| self.held(Held::Session, time, now))
    }

    /// A write of a Work's status, after which the object has this size.
    pub fn work(&mut self, work: &str, bytes: usize, now: Timestamp) -> Result<(), Wait> {
        if self.works.len() >= PACES && !self.works.contains_key(work) {
            self.works.retain(|_, pace| !pace.is_full(now));
        }
        let rate = self.rates.work;
        let pace = self.works.entry(work.to_owned());
        let pace = pace.or_insert_with(|| Bucket::new(rate.sustained, rate.burst, now));
        let writes = u32::try_from(1 + bytes / LARGE).unwrap_or(u32::MAX).min(rate.burst);
        let time = pace.wait(writes, now);
        if time.is_positive() {
            return Err(self.held(Held::Work, time, now));
        }
        self.store(bytes, now)?;
        // It was there a moment ago.
        let _ = self.works.get_mut(work).map(|pace| pace.take(writes, now));
        Ok(())
    }

    /// A write of what the cluster says about itself, in so many bytes altogether.
    pub fn cluster(&mut self, bytes: usize, now: Timestamp) -> Result<(), Wait> {
        let time = self.cluster.wait(1, now);
        if time.is_positive() {
            return Err(self.held(Held::Cluster, time, now));
        }
        self.store(bytes, now)?;
        let _ = self.cluster.take(1, now);
        Ok(())
    }

    /// A write of a heartbeat's time, after which the object has this size.
    pub fn beat(&mut self, bytes: usize, now: Timestamp) -> Result<(), Wait> {
        self.store(bytes, now)
    }

    fn store(&mut self, bytes: usize, now: Timestamp) -> Result<(), Wait> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.stored
            .take(bytes, now)
            .map_err(|time| self.held(Held::Stored, time, now))
    }

    fn held(&mut self, held: Held, time: SignedDuration, now: Timestamp) -> Wait {
        let spell = self.spells.entry(held).or_insert(Spell { last: now, times: 0 });
        if now.duration_since(spell.last) > SPELL {
            spell.times = 0;
        }
        spell.last = now;
        spell.times = spell.times.saturating_add(1);
        let patience = match held {
            Held::Work | Held::Cluster => BUSY,
            Held::Stored | Held::Session => 1,
        };
        Wait {
            time,
            held,
            tell: spell.times == patience,
        }
    }
}

#[cfg(test)]
mod tests;
