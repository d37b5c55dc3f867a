//! A report about a Work, written into its status.

use std::sync::Arc;

use fleet_api::placement::WorkStatus;
use fleet_core::session::{
    Answer, Decision, Outcome,
    work::{WorkReport, persist},
};
use fleet_runtime::{
    Key,
    client::answered,
    writes::{Lane, Target},
};
use kube::Api;
use serde_json::{Map, Value, json};

use super::{
    held::HeldWork,
    reports::Context,
    server::Shared,
    write::{Failure, after_conflict, put_status},
};

/// Conflicts in a row before the report waits like after any other failure.
const TRIES: usize = 8;

/// Stores a report, or says why not.
pub(super) async fn status(context: &Context, name: &str, report: &WorkReport) -> Result<Answer, Failure> {
    let deps = &context.shared.deps;
    let namespace = context.live.cluster.namespace();
    let key = Key::namespaced(namespace.as_str(), name);
    let mut live = false;
    for _ in 0..TRIES {
        let (mut decision, mut version) = (None, None);
        let request = || {
            let work = deps.works.get(&key);
            let decided = persist(
                work.as_deref().map(HeldWork::stand_in).as_ref(),
                report,
                live,
                deps.clock.now(),
            );
            let request = match (&decided, &work) {
                (Decision::Write { write, .. }, Some(work)) => {
                    version.clone_from(&work.metadata.resource_version);
                    Some(body(work, write))
                }
                _ => None,
            };
            decision = Some(decided);
            let body = request?;
            let (client, namespace) = (&deps.client, namespace.as_str());
            Some(async move { put_status::<HeldWork>(client, namespace, name, &body).await })
        };
        let target = Target::new("Work", key.clone());
        // Members take turns, so that one with a thousand reports does not delay one with three.
        let group = Key::cluster(context.live.cluster.as_str());
        let written = deps.writes.write(Lane::Reports, target, &group, request).await;
        match (written, decision) {
            (Some(Ok(work)), Some(Decision::Write { then, .. })) => {
                deps.works.wrote(work);
                return Ok(then);
            }
            (Some(Err(error)), _) => match Failure::of(&error) {
                Failure::Conflict => after_conflict(&deps.works, version.as_deref()).await,
                failure => return Err(failure),
            },
            (None, Some(Decision::Answer(answer))) => return Ok(answer),
            (None, Some(Decision::ReadAgain)) => {
                read(&context.shared, &key).await?;
                live = true;
            }
            // Unreachable: a decision is made in every turn, and a write has its Work.
            _ => return Err(Failure::Unavailable("no decision was made".into())),
        }
    }
    Err(Failure::Conflict)
}

/// What is sent: who, which version, and the status. Fields of the status that we do not know stay.
fn body(work: &HeldWork, status: &WorkStatus) -> Value {
    let mut fields: Map<String, Value> = work
        .status
        .as_ref()
        .and_then(|raw| raw.parse().ok())
        .unwrap_or_default();
    fields.remove("conditions");
    fields.remove("manifestConditions");
    if let Ok(Value::Object(new)) = serde_json::to_value(status) {
        fields.extend(new);
    }
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "Work",
        "metadata": {
            "name": work.metadata.name,
            "namespace": work.metadata.namespace,
            "uid": work.metadata.uid,
            "resourceVersion": work.metadata.resource_version,
        },
        "status": fields,
    })
}

/// Reads a Work past the cache, into the cache.
pub(super) async fn read(shared: &Shared, key: &Key) -> Result<Option<Arc<HeldWork>>, Failure> {
    let api: Api<HeldWork> = Api::namespaced(shared.deps.client.clone(), key.namespace().unwrap_or_default());
    // Of before the question: what comes meanwhile is another one.
    let before = shared.deps.works.get(key);
    let read = answered(api.get_opt(key.name())).await;
    let work = read.map_err(|error| Failure::of(&error))?;
    if work.is_none() {
        // Gone for the API server: gone for us, whatever the watch has shown so far.
        if let Some(old) = before {
            shared.deps.works.deleted(key, old.metadata.uid.as_deref());
        }
    }
    Ok(work.map(|work| shared.deps.works.wrote(work)))
}

/// Whether an answer rests on the cache alone and may be wrong because it is behind.
pub(super) fn doubtful(answer: &Answer) -> bool {
    matches!(
        answer.outcome,
        Outcome::Gone | Outcome::UidMismatch | Outcome::NotDeleting
    )
}
