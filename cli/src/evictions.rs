//! Evictions as the commands make and read them.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, anyhow};
use fleet_api::{
    annotations::EVICTION_WAIT,
    conditions::{
        self, Words as _,
        eviction::{Executed, Valid},
    },
    kind::SpecKind as _,
    names::{self, ClusterName, PlacementKey},
    placement::{ClusterResourcePlacementEviction, EvictionSpec},
};
use fleet_core::eviction;
use kube::core::ObjectMeta;

use crate::{hub::Hub, problem::Problem};

pub(crate) type Eviction = ClusterResourcePlacementEviction;

/// What the names of evictions begin with that drains have made.
const OF_DRAIN: &str = "drain-eviction-";
/// Names are random; that one is taken happens once in four billion times.
const NAMES_MAX: usize = 3;

/// How an eviction ended, with the words of its condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The placement was taken off the cluster.
    Executed(String),
    /// It may not be taken off.
    Blocked(String),
    /// There was nothing to take off any more.
    Gone(String),
    /// It makes no sense.
    Invalid(String),
}

/// How it ended, if it has.
pub(crate) fn end(object: &Eviction) -> Option<End> {
    let view = view(object);
    let ended = view.ended()?;
    let said = |type_name| {
        let condition = conditions::find(&view.status.conditions, type_name);
        condition.map(|said| said.message.clone()).unwrap_or_default()
    };
    if ended.valid {
        let executed = conditions::find(&view.status.conditions, Executed::TYPE);
        let is_true = executed.is_some_and(|said| conditions::Status::of(said) == conditions::Status::True);
        let end = if is_true { End::Executed } else { End::Blocked };
        return Some(end(said(Executed::TYPE)));
    }
    let message = said(Valid::TYPE);
    let gone = [Valid::PlacementMissing, Valid::PlacementDeleting, Valid::BindingMissing];
    let is_gone = gone.iter().any(|state| state.message() == message);
    let end = if is_gone { End::Gone } else { End::Invalid };
    Some(end(message))
}

/// What the hub's decisions are made from.
pub(crate) fn view(object: &Eviction) -> eviction::Eviction<'_> {
    eviction::Eviction::of(&object.metadata, &object.spec, object.status.as_ref())
}

/// Whether a drain has made it.
pub(crate) fn is_of_drain(object: &Eviction) -> bool {
    object
        .metadata
        .name
        .as_deref()
        .is_some_and(|name| name.starts_with(OF_DRAIN))
}

/// One more eviction of a placement from a cluster. With `wait`, it waits so long for its budget.
pub(crate) fn new(placement: &str, cluster: &str, wait: Option<Duration>) -> Result<Eviction> {
    let name = || {
        let (placement, cluster) = (PlacementKey::new(None, placement)?, ClusterName::new(cluster)?);
        anyhow::Ok(names::drain_eviction(&placement, &cluster, fastrand::u32(..)))
    };
    let name = name().map_err(|error| {
        anyhow!(
            "failed to format a qualified name for drain eviction object with CRP name {placement}, cluster name \
             {cluster}: [{error}]"
        )
    })?;
    let wait = wait.map(|wait| BTreeMap::from([(EVICTION_WAIT.to_owned(), format!("{}s", wait.as_secs().max(1)))]));
    let metadata = ObjectMeta {
        name: Some(name),
        annotations: wait,
        ..ObjectMeta::default()
    };
    let spec = EvictionSpec {
        placement_name: placement.to_owned(),
        cluster_name: cluster.to_owned(),
    };
    Ok(Eviction::from_spec(metadata, spec))
}

/// Makes one; under another name should its name be taken.
pub(crate) async fn create(hub: &Hub, placement: &str, cluster: &str, wait: Option<Duration>) -> Result<Eviction> {
    let mut eviction = new(placement, cluster, wait)?;
    for _ in 1..NAMES_MAX {
        match hub.create(&eviction).await {
            Err(problem) if problem.is_taken() => eviction = new(placement, cluster, wait)?,
            answer => return named(answer, &eviction),
        }
    }
    named(hub.create(&eviction).await, &eviction)
}

/// What failed, as scripts know it.
fn named(answer: Result<Eviction, Problem>, eviction: &Eviction) -> Result<Eviction> {
    answer.map_err(|problem| anyhow::Error::from(problem).context(format!("failed to create {}", title(eviction))))
}

/// As an eviction is called in what is printed.
pub(crate) fn title(eviction: &Eviction) -> String {
    format!(
        "eviction {} for CRP {} targeting member cluster {}",
        eviction.metadata.name.as_deref().unwrap_or_default(),
        eviction.spec.placement_name,
        eviction.spec.cluster_name,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn eviction(conditions: &Value) -> Eviction {
        serde_json::from_value(json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacementEviction",
            "metadata": { "name": "e", "generation": 1 }, "spec": { "placementName": "web", "clusterName": "east" },
            "status": { "conditions": conditions },
        }))
        .expect("it is an eviction")
    }

    fn condition(kind: &str, status: &str, generation: i64, message: &str) -> Value {
        json!({
            "type": kind, "status": status, "reason": "Played", "message": message, "observedGeneration": generation,
            "lastTransitionTime": "2026-01-09T01:53:53Z",
        })
    }

    #[test]
    fn an_eviction_whose_target_is_gone_is_told_from_one_that_makes_no_sense() {
        let (missing, fixed) = (Valid::BindingMissing.message(), Valid::PickFixed.message());
        let valid = condition("Valid", "True", 1, "");
        let rows = [
            (json!([]), None),
            (json!([valid]), None),
            (json!([condition("Valid", "False", 0, &missing)]), None),
            (
                json!([condition("Valid", "False", 1, &missing)]),
                Some(End::Gone(missing.clone())),
            ),
            (
                json!([condition("Valid", "False", 1, &fixed)]),
                Some(End::Invalid(fixed.clone())),
            ),
            (
                json!([valid, condition("Executed", "True", 0, "done")]),
                Some(End::Executed("done".to_owned())),
            ),
            (
                json!([valid, condition("Executed", "False", 1, "no")]),
                Some(End::Blocked("no".to_owned())),
            ),
        ];
        for (conditions, wanted) in rows {
            assert_eq!(end(&eviction(&conditions)), wanted, "{conditions}");
        }
    }

    #[test]
    fn names_are_those_of_kubefleets_plugin_and_must_be_names() {
        let made = new("web", "east", Some(Duration::from_secs(90))).expect("it has a name");
        assert!(is_of_drain(&made));
        let name = made.metadata.name.unwrap_or_default();
        let token = name
            .strip_prefix("drain-eviction-web-east-")
            .expect("placement and cluster");
        assert!(
            token.len() == 8 && token.chars().all(|c| c.is_ascii_hexdigit()),
            "{name}"
        );
        assert_eq!(made.metadata.annotations.unwrap_or_default()[EVICTION_WAIT], "90s");
        let refused = new("web", "Not_A_Name", None).expect_err("it is no name");
        let words =
            "failed to format a qualified name for drain eviction object with CRP name web, cluster name Not_A_Name: [";
        assert!(refused.to_string().starts_with(words), "{refused}");
    }
}
