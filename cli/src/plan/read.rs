//! Requests of a plan: lists in pages, and objects by name. What the user may not read is named.

use anyhow::Result;
use fleet_api::{guard::Guarded, kind::Kind};
use kube::{
    Client,
    api::{ListParams, ObjectList},
    core::Request as HttpRequest,
};

use crate::{problem::Problem, reading::Hidden};

/// Objects of a page. MemberClusters and bindings have a few kilobytes.
pub(super) const PAGE: u32 = 1000;
/// Snapshots hold up to a megabyte each.
pub(super) const LARGE_PAGE: u32 = 10;

/// What a list has found.
pub(super) struct Listed<K> {
    pub(super) items: Vec<K>,
    /// The names of objects that do not decode.
    pub(super) unread: Vec<String>,
}

/// What could be listed, or what is hidden.
pub(super) enum Looked<K> {
    Seen(Listed<K>),
    Hidden(Hidden),
}

impl<K> Looked<K> {
    pub(super) fn seen(self, hidden: &mut Vec<Hidden>) -> Listed<K> {
        match self {
            Self::Seen(listed) => listed,
            Self::Hidden(what) => {
                hidden.push(what);
                Listed {
                    items: Vec::new(),
                    unread: Vec::new(),
                }
            }
        }
    }
}

/// Objects that a plan can do without, though it says less then. A hub may not have the kind.
pub(super) async fn may<K: Kind>(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
    page: u32,
    without: &str,
) -> Result<Looked<K>> {
    let namespace = namespace.filter(|_| K::NAMESPACED);
    match list::<K>(client, namespace, selector, page).await {
        Ok(found) => Ok(Looked::Seen(found)),
        Err(problem) if problem.is_unserved() => Ok(Looked::Seen(Listed {
            items: Vec::new(),
            unread: Vec::new(),
        })),
        Err(problem) if problem.is_forbidden() => Ok(Looked::Hidden(Hidden {
            what: K::CRD.plural.to_owned(),
            why: format!("{}: {without}", problem.brief()),
            next: problem.next(),
            is_unserved: false,
        })),
        Err(problem) => Err(problem.into()),
    }
}

/// An object, if it is there.
pub(super) async fn find<K: Kind>(client: &Client, namespace: Option<&str>, name: &str) -> Result<Option<K>, Problem> {
    let failed = |error| Problem::new::<K>("get", error);
    let request = HttpRequest::new(K::url_path(&(), namespace));
    let request = request.get(name, &kube::api::GetParams::default());
    let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
    match client.request::<K>(request).await.map_err(failed) {
        Ok(object) => Ok(Some(object)),
        Err(problem) if problem.is_missing() => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Objects in pages.
pub(super) async fn list<K: Kind>(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
    page: u32,
) -> Result<Listed<K>, Problem> {
    let failed = |error| Problem::new::<K>("list", error);
    let path = HttpRequest::new(K::url_path(&(), namespace));
    let mut params = ListParams::default().limit(page);
    if !selector.is_empty() {
        params = params.labels(selector);
    }
    let mut found = Listed {
        items: Vec::new(),
        unread: Vec::new(),
    };
    loop {
        let request = path
            .list(&params)
            .map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        let answer: ObjectList<Guarded<K>> = client.request(request).await.map_err(failed)?;
        for Guarded(object) in answer.items {
            match object {
                Ok(object) => found.items.push(object),
                Err(odd) => found.unread.push(odd.metadata.name.unwrap_or_default()),
            }
        }
        let Some(next) = answer.metadata.continue_.filter(|token| !token.is_empty()) else {
            return Ok(found);
        };
        params = params.continue_token(&next);
    }
}
