//! Decides about one object until the API server agrees: for reports and sessions, which are answered with what became of
//! them.

use std::{sync::Arc, time::Duration};

use fleet_runtime::{Key, cache::Store, writes::Lane};
use http::{HeaderValue, Request, header::CONTENT_TYPE};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::Value;

use super::{Made, WriteFailure, Writer, Written, caught_up, kind, path, stored};

/// Conflicts in a row before somebody else has to wait.
const TRIES: usize = 8;
const JSON_PATCH: HeaderValue = HeaderValue::from_static("application/json-patch+json");

/// The object that is decided about.
pub(crate) struct About<'a, K> {
    pub(crate) store: &'a Store<K>,
    pub(crate) key: &'a Key,
    /// Who takes turns with others in the lane.
    pub(crate) group: &'a Key,
    pub(crate) lane: Lane,
}

/// What a decision asks for.
pub(crate) enum ToDo<T> {
    /// To write this; and if it is stored, to say that.
    Write(Edit, T),
    /// There is nothing to write.
    Nothing(T),
    /// The cache may be wrong: to read the object, and decide again.
    Read,
    /// It cannot be written.
    Fail(WriteFailure),
}

impl<T> ToDo<T> {
    /// Not now.
    pub(crate) fn later(wait: Duration) -> Self {
        Self::Fail(WriteFailure::Held(wait))
    }
}

/// How an object is to be changed. Each names the version that it is for.
pub(crate) enum Edit {
    /// A merge patch of spec or metadata.
    Object(Value),
    /// A merge patch of the status.
    Status(Value),
    /// A JSON patch of the status. Unlike a merge patch it can change one field of a list's element and leave those that
    /// we do not know.
    StatusFields(Value),
    /// The whole status. The text has metadata too; nothing else is looked at, which makes it cheaper for the API server
    /// than a merge patch of a large status.
    WholeStatus(Vec<u8>),
}

/// What a turn came to.
enum Turn<K, T> {
    Done(T, Option<Arc<K>>),
    Conflict,
    Read,
}

impl Writer {
    /// Writes what `decide` asks for, given the object as it is known when its turn has come, and whether it was read just
    /// now. After a conflict waits until the watch has shown what came in between, and decides anew. Gives what is to be
    /// said, and the object if it was written.
    pub(crate) async fn decide<K: Written, T: Send>(
        &self,
        about: &About<'_, K>,
        mut decide: impl FnMut(Option<&K>, bool) -> ToDo<T> + Send,
    ) -> Result<(T, Option<Arc<K>>), WriteFailure> {
        // What was read counts, and not the cache: that of a hub which went back in time is ahead of what is there, until
        // the watches notice.
        let mut read = None;
        for _ in 0..TRIES {
            match self.turn(about, read.as_ref(), &mut decide).await? {
                Turn::Done(then, object) => return Ok((then, object)),
                Turn::Conflict => read = None,
                Turn::Read => read = Some(self.read(about.store, about.key).await?),
            }
        }
        Err(WriteFailure::Conflict)
    }

    async fn turn<K: Written, T: Send>(
        &self,
        about: &About<'_, K>,
        read: Option<&Option<Arc<K>>>,
        decide: &mut (impl FnMut(Option<&K>, bool) -> ToDo<T> + Send),
    ) -> Result<Turn<K, T>, WriteFailure> {
        let About {
            store,
            key,
            group,
            lane,
        } = *about;
        let (mut asked, mut based_on, mut by_path) = (None, None, false);
        let mut request = || {
            let known = read.map_or_else(|| store.get(key), Clone::clone);
            match decide(known.as_deref(), read.is_some()) {
                ToDo::Write(edit, then) => {
                    by_path = matches!(edit, Edit::StatusFields(_));
                    based_on = known.and_then(|known| known.meta().resource_version.clone());
                    asked = Some(ToDo::Nothing(then));
                    Some(self.edit::<K>(key, edit))
                }
                other => {
                    asked = Some(other);
                    None
                }
            }
        };
        let answer = self.send(lane, kind::<K>(), key, group, &mut request).await;
        let object = match stored("write", store, key, answer) {
            Ok(object) => object,
            Err(error) => match WriteFailure::of(&error.source) {
                // The path of a list that has become shorter is "invalid"; it is a conflict all the same.
                failure @ (WriteFailure::Conflict | WriteFailure::Invalid(_))
                    if by_path || failure == WriteFailure::Conflict =>
                {
                    caught_up(store, key, based_on).await;
                    return Ok(Turn::Conflict);
                }
                failure => return Err(failure),
            },
        };
        match asked {
            Some(ToDo::Write(_, then) | ToDo::Nothing(then)) => Ok(Turn::Done(then, object)),
            Some(ToDo::Read) => Ok(Turn::Read),
            Some(ToDo::Fail(failure)) => Err(failure),
            // Unreachable: every turn decides.
            None => Err(WriteFailure::Unavailable("no decision was made".into())),
        }
    }

    fn edit<K: Written>(&self, key: &Key, edit: Edit) -> Made {
        let params = PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        };
        let (to, name) = (path::<K>(key), key.name());
        let request = match edit {
            Edit::Object(patch) => to.patch(name, &params, &Patch::Merge(patch)),
            Edit::Status(patch) => to.patch_subresource("status", name, &params, &Patch::Merge(patch)),
            Edit::StatusFields(operations) => to
                .patch_subresource("status", name, &params, &Patch::Merge(operations))
                .map(|mut request: Request<Vec<u8>>| {
                    // kube has the same only with a patch type of its own.
                    request.headers_mut().insert(CONTENT_TYPE, JSON_PATCH);
                    request
                }),
            Edit::WholeStatus(object) => {
                let params = PostParams {
                    field_manager: params.field_manager,
                    ..PostParams::default()
                };
                to.replace_subresource("status", name, &params, object)
            }
        };
        request.map_err(kube::Error::BuildRequest)
    }
}
