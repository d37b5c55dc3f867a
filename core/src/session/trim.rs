//! Making a Work's status fit, by giving up the least useful things first, and saying so.

use std::io;

use fleet_api::conditions::{self, work::StatusTrimmed};
use fleet_api::placement::{PatchDetail, WorkStatus};
use jiff::Timestamp;

/// The JSON of a whole Work may have this many bytes.
pub const WORK_BYTES: usize = 1_415_578;
/// What the statuses of all Works of one member may come to. The hub keeps them in memory; nobody but the member says what
/// is in them.
pub const STATUSES_BYTES: usize = 16 * 1024 * 1024;
/// A status up to this size is never in the way, however many there are: a member does not say how many Works it has.
pub const STATUS_BYTES_FREE: usize = 8 * 1024;
/// Shown instead of values that were left out.
const OMITTED: &str = "(omitted)";
/// Bytes that are kept of a text where all details together were not enough.
const SHORT_TEXT: usize = 256;

/// What a status may come to where the other Works of its member have statuses of `others` bytes.
pub fn room(others: usize) -> usize {
    STATUSES_BYTES
        .saturating_sub(others)
        .clamp(STATUS_BYTES_FREE, WORK_BYTES)
}

/// Trims a status so that it has `room` and the Work with it fits, and says so in `StatusTrimmed`: first mirrored status goes,
/// then the largest lists of details, one after the other, and at last long texts of manifests are cut. The condition tells
/// the excess before trimming, and goes when all fits. `rest` is what the Work has besides
/// ([`StoredWork::bytes_without_status`](super::work::StoredWork::bytes_without_status)).
pub fn trim(room: usize, rest: usize, status: &mut WorkStatus, generation: i64, now: Timestamp) {
    trim_to(WORK_BYTES.min(rest.saturating_add(room)), rest, status, generation, now);
}

fn trim_to(limit: usize, rest: usize, status: &mut WorkStatus, generation: i64, now: Timestamp) {
    let kept = conditions::find(&status.conditions, StatusTrimmed::TYPE).cloned();
    conditions::remove(&mut status.conditions, StatusTrimmed::TYPE);
    let before = rest + count(status);
    if before <= limit {
        return;
    }
    let state = StatusTrimmed::Oversized {
        over: before - limit,
        limit,
    };
    status.conditions.extend(kept);
    conditions::set(&mut status.conditions, &state, generation, now);
    shrink(limit, rest, status);
}

/// Gives up the least useful things until the rest fits.
pub fn shrink(limit: usize, rest: usize, status: &mut WorkStatus) {
    for entry in &mut status.manifest_conditions {
        entry.back_reported_status = None;
    }
    let mut left = rest + count(status);
    let mut lists: Vec<_> = details(status).map(|list| (count(&*list), list)).collect();
    lists.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    for (size, list) in lists {
        if left <= limit {
            return;
        }
        collapse(list);
        left = left.saturating_sub(size.saturating_sub(count(&*list)));
    }
    if left > limit {
        let entries = status.manifest_conditions.iter_mut();
        let of_manifests = entries.flat_map(|entry| &mut entry.conditions);
        for condition in of_manifests.chain(&mut status.conditions) {
            let end = condition.message.floor_char_boundary(SHORT_TEXT);
            condition.message.truncate(end);
        }
        for detail in details(status).flatten() {
            let end = detail.path.floor_char_boundary(SHORT_TEXT);
            detail.path.truncate(end);
        }
    }
}

fn details(status: &mut WorkStatus) -> impl Iterator<Item = &mut Vec<PatchDetail>> {
    status.manifest_conditions.iter_mut().flat_map(|entry| {
        let drifts = entry.drift_details.as_mut().map(|details| &mut details.observed_drifts);
        let diffs = entry.diff_details.as_mut().map(|details| &mut details.observed_diffs);
        drifts.into_iter().chain(diffs)
    })
}

/// Leaves one entry of a list of details, which counts them.
fn collapse(list: &mut Vec<PatchDetail>) {
    let Some(first) = list.first() else { return };
    let path = match list.len() {
        1 => first.path.clone(),
        n => format!("{} and {} more path(s)", first.path, n - 1),
    };
    *list = vec![PatchDetail {
        path,
        value_in_member: OMITTED.into(),
        value_in_hub: OMITTED.into(),
    }];
}

/// Bytes of a value's JSON, counted without building it.
pub fn count<T: serde::Serialize + ?Sized>(value: &T) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
            self.0 += chunk.len();
            Ok(chunk.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Count(0);
    // What cannot be written cannot be too large either; the API server will say what is wrong with it.
    serde_json::to_writer(&mut counter, value).map_or(0, |()| counter.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_api::placement::{BackReportedStatus, DriftDetails, ManifestCondition, Work, WorkSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    fn work(lists: &[usize], mirrored: bool) -> Work {
        let time = || Time(Timestamp::UNIX_EPOCH);
        let entry = |count: &usize| ManifestCondition {
            drift_details: Some(DriftDetails {
                observation_time: time(),
                observed_in_member_cluster_generation: 1,
                first_drifted_observed_time: time(),
                observed_drifts: (0..*count)
                    .map(|i| PatchDetail {
                        path: format!("/p{i}"),
                        value_in_hub: "h".repeat(200),
                        ..Default::default()
                    })
                    .collect(),
            }),
            back_reported_status: mirrored.then(|| BackReportedStatus {
                observed_status: None,
                observation_time: time(),
            }),
            ..Default::default()
        };
        let status = WorkStatus {
            manifest_conditions: lists.iter().map(entry).collect(),
            ..Default::default()
        };
        Work {
            metadata: ObjectMeta::default(),
            spec: WorkSpec::default(),
            status: Some(status),
        }
    }

    fn trimmed(work: &mut Work, limit: usize) {
        let mut status = work.status.clone().unwrap();
        let rest = count(work) - count(&status);
        trim_to(limit, rest, &mut status, 3, Timestamp::UNIX_EPOCH);
        work.status = Some(status);
    }

    fn paths(work: &Work) -> Vec<(usize, String)> {
        let entries = work.status.as_ref().unwrap().manifest_conditions.iter();
        let drifts = entries.map(|entry| &entry.drift_details.as_ref().unwrap().observed_drifts);
        drifts.map(|list| (list.len(), list[0].path.clone())).collect()
    }

    #[test]
    fn the_largest_details_go_first_and_the_rest_stays() {
        let mut work = work(&[2, 50, 1], true);
        let limit = count(&work) - 1000;
        trimmed(&mut work, limit);
        assert!(count(&work) <= limit + 300, "but for the condition itself");
        assert_eq!(
            paths(&work),
            [
                (2, "/p0".to_owned()),
                (1, "/p0 and 49 more path(s)".to_owned()),
                (1, "/p0".to_owned())
            ]
        );
        let status = work.status.as_ref().unwrap();
        assert!(
            status
                .manifest_conditions
                .iter()
                .all(|entry| entry.back_reported_status.is_none())
        );
        let condition = conditions::find(&status.conditions, "StatusTrimmed").unwrap();
        assert_eq!(
            condition.message,
            format!(
                "The status data (drift/diff details and back-reported status) has been trimmed due to size \
                 constraints (1000 bytes over limit {limit})"
            )
        );
        // Back under the limit: the condition goes.
        trimmed(&mut work, WORK_BYTES);
        assert!(work.status.unwrap().conditions.is_empty());
    }

    #[test]
    fn mirrored_status_alone_may_be_enough_and_no_limit_is_too_small() {
        let mut one = work(&[3], true);
        let limit = count(&work(&[3], false)) + 400;
        trimmed(&mut one, limit);
        assert_eq!(paths(&one)[0].0, 3);
        let mut tiny = work(&[3, 4], true);
        trimmed(&mut tiny, 10);
        assert_eq!(paths(&tiny).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 1]);
    }

    #[test]
    fn a_status_has_what_the_others_leave_but_never_less_than_a_little() {
        assert_eq!(room(0), WORK_BYTES);
        assert_eq!(room(STATUSES_BYTES - 100_000), 100_000);
        assert_eq!(room(STATUSES_BYTES), STATUS_BYTES_FREE);
        assert_eq!(room(usize::MAX), STATUS_BYTES_FREE);
    }

    #[test]
    fn where_details_are_not_all_long_texts_are_cut() {
        let mut one = work(&[3], false);
        let status = one.status.as_mut().unwrap();
        let mut condition = crate::membership::fixtures::condition("Applied", "False", 1);
        condition.message = "ü".repeat(10_000);
        status.manifest_conditions[0].conditions = vec![condition];
        trimmed(&mut one, STATUS_BYTES_FREE);
        assert!(count(&one) <= STATUS_BYTES_FREE);
        let entry = &one.status.as_ref().unwrap().manifest_conditions[0];
        assert_eq!(entry.conditions[0].message, "ü".repeat(SHORT_TEXT / 2));
        assert_eq!(entry.conditions[0].status, "False", "what it says stays");
    }
}
