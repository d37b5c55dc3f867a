//! The chapter's rules and scenarios, one file per theme, over a toy fleet.

mod bindings;
mod filters;
mod fixed;
mod laws;
mod numbers;
mod spread;
mod status;
mod wake;

use std::collections::BTreeMap;
use std::time::Duration;

use fleet_api::cluster::{PropertyValue, ResourceUsage, Taint, TaintEffect};
use fleet_api::conditions::decision::Ineligible;
use fleet_api::names::PlacementKey;
use fleet_api::placement::{
    BindingState, ClusterDecision, ClusterScore, PlacementPolicy, PlacementType, PolicySnapshotStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

pub(super) const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// A cluster as tests write it down.
#[derive(Debug, Clone, Default)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) leaving: bool,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) properties: BTreeMap<String, PropertyValue>,
    pub(super) usage: Option<ResourceUsage>,
    /// `None`: not collected; empty: unknown.
    pub(super) namespaces: Option<BTreeMap<String, String>>,
    pub(super) ineligible: Option<Ineligible>,
}

pub(super) fn member(name: &str) -> Member {
    Member {
        name: name.into(),
        ..Member::default()
    }
}

impl Member {
    pub(super) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.into(), value.into());
        self
    }
    pub(super) fn taint(mut self, key: &str, value: &str) -> Self {
        self.taints.push(Taint {
            key: key.into(),
            value: value.into(),
            effect: TaintEffect::NoSchedule,
        });
        self
    }
    pub(super) fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.insert(
            name.into(),
            PropertyValue {
                value: value.into(),
                observation_time: Time(NOW),
            },
        );
        self
    }
    pub(super) fn available(mut self, resource: &str, amount: &str) -> Self {
        let usage = self.usage.get_or_insert_default();
        usage.available.insert(
            resource.into(),
            k8s_openapi::apimachinery::pkg::api::resource::Quantity(amount.into()),
        );
        self
    }
    pub(super) fn ineligible(mut self, why: Ineligible) -> Self {
        self.ineligible = Some(why);
        self
    }
    pub(super) fn leaving(mut self) -> Self {
        self.leaving = true;
        self.ineligible(Ineligible::Left)
    }
    pub(super) fn view(&self) -> Cluster<'_> {
        Cluster {
            name: &self.name,
            leaving: self.leaving,
            labels: &self.labels,
            taints: &self.taints,
            properties: &self.properties,
            usage: self.usage.as_ref(),
            namespaces: match &self.namespaces {
                None => Namespaces::NotCollected,
                Some(none) if none.is_empty() => Namespaces::Unknown,
                Some(known) => Namespaces::Known(known),
            },
            ineligible: self.ineligible,
            ineligible_from: self.ineligible.is_none().then_some(NOW),
        }
    }
}

pub(super) const UNHEALTHY: Ineligible = Ineligible::Unhealthy(Duration::from_mins(10));

/// The chapter's fleet F.
pub(super) fn fleet() -> Vec<Member> {
    let healthy = [
        ("cluster-1-east-prod", "east", "prod"),
        ("cluster-2-east-prod", "east", "prod"),
        ("cluster-3-east-canary", "east", "canary"),
        ("cluster-4-central-prod", "central", "prod"),
        ("cluster-5-central-prod", "central", "prod"),
        ("cluster-6-west-prod", "west", "prod"),
        ("cluster-7-west-canary", "west", "canary"),
    ];
    let mut fleet: Vec<_> = healthy
        .map(|(name, region, env)| member(name).label("region", region).label("env", env))
        .into();
    let prod = |name: &str, region: &str| member(name).label("region", region).label("env", "prod");
    fleet.push(prod("unhealthy-cluster-east-prod", "east").ineligible(UNHEALTHY));
    fleet.push(prod("left-cluster-central-prod", "central").leaving());
    fleet
}

/// A binding as tests write it down, and what the shell would keep of it.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) name: String,
    pub(super) cluster: String,
    pub(super) state: BindingState,
    pub(super) previous: Option<String>,
    pub(super) snapshot: String,
    pub(super) decision: ClusterDecision,
    pub(super) deleting: bool,
    pub(super) held: bool,
}

pub(super) fn binding(cluster: &str, state: BindingState) -> Bound {
    Bound {
        name: format!("b-{cluster}"),
        cluster: cluster.into(),
        state,
        previous: None,
        snapshot: "app-0".into(),
        decision: ClusterDecision {
            cluster_name: cluster.into(),
            selected: true,
            cluster_score: Some(ClusterScore {
                affinity_score: Some(0),
                priority_score: Some(0),
            }),
            reason: "picked".into(),
        },
        deleting: false,
        held: true,
    }
}

impl Bound {
    pub(super) fn score(mut self, priority: i32, affinity: i32) -> Self {
        self.decision.cluster_score = Some(ClusterScore {
            affinity_score: Some(affinity),
            priority_score: Some(priority),
        });
        self
    }
    pub(super) fn of(mut self, snapshot: &str) -> Self {
        self.snapshot = snapshot.into();
        self
    }
    pub(super) fn previous(mut self, state: &str) -> Self {
        self.previous = Some(state.into());
        self
    }
    pub(super) fn view(&self) -> Binding<'_> {
        Binding {
            name: &self.name,
            uid: &self.name,
            cluster: &self.cluster,
            state: &self.state,
            previous_state: self.previous.as_deref(),
            snapshot: &self.snapshot,
            decision: &self.decision,
            deleting: self.deleting,
            held: self.held,
        }
    }
}

/// A hub in memory: does what plans say.
#[derive(Debug, Clone)]
pub(super) struct Hub {
    pub(super) key: PlacementKey,
    pub(super) members: Vec<Member>,
    pub(super) bindings: Vec<Bound>,
    pub(super) snapshot: String,
    pub(super) policy: Option<PlacementPolicy>,
    pub(super) number: Option<String>,
    pub(super) generation: Option<String>,
    pub(super) status: Option<PolicySnapshotStatus>,
    pub(super) settings: SchedulerSettings,
    pub(super) now: Timestamp,
}

pub(super) fn hub(policy: Option<PlacementPolicy>) -> Hub {
    Hub {
        key: PlacementKey::new(None, "app").unwrap(),
        members: fleet(),
        bindings: Vec::new(),
        snapshot: "app-0".into(),
        number: policy
            .as_ref()
            .and_then(|policy| policy.number_of_clusters)
            .map(|n| n.to_string()),
        policy,
        generation: Some("1".into()),
        status: None,
        settings: SchedulerSettings::default(),
        now: NOW,
    }
}

pub(super) fn pick_all() -> PlacementPolicy {
    PlacementPolicy::default()
}

pub(super) fn pick_n(n: i32) -> PlacementPolicy {
    PlacementPolicy {
        placement_type: PlacementType::PickN,
        number_of_clusters: Some(n),
        ..PlacementPolicy::default()
    }
}

pub(super) fn pick_fixed(names: &[&str]) -> PlacementPolicy {
    PlacementPolicy {
        placement_type: PlacementType::PickFixed,
        cluster_names: names.iter().map(ToString::to_string).collect(),
        ..PlacementPolicy::default()
    }
}

/// A policy with parts written as users write them.
pub(super) fn with(policy: PlacementPolicy, parts: &serde_json::Value) -> PlacementPolicy {
    let mut json = serde_json::to_value(policy).unwrap();
    json.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
    serde_json::from_value(json).unwrap()
}

impl Hub {
    pub(super) fn plan(&self) -> Plan {
        let clusters: Vec<_> = self.members.iter().map(Member::view).collect();
        let bindings: Vec<_> = self.bindings.iter().map(Bound::view).collect();
        schedule(&World {
            placement: Placement {
                key: &self.key,
                uid: "uid",
            },
            snapshot: Snapshot {
                name: &self.snapshot,
                generation: 1,
                policy: self.policy.as_ref(),
                number_of_clusters: self.number.as_deref(),
                placement_generation: self.generation.as_deref(),
                status: self.status.as_ref(),
            },
            clusters: &clusters,
            bindings: &bindings,
            now: self.now,
            settings: self.settings,
        })
    }

    /// Plans and does it.
    pub(super) fn run(&mut self) -> Plan {
        let plan = self.plan();
        for name in &plan.release {
            self.bindings.retain(|binding| binding.name != *name);
        }
        let find = |bindings: &mut Vec<Bound>, name: &str| -> usize {
            bindings.iter().position(|binding| binding.name == name).unwrap()
        };
        for Create {
            binding,
            cluster,
            decision,
        } in plan.create.clone()
        {
            assert!(
                self.bindings.iter().all(|b| b.name != binding),
                "{binding} is there already"
            );
            self.bindings.push(Bound {
                name: binding,
                decision,
                snapshot: self.snapshot.clone(),
                ..super::tests::binding(&cluster, BindingState::Scheduled)
            });
        }
        for Patch {
            binding,
            state,
            restored,
            decision,
            ..
        } in plan.patch.clone()
        {
            let at = find(&mut self.bindings, &binding);
            let bound = &mut self.bindings[at];
            (bound.state, bound.decision, bound.snapshot) = (state, decision, self.snapshot.clone());
            if restored {
                bound.previous = None;
            }
        }
        for Unschedule { binding, previous, .. } in plan.vacate.iter().chain(&plan.unschedule) {
            let at = find(&mut self.bindings, binding);
            let bound = &mut self.bindings[at];
            (bound.state, bound.previous) = (BindingState::Unscheduled, Some(previous.to_string()));
        }
        if plan.status_changed {
            self.status.clone_from(&plan.status);
        }
        plan
    }

    /// What rollout does to every binding sooner or later.
    pub(super) fn roll_out(&mut self) {
        for binding in &mut self.bindings {
            if binding.state == BindingState::Scheduled {
                binding.state = BindingState::Bound;
            }
        }
    }

    /// A new policy makes a new snapshot, without a status.
    pub(super) fn set_policy(&mut self, policy: PlacementPolicy) {
        let index: u32 = self.snapshot.rsplit_once('-').unwrap().1.parse().unwrap();
        self.snapshot = format!("app-{}", index + 1);
        self.number = policy.number_of_clusters.map(|n| n.to_string());
        self.policy = Some(policy);
        self.status = None;
    }

    pub(super) fn member(&mut self, part: &str) -> &mut Member {
        self.members
            .iter_mut()
            .find(|member| member.name.contains(part))
            .unwrap()
    }

    /// The placement's clusters, by name.
    pub(super) fn clusters(&self) -> Vec<&str> {
        let live = |b: &&Bound| !b.deleting && b.state != BindingState::Unscheduled;
        let mut names: Vec<_> = self.bindings.iter().filter(live).map(|b| b.cluster.as_str()).collect();
        names.sort_unstable();
        names
    }
}

/// `+name` for each selected and `-name` for each other decision, in order; names up to the second dash.
pub(super) fn decisions(plan: &Plan) -> String {
    let decisions = &plan.status.as_ref().unwrap().target_clusters;
    let show = |d: &ClusterDecision| format!("{}{}", if d.selected { '+' } else { '-' }, short(&d.cluster_name));
    decisions.iter().map(show).collect::<Vec<_>>().join(" ")
}

/// `cluster-7-west-canary` is `7`, other names are themselves.
pub(super) fn short(name: &str) -> &str {
    name.strip_prefix("cluster-")
        .and_then(|rest| rest.split('-').next())
        .unwrap_or(name)
}

/// The reason given for a cluster.
pub(super) fn reason<'a>(plan: &'a Plan, cluster: &str) -> &'a str {
    let decisions = &plan.status.as_ref().unwrap().target_clusters;
    &decisions
        .iter()
        .find(|d| short(&d.cluster_name) == cluster)
        .unwrap()
        .reason
}

/// `(affinity, spread)` of a cluster.
pub(super) fn score(plan: &Plan, cluster: &str) -> (i32, i32) {
    let decisions = &plan.status.as_ref().unwrap().target_clusters;
    let decision = decisions.iter().find(|d| short(&d.cluster_name) == cluster).unwrap();
    let score = decision.cluster_score.as_ref().unwrap();
    (score.affinity_score.unwrap(), score.priority_score.unwrap())
}

/// Status and message of the condition.
pub(super) fn condition(plan: &Plan) -> String {
    let condition = &plan.status.as_ref().unwrap().conditions[0];
    format!("{} {}: {}", condition.status, condition.reason, condition.message)
}

pub(super) fn found(n: usize) -> String {
    format!(
        "True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found {n} cluster(s)"
    )
}

pub(super) fn missing(n: usize) -> String {
    format!(
        "False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling policy, \
         found {n} cluster(s) instead"
    )
}
