//! Why one object is not as it should be on a member.

use fleet_api::placement::{BindingStatus, ResourceIdentifier};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::chain::Cause;
use super::fleet::Fleet;
use super::names::{Names, object, spoken};
use super::{drift, reasons, refusals};

/// The cause of the first object in `failedPlacements` whose condition has this type, and how many others there are.
pub(super) fn first_failed(
    fleet: &Fleet<'_>,
    status: &BindingStatus,
    type_name: &str,
    names: &Names<'_>,
) -> Option<Cause> {
    let about = || {
        status
            .failed_placements
            .iter()
            .filter(|failed| failed.condition.type_ == type_name)
    };
    let failed = about().next()?;
    let id = failed.resource();
    let others = about().count() - 1;
    let mut cause = cause(fleet, status, &id, &failed.condition, names);
    if others > 0 {
        cause.text = format!("{} ({others} more objects are in trouble)", cause.text);
    }
    Some(cause)
}

/// The cause that an object's condition tells of, with its drifts or differences if there are some.
pub(super) fn cause(
    fleet: &Fleet<'_>,
    status: &BindingStatus,
    id: &ResourceIdentifier,
    condition: &Condition,
    names: &Names<'_>,
) -> Cause {
    let names = Names {
        object: object(id),
        group: id.group.clone(),
        ..names.clone()
    };
    let bare = Condition {
        message: refusals::bare(&condition.message).to_owned(),
        ..condition.clone()
    };
    let known = refusals::on_member(&bare.message, &names);
    let Cause { text, next, .. } = known.unwrap_or_else(|| reasons::cause(&bare, &names));
    let details = details(fleet, status, id, &names);
    let text = if details.is_empty() {
        format!("{}: {text}", spoken(id))
    } else {
        format!("{}: {text}: {details}", spoken(id))
    };
    Cause::new(text, next)
}

/// Which field differs, and who did it. Drifts outrank differences: they come later.
fn details(fleet: &Fleet<'_>, status: &BindingStatus, id: &ResourceIdentifier, names: &Names<'_>) -> String {
    let drifted = status
        .drifted_placements
        .iter()
        .find(|drifted| drifted.resource() == *id);
    if let Some(drifted) = drifted {
        return drift::words(fleet, names.cluster, id, &drifted.observed_drifts);
    }
    let diffed = status.diffed_placements.iter().find(|diffed| diffed.resource() == *id);
    diffed
        .map(|diffed| drift::words(fleet, names.cluster, id, &diffed.observed_diffs))
        .unwrap_or_default()
}
