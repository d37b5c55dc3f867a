//! What a placement selects now, with the texts that a snapshot holds.

use fleet_api::{conditions::placement::Scheduled, names::Scope as ScopeName, placement::Scope};
use fleet_core::{
    envelope::EnvelopeKind,
    selection::{self, ObjectId},
};
use fleet_runtime::Key;
use kube::core::object::HasSpec as _;

use crate::{
    pipeline::{Error, Pipeline, key_of},
    snapshots::Content,
};

/// The selected objects, in order.
pub(super) struct Selection {
    pub(super) objects: Vec<ObjectId>,
    /// Kinds that could not be looked at, in words.
    pub(super) left_out: Option<String>,
}

/// The selection, or what is wrong with the selectors.
pub(super) async fn select<S: Scope>(
    ctx: &Pipeline<S>,
    key: &Key,
    placement: &S::Placement,
) -> Result<Result<Selection, Scheduled>, Error> {
    let (name, selectors) = (key_of(key)?, &placement.spec().resource_selectors);
    let (owner, placed) = (owner::<S>(key), || ctx.placed(key));
    let view = ctx.shared.user.view(&owner, selectors, placed);
    let view = view.await.map_err(Error::Read)?;
    match selection::select(&name, selectors, &ctx.shared.settings.rules, &view) {
        Ok(objects) => {
            let left_out = view.left_out();
            Ok(Ok(Selection { objects, left_out }))
        }
        Err(selection::Error::Invalid(error)) => Ok(Err(Scheduled::InvalidSelectors { error })),
        Err(other @ selection::Error::NotSynced { .. }) => Err(Error::Held(other.to_string())),
    }
}

/// The texts of selected objects.
pub(super) async fn content<S: Scope>(ctx: &Pipeline<S>, key: &Key, objects: &[ObjectId]) -> Result<Content, Error> {
    let owner = owner::<S>(key);
    let frozen = ctx.frozen(key);
    let texts = ctx.shared.user.content(&owner, objects, &frozen);
    let Some(texts) = texts.await.map_err(Error::Read)? else {
        let error = "a selected object went away while it was read";
        return Err(Error::NotYet(error.to_owned()));
    };
    let envelopes = objects.iter().filter(|object| EnvelopeKind::of(object).is_some());
    let envelopes = envelopes.count();
    Ok(Content { texts, envelopes })
}

fn owner<S: Scope>(key: &Key) -> (ScopeName, Key) {
    (Pipeline::<S>::scope(), key.clone())
}
