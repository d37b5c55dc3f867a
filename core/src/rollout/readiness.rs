//! What a binding's conditions say about its cluster.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use fleet_api::conditions::binding::{
    Applied, Available, DiffReported, NOT_TRACKABLE_REASONS, Overridden, WorkSynchronized,
};
use fleet_api::conditions::{self, Status, Words as _};

/// How a cluster fares with what its binding asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It has the resources, and they work.
    Ready,
    /// It has the resources, nobody can tell whether they work, and they have not been there for long enough. They may
    /// serve already, so a change is not free; they may not, so it does not count as available.
    Settling {
        /// When they will have been.
        until: Timestamp,
    },
    /// It is on its way, or not available for the time being.
    InProgress {
        /// The reason of the condition that says so.
        reason: String,
    },
    /// It has failed; only a change can help.
    Failed {
        /// The reason of the condition that says so.
        reason: String,
    },
    /// It has never been heard to be ready, and nothing is known about the binding of today.
    Unheard,
    /// It was ready for an earlier generation of the binding. It may still serve, so a change is not free; it may not,
    /// so it does not count as available. Ends with the work generator's next word.
    Unsure,
}

impl Readiness {
    /// Whether it counts as available.
    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }

    /// Whether changing or removing it cannot lower availability.
    ///
    /// Not a matter of why it is not ready: a fix for a bad image must get through to where the image is bad.
    pub fn is_free(&self) -> bool {
        !matches!(self, Self::Ready | Self::Settling { .. } | Self::Unsure)
    }

    /// Whether it is, or may become, one of the clusters that hold the resources.
    pub fn can_be_ready(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }
}

/// The readiness that `list` tells about the binding's `generation`, and whether the binding reports differences
/// instead of applying.
///
/// A binding that is being deleted is judged by what was last said about it, whatever the generation: nobody renews
/// its conditions, and it serves until it is gone.
pub fn readiness(
    list: &[Condition],
    generation: i64,
    deleting: bool,
    unavailable_period: SignedDuration,
    now: Timestamp,
) -> (Readiness, bool) {
    let said = |type_name| {
        let condition = if deleting {
            conditions::find(list, type_name)
        } else {
            conditions::fresh(list, type_name, generation)
        };
        condition.map(|c| (Status::of(c), c))
    };
    let diff = said(DiffReported::TYPE);
    (judge(list, diff, &said, unavailable_period, now), diff.is_some())
}

fn judge<'a>(
    list: &[Condition],
    diff: Option<(Status, &'a Condition)>,
    said: &impl Fn(&'static str) -> Option<(Status, &'a Condition)>,
    unavailable_period: SignedDuration,
    now: Timestamp,
) -> Readiness {
    // Whatever the differences are: the user asked to be told, not for them to be removed.
    if let Some((Status::True, _)) = diff {
        return Readiness::Ready;
    }
    if let Some((Status::True, available)) = said(Available::TYPE) {
        if !NOT_TRACKABLE_REASONS.contains(&available.reason.as_str()) {
            return Readiness::Ready;
        }
        let until = available
            .last_transition_time
            .0
            .saturating_add(unavailable_period)
            .unwrap_or(Timestamp::MAX);
        return if until <= now {
            Readiness::Ready
        } else {
            Readiness::Settling { until }
        };
    }
    for type_name in [Overridden::TYPE, WorkSynchronized::TYPE, Applied::TYPE, Available::TYPE] {
        if let Some((Status::False, condition)) = said(type_name) {
            let reason = condition.reason.clone();
            return if in_progress(condition) {
                Readiness::InProgress { reason }
            } else {
                Readiness::Failed { reason }
            };
        }
    }
    if let Some((Status::False, condition)) = diff {
        return Readiness::InProgress {
            reason: condition.reason.clone(),
        };
    }
    let was = |type_name| conditions::find(list, type_name).is_some_and(|c| Status::of(c) == Status::True);
    if was(Available::TYPE) || was(DiffReported::TYPE) {
        Readiness::Unsure
    } else {
        Readiness::Unheard
    }
}

/// Whether a False condition only means "not yet".
fn in_progress(condition: &Condition) -> bool {
    let reason = condition.reason.as_str();
    let failed = Applied::Failed { work: String::new() };
    // `NotAllWorkHaveBeenApplied` is one reason for two states; only the sentence tells them apart.
    let not_applied_yet = reason == failed.reason() && !condition.message.contains("has failed to apply");
    let not_available_yet = Available::NotYet { work: String::new() }.reason();
    reason == Applied::InProgress.reason() || reason == not_available_yet || not_applied_yet
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn condition(line: &str) -> Condition {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default().to_owned();
        let (type_, status) = (word(), word());
        let (status, generation) = status.split_once('@').expect("status@generation");
        Condition {
            type_,
            status: status.into(),
            observed_generation: Some(generation.parse().expect("a generation")),
            reason: word(),
            message: word(),
            last_transition_time: Time(Timestamp::from_second(1000).expect("a time")),
        }
    }

    fn at(lines: &[&str], deleting: bool, period: i64, now: i64) -> (Readiness, bool) {
        let list: Vec<_> = lines.iter().map(|line| condition(line)).collect();
        let now = Timestamp::from_second(now).expect("a time");
        readiness(&list, 2, deleting, SignedDuration::from_secs(period), now)
    }

    fn ready(lines: &[&str]) -> Readiness {
        at(lines, false, 60, 1035).0
    }

    #[test]
    fn a_condition_of_an_older_generation_says_nothing_of_today() {
        assert_eq!(ready(&["Available True@2 AllWorkAreAvailable"]), Readiness::Ready);
        assert_eq!(ready(&["Available True@1 AllWorkAreAvailable"]), Readiness::Unsure);
        assert_eq!(
            ready(&["DiffReported True@1 AllWorkHaveDiffReported"]),
            Readiness::Unsure
        );
        assert_eq!(ready(&["Applied False@1 ApplyInProgress"]), Readiness::Unheard);
        assert_eq!(ready(&[]), Readiness::Unheard);
    }

    #[test]
    fn a_deleting_binding_is_judged_by_its_last_words() {
        assert_eq!(
            at(&["Available True@1 AllWorkAreAvailable"], true, 60, 1035).0,
            Readiness::Ready
        );
        let failed = at(&["WorkSynchronized False@1 SyncWorkFailed"], true, 60, 1035).0;
        assert_eq!(
            failed,
            Readiness::Failed {
                reason: "SyncWorkFailed".into()
            }
        );
    }

    #[test]
    fn what_cannot_be_tracked_is_ready_after_the_period() {
        let lines = ["Available True@2 NotAllWorkAreAvailabilityTrackable"];
        let until = Timestamp::from_second(1060).expect("a time");
        let settling = at(&lines, false, 60, 1035).0;
        assert_eq!(settling, Readiness::Settling { until });
        assert!(!settling.is_ready() && !settling.is_free() && settling.can_be_ready());
        assert_eq!(at(&lines, false, 60, 1060).0, Readiness::Ready);
        assert_eq!(at(&lines, false, 0, 1000).0, Readiness::Ready);
    }

    #[test]
    fn reported_differences_are_ready_whatever_they_are() {
        assert_eq!(
            at(&["DiffReported True@2 AllWorkHaveDiffReported"], false, 60, 0),
            (Readiness::Ready, true)
        );
        let both = [
            "DiffReported False@2 DiffReportInProgress",
            "Available True@2 AllWorkAreAvailable",
        ];
        assert_eq!(at(&both, false, 60, 0), (Readiness::Ready, true));
        let going = at(&["DiffReported False@2 DiffReportInProgress"], false, 60, 0);
        assert_eq!(
            going,
            (
                Readiness::InProgress {
                    reason: "DiffReportInProgress".into()
                },
                true
            )
        );
    }

    #[test]
    fn on_its_way_is_not_failed() {
        for (line, failed) in [
            ("Applied False@2 ApplyInProgress Resources are being applied", false),
            (
                "Applied False@2 NotAllWorkHaveBeenApplied Work object w has not yet completed the apply op",
                false,
            ),
            (
                "Applied False@2 NotAllWorkHaveBeenApplied Work object w has failed to apply",
                true,
            ),
            (
                "Available False@2 NotAllWorkAreAvailable Work object w is not yet available",
                false,
            ),
            ("Overridden False@2 OverriddenFailed x", true),
            ("WorkSynchronized False@2 SyncWorkFailed x", true),
        ] {
            let readiness = ready(&[line]);
            assert_eq!(matches!(readiness, Readiness::Failed { .. }), failed, "{line}");
            assert!(readiness.is_free(), "{line}");
        }
    }
}
