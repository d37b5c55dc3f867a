//! Connections on which no session has been accepted yet: few, short, and none of them keeps others out.
//!
//! Anybody who reaches the port can open connections. There is a bound for all of them and one for each source. Where it is
//! reached the oldest of the source that has most makes room for the new one: who has something to say is through in a
//! fraction of a second, and who only holds a place loses it.

use std::{
    collections::{HashMap, VecDeque},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Connections that are not admitted yet.
const GUESTS_MAX: usize = 512;
/// Of one source: members behind one address share it.
const SOURCE_MAX: usize = GUESTS_MAX / 2;
/// How long a peer may take to read why it was refused.
const LINGER: Duration = Duration::from_secs(2);

/// Where connections come from: an address, of the new kind the network that one subscriber has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Source(IpAddr);

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(long) => {
                let [a, b, c, d, ..] = long.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            short @ IpAddr::V4(_) => short,
        })
    }
}

/// One connection, as everybody who has to do with it sees it.
#[derive(Debug)]
pub(crate) struct Door {
    guests: Guests,
    source: Source,
    shut: CancellationToken,
    admitted: AtomicBool,
}

impl Door {
    /// A session was accepted on it: it is a guest no longer.
    pub(crate) fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
        self.guests.leave(self);
    }

    pub(crate) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Where it comes from.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Resolves when the connection is to end.
    pub(crate) fn shut(&self) -> CancellationToken {
        self.shut.clone()
    }

    /// Ends the connection when the peer has had time to read the last word.
    pub(crate) fn close_soon(&self) {
        let shut = self.shut.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LINGER).await;
            shut.cancel();
        });
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.guests.leave(self);
    }
}

/// All that are not admitted yet, by source, the oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Guests(Arc<Mutex<HashMap<Source, VecDeque<CancellationToken>>>>);

impl Guests {
    /// One more. Another may have to go for it.
    pub(crate) fn enter(&self, address: IpAddr) -> Arc<Door> {
        let source = Source::from(address);
        let shut = CancellationToken::new();
        let mut all = self.0.lock();
        let total: usize = all.values().map(VecDeque::len).sum();
        let evicted = if all.get(&source).is_some_and(|own| own.len() >= SOURCE_MAX) {
            Some(source)
        } else if total >= GUESTS_MAX {
            all.iter().max_by_key(|(_, own)| own.len()).map(|(source, _)| *source)
        } else {
            None
        };
        if let Some(from) = evicted
            && let Some(oldest) = all.get_mut(&from).and_then(VecDeque::pop_front)
        {
            oldest.cancel();
        }
        all.entry(source).or_default().push_back(shut.clone());
        drop(all);
        Arc::new(Door {
            guests: self.clone(),
            source,
            shut,
            admitted: AtomicBool::new(false),
        })
    }

    fn leave(&self, door: &Door) {
        let mut all = self.0.lock();
        if let Some(own) = all.get_mut(&door.source) {
            own.retain(|shut| *shut != door.shut);
            if own.is_empty() {
                all.remove(&door.source);
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().values().map(VecDeque::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_source_cannot_keep_others_out_and_its_oldest_goes_first() {
        let guests = Guests::default();
        let held: Vec<_> = (0..SOURCE_MAX + 10)
            .map(|_| guests.enter(address("10.0.0.1")))
            .collect();
        assert_eq!(guests.len(), SOURCE_MAX);
        assert!(held[..10].iter().all(|door| door.shut().is_cancelled()));
        assert!(held[10..].iter().all(|door| !door.shut().is_cancelled()));
        let other = guests.enter(address("10.0.0.2"));
        assert!(!other.shut().is_cancelled());
        drop(held);
        assert_eq!(guests.len(), 1);
    }

    #[test]
    fn of_many_sources_the_one_with_most_makes_room() {
        let guests = Guests::default();
        let many: Vec<_> = (0..SOURCE_MAX).map(|_| guests.enter(address("10.0.0.1"))).collect();
        let few: Vec<_> = (0..SOURCE_MAX)
            .map(|i| {
                guests.enter(IpAddr::V4(std::net::Ipv4Addr::from(
                    0x0b00_0000 + u32::try_from(i).unwrap(),
                )))
            })
            .collect();
        let new = guests.enter(address("192.0.2.1"));
        assert_eq!(guests.len(), GUESTS_MAX);
        assert!(many[0].shut().is_cancelled() && !new.shut().is_cancelled());
        assert!(few.iter().all(|door| !door.shut().is_cancelled()));
    }

    #[test]
    fn a_member_is_no_guest() {
        let guests = Guests::default();
        let member = guests.enter(address("::ffff:10.0.0.1"));
        assert_eq!(member.source(), Source::from(address("10.0.0.1")));
        member.admit();
        assert_eq!(guests.len(), 0);
        assert!(member.is_admitted());
    }

    #[test]
    fn addresses_of_one_network_are_one_source() {
        assert_eq!(
            Source::from(address("2001:db8::1")),
            Source::from(address("2001:db8::2:3"))
        );
        assert_ne!(
            Source::from(address("2001:db8::1")),
            Source::from(address("2001:db8:0:1::1"))
        );
    }
}
