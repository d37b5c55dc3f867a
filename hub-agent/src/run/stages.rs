//! The stages of the placement pipeline, in the order in which a placement goes through them.

use fleet_api::placement::Scope;
use fleet_runtime::controller::{self, Measures};
use tokio_util::sync::CancellationToken;

use crate::{
    pipeline::{Door, Pipeline, decide_anew},
    rollout::{self, RolloutMemory},
    scheduler::{self, SchedulerMemory},
    selection::{self, SelectionMemory},
    status::{binding, placement, report_back},
    updaterun::{self, RunMemory},
    work::{self, WorkMemory},
};

/// The names under which the stages appear in logs and metrics.
struct Names {
    selection: &'static str,
    scheduler: &'static str,
    rollout: &'static str,
    work: &'static str,
    binding: &'static str,
    placement: &'static str,
    report_back: &'static str,
    updaterun: &'static str,
}

// The first of each is KubeFleet's name, which dashboards and alerts know.
const CLUSTER: Names = Names {
    selection: "cluster-resource-placement-controller-v1beta1",
    scheduler: "clusterresourceplacement-scheduler",
    rollout: "clusterresourceplacement-rollout",
    work: "clusterresourcebinding-work-generator",
    binding: "clusterresourcebinding-status",
    placement: "clusterresourceplacement-status",
    report_back: "clusterresourceplacement-status-back-reporter",
    updaterun: "clusterstagedupdaterun-controller",
};
const NAMESPACED: Names = Names {
    selection: "resource-placement-controller",
    scheduler: "resourceplacement-scheduler",
    rollout: "resourceplacement-rollout",
    work: "resourcebinding-work-generator",
    binding: "resourcebinding-status",
    placement: "resourceplacement-status",
    report_back: "resourceplacement-status-back-reporter",
    updaterun: "stagedupdaterun-controller",
};

/// Runs all stages of one scope for one term of leadership.
pub(super) async fn run<S: Scope>(
    pipeline: &Pipeline<S>,
    cycles: scheduler::Measures,
    runs: updaterun::Measures,
    measures: &Measures,
    stop: &CancellationToken,
) {
    let names = match Pipeline::<S>::scope() {
        fleet_api::names::Scope::Cluster => CLUSTER,
        fleet_api::names::Scope::Namespaced => NAMESPACED,
    };
    /// One stage: what its feed brings is passed over, until told to stop.
    macro_rules! stage {
        ($name:expr, $stage:expr, $module:ident) => {{
            let stage = $stage;
            let (passing, feeding) = (stage.clone(), stage.clone());
            let pass = move |key| {
                let stage = passing.clone();
                async move { decide_anew($module::pass(&stage, &key).await) }
            };
            let options = controller::Options::new($name);
            let passes = controller::run(stage.queue.clone(), options, measures.clone(), stop.clone(), pass);
            async move {
                tokio::select! {
                    () = passes => {}
                    () = $module::feed(&feeding) => {}
                }
            }
        }};
    }
    let scheduler = pipeline.stage(Door::Scheduler, SchedulerMemory::new(cycles));
    let work = pipeline.stage(Door::Work, WorkMemory::default());
    let updates = pipeline.stage(Door::UpdateRun, RunMemory::new(runs));
    // These also bring placements, bindings, Works and runs to their end, and do nothing else where none are served.
    let ends = async {
        tokio::join!(
            stage!(names.scheduler, scheduler, scheduler),
            stage!(names.work, work, work),
            stage!(names.updaterun, updates, updaterun),
        );
    };
    if !pipeline.is_served() {
        return ends.await;
    }
    let selection = SelectionMemory::new(Pipeline::<S>::scope());
    tokio::join!(
        stage!(names.selection, pipeline.stage(Door::Selection, selection), selection),
        ends,
        stage!(
            names.rollout,
            pipeline.stage(Door::Rollout, RolloutMemory::default()),
            rollout
        ),
        stage!(names.binding, pipeline.stage(Door::Binding, ()), binding),
        stage!(
            names.placement,
            pipeline.stage(Door::Placement, placement::RollupMemory::default()),
            placement
        ),
        stage!(
            names.report_back,
            pipeline.stage(Door::ReportBack, report_back::ReportMemory::default()),
            report_back
        ),
    );
}
