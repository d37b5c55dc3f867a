//! Works that belong to no binding: what placed them is gone, and nobody will remove them.

use fleet_api::labels;

use super::fleet::{Fleet, get};

/// The Works of a member whose binding does not exist, by name. Only those of the family that is looked at; none while no
/// bindings are known at all, since then they may only not have been read.
pub fn on<'a>(fleet: &Fleet<'a>, cluster: &str) -> Vec<&'a str> {
    if fleet.bindings.is_empty() {
        return Vec::new();
    }
    let namespace = format!("fleet-member-{cluster}");
    let works = fleet.works.iter().filter(|work| {
        let labelled = work.metadata.labels.as_ref();
        let binding = get(labelled, labels::PARENT_BINDING);
        work.metadata.namespace.as_deref() == Some(&namespace)
            && work.metadata.deletion_timestamp.is_none()
            && get(labelled, labels::PARENT_PLACEMENT_NAMESPACE) == fleet.namespace
            && !fleet.bindings.iter().any(|known| known.name() == binding)
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
