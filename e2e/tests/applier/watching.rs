//! What the agent's watches see.

use std::time::Duration;

use anyhow::ensure;
use fleet_e2e::wait;
use futures::StreamExt as _;
use kube::api::{DynamicObject, Patch, PatchParams, WatchParams};
use serde_json::json;
use tokio::time::timeout;

use crate::gadgets::Gadgets;
use crate::site::{SOON, is, on_site, reasons};

#[test]
fn what_one_work_applies_another_that_compares_it_sees_at_once() {
    on_site("two", |mut site| async move {
        site.apply(&json!({}), &[site.config("c", &json!({"a": "1"}))]).await?;
        site.available().await?;
        let (first, second) = (site.name.clone(), site.ctx.name("second"));
        site.name.clone_from(&second);
        let compare = json!({"type": "ReportDiff", "whenToTakeOver": "Never"});
        site.apply(&compare, &[site.config("c", &json!({"a": "2"}))]).await?;
        site.until_reasons("DiffReported", &["FoundDiff"]).await?;
        site.name.clone_from(&first);
        site.edit(&[site.config("c", &json!({"a": "2"}))]).await?;
        site.name.clone_from(&second);
        site.soon("no difference", |work| reasons(work, "DiffReported") == ["NoDiffFound"])
            .await?;
        site.remove().await?;
        site.name = first;
        site.remove().await
    });
}

#[test]
fn a_watch_follows_the_version_that_is_served() {
    on_site("versions", |site| async move {
        let gadgets = Gadgets::new(&site);
        gadgets.define(&site, &[("v1", true), ("v2", true)]).await?;
        site.apply(&json!({}), &[gadgets.one(&site, "v1", "g")]).await?;
        site.available().await?;
        // The API server ends every watch of a version that it no longer serves, ours and the agent's.
        let ends = gadgets.all(&site, "v1");
        let watching = ends.watch(&WatchParams::default(), "0").await?;
        gadgets.serve(&site, &[("v1", false), ("v2", true)]).await?;
        timeout(
            Duration::from_mins(1),
            watching.take_while(|event| std::future::ready(event.is_ok())).count(),
        )
        .await?;
        site.edit(&[gadgets.one(&site, "v2", "g")]).await?;
        site.until_work("applied in v2", |work| is(work, "Applied", "True"))
            .await?;
        for value in [2, 3] {
            let change = Patch::Merge(json!({"spec": {"a": value}}));
            let all = gadgets.all(&site, "v2");
            all.patch("g", &PatchParams::default(), &change).await?;
            let back = |object: Option<&DynamicObject>| object.is_some_and(|o| o.data["spec"]["a"] == 1);
            wait::until_within(SOON, all, "g", "overwritten", back).await?;
        }
        let old = gadgets.all(&site, "v1").get("g").await;
        let unserved = matches!(&old, Err(kube::Error::Api(status)) if status.code == 404);
        ensure!(unserved, "v1 is served: {old:?}");
        site.remove().await
    });
}
