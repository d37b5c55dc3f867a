//! A watch that survives odd objects.
//!
//! A typed list fails as a whole when one object does not decode. [`Guarded`] isolates the failure: the odd object
//! arrives with its metadata and the reason, all others as usual. It does the work of kube's `DeserializeGuard`, which
//! buffers each object into a form that cannot hold [`RawJson`](crate::raw::RawJson); here the buffer is the text.

use std::{borrow::Cow, ops::Range};

use kube::Resource;
use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer, de};
use serde_json::value::RawValue;

/// A `K`, or what can be said of one that does not decode.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<K, Undecodable>);

/// An object that is not a valid `K`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Undecodable {
    /// Why not.
    pub error: String,
    /// Which object it is.
    pub metadata: ObjectMeta,
}

impl<K> Guarded<K> {
    /// The object, if it decoded.
    pub fn valid(&self) -> Option<&K> {
        self.0.as_ref().ok()
    }
}

impl<'de, K: de::DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        match decode(text.get()) {
            Ok(object) => Ok(Self(Ok(object))),
            Err(error) => {
                let metadata = metadata(text.get()).map_err(de::Error::custom)?;
                Ok(Self(Err(Undecodable {
                    error: error.to_string(),
                    metadata,
                })))
            }
        }
    }
}

/// Reads an object without its `managedFields`: nobody asks for them, and they are most of what decoding would allocate.
pub fn decode<K: de::DeserializeOwned>(text: &str) -> serde_json::Result<K> {
    match managed_fields(text) {
        Some(range) => serde_json::from_str(&[&text[..range.start], "[]", &text[range.end..]].concat()),
        None => serde_json::from_str(text),
    }
}

/// Where they are in the text of an object.
fn managed_fields(text: &str) -> Option<Range<usize>> {
    #[derive(Deserialize)]
    struct Object<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        #[serde(borrow)]
        managed_fields: &'a RawValue,
    }
    let object: Object<'_> = serde_json::from_str(text).ok()?;
    let found = object.metadata.managed_fields.get();
    let start = found.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    Some(start..start + found.len())
}

/// As much of the metadata as can be read. Only something that names no object at all is an error.
fn metadata(text: &str) -> serde_json::Result<ObjectMeta> {
    #[derive(Deserialize)]
    struct Whole {
        metadata: ObjectMeta,
    }
    #[derive(Deserialize)]
    struct Minimal {
        metadata: Key,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Key {
        name: String,
        namespace: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
    }
    if let Ok(Whole { metadata }) = serde_json::from_str(text) {
        return Ok(metadata);
    }
    let Minimal {
        metadata:
            Key {
                name,
                namespace,
                uid,
                resource_version,
            },
    } = serde_json::from_str(text)?;
    Ok(ObjectMeta {
        name: Some(name),
        namespace,
        uid,
        resource_version,
        ..ObjectMeta::default()
    })
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(dt)
    }

    fn group(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::group(dt)
    }

    fn version(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::version(dt)
    }

    fn plural(dt: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(dt)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|odd| &odd.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|odd| &mut odd.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use kube::core::{ObjectList, WatchEvent};

    use super::*;
    use crate::placement::Work;

    const GOOD: &str = r#"{"metadata":{"name":"good"},"spec":{"workload":{"manifests":[{"kind":"ConfigMap"}]}}}"#;
    const ODD: &str =
        r#"{"metadata":{"name":"odd","namespace":"fleet-member-a","labels":{"a":"b"}},"spec":{"workload":7}}"#;
    const ODDER: &str = r#"{"metadata":{"name":"odder","uid":"u","labels":"none"},"spec":{"workload":7}}"#;

    #[test]
    fn a_list_with_odd_objects_still_decodes() {
        let text = format!(
            r#"{{"apiVersion":"placement.kubernetes-fleet.io/v1beta1","kind":"WorkList","metadata":{{}},"items":[{GOOD},{ODD},{ODDER}]}}"#
        );
        let list: ObjectList<Guarded<Work>> = serde_json::from_str(&text).unwrap();
        let [good, odd, odder] = list.items.as_slice() else {
            panic!("three went in")
        };
        assert_eq!(
            good.valid().unwrap().spec.workload.manifests[0].as_str(),
            r#"{"kind":"ConfigMap"}"#
        );
        assert_eq!(
            (odd.name_any(), odd.namespace()),
            ("odd".into(), Some("fleet-member-a".into()))
        );
        assert_eq!(odd.labels()["a"], "b");
        assert!(odd.0.as_ref().unwrap_err().error.contains("invalid type"), "{odd:?}");
        assert_eq!((odder.name_any(), odder.uid()), ("odder".into(), Some("u".into())));
    }

    #[test]
    fn a_watch_event_with_an_odd_object_still_decodes() {
        for event in ["ADDED", "MODIFIED", "DELETED"] {
            let text = format!(r#"{{"type":"{event}","object":{ODD}}}"#);
            let event: WatchEvent<Guarded<Work>> = serde_json::from_str(&text).unwrap();
            let (WatchEvent::Added(odd) | WatchEvent::Modified(odd) | WatchEvent::Deleted(odd)) = event else {
                panic!("not an object event")
            };
            assert_eq!(odd.name_any(), "odd");
            assert!(odd.0.is_err());
        }
    }

    #[test]
    fn managed_fields_are_passed_over_and_nothing_else_is() {
        let fields = r#"[{"manager":"m","fieldsV1":{"f:metadata":{"f:name":{}}}}, {"manager":"]}\""}]"#;
        let text = format!(
            r#"{{"spec":{{"workload":{{"manifests":[{{"metadata":{{"managedFields":[1]}}}}]}}}},
                "metadata": {{"name":"näme", "managedFields" : {fields} ,"labels":{{"a":"managedFields"}}}}}}"#
        );
        let work: Work = decode(&text).unwrap();
        assert_eq!(work.metadata.managed_fields, Some(Vec::new()));
        assert_eq!(
            (work.name_any().as_str(), work.labels()["a"].as_str()),
            ("näme", "managedFields")
        );
        let manifest = &work.spec.workload.manifests[0];
        assert_eq!(manifest.as_str(), r#"{"metadata":{"managedFields":[1]}}"#);
        assert_eq!(decode::<Work>(GOOD).unwrap().name_any(), "good");
        assert!(decode::<Work>(&format!("{text}x")).is_err());
    }

    #[test]
    fn something_without_a_name_is_an_error() {
        assert!(serde_json::from_str::<Guarded<Work>>(r#"{"spec":{"workload":7}}"#).is_err());
    }
}
