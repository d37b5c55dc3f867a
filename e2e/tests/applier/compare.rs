//! ReportDiff, and going from one mode to the other.

use anyhow::{Context as _, ensure};
use fleet_api::placement::{AppliedWork, Work};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt as _;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::site::{diffs, entries, has, messages, on_site, owners, reasons};

#[test]
fn differences_are_reported_without_touching_anything() {
    on_site("reportdiff", |site| async move {
        let secret = |key: &str, value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": site.namespace}, key: {"k": value}});
        site.theirs::<Secret>(&secret("stringData", "theirs")).await?;
        let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never"});
        let unknown = json!({"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "n"}});
        let manifests = [secret("data", "b3Vycw=="), site.config("absent", &json!({}))];
        site.apply(&strategy, &manifests).await?;
        let done = site.until("DiffReported", "True").await?;
        ensure!(reasons(&done, "DiffReported") == ["FoundDiff", "FoundDiff"]);
        let masked = "(redacted for security reasons)".to_owned();
        ensure!(diffs(&done, 0)[0] == ("/data/k".into(), masked.clone(), masked));
        ensure!(diffs(&done, 1)[0] == ("/".into(), String::new(), "(the whole object)".into()));
        let secrets = site.all::<Secret>();
        ensure!(owners(&secrets.get("s").await?).is_empty());
        // Seen when it happens.
        let theirs: ConfigMap = serde_json::from_value(site.config("absent", &json!({})))?;
        site.configs().create(&PostParams::default(), &theirs).await?;
        site.soon("no difference", |work| {
            reasons(work, "DiffReported") == ["FoundDiff", "NoDiffFound"]
        })
        .await?;
        // What cannot be compared says why.
        site.edit(&[manifests[0].clone(), unknown]).await?;
        let blocked = site.until("DiffReported", "False").await?;
        let text = &messages(&blocked, "DiffReported")[1];
        ensure!(
            text.starts_with("An error blocks the diff reporting process (DecodingErred, error: "),
            "{text}"
        );
        site.remove().await?;
        ensure!(secrets.get_opt("s").await?.is_some(), "what was only compared is gone");
        Ok(())
    });
}

#[test]
fn comparing_takes_over_by_default_and_says_so() {
    on_site("diff-owns", |site| async move {
        let before: ConfigMap = site.theirs(&site.config("c", &json!({"a": "1"}))).await?;
        site.apply(&json!({"type": "ReportDiff"}), &[site.config("c", &json!({"a": "2"}))])
            .await?;
        let done = site.until("DiffReported", "True").await?;
        let after = site.configs().get("c").await?;
        ensure!(after.data == before.data && owners(&after) == ["AppliedWork"] && after.annotations().is_empty());
        let text = &messages(&done, "DiffReported")[0];
        ensure!(
            text.contains("; "),
            "the condition does not say that the object is ours now: {text}"
        );
        site.remove().await?;
        ensure!(site.configs().get_opt("c").await?.is_none());
        Ok(())
    });
}

fn listed(object: &AppliedWork) -> usize {
    object
        .status
        .as_ref()
        .map_or(0, |status| status.applied_resources.len())
}

#[test]
fn going_from_comparing_to_applying_and_back_loses_nothing() {
    on_site("modes", |site| async move {
        let both = [site.config("one", &json!({})), site.config("two", &json!({}))];
        let mode = |name: &str| json!({"spec": {"applyStrategy": {"type": name}}});
        site.apply(&json!({"type": "ReportDiff"}), &both).await?;
        let compared = site.until("DiffReported", "True").await?;
        ensure!(!has(&compared, "Applied") && !has(&compared, "Available"));
        site.patch(&mode("ClientSideApply")).await?;
        let applied = site.available().await?;
        ensure!(!has(&applied, "DiffReported") && reasons(&applied, "DiffReported") == ["", ""]);
        wait::until_present(site.applied_works(), &site.name, "two listed", |a| listed(a) == 2).await?;
        site.patch(&mode("ReportDiff")).await?;
        let compared = site.until("DiffReported", "True").await?;
        ensure!(reasons(&compared, "Applied") == ["", ""] && reasons(&compared, "DiffReported") == ["NoDiffFound"; 2]);
        wait::until_present(site.applied_works(), &site.name, "none listed", |a| listed(a) == 0).await?;
        // Back, and without one of them, in the same change: it was ours, and it goes.
        let mut change = mode("ClientSideApply");
        change["spec"]["workload"] = json!({"manifests": [both[0]]});
        site.patch(&change).await?;
        site.available().await?;
        wait::until_gone(site.configs(), "two").await?;
        wait::until_present(site.applied_works(), &site.name, "one listed", |a| listed(a) == 1).await?;
        site.remove().await
    });
}

#[test]
fn a_long_list_of_differences_is_cut_and_says_how_long_it_was() {
    on_site("long", |site| async move {
        let many: serde_json::Map<String, Value> = (0..150).map(|i| (format!("k{i:03}"), json!("ours"))).collect();
        site.theirs::<ConfigMap>(&site.config("c", &json!({"k000": "theirs"})))
            .await?;
        let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never"});
        site.apply(&strategy, &[site.config("c", &Value::Object(many))]).await?;
        let done: Work = site.until("DiffReported", "True").await?;
        let details = entries(&done)[0]
            .diff_details
            .clone()
            .context("details")?
            .observed_diffs;
        ensure!(details.len() <= 100, "{}", details.len());
        let text = &messages(&done, "DiffReported")[0];
        ensure!(text.contains("; 100 of 150 differences are listed"), "{text}");
        site.remove().await
    });
}
