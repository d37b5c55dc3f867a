//! What a placement selects now, with the texts that a snapshot holds.

use fleet_api::{
    conditions::selection::InvalidSelection,
    placement::{ResourceIdentifier, Scope},
    raw::RawJson,
};
use fleet_core::{
    selection::{self, ObjectId},
    work::envelope::EnvelopeKind,
};
use fleet_runtime::Key;
use kube::core::object::HasSpec as _;

use super::context::{Context, Error, key_of};

/// The selected objects, in order.
pub(super) struct Selection {
    pub(super) objects: Vec<ResourceIdentifier>,
    pub(super) texts: Vec<RawJson>,
    pub(super) envelopes: usize,
}

/// The selection, or what is wrong with the selectors.
pub(super) async fn select<S: Scope>(
    ctx: &Context<S>,
    key: &Key,
    placement: &S::Placement,
) -> Result<Result<Selection, InvalidSelection>, Error> {
    let (name, selectors) = (key_of(key)?, &placement.spec().resource_selectors);
    let user = &ctx.shared.user;
    let view = user.view(key.namespace(), selectors).await.map_err(Error::Read)?;
    let objects = match selection::select(&name, selectors, &ctx.shared.settings.rules, &view) {
        Ok(objects) => objects,
        Err(selection::Error::Invalid(invalid)) => return Ok(Err(invalid)),
        Err(other) => return Err(Error::NotYet(other.to_string())),
    };
    let envelopes = objects.iter().filter(|object| is_envelope(object)).count();
    let Some(texts) = user.content(&objects).await.map_err(Error::Read)? else {
        return Err(Error::NotYet(
            "a selected object went away while it was read".to_owned(),
        ));
    };
    let objects = objects.iter().map(ObjectId::to_identifier).collect();
    Ok(Ok(Selection {
        objects,
        texts,
        envelopes,
    }))
}

fn is_envelope(object: &ObjectId) -> bool {
    EnvelopeKind::of(object).is_some()
}
