//! Questions to the API server about tokens: few at once, and bad tokens do not stand in the way of good ones.
//!
//! A token that was good before goes a way of its own. Those that nobody knows share the other by where they come from, and
//! one that was refused a moment ago is refused again without asking.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    authenticate::{self, Caller, Error},
    guests::Source,
};

/// Questions at once about tokens that were good before. A thousand members that return together are through in seconds.
const KNOWN_MAX: usize = 8;
/// Questions at once about others, and about those of one source.
const NEW_MAX: (usize, usize) = (8, 4);
/// Good tokens that are remembered: more than there are members.
const GOOD_MAX: usize = 16_384;
/// Refused tokens that are remembered.
const BAD_MAX: usize = 1_024;
/// For how long: a token may be good a moment after it was made.
const BAD_FOR: Duration = Duration::from_secs(5);

type Hash = [u8; 32];

/// Who may ask, and what the answers were.
#[derive(Debug)]
pub(super) struct Reviews {
    known: Semaphore,
    new: Semaphore,
    sources: Mutex<HashMap<Source, Arc<Semaphore>>>,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    good: HashSet<Hash>,
    /// The same, the oldest first.
    order: VecDeque<Hash>,
    bad: VecDeque<(Hash, Instant, String)>,
}

impl Default for Reviews {
    fn default() -> Self {
        Self {
            known: Semaphore::new(KNOWN_MAX),
            new: Semaphore::new(NEW_MAX.0),
            sources: Mutex::default(),
            answers: Mutex::default(),
        }
    }
}

impl Reviews {
    /// Whose token it is, as [`authenticate::by_token`] says, in its turn.
    pub(super) async fn by_token(&self, client: &Client, token: &str, source: Option<Source>) -> Result<Caller, Error> {
        let hash: Hash = Sha256::digest(token.as_bytes()).into();
        if let Some(why) = self.answers.lock().is_bad(&hash, Instant::now()) {
            return Err(Error::Refused(why));
        }
        let known = self.answers.lock().good.contains(&hash);
        let answer = if known {
            let _turn = self.known.acquire().await;
            authenticate::by_token(client, token).await
        } else {
            let own = source.map(|source| self.of(source));
            let _first = match &own {
                Some(own) => own.acquire().await.ok(),
                None => None,
            };
            let _turn = self.new.acquire().await;
            authenticate::by_token(client, token).await
        };
        self.forget_idle();
        self.answers.lock().note(hash, &answer, Instant::now());
        answer
    }

    fn of(&self, source: Source) -> Arc<Semaphore> {
        let mut sources = self.sources.lock();
        let own = sources.entry(source);
        own.or_insert_with(|| Arc::new(Semaphore::new(NEW_MAX.1))).clone()
    }

    /// Sources that nobody asks for any more.
    fn forget_idle(&self) {
        self.sources.lock().retain(|_, own| Arc::strong_count(own) > 1);
    }
}

impl Answers {
    fn is_bad(&self, hash: &Hash, now: Instant) -> Option<String> {
        let known = self.bad.iter().find(|(bad, until, _)| bad == hash && *until > now);
        known.map(|(_, _, why)| why.clone())
    }

    fn note(&mut self, hash: Hash, answer: &Result<Caller, Error>, now: Instant) {
        match answer {
            Ok(_) => {
                if self.good.insert(hash) {
                    self.order.push_back(hash);
                }
                if self.order.len() > GOOD_MAX
                    && let Some(oldest) = self.order.pop_front()
                {
                    self.good.remove(&oldest);
                }
            }
            Err(Error::Refused(why)) => {
                if self.good.remove(&hash) {
                    self.order.retain(|known| *known != hash);
                }
                while self.bad.len() >= BAD_MAX || self.bad.front().is_some_and(|(_, until, _)| *until <= now) {
                    self.bad.pop_front();
                }
                self.bad.push_back((hash, now + BAD_FOR, why.clone()));
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> Caller {
        Caller {
            user: "u".to_owned(),
            groups: vec![],
            expires: None,
        }
    }

    #[test]
    fn answers_are_remembered_and_bounded() {
        let (mut answers, now) = (Answers::default(), Instant::now());
        let refused = || Err(Error::Refused("no".to_owned()));
        answers.note([1; 32], &Ok(caller()), now);
        assert!(answers.good.contains(&[1; 32]));
        answers.note([1; 32], &refused(), now);
        assert!(
            answers.good.is_empty() && answers.order.is_empty(),
            "no longer a good one"
        );
        assert_eq!(answers.is_bad(&[1; 32], now).as_deref(), Some("no"));
        assert_eq!(answers.is_bad(&[1; 32], now + BAD_FOR), None, "asked again");
        for i in 0..=u8::MAX {
            for j in 0..100 {
                let mut hash = [0; 32];
                (hash[0], hash[1]) = (i, j);
                answers.note(hash, &refused(), now);
                hash[2] = 1;
                answers.note(hash, &Ok(caller()), now);
            }
        }
        assert!(answers.bad.len() <= BAD_MAX && answers.good.len() <= GOOD_MAX);
        assert_eq!(answers.good.len(), answers.order.len());
    }

    #[tokio::test(start_paused = true)]
    async fn bad_tokens_of_one_source_leave_turns_to_others_and_to_good_ones() {
        // An API server that does not answer.
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, kube::Error>>()
        });
        let client = Client::new(service, "default");
        let reviews = Arc::new(Reviews::default());
        let source = |text: &str| Source::from(text.parse::<std::net::IpAddr>().unwrap());
        for i in 0..200 {
            let (reviews, client, from) = (reviews.clone(), client.clone(), source("10.0.0.1"));
            tokio::spawn(async move { reviews.by_token(&client, &format!("bad-{i}"), Some(from)).await });
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(reviews.new.available_permits(), NEW_MAX.0 - NEW_MAX.1);
        assert_eq!(reviews.known.available_permits(), KNOWN_MAX);
    }
}
