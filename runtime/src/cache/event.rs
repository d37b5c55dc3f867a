//! What a watch says.

use kube::{Resource, core::ObjectMeta};

use crate::key::Key;

/// What a watch says. Made by [`Store::watch`]; tests make them by hand.
#[derive(Clone, Debug)]
pub enum Event<K> {
    /// A list begins, the first or one after an interruption that was too long.
    Restarted,
    /// An object of the list.
    Listed(K),
    /// An object of the list that cannot be decoded.
    ListedOdd(Odd),
    /// The list is complete, and shows the state at this version.
    ListDone {
        /// The version of the list.
        version: u64,
    },
    /// An object was added or changed.
    Applied(K),
    /// The same for an object that cannot be decoded.
    AppliedOdd(Odd),
    /// An object is gone.
    Deleted {
        /// Which one.
        key: Key,
        /// Which incarnation of it.
        uid: Option<String>,
        /// The version of the deletion.
        version: u64,
    },
    /// Nothing happened to these objects up to this version.
    Progress {
        /// The version of the bookmark.
        version: u64,
    },
}

impl<K> Event<K> {
    /// The event that says that this object is gone, of which any part will do.
    pub fn deleted(object: &impl Resource) -> Self {
        let meta = object.meta();
        Self::Deleted {
            key: Key::of(object),
            uid: meta.uid.clone(),
            version: version(meta),
        }
    }
}

/// An object that exists and cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// Which one.
    pub key: Key,
    /// Which incarnation of it.
    pub uid: Option<String>,
    /// Its version.
    pub version: u64,
    /// What is wrong with it.
    pub error: String,
}

/// The version of an object, 0 if it has none that is a number.
pub(super) fn version(meta: &ObjectMeta) -> u64 {
    meta.resource_version
        .as_deref()
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}
