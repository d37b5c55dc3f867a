//! Making a Work's status fit, by giving up the least useful things first, and saying so.

use fleet_api::conditions::{self, work::StatusTrimmed};
use fleet_api::placement::{PatchDetail, Work, WorkStatus};
use jiff::Timestamp;

/// The largest Work, as JSON, whose status is written in full.
pub const WORK_MAX_BYTES: usize = 1_415_578;
/// Shown instead of values that were left out.
const OMITTED: &str = "(omitted)";

/// Trims `work.status` until the whole Work fits into `limit` bytes: first mirrored status, then the largest lists of
/// details, one after the other. The condition tells the excess before trimming; it goes when all fits.
pub fn trim(work: &mut Work, limit: usize, generation: i64, now: Timestamp) {
    let Some(status) = &mut work.status else { return };
    conditions::remove(&mut status.conditions, StatusTrimmed::TYPE);
    let before = size(work);
    if before <= limit {
        return;
    }
    let state = StatusTrimmed::Oversized {
        over: before - limit,
        limit,
    };
    let Some(status) = &mut work.status else { return };
    conditions::set(&mut status.conditions, &state, generation, now);
    for entry in &mut status.manifest_conditions {
        entry.back_reported_status = None;
    }
    let mut now_bytes = size(work);
    while now_bytes > limit {
        let Some(status) = &mut work.status else { return };
        let Some(saved) = collapse_largest(status) else { return };
        now_bytes = now_bytes.saturating_sub(saved);
    }
}

fn size<T: serde::Serialize + ?Sized>(value: &T) -> usize {
    // What cannot be written cannot be too large either; the API server will say what is wrong with it.
    serde_json::to_vec(value).map_or(0, |text| text.len())
}

/// Replaces the largest list of details by one that counts them; returns how much that saved.
fn collapse_largest(status: &mut WorkStatus) -> Option<usize> {
    let lists = status.manifest_conditions.iter_mut().flat_map(|entry| {
        let drifts = entry.drift_details.as_mut().map(|details| &mut details.observed_drifts);
        let diffs = entry.diff_details.as_mut().map(|details| &mut details.observed_diffs);
        drifts.into_iter().chain(diffs)
    });
    let (bytes, list) = lists
        .filter(|list| !is_collapsed(list))
        .map(|list| (size(&*list), list))
        .max_by_key(|(b, _)| *b)?;
    let first = list.first()?.path.clone();
    let path = if list.len() == 1 {
        first
    } else {
        format!("{first} and {} more path(s)", list.len() - 1)
    };
    *list = vec![PatchDetail {
        path,
        value_in_member: OMITTED.into(),
        value_in_hub: OMITTED.into(),
    }];
    Some(bytes.saturating_sub(size(&*list)))
}

fn is_collapsed(list: &[PatchDetail]) -> bool {
    match list {
        [] => true,
        [one] => one.value_in_hub == OMITTED && one.value_in_member == OMITTED,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_api::placement::{BackReportedStatus, DriftDetails, ManifestCondition, WorkSpec};
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

    fn paths(work: &Work) -> Vec<(usize, String)> {
        let entries = work.status.as_ref().unwrap().manifest_conditions.iter();
        let drifts = entries.map(|entry| &entry.drift_details.as_ref().unwrap().observed_drifts);
        drifts.map(|list| (list.len(), list[0].path.clone())).collect()
    }

    #[test]
    fn the_largest_details_go_first_and_the_rest_stays() {
        let mut work = work(&[2, 50, 1], true);
        let limit = size(&work) - 1000;
        trim(&mut work, limit, 3, Timestamp::UNIX_EPOCH);
        assert!(size(&work) <= limit);
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
        trim(&mut work, WORK_MAX_BYTES, 3, Timestamp::UNIX_EPOCH);
        assert!(work.status.unwrap().conditions.is_empty());
    }

    #[test]
    fn mirrored_status_alone_may_be_enough_and_no_limit_is_too_small() {
        let mut one = work(&[3], true);
        let limit = size(&work(&[3], false)) + 400;
        let before = size(&one);
        if before > limit {
            trim(&mut one, limit, 1, Timestamp::UNIX_EPOCH);
            assert_eq!(paths(&one)[0].0, 3);
        }
        let mut tiny = work(&[3, 4], true);
        trim(&mut tiny, 10, 1, Timestamp::UNIX_EPOCH);
        assert_eq!(paths(&tiny).iter().map(|(n, _)| *n).collect::<Vec<_>>(), [1, 1]);
    }
}
