//! Laws of the conversions: what goes in comes out, what is missing is named, and garbage never panics.

#![allow(clippy::too_many_lines, reason = "tables and generators read best in one piece")]

use std::collections::BTreeMap;

use fleet_api::{
    cluster::{AgentType, PropertyValue, ResourceUsage},
    conditions::Status,
    events::EventType,
    placement::{PatchDetail, WorkResourceIdentifier},
    raw::RawJson,
};
use fleet_core::session::{
    Outcome, WorkRef,
    cluster::{AgentReport, PropertiesReport},
    condition::ReportedCondition,
    digest::KnownWork,
    merge::{Details, Differences, ManifestReport, Mirrored},
    work::{Phase, WorkReport},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time};
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::{Invalid, limits, pb};

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).expect("in range")
}

fn condition() -> impl Strategy<Value = ReportedCondition> {
    (
        prop::sample::select(vec!["Applied", "Available", "Healthy"]),
        prop::sample::select(vec![Status::True, Status::False, Status::Unknown]),
        "[A-Z][a-z]{0,8}",
        ".{0,20}",
        0..9i64,
    )
        .prop_map(
            |(type_, status, reason, message, observed_generation)| ReportedCondition {
                type_: type_.into(),
                status,
                reason,
                message,
                observed_generation,
            },
        )
}

fn details() -> impl Strategy<Value = Differences> {
    (
        1..9_999_999_999i64,
        prop::option::of(0..9i64),
        prop::collection::vec(("/[a-z]{0,5}", ".{0,5}", ".{0,5}"), 0..4),
    )
        .prop_map(|(observed, generation, list)| Differences {
            observed_at: at(observed),
            generation,
            details: list
                .into_iter()
                .map(|(path, value_in_member, value_in_hub)| PatchDetail {
                    path,
                    value_in_member,
                    value_in_hub,
                })
                .collect(),
        })
}

fn work() -> impl Strategy<Value = WorkRef> {
    ("[a-z]{1,9}(-work)?", "[0-9a-f]{8}").prop_map(|(name, uid)| WorkRef { name, uid })
}

fn entry() -> impl Strategy<Value = ManifestReport> {
    (
        0..50i64,
        "[a-z]{0,5}",
        prop::collection::vec(condition(), 0..3),
        prop::option::of(details()),
        any::<bool>(),
    )
        .prop_map(|(ordinal, name, conditions, details, is_drift)| ManifestReport {
            identifier: WorkResourceIdentifier {
                ordinal,
                name,
                kind: "ConfigMap".into(),
                ..Default::default()
            },
            conditions,
            details: details.map(if is_drift { Details::Drift } else { Details::Diff }),
            mirrored: is_drift.then(|| Mirrored {
                observed_at: at(1),
                json: RawJson::from_text("{}".into()).expect("JSON"),
            }),
        })
}

fn known() -> impl Strategy<Value = KnownWork> {
    (work(), 0..9i64).prop_map(|(WorkRef { name, uid }, generation)| KnownWork {
        name,
        uid,
        generation,
        status_digest: vec![1, 2],
    })
}

fn body() -> impl Strategy<Value = MemberMessage> {
    let imc = || ("[0-9a-f]{8}", 0..9i64);
    prop_oneof![
        (prop::collection::vec(known(), 0..3), any::<u64>()).prop_map(|(works, lease_transitions)| {
            MemberMessage::Hello(Hello {
                member_cluster: "c1".into(),
                agent_type: AgentType::MemberAgent,
                protocol_version: 1,
                build_version: "0.1.0".into(),
                instance_id: "i".into(),
                lease_transitions,
                cluster_uid: "u".into(),
                platform_labels: BTreeMap::from([("fleet.azure.com/location".into(), "eastus".into())]),
                works,
                orphaned_applied_works: vec!["old".into()],
            })
        }),
        Just(MemberMessage::Heartbeat),
        (imc(), prop::collection::vec(condition(), 0..3)).prop_map(|((imc_uid, imc_generation), conditions)| {
            MemberMessage::AgentStatus(AgentReport {
                imc_uid,
                imc_generation,
                conditions,
            })
        }),
        (
            imc(),
            prop::collection::btree_map("[a-z]{1,5}/[a-z]{1,5}", (".{0,9}", 1..99_999i64), 0..4)
        )
            .prop_map(|((imc_uid, imc_generation), properties)| {
                MemberMessage::Properties(PropertiesReport {
                    imc_uid,
                    imc_generation,
                    properties: properties
                        .into_iter()
                        .map(|(k, (value, ms))| {
                            (
                                k,
                                PropertyValue {
                                    value,
                                    observation_time: Time(at(ms)),
                                },
                            )
                        })
                        .collect(),
                    usage: Some(ResourceUsage {
                        capacity: BTreeMap::from([("cpu".into(), Quantity("3720m".into()))]),
                        allocatable: BTreeMap::new(),
                        available: BTreeMap::new(),
                        observation_time: Some(Time(at(5))),
                    }),
                    namespaces: Some(BTreeMap::from([("default".into(), String::new())])),
                    conditions: vec![],
                    collected: true,
                })
            }),
        (
            work(),
            0..9i64,
            prop::collection::vec(condition(), 0..3),
            prop::collection::vec(entry(), 0..4)
        )
            .prop_map(|(work, observed_generation, conditions, manifests)| {
                let phase = if conditions.is_empty() {
                    Phase::Preparing
                } else {
                    Phase::Result
                };
                MemberMessage::WorkStatus(WorkReport {
                    work,
                    observed_generation,
                    phase,
                    conditions,
                    manifests,
                })
            }),
        work().prop_map(MemberMessage::Claim),
        work().prop_map(MemberMessage::CleanupComplete),
        work().prop_map(|work| MemberMessage::CleanupProgress(CleanupProgress {
            work,
            since: None,
            remaining: 2,
            blockers: vec![Blocker {
                identifier: WorkResourceIdentifier::default(),
                reason: "has a finalizer".into()
            }],
        })),
        imc().prop_map(|(imc_uid, imc_generation)| MemberMessage::ApplierStopped {
            imc_uid,
            imc_generation
        }),
        work().prop_map(|WorkRef { name, uid }| MemberMessage::Event(Event {
            object: EventObject::Work,
            work_name: name,
            object_uid: uid,
            type_: EventType::Warning,
            reason: "Held".into(),
            message: "held".into(),
        })),
    ]
}

proptest! {
    #[test]
    fn what_a_member_says_arrives_unchanged(seq in 1..u64::MAX, epoch in 1..u64::MAX, body in body()) {
        let epoch = if matches!(body, MemberMessage::Hello(_)) { 0 } else { epoch };
        let sent = FromMember { seq, epoch, body };
        let bytes = pb::MemberMessage::from(sent.clone()).encode_to_vec();
        let arrived = pb::MemberMessage::decode(bytes.as_slice()).expect("decodes");
        prop_assert_eq!(FromMember::try_from(arrived), Ok(sent));
    }

    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(wire) = pb::MemberMessage::decode(bytes.as_slice()) {
            let _ = FromMember::try_from(wire);
        }
        if let Ok(wire) = pb::HubMessage::decode(bytes.as_slice()) {
            let _ = HubMessage::try_from(wire);
        }
    }

    #[test]
    fn a_damaged_message_never_panics(body in body(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = pb::MemberMessage::from(FromMember { seq: 1, epoch: 1, body }).encode_to_vec();
        let i = at.index(bytes.len());
        bytes[i] = byte;
        if let Ok(wire) = pb::MemberMessage::decode(bytes.as_slice()) {
            let _ = FromMember::try_from(wire);
        }
    }
}

#[test]
fn what_the_hub_says_arrives_unchanged() {
    let work = || {
        Some(WorkRef {
            name: "w".into(),
            uid: "u".into(),
        })
    };
    let said = [
        HubMessage::Accept(Accept {
            session: 3,
            protocol_version: 1,
            hub_time: Some(at(1_000)),
            imc_uid: "u".into(),
            imc_generation: 2,
            limits: SessionLimits::default(),
            resend_works: vec!["w".into()],
            build_version: "0.1.0".into(),
        }),
        HubMessage::Reject(Reject {
            code: RejectCode::NotMember,
            message: "gone".into(),
            retry_after_ms: 5,
        }),
        HubMessage::Ack(Ack {
            seq: 1,
            work: work(),
            outcome: Outcome::Persisted,
            reason: String::new(),
        }),
        HubMessage::Ack(Ack {
            seq: 1,
            work: None,
            outcome: Outcome::TooLarge,
            reason: "x".into(),
        }),
        HubMessage::Fenced {
            session: 9,
            lease_transitions: 2,
        },
    ];
    for message in said {
        let bytes = pb::HubMessage::from(message.clone()).encode_to_vec();
        let arrived = pb::HubMessage::decode(bytes.as_slice()).expect("decodes");
        assert_eq!(HubMessage::try_from(arrived), Ok(message));
    }
}

fn refused(epoch: u64, body: pb::member_message::Body) -> String {
    let error: Invalid = FromMember::try_from(pb::MemberMessage {
        seq: 1,
        epoch,
        body: Some(body),
    })
    .expect_err("bad");
    error.to_string()
}

#[test]
fn what_is_missing_is_named() {
    use pb::member_message::Body;
    let hello = || pb::Hello {
        member_cluster: "c1".into(),
        agent_type: 1,
        protocol_version: 1,
        instance_id: "i".into(),
        cluster_uid: "u".into(),
        ..Default::default()
    };
    let work = |entries| pb::WorkStatus {
        name: "w".into(),
        uid: "u".into(),
        phase: 2,
        manifests: entries,
        ..Default::default()
    };
    let cases = [
        (
            0,
            Body::Hello(pb::Hello {
                member_cluster: String::new(),
                ..hello()
            }),
            "hello.member_cluster: missing",
        ),
        (
            0,
            Body::Hello(pb::Hello {
                agent_type: 0,
                ..hello()
            }),
            "hello.agent_type: missing",
        ),
        (
            0,
            Body::Hello(pb::Hello {
                agent_type: 44,
                ..hello()
            }),
            "hello.agent_type: unknown value 44",
        ),
        (
            0,
            Body::Hello(pb::Hello {
                protocol_version: 0,
                ..hello()
            }),
            "hello.protocol_version: missing",
        ),
        (
            0,
            Body::Hello(pb::Hello {
                cluster_uid: String::new(),
                ..hello()
            }),
            "hello.cluster_uid: missing",
        ),
        (
            0,
            Body::Hello(pb::Hello {
                works: vec![pb::KnownWork::default()],
                ..hello()
            }),
            "hello.works[0].name: missing",
        ),
        (3, Body::Hello(hello()), "epoch: given before a session is open"),
        (
            0,
            Body::Claim(pb::Claim {
                name: "w".into(),
                uid: "u".into(),
            }),
            "epoch: missing",
        ),
        (
            1,
            Body::Claim(pb::Claim {
                name: "../w".into(),
                uid: "u".into(),
            }),
            "claim.name: not a valid object name",
        ),
        (
            1,
            Body::CleanupComplete(pb::CleanupComplete {
                name: "w".into(),
                uid: String::new(),
            }),
            "cleanup_complete.uid: missing",
        ),
        (
            1,
            Body::WorkStatus(pb::WorkStatus {
                phase: 0,
                ..work(vec![])
            }),
            "work_status.phase: missing",
        ),
        (
            1,
            Body::WorkStatus(work(vec![pb::ManifestEntry::default()])),
            "work_status.manifests[0].identifier: missing",
        ),
        (
            1,
            Body::AgentStatus(pb::AgentStatus::default()),
            "agent_status.imc_uid: missing",
        ),
        (
            1,
            Body::ApplierStopped(pb::ApplierStopped::default()),
            "applier_stopped.imc_uid: missing",
        ),
        (1, Body::Event(pb::Event::default()), "event.object: missing"),
    ];
    for (epoch, body, text) in cases {
        assert_eq!(refused(epoch, body), text);
    }
    let empty = FromMember::try_from(pb::MemberMessage {
        seq: 1,
        epoch: 1,
        body: None,
    })
    .expect_err("empty");
    assert_eq!(empty.to_string(), "body: missing");
}

#[test]
fn what_older_peers_say_besides_is_ignored() {
    // A heartbeat of version 0.1: imc_uid, imc_generation, newest_work_resource_version.
    let heartbeat = [
        0x08, 0x01, 0x10, 0x01, 0x5a, 0x08, 0x0a, 0x01, b'u', 0x10, 0x02, 0x1a, 0x01, b'7',
    ];
    let arrived = pb::MemberMessage::decode(heartbeat.as_slice()).expect("decodes");
    assert_eq!(
        FromMember::try_from(arrived).map(|message| message.body),
        Ok(MemberMessage::Heartbeat)
    );
}

#[test]
fn what_is_mirrored_is_json() {
    use pb::member_message::Body;
    let entry = pb::ManifestEntry {
        identifier: Some(pb::ManifestIdentifier::default()),
        mirrored: Some(pb::MirroredStatus {
            observed_at_ms: 1,
            json: "{".into(),
        }),
        ..Default::default()
    };
    let status = pb::WorkStatus {
        name: "w".into(),
        uid: "u".into(),
        phase: 2,
        manifests: vec![entry],
        ..Default::default()
    };
    assert_eq!(
        refused(1, Body::WorkStatus(status)),
        "work_status.manifests[0].mirrored.json: not JSON"
    );
}

#[test]
fn whatever_can_be_long_has_an_end() {
    use pb::member_message::Body;
    let details = |n| pb::DifferenceDetails {
        observed_at_ms: 1,
        details: vec![pb::PatchDetail::default(); n],
        ..Default::default()
    };
    let entry = |n| pb::ManifestEntry {
        identifier: Some(pb::ManifestIdentifier::default()),
        drift: Some(details(n)),
        ..Default::default()
    };
    let status = |manifests| {
        Body::WorkStatus(pb::WorkStatus {
            name: "w".into(),
            uid: "u".into(),
            phase: 2,
            manifests,
            ..Default::default()
        })
    };
    assert_eq!(
        refused(1, status(vec![entry(limits::DETAILS + 1)])),
        "work_status.manifests[0].drift.details: 101 exceeds the limit of 100"
    );
    assert_eq!(
        refused(1, status(vec![entry(0); limits::MANIFESTS + 1])),
        "work_status.manifests: 16385 exceeds the limit of 16384"
    );
    let value = pb::PropertyValue {
        value: "x".repeat(limits::PROPERTY_BYTES + 1),
        observed_at_ms: 1,
    };
    let properties = pb::Properties {
        imc_uid: "u".into(),
        properties: BTreeMap::from([("a/b".into(), value)]),
        ..Default::default()
    };
    assert!(refused(1, Body::Properties(properties)).contains("exceeds the limit of 131072"));
    let uid = pb::Claim {
        name: "w".into(),
        uid: "u".repeat(limits::UID_BYTES + 1),
    };
    assert_eq!(refused(1, Body::Claim(uid)), "claim.uid: 129 exceeds the limit of 128");
}
