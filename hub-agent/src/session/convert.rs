//! From the wire's plain types to those that decisions are made with.

use fleet_api::{
    cluster::{PropertyValue, ResourceUsage},
    conditions::Status,
    placement::{PatchDetail, WorkResourceIdentifier},
    raw::RawJson,
};
use fleet_core::session::{
    Outcome,
    cluster::{AgentReport, PropertiesReport},
    digest::Known,
    hello::{Claim, Refusal},
    merge::{Details, Differences, ManifestReport, Mirrored},
    said::Said,
    work::{Phase, WorkReport},
};
use fleet_proto::convert as wire;
use k8s_openapi::{apimachinery::pkg::api::resource::Quantity, apimachinery::pkg::apis::meta::v1::Time};

pub(super) fn claim(hello: &wire::Hello) -> Claim {
    Claim {
        member_cluster: hello.member_cluster.clone(),
        agent_type: hello.agent_type.as_str().into(),
        protocol_version: hello.protocol_version,
        cluster_uid: hello.cluster_uid.clone(),
        lease_transitions: hello.lease_transitions,
    }
}

pub(super) fn known(works: &[wire::KnownWork]) -> Vec<Known> {
    works
        .iter()
        .map(|work| Known {
            name: work.name.clone(),
            uid: work.uid.clone(),
            digest: work.status_digest.to_vec(),
        })
        .collect()
}

pub(super) fn code(refusal: Refusal) -> wire::RejectCode {
    match refusal {
        Refusal::PermissionDenied => wire::RejectCode::PermissionDenied,
        Refusal::NotMember => wire::RejectCode::NotMember,
        Refusal::Superseded => wire::RejectCode::Superseded,
        Refusal::AlreadyConnected => wire::RejectCode::AlreadyConnected,
        Refusal::Unsupported => wire::RejectCode::Unsupported,
    }
}

/// The code as a label.
pub(super) fn word(code: wire::RejectCode) -> &'static str {
    match code {
        wire::RejectCode::Unauthenticated => "unauthenticated",
        wire::RejectCode::PermissionDenied => "permission_denied",
        wire::RejectCode::NotMember => "not_member",
        wire::RejectCode::Superseded => "superseded",
        wire::RejectCode::AlreadyConnected => "already_connected",
        wire::RejectCode::Unsupported => "unsupported",
        wire::RejectCode::Misbehaved => "misbehaved",
        wire::RejectCode::Unavailable => "unavailable",
    }
}

pub(super) fn outcome(outcome: Outcome) -> wire::Outcome {
    match outcome {
        Outcome::Persisted => wire::Outcome::Persisted,
        Outcome::Unchanged => wire::Outcome::Unchanged,
        Outcome::Superseded => wire::Outcome::Superseded,
        Outcome::UidMismatch => wire::Outcome::UidMismatch,
        Outcome::Gone => wire::Outcome::Gone,
        Outcome::NotDeleting => wire::Outcome::NotDeleting,
        Outcome::Invalid => wire::Outcome::Invalid,
        Outcome::RetryLater => wire::Outcome::RetryLater,
        Outcome::TooLarge => wire::Outcome::TooLarge,
    }
}

/// The outcome as a label, for those that change nothing.
pub(super) fn refusal_word(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Persisted => None,
        Outcome::Unchanged => Some("unchanged"),
        Outcome::Superseded => Some("superseded"),
        Outcome::UidMismatch => Some("uid_mismatch"),
        Outcome::Gone => Some("gone"),
        Outcome::NotDeleting => Some("not_deleting"),
        Outcome::Invalid => Some("invalid"),
        Outcome::RetryLater => Some("retry_later"),
        Outcome::TooLarge => Some("too_large"),
    }
}

pub(super) fn agent_report(status: wire::AgentStatus) -> AgentReport {
    AgentReport {
        imc_uid: status.imc_uid,
        imc_generation: status.imc_generation,
        conditions: status.conditions.into_iter().map(said).collect(),
    }
}

pub(super) fn properties_report(report: wire::Properties) -> PropertiesReport {
    PropertiesReport {
        imc_uid: report.imc_uid,
        imc_generation: report.imc_generation,
        collected: report.collected,
        properties: report
            .properties
            .into_iter()
            .map(|(name, p)| {
                let value = PropertyValue {
                    value: p.value,
                    observation_time: Time(p.observed_at),
                };
                (name, value)
            })
            .collect(),
        usage: report.usage.map(|usage| {
            let quantities = |map: std::collections::BTreeMap<String, String>| {
                map.into_iter().map(|(name, q)| (name, Quantity(q))).collect()
            };
            ResourceUsage {
                capacity: quantities(usage.capacity),
                allocatable: quantities(usage.allocatable),
                available: quantities(usage.available),
                observation_time: Some(Time(usage.observed_at)),
            }
        }),
        namespaces: report.namespaces,
        conditions: report.conditions.into_iter().map(said).collect(),
    }
}

/// `None` if what a member mirrors is not even JSON.
pub(super) fn work_report(status: wire::WorkStatus) -> Result<WorkReport, String> {
    let manifests = status.manifests.into_iter().map(manifest).collect::<Result<_, _>>()?;
    Ok(WorkReport {
        uid: status.work.uid,
        generation: status.observed_generation,
        phase: match status.phase {
            wire::Phase::Preparing => Phase::Preparing,
            wire::Phase::Result => Phase::Result,
        },
        conditions: status.conditions.into_iter().map(said).collect(),
        manifests,
    })
}

fn manifest(entry: wire::ManifestEntry) -> Result<ManifestReport, String> {
    let ordinal = entry.identifier.ordinal;
    let details = match (entry.drift, entry.diff) {
        (Some(drift), _) => Some(Details::Drift(differences(drift))),
        (None, Some(diff)) => Some(Details::Diff(differences(diff))),
        (None, None) => None,
    };
    let mirrored = entry.mirrored.map(|mirrored| {
        let text = String::from_utf8(mirrored.json.into()).map_err(|e| e.to_string())?;
        let json = RawJson::from_text(text).map_err(|e| e.to_string())?;
        Ok(Mirrored {
            observed_at: mirrored.observed_at,
            json,
        })
    });
    Ok(ManifestReport {
        identifier: identifier(entry.identifier),
        conditions: entry.conditions.into_iter().map(said).collect(),
        details,
        mirrored: mirrored
            .transpose()
            .map_err(|why: String| format!("manifest {ordinal}: mirrored status is not JSON: {why}"))?,
    })
}

fn identifier(id: wire::ManifestIdentifier) -> WorkResourceIdentifier {
    WorkResourceIdentifier {
        ordinal: i64::from(id.ordinal),
        group: id.group,
        version: id.version,
        kind: id.kind,
        resource: id.resource,
        namespace: id.namespace,
        name: id.name,
    }
}

fn differences(details: wire::DifferenceDetails) -> Differences {
    Differences {
        observed_at: details.observed_at,
        generation: details.observed_in_member_generation,
        details: details
            .details
            .into_iter()
            .map(|d| PatchDetail {
                path: d.path,
                value_in_member: d.value_in_member,
                value_in_hub: d.value_in_hub,
            })
            .collect(),
    }
}

fn said(condition: wire::Condition) -> Said {
    Said {
        type_: condition.type_,
        status: match condition.status {
            wire::Status::True => Status::True,
            wire::Status::False => Status::False,
            wire::Status::Unknown => Status::Unknown,
        },
        reason: condition.reason,
        message: condition.message,
        observed_generation: condition.observed_generation,
    }
}
