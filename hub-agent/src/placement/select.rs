//! What a placement selects now, with the texts that a snapshot holds.

use fleet_api::{conditions::placement::Scheduled, placement::Scope, raw::RawJson};
use fleet_core::{
    selection::{self, ObjectId},
    work::envelope::EnvelopeKind,
};
use fleet_runtime::Key;
use kube::core::object::HasSpec as _;

use super::context::{Context, Error, key_of};

/// The selected objects, in order.
pub(super) struct Selection {
    pub(super) objects: Vec<ObjectId>,
    pub(super) texts: Vec<RawJson>,
    pub(super) envelopes: usize,
    /// Kinds that could not be looked at, in words.
    pub(super) left_out: Option<String>,
}

/// The selection, or what is wrong with the selectors.
pub(super) async fn select<S: Scope>(
    ctx: &Context<S>,
    key: &Key,
    placement: &S::Placement,
) -> Result<Result<Selection, Scheduled>, Error> {
    let (name, selectors) = (key_of(key)?, &placement.spec().resource_selectors);
    let (user, owner) = (&ctx.shared.user, (Context::<S>::scope(), key.clone()));
    let placed = || ctx.placed(key);
    let view = user.view(&owner, selectors, placed).await.map_err(Error::Read)?;
    let objects = match selection::select(&name, selectors, &ctx.shared.settings.rules, &view) {
        Ok(objects) => objects,
        Err(selection::Error::Invalid(error)) => return Ok(Err(Scheduled::InvalidSelectors { error })),
        Err(other @ selection::Error::NotSynced { .. }) => return Err(Error::Held(other.to_string())),
    };
    let envelopes = objects.iter().filter(|object| is_envelope(object)).count();
    let Some(texts) = user.content(&owner, &objects).await.map_err(Error::Read)? else {
        return Err(Error::NotYet(
            "a selected object went away while it was read".to_owned(),
        ));
    };
    let left_out = view.left_out();
    Ok(Ok(Selection {
        objects,
        texts,
        envelopes,
        left_out,
    }))
}

fn is_envelope(object: &ObjectId) -> bool {
    EnvelopeKind::of(object).is_some()
}
