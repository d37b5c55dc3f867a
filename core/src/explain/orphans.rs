//! Works that belong to no binding: what placed them is gone, and nobody will remove them.

use fleet_api::labels;

use super::chain::{Cause, Chain, Step};
use super::fleet::{Fleet, get};
use super::names::Names;

/// The command that shows the Works of a placement on a member.
pub(super) const LOOK: &str =
    "kubectl get works -n fleet-member-{cluster} -l kubernetes-fleet.io/parent-CRP={name} -o yaml";

/// Explains a Work whose placement does not exist.
pub fn orphan(cluster: &str, work: &str, namespace: &str, placement: &str) -> Chain {
    let names = Names {
        namespace,
        placement,
        cluster,
        ..Names::default()
    };
    let mut chain = Chain::new(format!("work/{work} -n fleet-member-{cluster}"));
    let text = "the Work is an orphan: {placement}{n} is gone, and nobody keeps or removes its objects on {cluster}";
    chain.push(Step::done("Found", ""));
    chain.push(Step::failed("Placed", Cause::new(names.fill(text), names.fill(LOOK))));
    chain
}

/// The Works of a member whose placement is gone, and those of the family that is looked at whose binding does not exist, by
/// name. While no bindings are known at all they may only not have been read.
pub fn on<'a>(fleet: &Fleet<'a>, cluster: &str) -> Vec<&'a str> {
    let member = format!("fleet-member-{cluster}");
    let works = fleet.works.iter().filter(|work| {
        let label = |key| get(work.metadata.labels.as_ref(), key);
        let namespace = label(labels::PARENT_PLACEMENT_NAMESPACE);
        let is_unbound = || {
            let binding = label(labels::PARENT_BINDING);
            !fleet.bindings.is_empty()
                && namespace == fleet.namespace
                && !fleet.bindings.iter().any(|known| known.name() == binding)
        };
        work.metadata.namespace.as_deref() == Some(&member)
            && work.metadata.deletion_timestamp.is_none()
            && (fleet.gone.contains(&(namespace, label(labels::PARENT_PLACEMENT))) || is_unbound())
    });
    works.filter_map(|work| work.metadata.name.as_deref()).collect()
}

/// `1 Work belongs to no binding`, `2 Works belong to no binding`.
pub(super) fn sentence(works: usize) -> String {
    match works {
        1 => "1 Work belongs to no binding".into(),
        works => format!("{works} Works belong to no binding"),
    }
}
