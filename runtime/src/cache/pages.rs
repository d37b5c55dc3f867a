//! Lists, a page at a time. A page is as many objects as memory allows: one may hold a megabyte, and there may be
//! thousands.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::api::ListParams;
use serde::{
    Deserializer,
    de::{DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use super::Source;
use crate::answer;

/// What a page should have, in bytes.
const PAGE_BYTES: usize = 1024 * 1024;
/// A page with more is given up, and asked for again with fewer objects.
const PAGE_MAX: usize = 4 * PAGE_BYTES;
/// A page of a single object may have so much; no API server stores more.
const OBJECT_MAX: usize = 32 * PAGE_BYTES;
/// The first page, while nothing is known of the objects.
const FIRST: u32 = 16;

/// How many objects to ask for, from what was seen of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pages {
    next: u32,
    most: u32,
}

impl Pages {
    pub(super) fn new(most: u32) -> Self {
        Self {
            next: FIRST.min(most),
            most,
        }
    }

    fn bytes_max(self) -> usize {
        if self.next == 1 { OBJECT_MAX } else { PAGE_MAX }
    }

    fn saw(&mut self, objects: usize, bytes: usize) {
        let average = bytes / objects.max(1);
        let fit = PAGE_BYTES / average.max(1);
        self.next = u32::try_from(fit).unwrap_or(u32::MAX).clamp(1, self.most);
    }

    /// Reads a page and gives each object to `sink`, one at a time.
    pub(super) async fn read<S: Source>(
        &mut self,
        source: &S,
        params: &ListParams,
        sink: &mut (dyn FnMut(S::Object) + Send),
    ) -> kube::Result<ListMeta> {
        loop {
            let params = params.clone().limit(self.next);
            let read = answer::read(&source.client(), source.list(&params)?, self.bytes_max()).await;
            let page = match read {
                Err(error) if answer::is_too_large(&error) && self.next > 1 => {
                    self.next = (self.next / 4).max(1);
                    continue;
                }
                other => other?,
            };
            let mut objects = 0;
            let mut counted = |object| {
                objects += 1;
                sink(object);
            };
            let meta = decode(page.bytes(), &mut counted).map_err(kube::Error::SerdeError)?;
            self.saw(objects, page.bytes().len());
            return Ok(meta);
        }
    }
}

/// Decodes the text of a list object by object, so that they are not all there beside the text.
fn decode<T: DeserializeOwned>(text: &[u8], sink: &mut dyn FnMut(T)) -> serde_json::Result<ListMeta> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let meta = List(sink).deserialize(&mut json)?;
    json.end()?;
    Ok(meta)
}

struct List<'a, T>(&'a mut dyn FnMut(T));

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for List<'_, T> {
    type Value = ListMeta;

    fn deserialize<D: Deserializer<'de>>(self, list: D) -> Result<ListMeta, D::Error> {
        list.deserialize_map(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for List<'_, T> {
    type Value = ListMeta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<ListMeta, A::Error> {
        let (mut meta, mut listed) = (ListMeta::default(), false);
        while let Some(field) = fields.next_key::<String>()? {
            match field.as_str() {
                "metadata" => meta = fields.next_value::<Option<ListMeta>>()?.unwrap_or_default(),
                "items" => {
                    fields.next_value_seed(Items(&mut *self.0))?;
                    listed = true;
                }
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        // Anything else would be taken for an empty list, and all that is known for deleted.
        if listed {
            Ok(meta)
        } else {
            Err(A::Error::missing_field("items"))
        }
    }
}

struct Items<'a, T>(&'a mut dyn FnMut(T));

impl<'de, T: DeserializeOwned> DeserializeSeed<'de> for Items<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, items: D) -> Result<(), D::Error> {
        items.deserialize_option(self)
    }
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Items<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("objects")
    }

    /// An empty list of a server that is written in Go.
    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, items: D) -> Result<(), D::Error> {
        items.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(object) = items.next_element()? {
            (self.0)(object);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
