//! Why clusters are picked or not: the scheduler's own filters, asked again, and its decisions.

use fleet_api::cluster::{MemberCluster, Taint};
use fleet_api::conditions::decision::{Ineligible, Rejection};
use fleet_api::placement::{ClusterDecision, PlacementPolicy, PlacementType};

use super::affinity;
use super::chain::Cause;
use super::fleet::{Fleet, Placement, Policy, span};
use super::names::{Names, clusters, few};
use super::shell::quoted;
use crate::rollup::PolicyView;
use crate::scheduler::Cluster;
use crate::scheduler::plugins::Filters;

/// Why a placement does not pick this cluster; none if the scheduler has not decided yet.
pub(crate) fn unpicked(fleet: &Fleet<'_>, placement: &Placement<'_>, cluster: &str) -> Option<Cause> {
    let names = names(fleet, placement, cluster);
    let fill = |text: &str| names.fill(text);
    let snapshot = fleet.policy(placement.name());
    let policy = snapshot.map_or(placement.spec.policy.as_ref(), |snapshot| snapshot.spec.policy.as_ref());
    let fixed = policy.filter(|policy| policy.placement_type == PlacementType::PickFixed);
    if let Some(policy) = fixed.filter(|policy| !policy.cluster_names.iter().any(|name| name == cluster)) {
        let wanted = few(policy.cluster_names.iter().map(String::as_str));
        let text = format!("the placement names its clusters, and {cluster} is not among them ({wanted})");
        return Some(Cause::new(text, fill("kubectl edit {placement}{n}")));
    }
    let decided = || {
        let decision = snapshot.and_then(|snapshot| decision(&snapshot, cluster));
        decision.map(|decision| undecided(&decision.reason, cluster, &names))
    };
    let Some(member) = fleet.member(cluster) else {
        if fleet.members_unread {
            return decided();
        }
        let text = format!("the fleet has no member {cluster}");
        // A policy may name what no member can be called.
        let next = if can_be_called(cluster) {
            fill("kubectl fleet join {cluster}")
        } else {
            fill("kubectl edit {placement}{n}")
        };
        return Some(Cause::new(text, next));
    };
    if let Some(rejection) = rejection(fleet, policy, member) {
        return Some(rejected(fleet, policy, member, &rejection, &names));
    }
    decided()
}

/// Whether a member may have this name.
fn can_be_called(name: &str) -> bool {
    let first = name.bytes().next();
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    first.is_some_and(known) && name.bytes().all(|byte| known(byte) || b"-.".contains(&byte))
}

fn names<'a>(fleet: &Fleet<'a>, placement: &Placement<'a>, cluster: &'a str) -> Names<'a> {
    Names {
        placement: placement.name(),
        cluster,
        ..fleet.names()
    }
}

fn decision<'a>(snapshot: &Policy<'a>, cluster: &str) -> Option<&'a ClusterDecision> {
    let decisions = snapshot.status.iter().flat_map(|status| &status.target_clusters);
    let mut decisions = decisions.filter(|decision| !decision.selected);
    decisions.find(|decision| decision.cluster_name == cluster)
}

fn rejection(fleet: &Fleet<'_>, policy: Option<&PlacementPolicy>, member: &MemberCluster) -> Option<Rejection> {
    let namespace = Some(fleet.namespace).filter(|namespace| !namespace.is_empty());
    let filters = Filters::new(policy, namespace).ok()?;
    filters.admit(&Cluster::new(member, fleet.now)).err()
}

/// What only the decision tells: others were better, or the spread would be uneven.
fn undecided(reason: &str, cluster: &str, names: &Names<'_>) -> Cause {
    let edit = names.fill("kubectl edit {placement}{n}");
    if reason.contains("does not score high enough") {
        let text = format!("{cluster} fits, but others fit better: ask for more clusters, or prefer it");
        return Cause::new(text, edit);
    }
    if reason.contains("topology spread constraint") {
        let text = format!("one more cluster there would spread the placement too unevenly: {reason}");
        return Cause::new(text, edit);
    }
    Cause::new(reason, edit)
}

fn rejected(
    fleet: &Fleet<'_>,
    policy: Option<&PlacementPolicy>,
    member: &MemberCluster,
    why: &Rejection,
    names: &Names<'_>,
) -> Cause {
    let cluster = names.cluster;
    let edit = names.fill("kubectl edit {placement}{n}");
    match why {
        Rejection::Affinity => {
            let view = Cluster::new(member, fleet.now);
            let misses = policy
                .and_then(|policy| affinity::misses(policy, &view))
                .unwrap_or_default();
            let text = format!(
                "{cluster} does not match the required affinity: {}",
                affinity::sentence(&misses)
            );
            Cause::new(text, affinity::mend(cluster, &misses).unwrap_or(edit))
        }
        Rejection::Ineligible(why) => Cause::new(
            format!("{cluster} cannot be picked: {}", ineligible(*why)),
            names.fill("kubectl fleet why membercluster/{cluster}"),
        ),
        Rejection::Taint { key, value, effect } if is_cordon(key, value, effect) => Cause::new(
            format!("{cluster} is cordoned: nothing new is placed there"),
            names.fill("kubectl fleet uncordon {cluster}"),
        ),
        Rejection::Taint { key, value, effect } => Cause::new(
            format!("{cluster} has the taint {key}={value}:{effect}, which the placement does not tolerate"),
            edit,
        ),
        Rejection::NamespaceMissing | Rejection::NoNamespaces => Cause::new(
            format!("{cluster} does not have the namespace {} yet", names.namespace),
            format!(
                "kubectl --context {} create namespace {}",
                quoted(cluster),
                quoted(names.namespace)
            ),
        ),
        Rejection::Spread { .. } | Rejection::Property { .. } => Cause::new(format!("{cluster}: {why}"), edit),
    }
}

/// Why a cluster cannot take anything, in a few words.
pub(super) fn ineligible(why: Ineligible) -> String {
    match why {
        Ineligible::Left => "it is leaving the fleet".into(),
        Ineligible::NotOnline => "its agent has never connected".into(),
        Ineligible::HeartbeatLost(age) if age.as_secs() > 3_000_000_000 => {
            "its agent has never sent a heartbeat".into()
        }
        Ineligible::HeartbeatLost(age) => match jiff::SignedDuration::try_from(age) {
            Ok(age) => format!("it has been silent for {}", span(age)),
            Err(_) => "it is silent".into(),
        },
        Ineligible::NotJoined => "its agent has not joined".into(),
        Ineligible::NoHealth => "its agent has not said how it is".into(),
        Ineligible::Unhealthy(age) => match jiff::SignedDuration::try_from(age) {
            Ok(age) => format!("its API server has not been ready for {}", span(age)),
            Err(_) => "its API server is not ready".into(),
        },
    }
}

/// Why a placement has fewer clusters than it asks for, or none at all.
pub(super) fn too_few(fleet: &Fleet<'_>, placement: &Placement<'_>) -> Cause {
    let base = names(fleet, placement, "");
    let Some(snapshot) = fleet.policy(placement.name()) else {
        return Cause::new(
            "fewer clusters fit than the policy asks for",
            base.fill("kubectl edit {placement}{n}"),
        );
    };
    let view = PolicyView {
        generation: snapshot.generation(),
        policy: snapshot.spec.policy.as_ref(),
        number_of_clusters: snapshot
            .annotation(fleet_api::annotations::NUMBER_OF_CLUSTERS)
            .parse()
            .ok(),
        status: snapshot.status,
    };
    let missing = view.missing();
    let found = view.decisions().iter().filter(|decision| decision.selected).count();
    let picked = |name: &str| {
        let mut selected = view.decisions().iter().filter(|decision| decision.selected);
        selected.any(|decision| decision.cluster_name == name)
    };
    let lead = match (missing, found) {
        (0, 0) => "no cluster fits".to_owned(),
        (missing, found) => format!("{} found, {missing} more wanted", clusters(found)),
    };
    if let Some(policy) = view
        .policy
        .filter(|policy| policy.placement_type == PlacementType::PickFixed)
    {
        let lacking = policy.cluster_names.iter().find(|name| !picked(name));
        let why = lacking.and_then(|cluster| unpicked(fleet, placement, cluster));
        return why.map_or_else(
            || Cause::new(lead.clone(), base.fill("kubectl edit {placement}{n}")),
            |why| Cause::new(format!("{lead}: {}", why.text), why.next),
        );
    }
    if fleet.members_unread {
        let text = format!("{lead} (members cannot be read, so nobody can say why)");
        return Cause::new(text, base.fill("kubectl auth can-i list memberclusters"));
    }
    if fleet.members.is_empty() {
        return Cause::new("the fleet has no members", "kubectl fleet join <name>");
    }
    let others = fleet.members.iter().filter(|member| !picked(name(member)));
    match nearest(fleet, placement, view.policy, others.copied()) {
        Some((_, cause)) => Cause::new(format!("{lead}. Nearest: {}", cause.text), cause.next),
        None => Cause::new(
            format!("{lead}, and the fleet has no other members"),
            "kubectl fleet join <name>",
        ),
    }
}

/// The member that lacks least: of those that only the affinity keeps away the one with the fewest misses, else the first
/// of the others.
fn nearest<'a>(
    fleet: &Fleet<'_>,
    placement: &Placement<'_>,
    policy: Option<&PlacementPolicy>,
    members: impl Iterator<Item = &'a MemberCluster>,
) -> Option<(usize, Cause)> {
    let distance = |member: &MemberCluster| {
        let view = Cluster::new(member, fleet.now);
        let usable = view.ineligible.is_none();
        let misses = policy
            .and_then(|policy| affinity::misses(policy, &view))
            .unwrap_or_default();
        let mendable = misses.iter().all(|miss| miss.label.is_some());
        let score = misses.len() + if mendable { 0 } else { 100 } + if usable { 0 } else { 1000 };
        let view_name = name(member).to_owned();
        (score, view_name)
    };
    let member = members.min_by_key(|member| distance(member))?;
    let cause = unpicked(fleet, placement, name(member))?;
    Some((distance(member).0, cause))
}

fn name(member: &MemberCluster) -> &str {
    member.metadata.name.as_deref().unwrap_or_default()
}

/// Whether this is what `kubectl fleet drain` leaves and `uncordon` takes off.
fn is_cordon(key: &str, value: &str, effect: &str) -> bool {
    let cordon = Taint::cordon();
    (key, value, effect) == (&*cordon.key, &*cordon.value, cordon.effect.to_string().as_str())
}
