//! What a placement says about itself, in both scopes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{PlacementStatus, ResourcePlacement, Scope};
use fleet_e2e::agents::{self, HUB_AGENT};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{
    Crp, Placement, Rp, config_map, core_selector, furnished, lines, nothing, nowhere, spec, whole_namespace,
};
use fleet_e2e::played::{Act, Cast, LABEL, affinity};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt as _;
use kube::core::object::HasStatus as _;
use serde_json::json;

const SCHEDULED: &str = "Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the \
                         scheduling policy, found 2 cluster(s)";
const STARTED: &str = "RolloutStarted=True RolloutStarted: All 2 cluster(s) start rolling out the latest resource";
const OVERRIDDEN: &str =
    "Overridden=True NoOverrideSpecified: No override rules are configured for the selected resources";
const SYNCHRONIZED: &str = "WorkSynchronized=True WorkSynchronized: Work(s) are successfully created or updated in 2 \
                            target cluster(s)' namespaces";

fn entry(status: &PlacementStatus, cluster: &str) -> Vec<String> {
    let entry = status
        .placement_statuses
        .iter()
        .find(|entry| entry.cluster_name == cluster);
    entry.map(|entry| lines(&entry.conditions)).unwrap_or_default()
}

/// From silence to failure to success, with every word.
async fn from_silence_to_success<S: Scope>(cast: &Cast, placement: &Placement<S>) -> Result<()> {
    let (first, second) = (cast.name("a"), cast.name("b"));
    // Published so: what is on its way counts as failed, and the cluster tells the difference.
    let pending = "Applied=False ApplyFailed: Failed to apply resources to 1 cluster(s), please check the `failedPlacements` \
                   status";
    let status = placement
        .until_says(&[SCHEDULED, STARTED, OVERRIDDEN, SYNCHRONIZED, pending])
        .await?;
    ensure!(status.conditions.len() == 5, "{:#?}", lines(&status.conditions));
    let picked = |cluster: &str| {
        format!(
            "Scheduled=True Scheduled: Successfully scheduled resources for placement in \"{cluster}\" (affinity score: 0, \
             topology spread score: 0): picked by scheduling policy"
        )
    };
    let common = [
        "RolloutStarted=True RolloutStarted: Detected the new changes on the resources and started the rollout process",
        "Overridden=True NoOverrideSpecified: No override rules are configured for the selected resources",
        "WorkSynchronized=True AllWorkSynced: All of the works are synchronized to the latest",
    ];
    let expected = |cluster: &str, rest: &[&str]| {
        let mut all = vec![picked(cluster)];
        all.extend(common.iter().chain(rest).map(|line| (*line).to_owned()));
        all
    };
    let silent = "Applied=False ApplyInProgress: Resources are being applied";
    let applied = "Applied=True AllWorkHaveBeenApplied: All corresponding work objects are applied";
    let there = "Available=True AllWorkAreAvailable: All corresponding work objects are available";
    ensure!(
        entry(&status, &first) == expected(&first, &[silent]),
        "{:#?}",
        entry(&status, &first)
    );
    ensure!(
        entry(&status, &second) == expected(&second, &[applied, there]),
        "{:#?}",
        entry(&status, &second)
    );

    cast.act(&["a"], Act::Failing(1));
    let of_first = |status: &PlacementStatus| {
        let entries = &status.placement_statuses;
        let ours = entries.iter().find(|entry| entry.cluster_name == first);
        ours.cloned().unwrap_or_default()
    };
    let failed = |status: &PlacementStatus| of_first(status).failed_placements.len() == 1;
    let found = placement
        .until("the failed manifest", |p| p.status().is_some_and(failed))
        .await?;
    let status = found.status().cloned().unwrap_or_default();
    let work = match found.namespace() {
        Some(namespace) => format!("{namespace}.{}-work", placement.name),
        None => format!("{}-work", placement.name),
    };
    let said = format!("Applied=False NotAllWorkHaveBeenApplied: Work object {work} has failed to apply");
    ensure!(
        entry(&status, &first) == expected(&first, &[&said]),
        "{:#?}",
        entry(&status, &first)
    );
    let since = status.conditions[0].last_transition_time.clone();

    cast.act(&["a"], Act::Unavailable);
    let waiting = "Available=False ResourceNotAvailableYet: The selected resources in 1 cluster(s) are still not available \
                   yet";
    let applied = "Applied=True ApplySucceeded: The selected resources are successfully applied to 2 cluster(s)";
    let status = placement.until_says(&[SYNCHRONIZED, applied, waiting]).await?;
    let missing = of_first(&status).failed_placements;
    ensure!(
        !missing.is_empty() && missing.iter().all(|failed| failed.condition.type_ == "Available"),
        "{missing:#?}"
    );

    cast.act(&["a"], Act::Available);
    let there = "Available=True ResourceAvailable: The selected resources in 2 cluster(s) are available now";
    let status = placement
        .until_says(&[SCHEDULED, STARTED, OVERRIDDEN, SYNCHRONIZED, applied, there])
        .await?;
    ensure!(status.conditions.len() == 6, "{:#?}", lines(&status.conditions));
    ensure!(
        status.conditions[0].last_transition_time == since,
        "Scheduled did not change"
    );
    Ok(())
}

async fn half_silent(ctx: &Ctx) -> Result<Cast> {
    let cast = Cast::new(ctx, &["a", "b"]).await?;
    cast.act(&["a"], Act::Silent);
    Ok(cast)
}

#[test]
fn every_step_of_a_cluster_placement_has_its_words() {
    scenario("steps", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "1")).await?;
        let cast = half_silent(&ctx).await?;
        let selectors = whole_namespace(&namespace);
        let crp = Crp::create(&ctx, "crp", &spec(&selectors, &cast.everywhere())).await?;
        from_silence_to_success(&cast, &crp).await
    });
}

#[test]
fn every_step_of_a_namespaced_placement_has_its_words() {
    scenario("steps-inside", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "1")).await?;
        let cast = half_silent(&ctx).await?;
        let selectors = json!([core_selector("ConfigMap", "settings")]);
        let rp = Rp::create(&ctx, &namespace, "rp", &spec(&selectors, &cast.everywhere())).await?;
        from_silence_to_success(&cast, &rp).await
    });
}

#[test]
fn clusters_that_were_asked_for_and_not_found_are_listed() {
    scenario("too-few", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let selectors = nothing(&ctx);
        let policy = json!({ "placementType": "PickN", "numberOfClusters": 4, "affinity": cast.ours() });
        let crp = Crp::create(&ctx, "number", &spec(&selectors, &policy)).await?;
        let unfulfilled = "Scheduled=False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by \
                           the scheduling policy, found 2 cluster(s) instead";
        // The clusters that were found are tracked all the same.
        let status = crp
            .until_says(&[
                unfulfilled,
                "Available=True ResourceAvailable: The selected resources in 2 cluster(s) are available now",
            ])
            .await?;
        let named: BTreeSet<_> = status.placement_statuses[..2]
            .iter()
            .map(|e| e.cluster_name.clone())
            .collect();
        ensure!(named == [cast.name("a"), cast.name("b")].into(), "{named:?}");
        // As many as are missing, if there are so many others in the fleet.
        let others = &status.placement_statuses[2..];
        ensure!(others.len() <= 2 && !others.is_empty(), "{others:#?}");
        for entry in others {
            let said = lines(&entry.conditions);
            ensure!(entry.cluster_name.is_empty() && said.len() == 1, "{entry:#?}");
            ensure!(said[0].starts_with("Scheduled=False ScheduleFailed: "), "{said:?}");
        }

        let missing = ctx.name("nobody");
        let policy = json!({ "placementType": "PickFixed", "clusterNames": [cast.name("a"), missing] });
        let crp = Crp::create(&ctx, "fixed", &spec(&selectors, &policy)).await?;
        let status = crp.until_step("Available", "True").await?;
        let [found, not_found] = status.placement_statuses.as_slice() else {
            anyhow::bail!("two entries: {:#?}", status.placement_statuses)
        };
        let picked = format!(
            "Scheduled=True Scheduled: Successfully scheduled resources for placement in \"{}\": picked by scheduling policy",
            cast.name("a")
        );
        ensure!(lines(&found.conditions)[0] == picked, "{found:#?}");
        let said = format!("Scheduled=False ScheduleFailed: Specified cluster \"{missing}\" is not found");
        ensure!(lines(&not_found.conditions) == [said], "{not_found:#?}");
        Ok(())
    });
}

#[test]
fn without_a_cluster_only_scheduling_is_told() {
    scenario("none", |ctx| async move {
        let selectors = nothing(&ctx);
        let nobody = affinity(&[(LABEL, ctx.prefix())]);
        for (word, policy) in [
            ("all", json!({ "placementType": "PickAll", "affinity": nobody })),
            ("zero", nowhere()),
        ] {
            let crp = Crp::create(&ctx, word, &spec(&selectors, &policy)).await?;
            let status = crp
                .until_says(&[
                    "Scheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling \
                     policy, found 0 cluster(s)",
                ])
                .await?;
            ensure!(status.conditions.len() == 1, "{:#?}", lines(&status.conditions));
            ensure!(status.placement_statuses.is_empty(), "{:#?}", status.placement_statuses);
        }
        Ok(())
    });
}

#[test]
fn reporting_differences_has_its_own_condition() {
    scenario("diff", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let selectors = nothing(&ctx);
        let crp = Crp::create(&ctx, "crp", &spec(&selectors, &cast.everywhere())).await?;
        crp.until_available(0).await?;
        let apply = |kind: &str| json!({ "spec": { "strategy": { "applyStrategy": { "type": kind } } } });
        crp.patch(&apply("ReportDiff")).await?;
        let status = crp
            .until_says(&[
                "DiffReported=True DiffReportingCompleted: Diff reporting in 1 cluster(s) has been completed",
            ])
            .await?;
        let types: Vec<_> = status.conditions.iter().map(|c| c.type_.clone()).collect();
        ensure!(types.len() == 5, "{types:?}");
        crp.patch(&apply("ClientSideApply")).await?;
        let status = crp.until_available(0).await?;
        ensure!(status.conditions.len() == 6, "{:#?}", lines(&status.conditions));
        Ok(())
    });
}

#[test]
fn of_many_failed_manifests_a_hundred_are_listed() {
    scenario("many-failed", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let maps = (0..120).map(|n| ctx.create_in("hub", &namespace, config_map(&format!("map-{n:03}"), "1")));
        futures::future::try_join_all(maps).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        cast.act(&["a"], Act::Failing(120));
        let maps = json!([{ "group": "", "version": "v1", "kind": "ConfigMap" }]);
        let rp = Rp::create(&ctx, &namespace, "rp", &spec(&maps, &cast.everywhere())).await?;
        let failed = |rp: &ResourcePlacement| {
            let entries = rp.status.as_ref().map(|status| status.placement_statuses.as_slice());
            entries
                .unwrap_or_default()
                .first()
                .map_or(0, |entry| entry.failed_placements.len())
        };
        let found = rp.until("failed manifests", |rp| failed(rp) > 0).await?;
        ensure!(failed(&found) == 100, "{}", failed(&found));
        Ok(())
    });
}

#[test]
fn a_list_that_changes_under_the_same_conditions_reaches_the_placement() {
    scenario("lists", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        cast.act(&["a"], Act::Failing(1));
        let crp = Crp::create(&ctx, "crp", &spec(&whole_namespace(&namespace), &cast.everywhere())).await?;
        let failed = async |count: usize| {
            let found = crp
                .until(&format!("{count} failed"), |crp| {
                    let entries = crp.status.iter().flat_map(|status| &status.placement_statuses);
                    entries.map(|entry| entry.failed_placements.len()).sum::<usize>() == count
                })
                .await?;
            Ok::<_, anyhow::Error>(found.status.unwrap_or_default())
        };
        let before = failed(1).await?;
        cast.act(&["a"], Act::Failing(2));
        let more = failed(2).await?;
        ensure!(more.conditions == before.conditions, "{:#?}", lines(&more.conditions));
        ensure!(
            entry(&more, &cast.name("a")) == entry(&before, &cast.name("a")),
            "{more:#?}"
        );
        cast.act(&["a"], Act::Failing(1));
        failed(1).await?;
        Ok(())
    });
}

/// Waits until the hub agent's metric has a series for the placement with these labels; none if it is to have no series.
async fn until_metric(ctx: &Ctx, name: &str, labels: Option<&str>) -> Result<()> {
    let mut last = Vec::new();
    let found = async {
        loop {
            let text = agents::metrics(ctx.fleet(), HUB_AGENT).await?;
            let ours = |line: &&str| {
                line.starts_with("fleet_workload_placement_status_last_timestamp_seconds{")
                    && line.contains(&format!("name=\"{name}\""))
            };
            last = text.lines().filter(ours).map(ToOwned::to_owned).collect();
            let is_there = match labels {
                Some(labels) => last.len() == 1 && last[0].contains(labels),
                None => last.is_empty(),
            };
            if is_there {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let outcome = tokio::time::timeout(wait::PATIENCE, found).await;
    outcome.with_context(|| format!("the metric does not say {labels:?} but {last:#?}"))?
}

#[test]
fn a_metric_tells_where_a_placement_stands() {
    scenario("metric", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        cast.act(&["a"], Act::Silent);
        let selectors = nothing(&ctx);
        let crp = Crp::create(&ctx, "crp", &spec(&selectors, &cast.everywhere())).await?;
        crp.until_step("Applied", "False").await?;
        let waiting = "generation=\"1\",conditionType=\"ClusterResourcePlacementApplied\",status=\"False\",reason=\"ApplyFailed\"";
        until_metric(&ctx, &crp.name, Some(waiting)).await?;
        cast.act(&["a"], Act::Available);
        crp.until_available(0).await?;
        let completed = "generation=\"1\",conditionType=\"Completed\",status=\"True\",reason=\"Completed\"";
        until_metric(&ctx, &crp.name, Some(completed)).await?;
        crp.remove().await?;
        until_metric(&ctx, &crp.name, None).await
    });
}

#[test]
fn comparing_that_takes_ownership_is_warned_about() {
    scenario("acquires", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let comparing = |take_over: &str| {
            let mut spec = spec(&json!([core_selector("Namespace", &namespace)]), &cast.everywhere());
            spec["strategy"]["applyStrategy"] = json!({ "type": "ReportDiff", "whenToTakeOver": take_over });
            spec
        };
        let careful = Crp::create(&ctx, "careful", &comparing("Never")).await?;
        careful.until_step("WorkSynchronized", "True").await?;
        let crp = Crp::create(&ctx, "crp", &comparing("Always")).await?;
        let events = crp.until_event("PlacementTakesOwnership").await?;
        let said = events.iter().filter_map(|event| event.message.as_deref());
        ensure!(
            said.into_iter()
                .any(|said| said.contains("set whenToTakeOver to Never to leave them alone")),
            "{events:?}"
        );
        let events = careful.events().await?;
        let warned = |event: &Event| event.reason.as_deref() == Some("PlacementTakesOwnership");
        ensure!(!events.iter().any(warned), "{events:?}");
        Ok(())
    });
}
