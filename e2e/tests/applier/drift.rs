//! What somebody changes on the member.

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::wait;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::site::{SOON, Site, data, drifts, entries, is, messages, on_site, reasons};

#[test]
fn what_is_changed_or_deleted_on_the_member_comes_back_at_once() {
    on_site("drift", |site| async move {
        site.apply(&json!({}), &[site.config("c", &json!({"a": "1"}))]).await?;
        site.available().await?;
        let is_back = |object: Option<&ConfigMap>| object.and_then(|o| data(o, "a")) == Some("1");
        site.tamper("c", &json!({"data": {"a": "2"}})).await?;
        wait::until_within(SOON, site.configs(), "c", "overwritten", is_back).await?;
        site.configs().delete("c", &DeleteParams::default()).await?;
        wait::until_within(SOON, site.configs(), "c", "created again", is_back).await?;
        site.remove().await
    });
}

#[test]
fn drift_is_reported_and_kept_when_asked() {
    on_site("ifnotdrifted", |site| async move {
        let wanted = |value: &str| site.config("c", &json!({"a": value}));
        site.apply(&json!({"whenToApply": "IfNotDrifted"}), &[wanted("1")])
            .await?;
        site.available().await?;
        site.tamper("c", &json!({"data": {"a": "2"}})).await?;
        let drifted = site.soon("drift", |work| !drifts(work, 0).is_empty()).await?;
        ensure!(reasons(&drifted, "Applied") == ["FoundDrifts"]);
        ensure!(drifts(&drifted, 0) == [("/data/a".into(), "2".into(), "1".into())]);
        let first = entries(&drifted)[0].drift_details.clone().context("details")?;
        // Another value is still the same drift.
        site.tamper("c", &json!({"data": {"a": "3"}})).await?;
        let more = site
            .soon("more", |work| drifts(work, 0).iter().any(|d| d.1 == "3"))
            .await?;
        let second = entries(&more)[0].drift_details.clone().context("details")?;
        ensure!(second.first_drifted_observed_time == first.first_drifted_observed_time);
        // Put back by hand, nothing of it is left.
        site.tamper("c", &json!({"data": {"a": "1"}})).await?;
        let healed = site.available().await?;
        ensure!(entries(&healed)[0].drift_details.is_none());
        // A changed manifest overwrites drift.
        site.tamper("c", &json!({"data": {"a": "4"}})).await?;
        site.soon("drift", |work| !drifts(work, 0).is_empty()).await?;
        site.edit(&[wanted("5")]).await?;
        site.until_data("c", "a", "5").await?;
        site.available().await?;
        site.remove().await
    });
}

/// The object after a managed field was changed and another added, and the paths that were reported.
async fn tampered(site: &Site, managed: Option<&str>) -> Result<ConfigMap> {
    let mut change = json!({"data": {"extra": "x"}});
    if let Some(value) = managed {
        change["data"]["a"] = json!(value);
    }
    site.tamper("c", &change).await
}

#[test]
fn every_mode_treats_drift_and_extra_fields_as_it_says() {
    // (whenToApply, comparisonOption), paths reported for an extra field, and for drift in a managed one.
    let modes: [(&str, &str, &[&str], &[&str]); 4] = [
        ("Always", "PartialComparison", &[], &[]),
        ("Always", "FullComparison", &["/data/extra"], &["/data/extra"]),
        ("IfNotDrifted", "PartialComparison", &[], &["/data/a"]),
        (
            "IfNotDrifted",
            "FullComparison",
            &["/data/extra"],
            &["/data/a", "/data/extra"],
        ),
    ];
    for (index, (when, option, extra, both)) in modes.into_iter().enumerate() {
        on_site(&format!("mode{index}"), |site| async move {
            let strategy = json!({"whenToApply": when, "comparisonOption": option});
            site.apply(&strategy, &[site.config("c", &json!({"a": "1"}))]).await?;
            site.available().await?;
            let paths = |work: &fleet_api::placement::Work| {
                drifts(work, 0).into_iter().map(|(path, ..)| path).collect::<Vec<_>>()
            };
            for (managed, expected) in [(None, extra), (Some("2"), both)] {
                tampered(&site, managed).await?;
                let applied = when == "Always" || expected.is_empty();
                let status = if applied { "True" } else { "False" };
                let what = format!("{when} {option}: {expected:?}");
                site.until_work(&what, |work| paths(work) == expected && is(work, "Applied", status))
                    .await?;
                if when == "Always" {
                    site.until_data("c", "a", "1").await?;
                } else if managed.is_some() {
                    ensure!(data(&site.configs().get("c").await?, "a") == Some("2"), "{what}");
                }
                ensure!(data(&site.configs().get("c").await?, "extra") == Some("x"), "{what}");
            }
            site.remove().await
        });
    }
}

#[test]
fn drift_that_the_server_calls_invalid_is_found_by_comparing_everything() {
    on_site("degraded", |site| async move {
        let job = |label: &str| {
            json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": site.namespace},
                "spec": {"suspend": true, "template": {
                    "metadata": {"labels": {"v": label}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}},
            })
        };
        site.apply(&json!({"whenToApply": "IfNotDrifted"}), &[job("1")]).await?;
        site.available().await?;
        // While it is suspended its template may change; afterwards nobody may change it back.
        let jobs = site.all::<Job>();
        let change = json!({"spec": {"template": {"metadata": {"labels": {"v": "2"}}}}});
        jobs.patch("j", &PatchParams::default(), &Patch::Merge(&change)).await?;
        let resume = json!({"spec": {"suspend": false}});
        jobs.patch("j", &PatchParams::default(), &Patch::Merge(&resume)).await?;
        let degraded = |work: &fleet_api::placement::Work| reasons(work, "Applied") == ["FoundDriftsInDegradedMode"];
        let label = "/spec/template/metadata/labels/v";
        // A look between the two changes compares the object that it read before them; the next one sees the label.
        site.until_work("degraded, by its label", |work| {
            degraded(work) && drifts(work, 0).iter().any(|(path, ..)| path == label)
        })
        .await?;
        // The same under ReportDiff: found, but not reported as the Work sees it.
        site.patch(&json!({"spec": {"applyStrategy": {"type": "ReportDiff", "whenToApply": null}}}))
            .await?;
        let diffed = site.until_reasons("DiffReported", &["FoundDiffInDegradedMode"]).await?;
        ensure!(is(&diffed, "DiffReported", "False"));
        site.remove().await
    });
}

#[test]
fn what_a_secret_holds_is_never_shown() {
    on_site("secret", |site| async move {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": site.namespace}, "data": {"k": "b3Vycw=="}});
        let strategy = json!({"whenToApply": "IfNotDrifted", "comparisonOption": "FullComparison"});
        site.apply(&strategy, &[secret]).await?;
        site.until_work("applied", |work| !entries(work).is_empty()).await?;
        let secrets = site.all::<Secret>();
        let theirs = json!({"data": {"k": "dGhlaXJz"}});
        wait::until_present(secrets.clone(), "s", "exists", |_| true).await?;
        secrets
            .patch("s", &PatchParams::default(), &Patch::Merge(&theirs))
            .await?;
        let path = |work: &fleet_api::placement::Work| drifts(work, 0).into_iter().find(|d| d.0 == "/data/k");
        let drifted = site.until_work("drift", |work| path(work).is_some()).await?;
        let masked = "(redacted for security reasons)";
        let (_, member, hub) = path(&drifted).context("a drift")?;
        ensure!(member == masked && hub == masked);
        ensure!(!serde_json::to_string(&drifted.status)?.contains("dGhlaXJz"));
        site.remove().await
    });
}

#[test]
fn who_keeps_changing_an_object_back_is_named_and_left_alone_for_a_while() {
    on_site("fight", |site| async move {
        site.apply(&json!({}), &[site.config("c", &json!({"a": "1"}))]).await?;
        site.available().await?;
        for value in ["2", "3", "4"] {
            site.tamper("c", &json!({"data": {"a": value}})).await?;
            site.until_data("c", "a", "1").await?;
        }
        let event = site.until_event("ManifestContested").await?;
        let text = event.message.unwrap_or_default();
        ensure!(text.contains("somebody"), "{text}");
        // It is as it should be for a moment, and does not count.
        let fought_over = site.until_reasons("Applied", &["ManifestApplyFailed"]).await?;
        let said = "Failed to apply the manifest (error: failed to apply the manifest: somebody keeps changing the object \
                    back on the member cluster; let only one of the two manage it)";
        ensure!(messages(&fought_over, "Applied") == [said], "{fought_over:?}");
        // Now it stays theirs for a while.
        site.tamper("c", &json!({"data": {"a": "5"}})).await?;
        let back = |object: Option<&ConfigMap>| object.and_then(|o| data(o, "a")) == Some("1");
        let fought = wait::until_within(SOON, site.configs(), "c", "overwritten", back).await;
        ensure!(fought.is_err(), "it was overwritten at once");
        ensure!(reasons(&site.get().await?, "Applied") == ["ManifestApplyFailed"]);
        // A new generation is another matter.
        site.edit(&[site.config("c", &json!({"a": "6"}))]).await?;
        site.soon("applied", |work| is(work, "Available", "True")).await?;
        ensure!(data(&site.configs().get("c").await?, "a") == Some("6"));
        ensure!(site.configs().get("c").await?.uid().is_some());
        site.remove().await
    });
}
