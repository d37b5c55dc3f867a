//! A report about a Work, written into its status.

use std::{borrow::Cow, collections::BTreeMap};

use fleet_api::placement::WorkStatus;
use fleet_core::session::{
    Answer, Decision,
    work::{WorkReport, persist},
};
use fleet_runtime::{Key, writes::Lane};
use serde::Serialize;
use serde_json::value::RawValue;

use super::context::ReportContext;
use crate::{
    cache::works::{HubWork, room},
    writer::{About, Edit, ToDo, WriteFailure},
};

/// Stores a report, or says why not.
pub(super) async fn status(context: &ReportContext, name: &str, report: &WorkReport) -> Result<Answer, WriteFailure> {
    let (deps, allowance) = (&context.shared.deps, &context.live.allowance);
    let key = Key::namespaced(context.live.cluster.namespace(), name);
    let about = About {
        store: &deps.works,
        key: &key,
        // Members take turns, so that one with a thousand reports does not delay one with three.
        group: &Key::cluster(context.live.cluster.as_str()),
        lane: Lane::Reports,
    };
    let decide = |work: Option<&HubWork>, read| {
        let stored = work.map(|work| work.stored(room(&deps.works_in, work)));
        let (work, status, then) = match (persist(stored.as_ref(), report, read, deps.clock.now()), work) {
            (Decision::Answer(answer), _) => return ToDo::Nothing(answer),
            (Decision::Write { write, then }, Some(work)) => (work, write, then),
            (Decision::ReadAgain | Decision::Write { .. }, _) => return ToDo::Read,
        };
        let body = match body(work, &status) {
            Ok(body) => body,
            Err(error) => return ToDo::Fail(WriteFailure::Unavailable(error.to_string())),
        };
        // What etcd keeps is the whole object, however little of it has changed.
        let stored = work.spec_bytes + body.len();
        match allowance.ask(&context.shared, |budget, now| budget.work(name, stored, now)) {
            Ok(()) => ToDo::Write(Edit::WholeStatus(body), then),
            Err(wait) => ToDo::later(wait),
        }
    };
    let stored = deps
        .works
        .get(&key)
        .map_or(0, |work| work.spec_bytes + work.status_bytes);
    let _turn = allowance.turn(stored).await;
    let (answer, _) = deps.writer.decide(&about, decide).await?;
    Ok(answer)
}

/// What is sent: who, which version, and the status. Fields of the status that we do not know stay. Written straight into
/// text: as a tree of values the largest status would take twenty times its size.
fn body(work: &HubWork, status: &WorkStatus) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Body<'a> {
        api_version: &'a str,
        kind: &'a str,
        metadata: Metadata<'a>,
        status: Fields<'a>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        name: Option<&'a str>,
        namespace: Option<&'a str>,
        uid: Option<&'a str>,
        resource_version: Option<&'a str>,
    }
    #[derive(Serialize)]
    struct Fields<'a> {
        #[serde(flatten)]
        status: &'a WorkStatus,
        #[serde(flatten)]
        unknown: BTreeMap<Cow<'a, str>, &'a RawValue>,
    }
    let stored = work.status.as_ref().map_or("{}", |raw| raw.as_str());
    let mut unknown: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(stored).unwrap_or_default();
    unknown.retain(|field, _| field != "conditions" && field != "manifestConditions");
    let metadata = &work.metadata;
    serde_json::to_vec(&Body {
        api_version: "placement.kubernetes-fleet.io/v1beta1",
        kind: "Work",
        metadata: Metadata {
            name: metadata.name.as_deref(),
            namespace: metadata.namespace.as_deref(),
            uid: metadata.uid.as_deref(),
            resource_version: metadata.resource_version.as_deref(),
        },
        status: Fields { status, unknown },
    })
}
