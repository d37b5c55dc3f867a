//! Reading from the hub what an explanation is made from, with few requests: in pages, metadata alone where that is enough,
//! side by side. What the user may not read, or the hub does not serve, is left out and named.

mod family;
mod members;

pub(crate) use family::member_namespace;

use std::cell::RefCell;

use fleet_api::{cluster::MemberCluster, kind::Kind};
use kube::core::ObjectMeta;
use serde::Serialize;

use crate::{
    hub::{Ask, Hub},
    problem::Problem,
};

/// Objects of a few kilobytes: all members of a large fleet in one page.
pub(crate) const LARGE_PAGE: u32 = 1000;
/// Placements carry an entry for each cluster, together up to a megabyte.
pub(crate) const SMALL_PAGE: u32 = 50;

/// Something that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Hidden {
    /// The kind, as kubectl takes it.
    pub(crate) what: String,
    pub(crate) why: String,
    /// What to type next.
    pub(crate) next: String,
    /// Whether the hub does not have the kind: then there are no such objects.
    #[serde(skip)]
    pub(crate) is_unserved: bool,
}

/// Reads, and remembers what it could not read.
pub(crate) struct Reader<'a> {
    pub(crate) hub: &'a Hub,
    hidden: RefCell<Vec<Hidden>>,
    odd: RefCell<Vec<String>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(hub: &'a Hub) -> Self {
        Self {
            hub,
            hidden: RefCell::default(),
            odd: RefCell::default(),
        }
    }

    /// What could not be read, each kind once.
    pub(crate) fn hidden(&self) -> Vec<Hidden> {
        let mut hidden = self.hidden.borrow().clone();
        let odd = self.odd.borrow();
        hidden.extend(odd.iter().map(|odd| Hidden {
            what: "an object".to_owned(),
            why: odd.clone(),
            next: "kubectl api-resources --api-group=placement.kubernetes-fleet.io".to_owned(),
            is_unserved: false,
        }));
        hidden.sort_by(|a, b| a.what.cmp(&b.what));
        hidden.dedup();
        hidden
    }

    /// Whether members could not be read: then nobody can say which there are.
    pub(crate) fn lacks_members(&self) -> bool {
        self.lacks::<MemberCluster>()
    }

    /// Whether objects of this kind could not be read.
    pub(crate) fn lacks<K: Kind>(&self) -> bool {
        let hidden = self.hidden.borrow();
        hidden.iter().any(|it| it.what == K::CRD.plural)
    }

    /// Objects without which there is nothing to say.
    pub(crate) async fn must<K: Kind>(&self, ask: Ask<'_>, keep: impl FnMut(&K) -> bool) -> Result<Vec<K>, Problem> {
        let listed = self.hub.ask(ask, keep).await?;
        self.odd.borrow_mut().extend(listed.odd);
        Ok(listed.items)
    }

    /// Objects that make the answer better.
    pub(crate) async fn may<K: Kind>(&self, ask: Ask<'_>, keep: impl FnMut(&K) -> bool) -> Result<Vec<K>, Problem> {
        self.or_hidden::<K, _>(self.must(ask, keep).await)
    }

    /// Metadata that makes the answer better.
    pub(crate) async fn may_metadata<K: Kind>(&self, ask: Ask<'_>) -> Result<Vec<ObjectMeta>, Problem> {
        self.or_hidden::<K, _>(self.hub.ask_metadata::<K>(ask).await)
    }

    fn or_hidden<K: Kind, T>(&self, answer: Result<Vec<T>, Problem>) -> Result<Vec<T>, Problem> {
        match answer {
            Err(problem) if problem.is_forbidden() || problem.is_unserved() => {
                self.add(Hidden {
                    what: K::CRD.plural.to_owned(),
                    why: problem.brief(),
                    next: problem.next(),
                    is_unserved: problem.is_unserved(),
                });
                Ok(Vec::new())
            }
            answer => answer,
        }
    }

    /// Remembers that something could not be read.
    pub(crate) fn hide(&self, what: &str, why: &str, next: &str) {
        self.add(Hidden {
            what: what.to_owned(),
            why: why.to_owned(),
            next: next.to_owned(),
            is_unserved: false,
        });
    }

    fn add(&self, hidden: Hidden) {
        self.hidden.borrow_mut().push(hidden);
    }
}
