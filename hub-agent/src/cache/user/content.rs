//! What a snapshot holds of the selected objects.

use std::collections::HashMap;

use fleet_api::raw::RawJson;
use fleet_core::selection::{self, ObjectId};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};

use super::{Owner, UserResources};

/// Reads at the same time: a selection of a thousand objects must not open a thousand connections.
const READS: usize = 8;

/// The texts that a placement's selection had last, by object, with the version that each was made from.
pub(super) type Texts = HashMap<ObjectId, (String, RawJson)>;

impl UserResources {
    /// What a snapshot holds of these objects, which `owner` selects. Only what has changed since it was last asked for is
    /// read; none if an object is gone meanwhile.
    pub(crate) async fn content(&self, owner: &Owner, objects: &[ObjectId]) -> kube::Result<Option<Vec<RawJson>>> {
        // Owned, for a future that borrows out of an iterator cannot be sent to another thread.
        let reads: Vec<_> = objects
            .iter()
            .map(|object| {
                let (this, owner, object) = (self.clone(), owner.clone(), object.clone());
                async move { this.text(&owner, &object).await }.boxed()
            })
            .collect();
        let read: Vec<Option<(String, RawJson)>> = stream::iter(reads).buffered(READS).try_collect().await?;
        let Some(read) = read.into_iter().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let texts = read.iter().map(|(_, text)| text.clone()).collect();
        // Whatever is no longer selected is dropped with the old ones.
        self.keep_texts(owner, objects.iter().cloned().zip(read).collect());
        Ok(Some(texts))
    }

    async fn text(&self, owner: &Owner, object: &ObjectId) -> kube::Result<Option<(String, RawJson)>> {
        let Some(place) = self.place(object) else {
            return Ok(None);
        };
        if let Some(known) = self.known_text(owner, object)
            && self.version(object, &place).as_ref() == Some(&known.0)
        {
            return Ok(Some(known));
        }
        let Some(value) = self.read(&place).await? else {
            return Ok(None);
        };
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        Ok(Some((version.to_owned(), selection::stored(value))))
    }
}
