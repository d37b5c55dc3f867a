//! Why a placement as a whole is not where it should be.

use fleet_api::conditions::placement::Step as Stage;
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{PerClusterPlacementStatus, RolloutStrategyType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::chain::{Cause, Chain, Step};
use super::cluster::{placement_on, reports_diff};
use super::fleet::{Fleet, Placement};
use super::names::{Names, clusters, few};
use super::{reasons, rollout, scheduling, selectors};

/// Explains a placement.
pub fn placement(fleet: &Fleet<'_>, name: &str) -> Chain {
    let names = Names {
        placement: name,
        ..fleet.names()
    };
    let mut chain = Chain::new(names.fill("{placement}"));
    let Some(placement) = fleet.placement(name) else {
        let text = names.fill("there is no {placement}");
        chain.push(Step::failed(
            "Found",
            Cause::new(text, "kubectl get crp; kubectl get rp -A"),
        ));
        return chain;
    };
    chain.push(Step::done("Found", "").since(placement.meta.creation_timestamp.as_ref()));
    if placement.deleting() {
        chain.push(deleting(fleet, &placement, &names));
        return chain;
    }
    let list = conditions_of(&placement);
    let scheduled = conditions::fresh(
        list,
        Stage::Scheduled.on_placement(fleet.scope()),
        placement.generation(),
    );
    chain.push(seen(list, scheduled));
    chain.push(selected(&placement, scheduled, &names));
    chain.push(picked(fleet, &placement, scheduled, &names));
    for stage in Stage::expected(reports_diff(&placement)) {
        chain.push(one(fleet, &placement, *stage, &names));
    }
    copied(list, &names, &mut chain);
    chain
}

fn conditions_of<'a>(placement: &Placement<'a>) -> &'a [Condition] {
    placement
        .status
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default()
}

/// Whether the hub agent has looked at the placement as it is now.
fn seen(list: &[Condition], scheduled: Option<&Condition>) -> Step {
    let text = match (list.is_empty(), scheduled) {
        (_, Some(_)) => return Step::done("Seen", ""),
        (true, None) => "the hub agent has not seen the placement: is it running, and does one replica lead?",
        (false, None) => "the hub agent has not looked at the latest change yet",
    };
    Step::waiting("Seen", Cause::new(text, "kubectl -n fleet-system get pods,lease"))
}

fn selected(placement: &Placement<'_>, scheduled: Option<&Condition>, names: &Names<'_>) -> Step {
    let invalid = scheduled.filter(|condition| condition.reason == "InvalidResourceSelectors");
    if let Some(condition) = invalid {
        return Step::failed("Selected", selectors::cause(condition, names))
            .since(Some(&condition.last_transition_time));
    }
    let objects = placement.status.map_or(0, |status| status.selected_resources.len());
    let objects = match objects {
        1 => "1 object".to_owned(),
        objects => format!("{objects} objects"),
    };
    Step::done("Selected", objects)
}

fn picked(fleet: &Fleet<'_>, placement: &Placement<'_>, scheduled: Option<&Condition>, names: &Names<'_>) -> Step {
    let name = Stage::Scheduled.on_cluster();
    let Some(condition) = scheduled else {
        return Step::waiting(
            name,
            Cause::new(
                "the scheduler has not decided yet",
                "kubectl -n fleet-system logs deploy/hub-agent",
            ),
        );
    };
    let found = placement.entries().count();
    let since = Some(&condition.last_transition_time);
    match Status::of(condition) {
        Status::True if found > 0 => Step::done(name, clusters(found)).since(since),
        Status::True => Step::waiting(name, scheduling::too_few(fleet, placement).holding("everything")).since(since),
        Status::Unknown => reasons::step(name, condition, names),
        Status::False => {
            let rest = match found {
                0 => "everything".to_owned(),
                found => format!("nothing on the {} found", clusters(found)),
            };
            Step::failed(name, scheduling::too_few(fleet, placement).holding(rest)).since(since)
        }
    }
}

/// One step of the whole. Its cause is that of the first cluster that has not come so far.
fn one(fleet: &Fleet<'_>, placement: &Placement<'_>, stage: Stage, names: &Names<'_>) -> Step {
    let name = stage.on_cluster();
    let type_name = stage.on_placement(fleet.scope());
    let condition = conditions::fresh(conditions_of(placement), type_name, placement.generation());
    let all = placement.entries().count();
    if let Some(condition) = condition.filter(|condition| Status::of(condition) == Status::True) {
        return Step::done(name, clusters(all)).since(Some(&condition.last_transition_time));
    }
    let since = condition.map(|condition| &condition.last_transition_time);
    let behind: Vec<&str> = placement
        .entries()
        .filter(|entry| !is_met(entry, stage, placement.generation()))
        .map(|entry| entry.cluster_name.as_str())
        .collect();
    let holds_back = match behind.len() {
        0 => String::new(),
        count => format!("{count} of {} ({})", clusters(all), few(behind.iter().copied())),
    };
    let first = behind.iter().find_map(|cluster| {
        let chain = placement_on(fleet, placement.name(), cluster);
        let step = chain.first_unmet()?;
        Some((step.verdict, (*cluster).to_owned(), step.cause.clone()?))
    });
    if let Some((verdict, cluster, cause)) = first {
        let text = if cause.text.starts_with(&cluster) {
            cause.text
        } else {
            format!("{cluster}: {}", cause.text)
        };
        return Step::unmet(name, verdict, Cause::new(text, cause.next).holding(holds_back)).since(since);
    }
    if stage == Stage::RolloutStarted && placement.spec.rollout_type() == RolloutStrategyType::External {
        let cause = rollout::without_run(fleet, placement, names).holding(holds_back);
        return Step::waiting(name, cause).since(since);
    }
    match condition {
        Some(condition) => {
            let mut step = reasons::step(name, condition, names);
            if let Some(cause) = step.cause.as_mut() {
                cause.holds_back = holds_back;
            }
            step
        }
        None => Step::waiting(
            name,
            Cause::new(
                "the hub agent has not come to it yet",
                "kubectl -n fleet-system logs deploy/hub-agent",
            ),
        ),
    }
}

fn is_met(entry: &PerClusterPlacementStatus, stage: Stage, generation: i64) -> bool {
    conditions::is_true(&entry.conditions, stage.on_cluster(), generation)
}

fn deleting(fleet: &Fleet<'_>, placement: &Placement<'_>, names: &Names<'_>) -> Step {
    let since = placement.meta.deletion_timestamp.as_ref();
    let left: Vec<&str> = fleet
        .bindings_of(placement.name())
        .map(|binding| binding.spec.target_cluster.as_str())
        .collect();
    let Some(first) = left.first() else {
        let text = "the placement is deleted, and its snapshots are being removed";
        return Step::waiting(
            "Deleted",
            Cause::new(text, names.fill("kubectl get {placement}{n} -o yaml")),
        )
        .since(since);
    };
    let text = format!(
        "the placement is deleted, and still on {}: {}",
        clusters(left.len()),
        few(left.iter().copied())
    );
    let next = Names {
        cluster: first,
        ..names.clone()
    };
    Step::waiting(
        "Deleted",
        Cause::new(text, next.fill("kubectl fleet why {placement} {cluster}{n}")),
    )
    .since(since)
}

/// The copy of the status in the namespace stops nothing.
fn copied(list: &[Condition], names: &Names<'_>, chain: &mut Chain) {
    let copied = conditions::find(list, conditions::placement::StatusSynced::TYPE);
    if let Some(failed) = copied.filter(|condition| Status::of(condition) == Status::False) {
        let cause = reasons::cause(failed, names);
        chain.note(cause.text, cause.next);
    }
}
