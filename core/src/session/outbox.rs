//! What a member still has to tell the hub: the newest report per subject, kept until it is answered for good.
//!
//! Guarantees: per subject at most one report is on the way; a newer one replaces what waits, never what was answered;
//! nothing is forgotten without a final answer or because its object is gone; memory is bounded by the number of
//! subjects. Heartbeats and Events do not go through here: the next one is better, or it may be lost.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

use super::Outcome;
use super::seen::Subject;

/// How long a report waits that the hub could not take.
const RETRY_AFTER: SignedDuration = SignedDuration::from_secs(1);

/// Reports that wait or are on the way.
#[derive(Debug)]
pub struct Outbox<T> {
    entries: BTreeMap<Subject, Entry<T>>,
    queue: VecDeque<Subject>,
    on_the_way: BTreeMap<u64, Subject>,
    /// When the first report that rests may be sent again, or earlier: spares looking at all of them.
    wakes: Option<Timestamp>,
    window: usize,
}

#[derive(Debug)]
struct Entry<T> {
    report: T,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In the queue.
    Waiting,
    /// Not before this time.
    Resting(Timestamp),
    /// Sent with this number.
    Sent(u64),
    /// Sent with this number, and replaced since: to be sent again whatever the answer.
    Outdated(u64),
}

/// What an answer meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The newest report about this has been dealt with.
    Done(Subject),
    /// It will be sent again.
    Again(Subject),
    /// The hub wants it smaller: put a trimmed one.
    Trim(Subject),
    /// Nothing that we wait for.
    Stray,
}

impl<T> Outbox<T> {
    /// With at most `window` reports on the way.
    pub fn new(window: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            queue: VecDeque::new(),
            on_the_way: BTreeMap::new(),
            wakes: None,
            window: window.max(1),
        }
    }

    /// A new report; an older one about the same that is not answered yet is replaced.
    pub fn put(&mut self, subject: Subject, report: T) {
        let Some(entry) = self.entries.get_mut(&subject) else {
            self.entries.insert(
                subject.clone(),
                Entry {
                    report,
                    state: State::Waiting,
                },
            );
            self.queue.push_back(subject);
            return;
        };
        entry.report = report;
        match entry.state {
            State::Sent(seq) => entry.state = State::Outdated(seq),
            State::Resting(_) => {
                entry.state = State::Waiting;
                self.queue.push_back(subject);
            }
            State::Waiting | State::Outdated(_) => {}
        }
    }

    /// Its object is gone: nothing about it is of interest any more.
    pub fn forget(&mut self, subject: &Subject) {
        if let Some(Entry {
            state: State::Sent(seq) | State::Outdated(seq),
            ..
        }) = self.entries.remove(subject)
        {
            self.on_the_way.remove(&seq);
        }
        self.queue.retain(|waiting| waiting != subject);
    }

    /// The next report to send under `seq`, if the window allows one.
    pub fn next(&mut self, seq: u64, now: Timestamp) -> Option<(Subject, &T)> {
        self.wake(now);
        if self.on_the_way.len() >= self.window {
            return None;
        }
        let subject = self.queue.pop_front()?;
        self.on_the_way.insert(seq, subject.clone());
        let entry = self.entries.get_mut(&subject).expect("what is queued has an entry");
        entry.state = State::Sent(seq);
        Some((subject, &entry.report))
    }

    /// When to ask again although nothing happened.
    pub fn next_retry(&self) -> Option<Timestamp> {
        self.wakes
    }

    /// The hub answered.
    pub fn answered(&mut self, seq: u64, outcome: Outcome, now: Timestamp) -> Settled {
        let Some(subject) = self.on_the_way.remove(&seq) else {
            return Settled::Stray;
        };
        let Some(entry) = self.entries.get_mut(&subject) else {
            return Settled::Stray;
        };
        match (entry.state, outcome) {
            (State::Outdated(_), _) => {
                entry.state = State::Waiting;
                self.queue.push_back(subject.clone());
                Settled::Again(subject)
            }
            (_, Outcome::RetryLater) => {
                let until = now + RETRY_AFTER;
                entry.state = State::Resting(until);
                self.wakes = Some(self.wakes.map_or(until, |earlier| earlier.min(until)));
                Settled::Again(subject)
            }
            (_, Outcome::TooLarge) => {
                self.entries.remove(&subject);
                Settled::Trim(subject)
            }
            _ => {
                self.entries.remove(&subject);
                Settled::Done(subject)
            }
        }
    }

    /// The stream broke: whatever was on the way may or may not have arrived, so all of it is sent again.
    pub fn disconnected(&mut self) {
        self.on_the_way.clear();
        self.wakes = None;
        for (subject, entry) in &mut self.entries {
            if !matches!(entry.state, State::Waiting) {
                entry.state = State::Waiting;
                self.queue.push_back(subject.clone());
            }
        }
    }

    /// Reports without a final answer.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether everything has been answered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn wake(&mut self, now: Timestamp) {
        if self.wakes.is_none_or(|at| at > now) {
            return;
        }
        self.wakes = None;
        for (subject, entry) in &mut self.entries {
            if let State::Resting(until) = entry.state {
                if until <= now {
                    entry.state = State::Waiting;
                    self.queue.push_back(subject.clone());
                } else {
                    self.wakes = Some(self.wakes.map_or(until, |earlier| earlier.min(until)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("time")
    }

    fn work(i: u8) -> Subject {
        Subject::Work(format!("w{i}"))
    }

    #[test]
    fn a_newer_report_waits_for_the_answer_to_the_older() {
        let mut outbox = Outbox::new(8);
        outbox.put(work(1), "a");
        assert_eq!(outbox.next(1, at(0)), Some((work(1), &"a")));
        outbox.put(work(1), "b");
        outbox.put(work(1), "c");
        assert_eq!(outbox.next(2, at(0)), None, "one at a time");
        assert_eq!(outbox.answered(1, Outcome::Persisted, at(0)), Settled::Again(work(1)));
        assert_eq!(outbox.next(2, at(0)), Some((work(1), &"c")), "only the newest");
        assert_eq!(outbox.answered(2, Outcome::Superseded, at(0)), Settled::Done(work(1)));
        assert!(outbox.is_empty());
        assert_eq!(outbox.answered(2, Outcome::Persisted, at(0)), Settled::Stray);
    }

    #[test]
    fn what_the_hub_could_not_take_is_kept() {
        let mut outbox = Outbox::new(8);
        outbox.put(work(1), 1);
        outbox.next(1, at(0));
        assert_eq!(outbox.answered(1, Outcome::RetryLater, at(0)), Settled::Again(work(1)));
        assert_eq!(outbox.next(2, at(0)), None);
        assert_eq!(outbox.next_retry(), Some(at(1)));
        assert_eq!(outbox.next(2, at(1)), Some((work(1), &1)));
        assert_eq!(outbox.answered(2, Outcome::TooLarge, at(1)), Settled::Trim(work(1)));
    }

    #[test]
    fn after_a_break_everything_unanswered_is_sent_again() {
        let mut outbox = Outbox::new(1);
        outbox.put(work(1), 1);
        outbox.put(work(2), 2);
        outbox.next(1, at(0));
        assert_eq!(outbox.next(2, at(0)), None, "the window is full");
        outbox.disconnected();
        assert_eq!(outbox.next(3, at(0)), Some((work(2), &2)));
        outbox.answered(3, Outcome::Persisted, at(0));
        assert_eq!(outbox.next(4, at(0)), Some((work(1), &1)));
        outbox.forget(&work(1));
        assert!(outbox.is_empty());
        assert_eq!(outbox.answered(4, Outcome::Persisted, at(0)), Settled::Stray);
    }

    #[derive(Debug, Clone)]
    enum Act {
        Put(u8),
        Send,
        Answer(usize, bool),
        Break,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            (0..5u8).prop_map(Act::Put),
            Just(Act::Send),
            (0..9usize, any::<bool>()).prop_map(|(i, ok)| Act::Answer(i, ok)),
            Just(Act::Break),
        ];
        prop::collection::vec(act, 0..200)
    }

    proptest! {
        /// Whatever happens, once things calm down the hub has the newest report of everything, and it never went back.
        #[test]
        fn the_newest_of_everything_arrives_in_order(acts in acts()) {
            let mut outbox = Outbox::new(3);
            let (mut seq, mut version) = (0, 0);
            let mut newest: BTreeMap<Subject, u32> = BTreeMap::new();
            let mut stored: BTreeMap<Subject, u32> = BTreeMap::new();
            let mut stream: Vec<(u64, Subject)> = vec![];
            for act in acts {
                match act {
                    Act::Put(i) => {
                        version += 1;
                        newest.insert(work(i), version);
                        outbox.put(work(i), version);
                    }
                    Act::Send => {
                        seq += 1;
                        if let Some((subject, version)) = outbox.next(seq, at(0)) {
                            prop_assert!(stored.insert(subject.clone(), *version).unwrap_or(0) <= *version);
                            prop_assert!(stream.iter().all(|(_, s)| *s != subject), "two on the way");
                            stream.push((seq, subject));
                        }
                    }
                    Act::Answer(i, ok) if !stream.is_empty() => {
                        let (seq, _) = stream.remove(i % stream.len());
                        outbox.answered(seq, if ok { Outcome::Persisted } else { Outcome::RetryLater }, at(0));
                    }
                    Act::Answer(..) => {}
                    Act::Break => {
                        stream.clear();
                        outbox.disconnected();
                    }
                }
                prop_assert!(outbox.len() <= 5 && stream.len() <= 3);
            }
            outbox.disconnected();
            for round in 0..100 {
                seq += 1;
                let Some((subject, version)) = outbox.next(seq, at(round)) else { break };
                stored.insert(subject, *version);
                outbox.answered(seq, Outcome::Persisted, at(round));
            }
            prop_assert_eq!(stored, newest);
            prop_assert!(outbox.is_empty());
        }
    }
}
