//! The list of decisions that users read: who is picked, and of the others as many as there is room for.

use std::collections::HashSet;

use fleet_api::conditions::decision::{Decision, Rejection, Scores};
use fleet_api::placement::{ClusterDecision, ClusterScore};

/// How many decisions the API admits.
pub const DECISIONS_MAX: usize = 1000;
/// How many of them may be about clusters that were not picked by score or passed no filter.
pub const UNSELECTED_MAX: usize = 20;

/// The decision for a picked cluster. A named target has no scores.
pub(super) fn picked(cluster: &str, scores: Option<Scores>) -> ClusterDecision {
    decide(
        cluster,
        true,
        scores,
        &Decision::Picked {
            cluster: cluster.into(),
            scores,
        },
    )
}

/// The decision for a named target that cannot be used or is not there.
pub(super) fn unavailable(cluster: &str, why: &Decision) -> ClusterDecision {
    decide(cluster, false, None, why)
}

/// The beginning of a list: the picked clusters, each once.
pub(super) fn selected(decisions: impl IntoIterator<Item = ClusterDecision>) -> Vec<ClusterDecision> {
    let mut seen = HashSet::new();
    decisions
        .into_iter()
        .filter(|decision| seen.insert(decision.cluster_name.clone()))
        .take(DECISIONS_MAX)
        .collect()
}

/// Goes on with what was said before of clusters that were not picked, as far as they still are in the fleet: nobody looked
/// at them again, and users still ask why.
pub(super) fn keep_explanations(
    list: &mut Vec<ClusterDecision>,
    before: &[ClusterDecision],
    exists: impl Fn(&str) -> bool,
) {
    let kept = before
        .iter()
        .filter(|decision| !decision.selected && exists(&decision.cluster_name));
    go_on(list, kept.cloned());
}

/// Goes on with clusters that others outscored, best first, and then with those that a filter rejected, by name. A cluster
/// that is already listed is passed over, and the next one takes its room.
pub(super) fn explain<'a>(
    list: &mut Vec<ClusterDecision>,
    outscored: impl IntoIterator<Item = (&'a str, Scores)>,
    filtered: impl IntoIterator<Item = (&'a str, Rejection)>,
) {
    let outscored = outscored.into_iter().map(|(cluster, scores)| {
        (
            cluster,
            Some(scores),
            Decision::Outscored {
                cluster: cluster.into(),
                scores,
            },
        )
    });
    let filtered = filtered
        .into_iter()
        .map(|(cluster, why)| (cluster, None, Decision::Filtered(why)));
    let all = outscored.chain(filtered);
    go_on(
        list,
        all.map(|(cluster, scores, why)| decide(cluster, false, scores, &why)),
    );
}

/// Adds decisions about clusters that are not in the list yet, as many as there is room for.
fn go_on(list: &mut Vec<ClusterDecision>, more: impl Iterator<Item = ClusterDecision>) {
    // The list may have been cut, and then there is no room for explanations anyway.
    let room = UNSELECTED_MAX.min(DECISIONS_MAX.saturating_sub(list.len()));
    let listed: HashSet<String> = list.iter().map(|decision| decision.cluster_name.clone()).collect();
    list.extend(
        more.filter(|decision| !listed.contains(&decision.cluster_name))
            .take(room),
    );
}

fn decide(cluster: &str, selected: bool, scores: Option<Scores>, why: &Decision) -> ClusterDecision {
    ClusterDecision {
        cluster_name: cluster.into(),
        selected,
        // On the wire the spread's score has always been called priority.
        cluster_score: scores.map(|Scores { affinity, spread }| ClusterScore {
            affinity_score: Some(affinity),
            priority_score: Some(spread),
        }),
        reason: why.to_string(),
    }
}
