//! The last stage: the placement leaves clusters that it no longer picks. All at once, and without tasks.

use fleet_api::conditions::update_run::Abort;
use fleet_api::conditions::update_stage::ClusterSucceeded;
use fleet_api::placement::{BindingState, ClusterUpdatingStatus, StageStatus};

use super::clusters::Flight;
use super::pass::Pass;
use super::state::ClusterEntry as _;
use super::step::{BindingAction, BindingWrite};
use super::world::Binding;

/// Whether clusters may be begun with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    Yes,
    No,
}

/// How the removals fare. Bindings that are Unscheduled but not listed are the next run's.
pub(super) fn look(pass: &mut Pass<'_>, stage: &mut StageStatus, begin: Begin) -> Flight {
    let contradictions = stage.clusters.iter().filter_map(|cluster| contradiction(pass, cluster));
    let mut flight = Flight::failed(contradictions.collect());
    if !flight.aborts.is_empty() {
        return flight;
    }
    for (place, cluster) in stage.clusters.iter_mut().enumerate() {
        if cluster.outcome() != Some(true) {
            remove(pass, place, cluster, begin, &mut flight);
        }
    }
    flight
}

/// A cluster that the status says is being left, and whose binding nobody deletes.
fn contradiction(pass: &Pass<'_>, cluster: &ClusterUpdatingStatus) -> Option<Abort> {
    let under_way = cluster.is_started() && cluster.outcome() != Some(true);
    let mut bindings = of_cluster(pass, &cluster.cluster_name);
    let picked = of_cluster(pass, &cluster.cluster_name).any(Binding::is_picked);
    (under_way && !picked && bindings.any(is_leaving)).then(|| Abort::NotDeleting {
        cluster: cluster.cluster_name.clone(),
    })
}

fn of_cluster<'a>(pass: &Pass<'a>, cluster: &str) -> impl Iterator<Item = &'a Binding<'a>> {
    let bindings = pass.world.bindings.iter();
    bindings.filter(move |binding| binding.spec.target_cluster == cluster)
}

fn is_leaving(binding: &Binding<'_>) -> bool {
    !binding.deleting && binding.spec.state == BindingState::Unscheduled
}

fn remove(pass: &mut Pass<'_>, place: usize, cluster: &mut ClusterUpdatingStatus, begin: Begin, flight: &mut Flight) {
    let name = cluster.cluster_name.clone();
    let bindings: Vec<_> = of_cluster(pass, &name).collect();
    if bindings.iter().any(|binding| binding.is_picked()) {
        return cluster.end(pass.pen, &ClusterSucceeded::SkippedSelected);
    }
    if bindings.is_empty() {
        let at = cluster.started_at().unwrap_or(pass.now());
        cluster.start(pass.pen, at);
        return cluster.end(pass.pen, &ClusterSucceeded::Succeeded);
    }
    let left: Vec<_> = bindings.into_iter().filter(|binding| is_leaving(binding)).collect();
    if !cluster.is_started() && !left.is_empty() {
        if begin == Begin::No {
            return;
        }
        if !pass.is_open(&name) {
            return;
        }
        if left.iter().any(|binding| pass.is_refused(binding)) {
            return flight.add(place, &name, None, "could not be deleted".to_owned());
        }
        for binding in left {
            pass.step
                .bindings
                .push(BindingWrite::new(binding, BindingAction::Delete));
        }
    }
    let since = cluster.started_at().unwrap_or(pass.now());
    cluster.start(pass.pen, since);
    let since = cluster.started_at().map(|since| pass.since(&name, since));
    flight.add(place, &name, since, "its binding is still being deleted".to_owned());
}
