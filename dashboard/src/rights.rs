//! What the user may do, as the hub's API server says it: buttons that would fail are not offered.

use std::collections::HashMap;

use fleet_api::kind::Kind;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::{Api, Client, api::PostParams};
use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

use crate::view::Name;

/// An answer is asked for again after this time, when a page is opened.
const FRESH: Duration = Duration::from_mins(1);
/// That there was no answer is no answer: soon it is asked for again.
const UNANSWERED: Duration = Duration::from_secs(5);
/// More answers than any page needs at once.
const KEPT_MAX: usize = 1000;

/// Something that one may be allowed to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Right {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    namespace: String,
    /// Empty for any.
    name: String,
}

impl Right {
    pub(crate) fn of<K: Kind>(verb: &'static str, subresource: &'static str, name: &Name) -> Self {
        Self {
            verb,
            group: K::GROUP,
            resource: K::CRD.plural,
            subresource,
            namespace: name.namespace.clone(),
            name: name.name.clone(),
        }
    }

    /// As an administrator calls it.
    fn shown(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!(
            "{} {}{slash}{} in {}",
            self.verb, self.resource, self.subresource, self.group
        )
    }

    fn review(&self) -> SelfSubjectAccessReview {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: some(self.verb),
                    group: some(self.group),
                    resource: some(self.resource),
                    subresource: some(self.subresource),
                    namespace: some(&self.namespace),
                    name: some(&self.name),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        }
    }
}

/// What is known of a right.
#[derive(Debug, Clone)]
struct Answer {
    at: Instant,
    /// That the user may, or why not.
    may: Result<(), String>,
    /// Whether the hub has said so.
    said: bool,
}

/// What is known of the user's rights.
pub(crate) struct Rights {
    client: Client,
    known: Mutex<HashMap<Right, Answer>>,
}

impl Rights {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// Asks the hub about what has not been asked for a minute: a page is opened.
    pub(crate) async fn check(&self, rights: &[Right]) {
        self.learn_older_than(FRESH, rights).await;
    }

    /// Asks about what was never asked: an open page has something new to offer. At rest it asks nothing.
    pub(crate) async fn learn(&self, rights: &[Right]) {
        self.learn_older_than(Duration::MAX, rights).await;
    }

    async fn learn_older_than(&self, age: Duration, rights: &[Right]) {
        for right in rights {
            let fresh = |answer: &Answer| answer.at.elapsed() < if answer.said { age } else { age.min(UNANSWERED) };
            let fresh = self.known.lock().get(right).is_some_and(fresh);
            if !fresh {
                let answer = self.ask(right).await;
                let mut known = self.known.lock();
                if known.len() >= KEPT_MAX {
                    known.clear();
                }
                known.insert(right.clone(), answer);
            }
        }
    }

    /// Why the user may not do all of this, if so, from what was asked before.
    pub(crate) fn known(&self, rights: &[Right]) -> Result<(), String> {
        let known = self.known.lock();
        rights.iter().try_for_each(|right| match known.get(right) {
            Some(answer) => answer.may.clone(),
            None => Err("reload the page to see whether you may".to_owned()),
        })
    }

    async fn ask(&self, right: &Right) -> Answer {
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let asked =
            fleet_runtime::client::answered(async { api.create(&PostParams::default(), &right.review()).await });
        let answered = asked.await;
        let said = answered.is_ok();
        let may = match answered {
            Ok(answer) if answer.status.as_ref().is_some_and(|status| status.allowed) => Ok(()),
            Ok(_) => Err(format!(
                "you lack the right to {}; reload the page once somebody has given it to you",
                right.shown()
            )),
            Err(error) => Err(format!("the hub does not say whether you may: {error}")),
        };
        Answer {
            at: Instant::now(),
            may,
            said,
        }
    }
}
