//! Bounds of everything that crosses the channel.
//!
//! A member is not trusted to be well behaved: whatever it can make long has an end here, so that the cost of one
//! message and of one session is known. The hub tells members those that it enforces per session (`Limits` in Accept).

/// The size at which the JSON of a whole Work is trimmed.
pub const WORK_OBJECT_BYTES: usize = 1_415_578;

/// One message on the wire, after decompression. A report of the largest Work fits several times over; the usual gRPC
/// default, so that a proxy in between needs no setting.
pub const MESSAGE_BYTES: usize = 4 * 1024 * 1024;

// Framing and the other fields of a report are far below this reserve.
const _: () = assert!(MESSAGE_BYTES >= WORK_OBJECT_BYTES + 64 * 1024);

/// Messages per second that a session may sustain.
pub const MESSAGES_PER_SECOND: u32 = 50;
/// Messages that a session may send at once: a resync of several hundred Works after a reconnect is normal.
pub const MESSAGES_BURST: u32 = 1_000;
/// Bytes per second that a session may sustain.
pub const BYTES_PER_SECOND: u32 = 1024 * 1024;
/// Bytes that a session may send at once; never below one message.
pub const BYTES_BURST: u32 = 16 * 1024 * 1024;
/// Reports without an acknowledgement that a member may have on the way.
pub const IN_FLIGHT: u32 = 64;
/// Events per second that are recorded for one member; more are dropped, which the protocol allows.
pub const EVENTS_PER_SECOND: u32 = 1;
/// Events at once.
pub const EVENTS_BURST: u32 = 25;

/// Malformed messages that a member may send per second, and at once. A newer one may say a few things that this hub does
/// not understand; more is noise.
pub const MALFORMED_PER_SECOND: u32 = 1;
/// Malformed messages at once.
pub const MALFORMED_BURST: u32 = 50;
/// Sessions of one member that are accepted per minute.
pub const SESSIONS_PER_MINUTE: u32 = 12;
/// Sessions at once: a network that comes and goes, a hub agent that is updated.
pub const SESSIONS_BURST: u32 = 30;
/// Writes per second of one Work's status. The newest report is written, whatever came before.
pub const WORK_WRITES_PER_SECOND: u32 = 1;
/// Writes at once: a Work that goes through all its states within a second.
pub const WORK_WRITES_BURST: u32 = 8;
/// Writes per second of what a cluster says about itself.
pub const CLUSTER_WRITES_PER_SECOND: u32 = 1;
/// Writes at once.
pub const CLUSTER_WRITES_BURST: u32 = 20;
/// Bytes per minute that the API server stores for one member: whole objects, as etcd keeps them. Ten minutes of it, which is
/// what lies between two compactions, are a twelfth of etcd's default quota.
pub const STORED_BYTES_PER_MINUTE: u32 = 16 * 1024 * 1024;
/// Bytes stored at once: a thousand Works that are placed together.
pub const STORED_BYTES_BURST: u32 = 64 * 1024 * 1024;

/// Names of objects (RFC 1123 subdomain).
pub const NAME_BYTES: usize = 253;
/// A uid is 36 characters; other API servers may use longer ones.
pub const UID_BYTES: usize = 128;
/// Versions, instance ids, resource versions and other short words.
pub const WORD_BYTES: usize = 256;
/// Keys of labels, properties and condition types: prefix, slash, name.
pub const KEY_BYTES: usize = 253 + 1 + 63;
/// A label value.
pub const LABEL_VALUE_BYTES: usize = 63;
/// A condition's reason.
pub const REASON_BYTES: usize = 1024;
/// A condition's or Event's message: longer ones are cut, not refused, for the rest of the report is still true.
pub const TEXT_BYTES: usize = 32_768;
/// A property's value; the longest known is a PEM bundle.
pub const PROPERTY_BYTES: usize = 128 * 1024;
/// All property names and values together, since they are copied into two objects.
pub const PROPERTIES_BYTES: usize = 512 * 1024;
/// A quantity.
pub const QUANTITY_BYTES: usize = 64;
/// JSON path of a difference.
pub const PATH_BYTES: usize = 4_096;
/// One side of a difference.
pub const VALUE_BYTES: usize = 16 * 1024;
/// A status digest.
pub const DIGEST_BYTES: usize = 32;

/// Conditions in one list.
pub const CONDITIONS: usize = 16;
/// Properties of one cluster.
pub const PROPERTIES: usize = 1_000;
/// Resources in one usage map.
pub const RESOURCES: usize = 64;
/// Namespaces of one cluster. Members track 200; a newer one may track more.
pub const NAMESPACES: usize = 2_000;
/// Platform labels.
pub const PLATFORM_LABELS: usize = 3;
/// Works of one member.
pub const WORKS: usize = 20_000;
/// AppliedWorks without a Work that one Hello lists.
pub const ORPHANS: usize = 1_000;
/// Manifests of one Work: what fits into an object of etcd's size.
pub const MANIFESTS: usize = 16_384;
/// Differences listed for one object.
pub const DETAILS: usize = 100;
/// Blockers listed for one deletion.
pub const BLOCKERS: usize = 10;
