//! Conditions of an update run, in the order in which they are listed. Written by the update run controller.

mod abort;

pub use abort::{Abort, InvalidTask};

/// How many stuck clusters a message names.
pub const STUCK_CLUSTERS_SHOWN: usize = 3;

states! {
    /// Whether the run's plan is made. False is final.
    pub enum Initialized = "Initialized" {
        Succeeded => True "UpdateRunInitializedSuccessfully" "The UpdateRun initialized successfully" published;
        Failed { error: String } => False "UpdateRunInitializedFailed" "{error}" published;
    }
}

states! {
    /// What the run is doing.
    pub enum Progressing = "Progressing" {
        Progressing => True "UpdateRunProgressing" "The update run is making progress";
        WaitingBefore { stage: String } => False "UpdateRunWaiting"
            "The updateRun is waiting for before-stage tasks in stage {stage} to complete";
        WaitingAfter { stage: String } => False "UpdateRunWaiting"
            "The updateRun is waiting for after-stage tasks in stage {stage} to complete" published;
        Stuck { clusters: Vec<String>, stage: String } => False "UpdateRunStuck" {
            let names = first_names(clusters);
            format!(
                "The updateRun is stuck waiting for {names} cluster(s) in stage {stage} to finish updating, \
                 please check placement status for potential errors",
            )
        } published;
        // Ours.
        WaitingForWindow { clusters: Vec<String>, stage: String, next: Option<String> } => False "UpdateRunWaiting" {
            let names = first_names(clusters);
            let sentence = format!("The updateRun is waiting for the window of {names} cluster(s) in stage {stage}");
            match next {
                Some(next) => format!("{sentence}, next at {next}"),
                None => format!("{sentence}, which does not open"),
            }
        };
        // Ours.
        RollingBack { restored: usize, of: usize } => True "UpdateRunRollingBack"
            "The update run is rolling back, {restored} of {of} cluster(s) restored";
        Stopping => Unknown "UpdateRunStopping"
            "The update run is the process of stopping, waiting for all the updating/deleting clusters to finish \
             updating before completing the stop process";
        Stopped => False "UpdateRunStopped" "The update run has been stopped" published;
        Failed => False "UpdateRunFailed" "The stages are aborted due to a non-recoverable error" published;
        Succeeded => False "UpdateRunSucceeded" "All stages are completed";
    }
}

states! {
    /// How the run ended. Both are final.
    pub enum Succeeded = "Succeeded" {
        Succeeded => True "UpdateRunSucceeded" "All stages are completed successfully";
        Failed { error: String } => False "UpdateRunFailed" "{error}" published;
    }
}

/// The first names of stuck clusters, with dots if there are more.
pub fn first_names(clusters: &[String]) -> String {
    let names = clusters[..clusters.len().min(STUCK_CLUSTERS_SHOWN)].join(", ");
    let more = if clusters.len() > STUCK_CLUSTERS_SHOWN {
        "..."
    } else {
        ""
    };
    format!("{names}{more}")
}

/// How many failed clusters a message names: a condition's text is bounded.
const FAILED_CLUSTERS_SHOWN: usize = 100;

/// What is said of failed clusters that the budget allows, after the sentence of a success.
pub fn failed_clusters(clusters: &[String]) -> String {
    format!("{} cluster(s) failed: {}", clusters.len(), shown(clusters))
}

/// Names of failed clusters, with dots if there are too many.
fn shown(clusters: &[String]) -> String {
    let names = clusters[..clusters.len().min(FAILED_CLUSTERS_SHOWN)].join(", ");
    let more = if clusters.len() > FAILED_CLUSTERS_SHOWN {
        "..."
    } else {
        ""
    };
    format!("{names}{more}")
}

/// All types, in the order in which they are listed.
pub const TYPES: [&str; 3] = [Initialized::TYPE, Progressing::TYPE, Succeeded::TYPE];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn words() {
        let stage = || "staging".to_owned();
        let clusters = |names: &str| names.split(' ').map(String::from).collect::<Vec<_>>();
        assert_rows(&[
            (
                &Initialized::Succeeded,
                "Initialized=True UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully",
            ),
            (
                &Initialized::Failed { error: "e".into() },
                "Initialized=False UpdateRunInitializedFailed: e",
            ),
            (
                &Progressing::Progressing,
                "Progressing=True UpdateRunProgressing: The update run is making progress",
            ),
            (
                &Progressing::WaitingBefore { stage: stage() },
                "Progressing=False UpdateRunWaiting: \
                 The updateRun is waiting for before-stage tasks in stage staging to complete",
            ),
            (
                &Progressing::WaitingAfter { stage: stage() },
                "Progressing=False UpdateRunWaiting: \
                 The updateRun is waiting for after-stage tasks in stage staging to complete",
            ),
            (
                &Progressing::Stuck {
                    clusters: clusters("member2"),
                    stage: stage(),
                },
                "Progressing=False UpdateRunStuck: The updateRun is stuck waiting for member2 cluster(s) in stage \
                 staging to finish updating, please check placement status for potential errors",
            ),
            (
                &Progressing::Stuck {
                    clusters: clusters("a b c"),
                    stage: stage(),
                },
                "Progressing=False UpdateRunStuck: The updateRun is stuck waiting for a, b, c cluster(s) in stage \
                 staging to finish updating, please check placement status for potential errors",
            ),
            (
                &Progressing::Stuck {
                    clusters: clusters("a b c d"),
                    stage: stage(),
                },
                "Progressing=False UpdateRunStuck: The updateRun is stuck waiting for a, b, c... cluster(s) in stage \
                 staging to finish updating, please check placement status for potential errors",
            ),
            (
                &Progressing::WaitingForWindow {
                    clusters: clusters("a b c d"),
                    stage: stage(),
                    next: Some("2026-11-18T21:00:00Z".into()),
                },
                "Progressing=False UpdateRunWaiting: The updateRun is waiting for the window of a, b, c... cluster(s) \
                 in stage staging, next at 2026-11-18T21:00:00Z",
            ),
            (
                &Progressing::WaitingForWindow {
                    clusters: clusters("a"),
                    stage: stage(),
                    next: None,
                },
                "Progressing=False UpdateRunWaiting: The updateRun is waiting for the window of a cluster(s) in stage \
                 staging, which does not open",
            ),
            (
                &Progressing::RollingBack { restored: 1, of: 3 },
                "Progressing=True UpdateRunRollingBack: The update run is rolling back, 1 of 3 cluster(s) restored",
            ),
            (
                &Progressing::Stopping,
                "Progressing=Unknown UpdateRunStopping: The update run is the process of stopping, waiting for all the \
                 updating/deleting clusters to finish updating before completing the stop process",
            ),
            (
                &Progressing::Stopped,
                "Progressing=False UpdateRunStopped: The update run has been stopped",
            ),
            (
                &Progressing::Failed,
                "Progressing=False UpdateRunFailed: The stages are aborted due to a non-recoverable error",
            ),
            (
                &Progressing::Succeeded,
                "Progressing=False UpdateRunSucceeded: All stages are completed",
            ),
            (
                &Succeeded::Succeeded,
                "Succeeded=True UpdateRunSucceeded: All stages are completed successfully",
            ),
            (
                &Succeeded::Failed { error: "e".into() },
                "Succeeded=False UpdateRunFailed: e",
            ),
        ]);
    }
}
