//! The hub agent, by its lease.

use fleet_api::names::{FLEET_SYSTEM_NAMESPACE, HUB_LEASE};
use fleet_core::explain::{self, Verdict};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use serde::Serialize;

use crate::{problem, reading::Reader};

/// A leader renews far more often.
const LEASE_STALE_SECS: i64 = 120;

/// How it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HubAgent {
    pub(crate) verdict: Verdict,
    /// The replica that leads.
    pub(crate) leader: String,
    pub(crate) text: String,
}

pub(super) async fn hub_agent(reader: &Reader<'_>, now: Timestamp) -> HubAgent {
    let unknown = |text: &str| HubAgent {
        verdict: Verdict::Waiting,
        leader: String::new(),
        text: text.to_owned(),
    };
    let leases = match reader
        .hub
        .core::<Lease>(FLEET_SYSTEM_NAMESPACE, &ListParams::default())
        .await
    {
        Ok(leases) => leases,
        Err(error) => {
            reader.hide(
                "leases",
                &problem::brief(&error),
                "kubectl auth can-i list leases -n fleet-system",
            );
            return unknown("not known");
        }
    };
    let own = leases
        .into_iter()
        .find(|lease| lease.metadata.name.as_deref() == Some(HUB_LEASE));
    let Some(spec) = own.and_then(|lease| lease.spec) else {
        return HubAgent {
            verdict: Verdict::Failed,
            ..unknown("no hub agent has ever led: is it installed?")
        };
    };
    let leader = spec.holder_identity.unwrap_or_default();
    let renewed = spec.renew_time.map(|time| now.duration_since(time.0).as_secs());
    match renewed {
        Some(seconds) if seconds < LEASE_STALE_SECS && !leader.is_empty() => HubAgent {
            verdict: Verdict::Done,
            text: format!("{leader} leads"),
            leader,
        },
        Some(seconds) => HubAgent {
            verdict: Verdict::Failed,
            text: format!(
                "no hub agent leads, for {}",
                explain::span(jiff::SignedDuration::from_secs(seconds))
            ),
            leader,
        },
        None => HubAgent {
            verdict: Verdict::Failed,
            leader,
            ..unknown("no hub agent leads")
        },
    }
}
