//! `fleet_workload_update_run_status_last_timestamp_seconds`: where each run stands, and since when. Read from the stores
//! when it is scraped, as that of placements is.

use std::fmt;

use fleet_api::{
    conditions::{
        self, Status, Words as _,
        update_run::{Initialized, Progressing, Succeeded},
    },
    placement::{ClusterScoped, Namespaced, Scope},
};
use fleet_runtime::{cache::Store, metrics::Metrics};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Resource as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use prometheus_client::encoding::MetricEncoder;

const NAME: &str = "fleet_workload_update_run_status_last_timestamp_seconds";
const HELP: &str = "When the last condition of an update run was reached";
/// Errors of users have it in their text.
const CLIENT_ERROR: &str = "failed to process the request due to a client error";

/// Registers the metric over the runs of both scopes.
pub(crate) fn register(
    metrics: &Metrics,
    cluster: Store<<ClusterScoped as Scope>::UpdateRun>,
    namespaced: Store<<Namespaced as Scope>::UpdateRun>,
) {
    metrics.register_read(NAME, HELP, move |metric| {
        write::<ClusterScoped>(&cluster, metric)?;
        write::<Namespaced>(&namespaced, metric)
    });
}

fn write<S: Scope>(runs: &Store<S::UpdateRun>, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    for run in runs.all() {
        let meta = run.meta();
        let list = run.status().map(|status| status.conditions.as_slice());
        let generation = meta.generation.unwrap_or_default();
        let types = [Succeeded::TYPE, Progressing::TYPE, Initialized::TYPE];
        let fresh = |name| conditions::fresh(list.unwrap_or_default(), name, generation);
        let Some(said) = types.into_iter().find_map(fresh) else {
            continue;
        };
        let labels = [
            ("namespace", meta.namespace.clone().unwrap_or_default()),
            ("name", meta.name.clone().unwrap_or_default()),
            ("state", run.spec().state.as_str().to_owned()),
            ("condition", said.type_.clone()),
            ("status", said.status.clone()),
            ("reason", said.reason.clone()),
            ("failureType", failure_type(said).to_owned()),
        ];
        let since = said.last_transition_time.0.as_second();
        metric.encode_family(&labels)?.encode_gauge(&since)?;
    }
    Ok(())
}

fn failure_type(said: &Condition) -> &'static str {
    let error = String::new();
    let failed = [Progressing::Failed.reason(), Initialized::Failed { error }.reason()];
    let (clusters, stage) = (Vec::new(), String::new());
    let stuck = Progressing::Stuck { clusters, stage }.reason();
    if Status::of(said) != Status::False {
        "none"
    } else if said.reason == stuck {
        "internal_error"
    } else if failed.contains(&said.reason.as_str()) {
        if said.message.contains(CLIENT_ERROR) {
            "user_error"
        } else {
            "internal_error"
        }
    } else {
        "none"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_the_users_only_if_its_text_says_so() {
        let user =
            "cannot continue the updateRun: failed to process the request due to a client error: the binding of ...";
        let ours = "cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: ...";
        for (status, reason, message, expected) in [
            ("False", "UpdateRunStuck", "", "internal_error"),
            ("False", "UpdateRunFailed", user, "user_error"),
            ("False", "UpdateRunFailed", ours, "internal_error"),
            ("False", "UpdateRunInitializedFailed", user, "user_error"),
            ("False", "UpdateRunInitializedFailed", ours, "internal_error"),
            ("False", "UpdateRunWaiting", user, "none"),
            ("False", "UpdateRunStopped", "", "none"),
            ("False", "UpdateRunSucceeded", "", "none"),
            ("Unknown", "UpdateRunStopping", "", "none"),
            ("True", "UpdateRunProgressing", user, "none"),
            ("True", "UpdateRunSucceeded", "", "none"),
        ] {
            let said = serde_json::json!({ "type": "Progressing", "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z" });
            let said = serde_json::from_value(said).unwrap();
            assert_eq!(failure_type(&said), expected, "{status} {reason} {message}");
        }
    }
}
