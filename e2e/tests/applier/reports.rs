//! What the hub is told.

use anyhow::{Context as _, ensure};
use fleet_api::placement::Work;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::site::{diffs, entries, has, is, message, on_site, work};

#[test]
fn status_written_by_somebody_else_is_repaired() {
    on_site("repair", |site| async move {
        site.apply(&json!({}), &[site.config("c", &json!({}))]).await?;
        site.available().await?;
        let wrong = json!({"status": {"conditions": [], "manifestConditions": []}});
        site.works()
            .patch_status(&site.name, &PatchParams::default(), &Patch::Merge(&wrong))
            .await?;
        site.available().await?;
        site.remove().await
    });
}

#[test]
fn status_is_mirrored_while_asked_for() {
    on_site("mirror", |site| async move {
        let manifests = [site.deployment("web", "nginx"), site.config("c", &json!({}))];
        let mut made = work(&site.name, &json!({}), &manifests)?;
        let strategy = json!({"type": "Mirror", "destination": "OriginalResource"});
        made.spec.report_back_strategy = Some(serde_json::from_value(strategy)?);
        site.ctx.create_in("hub", &site.hub_namespace, made).await?;
        let mirrored = |work: &Work, at: usize| -> Option<Value> {
            let entry = entries(work).into_iter().nth(at)?;
            Some(entry.back_reported_status?.observed_status?.to_value())
        };
        let complete = |work: &Work| mirrored(work, 0).is_some_and(|shown| shown["status"]["availableReplicas"] == 2);
        let shown = site.until_work("mirrored", complete).await?;
        let object = mirrored(&shown, 0).context("a status")?;
        ensure!(object["apiVersion"] == "apps/v1" && object["kind"] == "Deployment");
        ensure!(mirrored(&shown, 1).is_none(), "a ConfigMap has no status");
        let off = json!({"spec": {"reportBackStrategy": {"type": "Disabled", "destination": null}}});
        site.patch(&off).await?;
        let cleared = |work: &Work| is(work, "Available", "True") && mirrored(work, 0).is_none();
        site.until_work("cleared", cleared).await?;
        site.remove().await
    });
}

/// 20 objects with 100 differences of about a kilobyte each are two megabytes: more than a Work can hold.
#[test]
fn a_status_that_does_not_fit_is_trimmed_and_says_so() {
    on_site("oversized", |site| async move {
        let filled = |word: &str| {
            let all: serde_json::Map<String, Value> = (0..100).map(|i| (format!("k{i:03}"), json!(word))).collect();
            Value::Object(all)
        };
        let names: Vec<String> = (0..20).map(|i| format!("c{i:02}")).collect();
        for name in &names {
            site.theirs::<ConfigMap>(&site.config(name, &filled(&"mine ".repeat(200))))
                .await?;
        }
        let manifests: Vec<Value> = names.iter().map(|name| site.config(name, &filled("ours"))).collect();
        let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never"});
        site.apply(&strategy, &manifests).await?;
        let done = site.until("DiffReported", "True").await?;
        ensure!(
            is(&done, "StatusTrimmed", "True"),
            "{:?}",
            done.status.map(|s| s.conditions)
        );
        let text = message(&done, "StatusTrimmed");
        ensure!(text.contains("has been trimmed due to size constraints"), "{text}");
        ensure!(serde_json::to_vec(&done)?.len() < 1_415_578);
        // Fewer of them fit again.
        site.edit(&manifests[..2]).await?;
        let fits = site
            .until_work("fits", |work| {
                is(work, "DiffReported", "True") && !has(work, "StatusTrimmed")
            })
            .await?;
        ensure!(diffs(&fits, 0).len() == 100);
        site.remove().await
    });
}
