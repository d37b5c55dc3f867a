//! What a snapshot holds of the selected objects.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use fleet_api::raw::RawJson;
use fleet_core::selection::{self, ObjectId};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};

use super::{Owner, UserResources};

/// Reads at the same time: a selection of a thousand objects must not open a thousand connections.
const READS: usize = 8;

/// The version of each object that a placement's selection had last, and the hash of the text that was made of it. The text
/// itself is in the snapshot, and not held a second time.
pub(super) type Versions = HashMap<ObjectId, (String, u64)>;

type Text = (String, RawJson);

impl UserResources {
    /// What a snapshot holds of these objects, which `owner` selects. What has not changed since it was last asked for is
    /// taken from `frozen`, the texts of the newest snapshot; the rest is read. None if an object is gone meanwhile.
    pub(crate) async fn content(
        &self,
        owner: &Owner,
        objects: &[ObjectId],
        frozen: &[RawJson],
    ) -> kube::Result<Option<Vec<RawJson>>> {
        let known = Arc::new(self.known(owner, frozen));
        // Owned, for a future that borrows out of an iterator cannot be sent to another thread.
        let reads: Vec<_> = objects
            .iter()
            .map(|object| {
                let (this, known, object) = (self.clone(), known.clone(), object.clone());
                async move { this.text(&known, &object).await }.boxed()
            })
            .collect();
        let read: Vec<Option<Text>> = stream::iter(reads).buffered(READS).try_collect().await?;
        let Some(read) = read.into_iter().collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        // Whatever is no longer selected is dropped with the old ones.
        let versions = objects.iter().zip(&read);
        let versions = versions.map(|(object, (version, text))| (object.clone(), (version.clone(), hash(text))));
        self.keep_versions(owner, versions.collect());
        Ok(Some(read.into_iter().map(|(_, text)| text).collect()))
    }

    /// What is known without reading, with the versions that it is of.
    fn known(&self, owner: &Owner, frozen: &[RawJson]) -> HashMap<ObjectId, Text> {
        let versions = self.versions(owner);
        let texts = frozen.iter().filter_map(|text| {
            let object = ObjectId::of(text).ok()?;
            let (version, hashed) = versions.get(&object)?;
            // The API server returns it with other spacing and escapes than it was sent.
            let text = selection::stored(text.to_value());
            (hash(&text) == *hashed).then(|| (object, (version.clone(), text)))
        });
        if versions.is_empty() {
            HashMap::new()
        } else {
            texts.collect()
        }
    }

    async fn text(&self, known: &HashMap<ObjectId, Text>, object: &ObjectId) -> kube::Result<Option<Text>> {
        let Some(place) = self.place(object) else {
            return Ok(None);
        };
        if let Some(known) = known.get(object)
            && self.version(object, &place).as_ref() == Some(&known.0)
        {
            return Ok(Some(known.clone()));
        }
        let Some(value) = self.read(&place).await? else {
            return Ok(None);
        };
        let version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        Ok(Some((self.of_era(version), selection::stored(value))))
    }
}

fn hash(text: &RawJson) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.as_str().hash(&mut hasher);
    hasher.finish()
}
