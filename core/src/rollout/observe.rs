//! From API objects to what a plan is made from.

use fleet_api::annotations::{NUMBER_OF_CLUSTERS, PREVIOUS_BINDING_STATE, WINDOW};
use fleet_api::conditions::binding::RolloutStarted;
use fleet_api::conditions::{self, Detailed, Status, Words as _};
use fleet_api::placement::{
    ApplyStrategy, ApplyStrategyType, BindingSpec, BindingState, BindingStatus, PlacementPolicy, PlacementType,
    PolicySnapshotSpec, PolicySnapshotStatus, RollingUpdate, ServerSideApplyConfig,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Amount, Blocked, Budget, Closed, Content, Member, State, Target, readiness};
use crate::overrides::choose::Lists;
use crate::window::Windows;

/// What a binding should name, and what is known of its cluster.
#[derive(Debug, Clone, Copy)]
pub struct Goal<'a> {
    /// The latest master snapshot; none if there is none yet.
    pub snapshot: Option<&'a str>,
    /// The overrides for its cluster, or why they cannot be told.
    pub overrides: Result<&'a Lists, &'a str>,
    /// The placement's apply strategy, defaults filled in.
    pub apply_strategy: &'a ApplyStrategy,
    /// Whether its MemberCluster exists.
    pub cluster_exists: bool,
    /// When its cluster may be changed, as the MemberCluster's annotation says.
    pub window: Option<&'a str>,
}

impl Budget {
    /// What the strategy says; absent is the default.
    pub fn of(strategy: Option<&RollingUpdate>) -> Self {
        strategy.map_or_else(Self::default, |strategy| Self {
            max_unavailable: Amount::parse(&strategy.max_unavailable),
            max_surge: Amount::parse(&strategy.max_surge),
            unavailable_period: SignedDuration::from_secs(strategy.unavailable_period_seconds.max(0)),
        })
    }
}

impl Target {
    /// What the policy says. `found` is the number of selected clusters if the scheduler has said, for the placement of
    /// today, that it could not find all.
    pub fn of(policy: Option<&PlacementPolicy>, number_of_clusters: Option<i32>, found: Option<u32>) -> Self {
        let wanted = |policy: &PlacementPolicy| match policy.placement_type {
            PlacementType::PickAll => None,
            PlacementType::PickN => {
                let number = number_of_clusters.or(policy.number_of_clusters).unwrap_or_default();
                Some(u32::try_from(number).unwrap_or_default())
            }
            PlacementType::PickFixed => Some(u32::try_from(policy.cluster_names.len()).unwrap_or(u32::MAX)),
        };
        policy
            .and_then(wanted)
            .map_or(Self::AllPicked, |wanted| Self::Clusters { wanted, found })
    }
}

impl Target {
    /// What a placement's latest policy snapshot says, or without one the placement's own policy. Of the scheduler's word
    /// only that about the placement of this generation counts.
    pub fn by(
        snapshot: Option<(&ObjectMeta, &PolicySnapshotSpec, Option<&PolicySnapshotStatus>)>,
        policy: Option<&PlacementPolicy>,
        generation: i64,
    ) -> Self {
        let Some((metadata, spec, status)) = snapshot else {
            return Self::of(policy, None, None);
        };
        let number = metadata
            .annotations
            .as_ref()
            .and_then(|all| all.get(NUMBER_OF_CLUSTERS));
        let said = status.filter(|status| status.observed_crp_generation >= generation);
        let found = said.map(|status| status.target_clusters.iter().filter(|cluster| cluster.selected).count());
        let found = found.and_then(|found| u32::try_from(found).ok());
        Self::of(spec.policy.as_ref(), number.and_then(|text| text.parse().ok()), found)
    }
}

/// The apply strategy that bindings get: the placement's, with what an absent webhook would have filled in.
pub fn apply_strategy(placement: Option<&ApplyStrategy>) -> ApplyStrategy {
    let mut strategy = placement.cloned().unwrap_or_default();
    if strategy.type_ == ApplyStrategyType::ServerSideApply && strategy.server_side_apply_config.is_none() {
        strategy.server_side_apply_config = Some(ServerSideApplyConfig { force: false });
    }
    strategy
}

impl Member {
    /// A binding of either scope; none if its state is one that this version does not know, which is left alone.
    pub fn of(
        metadata: &ObjectMeta,
        spec: &BindingSpec,
        status: Option<&BindingStatus>,
        goal: &Goal<'_>,
        unavailable_period: SignedDuration,
        now: Timestamp,
    ) -> Option<Self> {
        let state = match spec.state {
            BindingState::Scheduled => State::Scheduled,
            BindingState::Bound => State::Bound,
            BindingState::Unscheduled => State::Unscheduled,
            BindingState::Unknown(_) => return None,
        };
        let list = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let generation = metadata.generation.unwrap_or_default();
        let deleting = metadata.deletion_timestamp.is_some();
        let (readiness, reports_diff) = readiness(list, generation, deleting, unavailable_period, now);
        let was_bound = metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get(PREVIOUS_BINDING_STATE))
            .map(String::as_str);
        let started = conditions::fresh(list, RolloutStarted::TYPE, generation).map(Status::of);
        Some(Self {
            binding: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            cluster: spec.target_cluster.clone(),
            state,
            deleting,
            holds_content: !spec.resource_snapshot_name.is_empty() || was_bound == Some("Bound"),
            content: content(spec, goal),
            readiness,
            reports_diff,
            started: started
                .filter(|status| *status != Status::Unknown)
                .map(|status| status == Status::True),
            strategy_differs: spec.apply_strategy.as_ref() != Some(goal.apply_strategy),
            cluster_exists: goal.cluster_exists,
            closed: goal.window.and_then(|window| closed(&spec.target_cluster, window, now)),
        })
    }
}

/// Whether a cluster's window is not open. One that cannot be read is closed: its user meant to keep changes away.
fn closed(cluster: &str, window: &str, now: Timestamp) -> Option<Closed> {
    let windows = match Windows::parse(window) {
        Ok(windows) => windows,
        Err(error) => {
            let why = format!("the annotation {WINDOW} of MemberCluster {cluster} cannot be read: {error}");
            return Some(Closed { next: None, why });
        }
    };
    let next = windows.next_open(now);
    if next == Some(now) {
        return None;
    }
    let sentence = format!("waiting for the window of cluster {cluster}");
    let why = match next {
        Some(next) => format!("{sentence}, next at {}", next.strftime("%Y-%m-%dT%H:%M:%SZ")),
        None => format!("{sentence}, which does not open"),
    };
    Some(Closed { next, why })
}

fn content(spec: &BindingSpec, goal: &Goal<'_>) -> Content {
    match goal.overrides {
        Err(why) => Content::Unknown(why.into()),
        Ok(lists)
            if Some(spec.resource_snapshot_name.as_str()) == goal.snapshot
                && spec.cluster_resource_override_snapshots == lists.cluster_wide
                && spec.resource_override_snapshots == lists.namespaced =>
        {
            Content::Current
        }
        Ok(_) => Content::Outdated,
    }
}

/// Whether the rollout of a Bound binding has started: it names what it should. Told from stored objects alone, so that
/// every process says the same of the same objects.
pub fn is_started(spec: &BindingSpec, goal: &Goal<'_>) -> bool {
    spec.state == BindingState::Bound
        && content(spec, goal) == Content::Current
        && spec.apply_strategy.as_ref() == Some(goal.apply_strategy)
}

impl Blocked {
    /// The condition that says it.
    pub fn state(&self) -> Detailed<RolloutStarted> {
        RolloutStarted::NotStartedYet.with_detail(self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::placement::NamespacedName;
    use serde_json::json;

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "mostly called with a literal")]
    fn member(spec: serde_json::Value, goal: &Goal<'_>) -> Member {
        let mut whole = json!({
            "state": "Bound", "resourceSnapshotName": "crp-1-snapshot", "schedulingPolicySnapshotName": "crp-0",
            "targetCluster": "c1", "clusterDecision": { "clusterName": "c1", "selected": true, "reason": "" },
            "applyStrategy": { "type": "ClientSideApply" },
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let spec: BindingSpec = serde_json::from_value(whole).unwrap();
        let metadata = ObjectMeta {
            name: Some("b".into()),
            generation: Some(2),
            ..ObjectMeta::default()
        };
        Member::of(
            &metadata,
            &spec,
            None,
            goal,
            SignedDuration::ZERO,
            Timestamp::UNIX_EPOCH,
        )
        .unwrap()
    }

    #[test]
    fn a_binding_is_outdated_by_snapshot_or_overrides() {
        let strategy = apply_strategy(None);
        let lists = Lists {
            cluster_wide: vec!["cro-0".into()],
            namespaced: vec![NamespacedName {
                name: "ro-0".into(),
                namespace: "app".into(),
            }],
        };
        let goal = Goal {
            snapshot: Some("crp-1-snapshot"),
            overrides: Ok(&lists),
            apply_strategy: &strategy,
            cluster_exists: true,
            window: None,
        };
        let named = json!({
            "clusterResourceOverrideSnapshots": ["cro-0"],
            "resourceOverrideSnapshots": [{ "name": "ro-0", "namespace": "app" }],
        });
        let current = member(named.clone(), &goal);
        assert_eq!((current.content, current.strategy_differs), (Content::Current, false));
        assert_eq!(member(json!({}), &goal).content, Content::Outdated);
        let newer = Goal {
            snapshot: Some("crp-2-snapshot"),
            ..goal
        };
        assert_eq!(member(named.clone(), &newer).content, Content::Outdated);
        let unknown = Goal {
            overrides: Err("no such cluster"),
            ..goal
        };
        assert_eq!(
            member(named, &unknown).content,
            Content::Unknown("no such cluster".into())
        );
    }

    #[test]
    fn absent_strategies_get_their_defaults() {
        let given: ApplyStrategy = serde_json::from_value(json!({ "type": "ServerSideApply" })).unwrap();
        assert_eq!(
            apply_strategy(Some(&given)).server_side_apply_config,
            Some(ServerSideApplyConfig { force: false })
        );
        assert_eq!(apply_strategy(None), ApplyStrategy::default());
        assert_eq!(Budget::of(None), Budget::of(Some(&RollingUpdate::default())));
    }

    #[test]
    fn the_target_is_the_policys() {
        let policy = |json| serde_json::from_value::<PlacementPolicy>(json).unwrap();
        let fixed = policy(json!({ "placementType": "PickFixed", "clusterNames": ["a", "b"] }));
        assert_eq!(
            Target::of(Some(&fixed), None, Some(1)),
            Target::Clusters {
                wanted: 2,
                found: Some(1)
            }
        );
        let n = policy(json!({ "placementType": "PickN", "numberOfClusters": 3 }));
        assert_eq!(
            Target::of(Some(&n), Some(5), None),
            Target::Clusters { wanted: 5, found: None }
        );
        assert_eq!(Target::of(None, None, None), Target::AllPicked);
    }

    #[test]
    fn the_reason_follows_the_known_sentence() {
        let blocked = Blocked::Overrides("cluster c1 is not found".into());
        assert_eq!(
            blocked.state().message(),
            "The resources cannot be updated to the latest because of the rollout strategy; cluster c1 is not found"
        );
    }

    #[test]
    fn outside_its_window_a_cluster_is_closed_and_says_until_when() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let night = "Mon-Fri 22:00-04:00 Europe/Zurich";
        assert_eq!(closed("c1", night, at("2026-11-18T21:00:00Z")), None);
        let shut = closed("c1", night, at("2026-11-18T20:00:00Z")).unwrap();
        assert_eq!(shut.next, Some(at("2026-11-18T21:00:00Z")));
        assert_eq!(
            shut.why,
            "waiting for the window of cluster c1, next at 2026-11-18T21:00:00Z"
        );
        let shut = closed("c1", "at night", at("2026-11-18T20:00:00Z")).unwrap();
        assert!(
            shut.next.is_none()
                && shut
                    .why
                    .contains("of MemberCluster c1 cannot be read: \"at night\" has not three parts")
        );
    }
}
