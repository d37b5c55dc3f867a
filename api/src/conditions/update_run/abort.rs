//! Why an update run cannot go on. Every text is final: it ends in `Initialized` or `Succeeded` being false.

use thiserror::Error;

use crate::conditions::error_class::ErrorClass;

/// Why an update run cannot go on. A `key` is `namespace/name`, without namespace `/name`; `was` is what the run
/// recorded, `is` what holds now.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum Abort {
    #[error("parent placement not found")]
    PlacementNotFound,
    #[error("parent placement does not have an external rollout strategy, current strategy: {strategy}")]
    NotExternal { strategy: String },
    #[error("no latest policy snapshot found for placement {key}")]
    NoPolicySnapshot { key: String },
    #[error("multiple active policy snapshots found for placement {key}: got {count}, want 1")]
    SeveralPolicySnapshots { key: String, count: usize },
    #[error("policy snapshot `{key}` does not have a policy index label")]
    NoPolicyIndex { key: String },
    #[error("{error}: the policy snapshot `{key}` doesn't have valid cluster count annotation")]
    InvalidClusterCount { key: String, error: String },
    #[error("policy snapshot `{name}` not fully scheduled yet")]
    NotScheduled { name: String },
    #[error("no scheduled or to-be-deleted bindings found for the latest policy snapshot {key}")]
    NoBindings { key: String },
    #[error("the number of selected bindings {bindings} is not equal to the observed cluster count {clusters}")]
    BindingCount { bindings: usize, clusters: i64 },
    #[error("referenced updateStrategy not found: `{key}`")]
    StrategyNotFound { key: String },
    #[error("the before stage tasks are invalid, updateStrategy: `{key}`, stage: {stage}, err: {error}")]
    BeforeStageTasks {
        key: String,
        stage: String,
        error: InvalidTask,
    },
    #[error("the after stage tasks are invalid, updateStrategy: `{key}`, stage: {stage}, err: {error}")]
    AfterStageTasks {
        key: String,
        stage: String,
        error: InvalidTask,
    },
    #[error("the stage label selector is invalid, updateStrategy: `{key}`, stage: {stage}, err: {error}")]
    StageSelector { key: String, stage: String, error: String },
    #[error("cluster `{cluster}` appears in more than one stages")]
    ClusterInSeveralStages { cluster: String },
    /// The end is what Go says of a text that is not an integer.
    #[error(
        "the sorting label `{label}:{value}` on cluster `{cluster}` is not valid: strconv.Atoi: parsing {value:?}: \
         {error}"
    )]
    SortingLabel {
        label: String,
        value: String,
        cluster: String,
        error: String,
    },
    #[error(
        "some clusters are not placed in any stage, total {}, showing up to 10: {}",
        .clusters.len(), first_ten(.clusters),
    )]
    ClustersNotInStages { clusters: Vec<String> },
    /// Upstream lets two stages share one approval; the words are ours.
    #[error("the stage name `{stage}` appears more than once, updateStrategy: `{key}`")]
    DuplicateStage { key: String, stage: String },
    #[error("invalid resource snapshot index `{index}` provided, expected an integer >= 0")]
    SnapshotIndex { index: String },
    #[error("no resourceSnapshots with index `{index}` found for placement `{key}`")]
    NoSnapshots { index: u64, key: String },
    #[error("no master resourceSnapshot found for placement {key}")]
    NoMasterSnapshot { key: String },
    /// The selectors or the overrides are invalid; the error comes with its class.
    #[error("{error}")]
    Invalid { error: String },

    // Ours, with settings of the run.
    /// A `kind` and `key` are the strategy's or the run's.
    #[error("the annotation {annotation} of {kind} {key} is invalid: {why}")]
    BadAnnotation {
        annotation: String,
        kind: String,
        key: String,
        why: String,
    },
    #[error("some clusters are not placed in any stage, total {count}, at most {max} may be ignored: {clusters}")]
    TooManyUnassigned { count: usize, max: usize, clusters: String },
    #[error("{why}")]
    Retry { why: String },
    #[error("the plan differs from the one that was approved: {difference}")]
    PlanDiffers { difference: String },
    #[error(
        "the failure budget is exhausted: {} cluster(s) failed, at most {max} may: {}",
        .clusters.len(), super::shown(.clusters),
    )]
    BudgetExhausted { clusters: Vec<String>, max: usize },
    #[error("the gate {gate} of stage {stage} has failed: {why}")]
    GateFailed { gate: String, stage: String, why: String },
    #[error("a rollback was requested")]
    RollbackRequested,
    /// After what was said when it began.
    #[error("{error}; rolled back {restored} of {of} cluster(s)")]
    RolledBack { error: String, restored: usize, of: usize },

    #[error("the applyStrategy in the updateRun is outdated, latest: {is}, recorded: {was}")]
    ApplyStrategyChanged { is: String, was: String },
    #[error("the policy snapshot index used in the updateRun is outdated, latest: {is}, recorded: {was}")]
    PolicyIndexChanged { is: String, was: String },
    #[error("the cluster count initialized in the updateRun is outdated, latest: {is}, recorded: {was}")]
    ClusterCountChanged { is: i64, was: i64 },
    /// Ours: upstream does not look.
    #[error("the resource snapshot {name} used in the updateRun no longer exists")]
    SnapshotGone { name: String },
    /// The schema does not let such a value in, so these words are ours.
    #[error("the maxConcurrency `{value}` of the stage `{stage}` is neither a positive number nor a percentage")]
    InvalidConcurrency { value: String, stage: String },
    #[error("the updateRun has nil {field}")]
    StatusLost { field: &'static str },
    #[error("the number of stages in the updateRun has changed, new: {is}, existing: {was}")]
    StageCountChanged { is: usize, was: usize },
    #[error("index `{index}` stage name in the updateRun has changed, new: {is}, existing: {was}")]
    StageNameChanged { index: usize, is: String, was: String },
    #[error("the finished stage `{index}` is after the updating stage `{updating}`")]
    FinishedAfterUpdating { index: usize, updating: usize },
    #[error("cluster `{cluster}` in the finished stage `{stage}` has not succeeded")]
    UnfinishedInFinished { cluster: String, stage: String },
    #[error("the finished stage `{stage}` is not right after the last finished stage with index `{last}`")]
    FinishedOutOfOrder { stage: String, last: i64 },
    #[error("the stage `{stage}` has failed, err: {error}")]
    StageFailed { stage: String, error: String },
    #[error("the stage `{stage}` is updating, but there is already a stage with index `{updating}` updating")]
    SeveralUpdating { stage: String, updating: usize },
    #[error("the updating stage `{stage}` is not right after the last finished stage with index `{last}`")]
    UpdatingOutOfOrder { stage: String, last: i64 },
    #[error("the number of updating clusters `{count}` in the updating stage `{stage}` exceeds maxConcurrency `{max}`")]
    TooManyUpdating { count: usize, stage: String, max: usize },
    #[error(
        "the delete stage is active, but there are still stages updating, updatingStageIndex: {updating}, \
         lastFinishedStageIndex: {last}"
    )]
    DeletingTooEarly { updating: i64, last: i64 },
    #[error("the delete stage has failed, err: {error}")]
    DeleteStageFailed { error: String },

    #[error("the cluster `{cluster}` in the stage {stage} has failed")]
    ClusterFailed { cluster: String, stage: String },
    /// Another run has taken the cluster. A `binding` is `name` or `namespace/name`.
    #[error(
        "the binding of the updating cluster `{cluster}` in the stage `{stage}` is not up-to-date with the desired \
         status, please check the status of binding `{binding}` and see if there is a concurrent updateRun \
         referencing the same placement and updating the same cluster"
    )]
    Preempted {
        cluster: String,
        stage: String,
        binding: String,
    },
    /// A `run` and `task` is `namespace/name`. The missing back-tick is upstream's.
    #[error(
        "the approval request task `{task}` is targeting update run `{found_run}` and stage `{found_stage}`, want \
         target update run `{run} and stage `{stage}`"
    )]
    ForeignApproval {
        task: String,
        found_run: String,
        found_stage: String,
        run: String,
        stage: String,
    },
    #[error(
        "the cluster `{cluster}` in the deleting stage is marked as deleting but its corresponding binding is not \
         deleting"
    )]
    NotDeleting { cluster: String },
    /// Several at once; each comes complete.
    #[error("[{}]", .messages.join(", "))]
    Several { messages: Vec<String> },
}

/// How an abort's text begins.
enum Prefix {
    None,
    Abort,
    Validation,
    /// Upstream's comma where all others have a colon.
    ValidationComma,
}

impl Abort {
    /// The text as the run and the stage show it.
    pub fn message(&self) -> String {
        let text = self.to_cluster_error();
        match self.prefix() {
            Prefix::None => text,
            Prefix::Abort => format!("cannot continue the updateRun: {text}"),
            Prefix::Validation => format!("cannot continue the updateRun: failed to validate the updateRun: {text}"),
            Prefix::ValidationComma => {
                format!("cannot continue the updateRun: failed to validate the updateRun, {text}")
            }
        }
    }

    /// The text as the cluster shows it: with its class, but without the run's prefix.
    pub fn to_cluster_error(&self) -> String {
        match self.class() {
            Some(class) => class.prefix(self),
            None => self.to_string(),
        }
    }

    /// Whose fault it is, where that is said.
    pub const fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::PlacementNotFound
            | Self::NotExternal { .. }
            | Self::StrategyNotFound { .. }
            | Self::BeforeStageTasks { .. }
            | Self::AfterStageTasks { .. }
            | Self::StageSelector { .. }
            | Self::ClusterInSeveralStages { .. }
            | Self::SortingLabel { .. }
            | Self::ClustersNotInStages { .. }
            | Self::DuplicateStage { .. }
            | Self::SnapshotIndex { .. }
            | Self::NoSnapshots { .. }
            | Self::BadAnnotation { .. }
            | Self::TooManyUnassigned { .. }
            | Self::Retry { .. }
            | Self::PlanDiffers { .. }
            | Self::ApplyStrategyChanged { .. }
            | Self::Preempted { .. } => Some(ErrorClass::User),
            Self::SeveralPolicySnapshots { .. }
            | Self::NoPolicyIndex { .. }
            | Self::InvalidClusterCount { .. }
            | Self::BindingCount { .. }
            | Self::NoMasterSnapshot { .. }
            | Self::StatusLost { .. }
            | Self::InvalidConcurrency { .. }
            | Self::FinishedAfterUpdating { .. }
            | Self::UnfinishedInFinished { .. }
            | Self::FinishedOutOfOrder { .. }
            | Self::SeveralUpdating { .. }
            | Self::UpdatingOutOfOrder { .. }
            | Self::TooManyUpdating { .. }
            | Self::DeletingTooEarly { .. }
            | Self::ForeignApproval { .. }
            | Self::NotDeleting { .. } => Some(ErrorClass::Unexpected),
            Self::NoPolicySnapshot { .. }
            | Self::NotScheduled { .. }
            | Self::NoBindings { .. }
            | Self::Invalid { .. }
            | Self::PolicyIndexChanged { .. }
            | Self::ClusterCountChanged { .. }
            | Self::SnapshotGone { .. }
            | Self::StageCountChanged { .. }
            | Self::StageNameChanged { .. }
            | Self::StageFailed { .. }
            | Self::DeleteStageFailed { .. }
            | Self::ClusterFailed { .. }
            | Self::BudgetExhausted { .. }
            | Self::GateFailed { .. }
            | Self::RollbackRequested
            | Self::RolledBack { .. }
            | Self::Several { .. } => None,
        }
    }

    const fn prefix(&self) -> Prefix {
        match self {
            // What it repeats has its prefix.
            Self::Several { .. } | Self::RolledBack { .. } => Prefix::None,
            Self::InvalidClusterCount { .. } => Prefix::ValidationComma,
            Self::PlacementNotFound
            | Self::NotExternal { .. }
            | Self::NoPolicySnapshot { .. }
            | Self::SeveralPolicySnapshots { .. }
            | Self::NoPolicyIndex { .. }
            | Self::NotScheduled { .. }
            | Self::NoBindings { .. }
            | Self::BindingCount { .. }
            | Self::StrategyNotFound { .. }
            | Self::BeforeStageTasks { .. }
            | Self::AfterStageTasks { .. }
            | Self::StageSelector { .. }
            | Self::ClusterInSeveralStages { .. }
            | Self::SortingLabel { .. }
            | Self::ClustersNotInStages { .. }
            | Self::DuplicateStage { .. }
            | Self::SnapshotIndex { .. }
            | Self::NoSnapshots { .. }
            | Self::NoMasterSnapshot { .. }
            | Self::BadAnnotation { .. }
            | Self::TooManyUnassigned { .. }
            | Self::Retry { .. }
            | Self::PlanDiffers { .. }
            | Self::Invalid { .. } => Prefix::Validation,
            _ => Prefix::Abort,
        }
    }
}

/// What is wrong with the tasks of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum InvalidTask {
    #[error("beforeStageTasks can have at most one task")]
    SeveralBefore,
    #[error("task {index} of type {task_type} is not allowed in beforeStageTasks, allowed type: Approval")]
    NotAllowedBefore { index: usize, task_type: String },
    #[error("task {index} of type Approval cannot have wait duration set")]
    ApprovalWithWait { index: usize },
    #[error("afterStageTasks cannot have two tasks of the same type: {task_type}")]
    SameTypeTwice { task_type: String },
    #[error("task {index} of type TimedWait has wait duration set to nil")]
    NoWait { index: usize },
    #[error("task {index} of type TimedWait has wait duration <= 0")]
    NoPositiveWait { index: usize },
}

/// The first ten names; the callers sort them.
fn first_ten(clusters: &[String]) -> String {
    clusters
        .iter()
        .take(10)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
