//! By which rules a run goes on or ends: its failure budget, its times, and what it takes back.

use fleet_api::{
    conditions::{self, Status},
    placement::{ClusterUpdatingStatus, UpdateRunOptions, UpdateRunStatus},
};
use fleet_core::explain::Run;
use maud::{Markup, html};

use super::{super::parts, Standing};
use crate::view::{Name, View};

/// That a run takes back what it did, or has; and what set it off.
pub(super) fn rollback(run: &Run<'_>) -> Markup {
    let Some(status) = run.status else {
        return html! {};
    };
    let said = |type_name| {
        let condition = conditions::find(&status.conditions, type_name);
        condition.map(|it| it.message.as_str()).unwrap_or_default()
    };
    match Standing::of(run.status) {
        Standing::RollingBack => html! {
            div.banner.failed role="status" {
                strong { (parts::sign(parts::FAILED)) "This run goes back. " }
                (said("Progressing")) "."
                @if let Some(why) = why(status) { " Because " (why) "." }
            }
        },
        Standing::Failed if said("Succeeded").contains("rolled back") => html! {
            div.banner.failed role="status" {
                strong { (parts::sign(parts::FAILED)) "This run has gone back. " } (said("Succeeded")) "."
            }
        },
        _ => html! {},
    }
}

/// What the first stage that has failed says.
fn why(status: &UpdateRunStatus) -> Option<&str> {
    let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
    let mut ends = stages.filter_map(|stage| conditions::find(&stage.conditions, "Succeeded"));
    let failed = ends.find(|end| Status::of(end) == Status::False)?;
    Some(failed.message.trim_start_matches("cannot continue the updateRun: ")).filter(|why| !why.is_empty())
}

/// The settings that its annotations and those of its strategy made.
pub(super) fn rules(run: &Run<'_>, name: &Name) -> Markup {
    let Some((status, options)) = run.status.and_then(|status| Some((status, status.options.as_ref()?))) else {
        return html! {};
    };
    let said = said(options);
    let retried = Name::new(name.namespace.as_str(), options.retry_of.as_str());
    html! {
        section.card aria-labelledby="rules" {
            h2 id="rules" { "Rules" }
            dl.facts {
                @if !options.max_failures.is_empty() { dt { "Failure budget" } dd { (budget(status, options)) } }
                @for (word, value) in said { dt { (word) } dd { (value) } }
                @if !options.retry_of.is_empty() {
                    dt { "Tries again what failed in" } dd { (parts::link(&View::Run(retried), &options.retry_of)) }
                }
            }
        }
    }
}

fn said(options: &UpdateRunOptions) -> Vec<(&'static str, String)> {
    let counts = !options.max_failures.is_empty();
    let or = |text: &str, default: &str| {
        if text.is_empty() {
            default.to_owned()
        } else {
            text.to_owned()
        }
    };
    let window = if options.ignore_windows {
        "ignored, of the run and of members".to_owned()
    } else {
        options.window.clone()
    };
    let unassigned = match options.unassigned.len() {
        0 => options.unassigned_clusters.clone(),
        count => format!("{} ({})", options.unassigned_clusters, parts::many(count, "cluster")),
    };
    let all = [
        (
            "If more fail",
            if counts {
                or(&options.on_failure, "Halt")
            } else {
                String::new()
            },
        ),
        ("Not before", options.not_before.clone()),
        ("Window", window),
        ("A cluster may take", options.cluster_deadline.clone()),
        ("A cluster must work for", options.min_success_time.clone()),
        ("Clusters that are not healthy", options.unhealthy_clusters.clone()),
        ("Clusters in no stage", unassigned),
        ("Stuck after", options.stuck_threshold.clone()),
        ("Deleted after its end", options.ttl.clone()),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

/// How much of it is used.
fn budget(status: &UpdateRunStatus, options: &UpdateRunOptions) -> Markup {
    let clusters = || status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let is_failed = |cluster: &&ClusterUpdatingStatus| {
        let end = conditions::find(&cluster.conditions, "Succeeded");
        end.is_some_and(|end| Status::of(end) == Status::False)
    };
    let failed = clusters().filter(is_failed).count();
    let sign = if failed == 0 { parts::DONE } else { parts::WAITING };
    let all = parts::many(clusters().count(), "cluster");
    html! {
        (parts::badge(sign, &format!("{failed} failed")))
        " of " (all) "; " (options.max_failures) " may fail"
    }
}
