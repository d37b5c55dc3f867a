//! What a failed scenario leaves: its objects, the Events of its namespaces, the ends of all logs. Nothing here may fail;
//! what cannot be had is said in its place.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use super::context::{Ctx, Made, api};
use crate::process::{State, tail};

/// Lines per log. Agents say what matters in their last lines; control planes are only asked when they died.
const LOG_LINES: usize = 40;

pub(super) async fn describe(ctx: &Ctx) -> String {
    let mut text = format!("\n===== what scenario {} left =====\n", ctx.prefix());
    let made = ctx.all_made();
    for object in &made {
        let _ = writeln!(
            text,
            "--- {} {} on {}\n{}",
            object.kind.kind,
            path(object),
            object.cluster,
            read(ctx, object).await
        );
    }
    let namespaces = made
        .iter()
        .filter_map(|m| {
            if m.kind.kind == "Namespace" {
                Some(m.name.clone())
            } else {
                m.namespace.clone()
            }
        })
        .collect::<BTreeSet<_>>();
    for cluster in ctx.fleet().clusters() {
        for namespace in &namespaces {
            let _ = write!(text, "{}", events(ctx, &cluster.name, namespace).await);
        }
    }
    let _ = write!(text, "{}", logs(ctx).await);
    text
}

fn path(made: &Made) -> String {
    made.namespace
        .as_ref()
        .map_or_else(|| made.name.clone(), |namespace| format!("{namespace}/{}", made.name))
}

async fn read(ctx: &Ctx, made: &Made) -> String {
    let client = match ctx.client(&made.cluster).await {
        Ok(client) => client,
        Err(error) => return format!("(cannot be read: {error:#})"),
    };
    match api(client, &made.kind, made.namespace.as_deref())
        .get_opt(&made.name)
        .await
    {
        Ok(Some(mut object)) => {
            object.managed_fields_mut().clear();
            serde_saphyr::to_string(&object).unwrap_or_else(|e| e.to_string())
        }
        Ok(None) => "(gone)".to_owned(),
        Err(error) => format!("(cannot be read: {error})"),
    }
}

async fn events(ctx: &Ctx, cluster: &str, namespace: &str) -> String {
    let Ok(client) = ctx.client(cluster).await else {
        return String::new();
    };
    let api: Api<Event> = Api::namespaced(client, namespace);
    let list = match api.list(&ListParams::default()).await {
        Ok(list) if list.items.is_empty() => return String::new(),
        Ok(list) => list,
        Err(error) => return format!("--- Events in {namespace} on {cluster}: {error}\n"),
    };
    let mut text = format!("--- Events in {namespace} on {cluster}\n");
    for event in list {
        let object = event.involved_object;
        let _ = writeln!(
            text,
            "{} {} {}/{}: {}",
            event.type_.unwrap_or_default(),
            event.reason.unwrap_or_default(),
            object.kind.unwrap_or_default(),
            object.name.unwrap_or_default(),
            event.message.unwrap_or_default()
        );
    }
    text
}

async fn logs(ctx: &Ctx) -> String {
    let processes = match ctx.fleet().status().await {
        Ok(processes) => processes,
        Err(error) => return format!("--- no logs: {error:#}\n"),
    };
    let mut text = String::new();
    for process in processes {
        let component = process.name.rsplit('/').next().unwrap_or_default();
        let is_agent = component.contains("agent");
        let runs = matches!(process.state, State::Running { .. });
        if is_agent || !runs {
            let _ = writeln!(
                text,
                "--- {} ({:?}), the end of {}\n{}",
                process.name,
                process.state,
                process.log.display(),
                tail(&process.log, LOG_LINES)
            );
        }
    }
    text
}
