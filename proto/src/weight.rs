//! What a message comes to in memory, told from its bytes before it is decoded.
//!
//! A list of a million empty entries is two megabytes on the wire and half a gigabyte decoded. This walks over the bytes,
//! counts what the decoder would make, and so refuses such a message while it is still small.

use prost::encoding::{WireType, decode_key, decode_varint};

use crate::pb;

/// The most that a decoded message may come to: the report of a Work with as many manifests as fit into one.
pub(crate) const MAX: usize = 32 * 1024 * 1024;

/// What a text or a list of bytes costs beside its content.
const TEXT: usize = 48;

/// A message type: what one takes, and which of its fields are messages themselves.
struct Shape {
    bytes: usize,
    parts: &'static [(u32, &'static Shape)],
}

const fn leaf<T>() -> Shape {
    shape::<T>(&[])
}

/// A list that grows is up to twice as large as its content.
const fn shape<T>(parts: &'static [(u32, &'static Shape)]) -> Shape {
    Shape {
        bytes: 2 * size_of::<T>(),
        parts,
    }
}

static PAIR: Shape = leaf::<(String, String)>();
static CONDITION: Shape = leaf::<pb::Condition>();
static IDENTIFIER: Shape = leaf::<pb::ManifestIdentifier>();
static KNOWN: Shape = leaf::<pb::KnownWork>();
static HELLO: Shape = shape::<pb::Hello>(&[(8, &PAIR), (9, &KNOWN)]);
static AGENT: Shape = shape::<pb::AgentStatus>(&[(3, &CONDITION)]);
static VALUE: Shape = leaf::<pb::PropertyValue>();
static PROPERTY: Shape = shape::<(String, pb::PropertyValue)>(&[(2, &VALUE)]);
static USAGE: Shape = shape::<pb::ResourceUsage>(&[(1, &PAIR), (2, &PAIR), (3, &PAIR)]);
static NAMESPACES: Shape = shape::<pb::Namespaces>(&[(1, &PAIR)]);
static PROPERTIES: Shape = shape::<pb::Properties>(&[(3, &PROPERTY), (4, &USAGE), (5, &NAMESPACES), (6, &CONDITION)]);
static DETAIL: Shape = leaf::<pb::PatchDetail>();
static DETAILS: Shape = shape::<pb::DifferenceDetails>(&[(3, &DETAIL)]);
static MIRRORED: Shape = leaf::<pb::MirroredStatus>();
static ENTRY: Shape = shape::<pb::ManifestEntry>(&[
    (1, &IDENTIFIER),
    (2, &CONDITION),
    (3, &DETAILS),
    (4, &DETAILS),
    (5, &MIRRORED),
]);
static WORK: Shape = shape::<pb::WorkStatus>(&[(5, &CONDITION), (6, &ENTRY)]);
static BLOCKER: Shape = shape::<pb::Blocker>(&[(1, &IDENTIFIER)]);
static PROGRESS: Shape = shape::<pb::CleanupProgress>(&[(5, &BLOCKER)]);
static SMALL: Shape = leaf::<pb::Event>();
static MESSAGE: Shape = shape::<pb::MemberMessage>(&[
    (10, &HELLO),
    (11, &SMALL),
    (12, &AGENT),
    (13, &PROPERTIES),
    (14, &WORK),
    (15, &SMALL),
    (16, &PROGRESS),
    (17, &SMALL),
    (18, &SMALL),
    (19, &SMALL),
]);

/// A message whose weight can be told before it is decoded.
pub(crate) trait Weighed {
    /// Bytes in memory, at most about that; stops counting above [`MAX`]. None: these bytes are no such message.
    fn weight(bytes: &[u8]) -> Option<usize>;
}

impl Weighed for pb::MemberMessage {
    fn weight(bytes: &[u8]) -> Option<usize> {
        let mut sum = 0;
        weigh(&MESSAGE, bytes, &mut sum)?;
        Some(sum)
    }
}

impl Weighed for pb::HubMessage {
    /// The hub is trusted; its messages are bounded by their length.
    fn weight(bytes: &[u8]) -> Option<usize> {
        Some(bytes.len())
    }
}

fn weigh(shape: &Shape, mut bytes: &[u8], sum: &mut usize) -> Option<()> {
    *sum += shape.bytes;
    while !bytes.is_empty() && *sum <= MAX {
        let (field, wire) = decode_key(&mut bytes).ok()?;
        match wire {
            WireType::Varint => {
                decode_varint(&mut bytes).ok()?;
            }
            WireType::SixtyFourBit => bytes = bytes.get(8..)?,
            WireType::ThirtyTwoBit => bytes = bytes.get(4..)?,
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                let (content, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                match shape.parts.iter().find(|(number, _)| *number == field) {
                    Some((_, part)) => weigh(part, content, sum)?,
                    None => *sum += TEXT + length,
                }
            }
            WireType::StartGroup | WireType::EndGroup => return None,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn message(body: pb::member_message::Body) -> Vec<u8> {
        let message = pb::MemberMessage {
            seq: 1,
            epoch: 1,
            body: Some(body),
        };
        message.encode_to_vec()
    }

    fn report(manifests: Vec<pb::ManifestEntry>) -> Vec<u8> {
        message(pb::member_message::Body::WorkStatus(pb::WorkStatus {
            manifests,
            ..pb::WorkStatus::default()
        }))
    }

    #[test]
    fn many_empty_entries_weigh_what_they_would_take() {
        let bytes = report(vec![pb::ManifestEntry::default(); 1_000_000]);
        assert!(bytes.len() < 3_000_000);
        assert!(pb::MemberMessage::weight(&bytes).unwrap() > MAX);
    }

    #[test]
    fn the_largest_honest_report_passes() {
        let condition = |type_: &str| pb::Condition {
            r#type: type_.into(),
            status: 1,
            reason: "Applied".into(),
            message: "Manifest is already up to date".into(),
            observed_generation: 1,
        };
        let entry = pb::ManifestEntry {
            identifier: Some(pb::ManifestIdentifier {
                ordinal: 9_999,
                version: "v1".into(),
                kind: "ConfigMap".into(),
                resource: "configmaps".into(),
                namespace: "default".into(),
                name: "c-9999".into(),
                ..pb::ManifestIdentifier::default()
            }),
            conditions: vec![condition("Applied"), condition("Available")],
            ..pb::ManifestEntry::default()
        };
        // As many manifests of a hundred bytes as fit into a Work.
        let weight = pb::MemberMessage::weight(&report(vec![entry; 14_000])).unwrap();
        assert!(weight <= MAX, "{weight}");
    }

    #[test]
    fn what_is_no_message_has_no_weight() {
        assert_eq!(pb::MemberMessage::weight(&[0x72, 0x05, 0x01]), None);
        assert_eq!(pb::MemberMessage::weight(&[0x0b]), None);
        let heartbeat = message(pb::member_message::Body::Heartbeat(pb::Heartbeat::default()));
        assert!(pb::MemberMessage::weight(&heartbeat).unwrap() < 4_096);
    }
}
