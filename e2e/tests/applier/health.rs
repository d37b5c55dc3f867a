//! Objects whose manifests say themselves when they are available.

use anyhow::{Result, ensure};
use fleet_api::annotations::AVAILABLE_WHEN;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::gadgets::Gadgets;
use crate::site::{Site, is, messages, on_site, reasons};

fn saying(mut manifest: Value, expression: &str) -> Value {
    manifest["metadata"]["annotations"] = json!({ AVAILABLE_WHEN: expression });
    manifest
}

/// What their controller on the member would do.
async fn reach(site: &Site, gadgets: &Gadgets, phase: &str) -> Result<()> {
    let change = Patch::Merge(json!({ "status": { "phase": phase } }));
    gadgets
        .all(site, "v1")
        .patch("g", &PatchParams::default(), &change)
        .await?;
    Ok(())
}

#[test]
fn a_custom_resource_is_available_when_its_manifest_says_so() {
    on_site("health", |site| async move {
        let gadgets = Gadgets::new(&site);
        gadgets.define(&site, &[("v1", true)]).await?;
        let gadget = saying(gadgets.one(&site, "v1", "g"), "self.status.phase == 'Ready'");
        site.apply(&json!({}), &[gadget, site.config("c", &json!({}))]).await?;
        // It has no status yet.
        let first = site
            .until_reasons("Available", &["ManifestNotAvailableYet", "Available"])
            .await?;
        ensure!(is(&first, "Applied", "True") && is(&first, "Available", "False"));
        for (phase, reason) in [
            ("Ready", "Available"),
            ("Broken", "ManifestNotAvailableYet"),
            ("Ready", "Available"),
        ] {
            reach(&site, &gadgets, phase).await?;
            site.soon(phase, |work| reasons(work, "Available") == [reason, "Available"])
                .await?;
        }
        site.available().await?;
        site.remove().await
    });
}

#[test]
fn an_expression_that_is_wrong_is_named() {
    on_site("wrong", |site| async move {
        let gadgets = Gadgets::new(&site);
        gadgets.define(&site, &[("v1", true)]).await?;
        let one = || gadgets.one(&site, "v1", "g");
        site.apply(&json!({}), &[saying(one(), "self.status.phase = 'Ready'")])
            .await?;
        let shown = site.until_reasons("Available", &["Failed"]).await?;
        ensure!(is(&shown, "Applied", "True") && is(&shown, "Available", "False"));
        let said = messages(&shown, "Available");
        let begins =
            format!("Failed to track the availability of the applied manifest (error = {AVAILABLE_WHEN}: at 1:19:");
        ensure!(said[0].starts_with(&begins), "{said:?}");

        reach(&site, &gadgets, "Ready").await?;
        for (expression, names) in [
            ("self.status.phse == 'Ready'", "no such key: phse"),
            ("self.status.phase", "it is a text, not true or false"),
            ("self.status.phase.matches('R.*')", "there is no matches() here"),
        ] {
            site.edit(&[saying(one(), expression)]).await?;
            site.until_work(names, |work| {
                messages(work, "Available").iter().any(|said| said.contains(names))
            })
            .await?;
        }
        site.edit(&[saying(one(), "self.status.phase == 'Ready'")]).await?;
        site.available().await?;
        site.remove().await
    });
}
