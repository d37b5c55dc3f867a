//! An agent that dies, is cut off, or leaves the fleet: each scenario has its own, beside the cluster's.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::Work;
use fleet_e2e::harness::scenario;
use fleet_e2e::members::Member;
use fleet_e2e::proxy::Proxy;
use fleet_e2e::{agents, wait};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::site::{Site, data, drifts, is, on_own_site, owners, reasons, work};

/// Killed as soon as so many objects are visible, then told to drop one of them: whatever had been made is found again.
#[test]
fn an_agent_killed_between_any_two_writes_leaves_nothing_behind() {
    on_own_site(
        "killed",
        |_| {},
        |mut site| async move {
            for visible in 0..=4 {
                site.name = site.ctx.name(&format!("w{visible}"));
                let prefix = format!("k{visible}-");
                let all: Vec<Value> = (0..4)
                    .map(|i| site.config(&format!("{prefix}{i}"), &json!({})))
                    .collect();
                site.apply(&json!({}), &all).await?;
                let mine = |list: &[ConfigMap]| list.iter().filter(|c| c.name_any().starts_with(&prefix)).count();
                if visible == 0 {
                    wait::until_present(site.applied_works(), &site.name, "exists", |_| true).await?;
                } else {
                    wait::until_list(site.configs(), "made", |list| mine(list) >= visible).await?;
                }
                site.kill().await?;
                site.edit(&all[1..]).await?;
                site.start_again().await?;
                site.available().await?;
                wait::until_list(site.configs(), "the dropped one is gone", |list| mine(list) == 3).await?;
                // And in the middle of the end.
                site.works().delete(&site.name, &DeleteParams::default()).await?;
                wait::until_list(site.configs(), "going", |list| mine(list) <= 3 - visible.min(3)).await?;
                site.kill().await?;
                site.start_again().await?;
                wait::until_gone(site.works(), &site.name).await?;
                wait::until_list(site.configs(), "all gone", |list| mine(list) == 0).await?;
                ensure!(site.applied_works().get_opt(&site.name).await?.is_none());
            }
            Ok(())
        },
    );
}

#[test]
fn a_restart_changes_nothing_that_is_as_it_should_be() {
    on_own_site(
        "restart",
        |_| {},
        |site| async move {
            site.settle().await?;
            let before = site.versions().await?;
            site.kill().await?;
            site.start_again().await?;
            // It has looked at everything once it sees drift again.
            site.member()?.next_beat().await?;
            let work = site.get().await?.resource_version();
            site.tamper("c", &json!({"data": null})).await?;
            site.configs().delete("c", &DeleteParams::default()).await?;
            wait::until_present(site.configs(), "c", "is back", |_| true).await?;
            let after = site.versions().await?;
            ensure!(
                work == before[0] && after[0] == before[0],
                "the status was written again"
            );
            site.remove().await
        },
    );
}

#[test]
fn a_work_whose_finalizer_is_stripped_vanishes_and_what_it_brought_stays() {
    on_own_site(
        "stripped",
        |_| {},
        |site| async move {
            site.apply(&json!({}), &[site.config("c", &json!({"a": "1"}))]).await?;
            site.available().await?;
            let uid = site.configs().get("c").await?.uid();
            site.kill().await?;
            site.patch(&json!({"metadata": {"finalizers": null}})).await?;
            site.works().delete(&site.name, &DeleteParams::default()).await?;
            wait::until_gone(site.works(), &site.name).await?;
            site.start_again().await?;
            // Another Work shows that it is at work; the old one's AppliedWork counts as an orphan.
            let other = work(&site.ctx.name("other"), &json!({}), &[site.config("d", &json!({}))])?;
            site.ctx.create_in("hub", &site.hub_namespace, other).await?;
            wait::until_present(site.configs(), "d", "exists", |_| true).await?;
            let metrics = site.metrics().await?;
            let orphans = metrics
                .lines()
                .find_map(|line| line.strip_prefix("fleet_work_applier_orphans "));
            let orphans: i64 = orphans.with_context(|| metrics.clone())?.parse()?;
            ensure!(orphans >= 1, "{orphans}");
            ensure!(site.configs().get("c").await?.uid() == uid);
            // The same Work again goes on with it, without taking anything over.
            site.apply(
                &json!({"whenToTakeOver": "Never"}),
                &[site.config("c", &json!({"a": "2"}))],
            )
            .await?;
            site.available().await?;
            let config = site.configs().get("c").await?;
            ensure!(config.uid() == uid && data(&config, "a") == Some("2"));
            site.remove().await
        },
    );
}

#[test]
fn a_clean_up_that_another_owner_holds_up_is_helped() {
    on_own_site(
        "stuck",
        |spec| spec.args.push("--deletion-wait-time=1".into()),
        |site| async move {
            let manifests = ["shared", "alone", "anchored"].map(|name| site.config(name, &json!({})));
            site.apply(&json!({"allowCoOwnership": true}), &manifests).await?;
            site.available().await?;
            site.tamper("anchored", &json!({"metadata": {"finalizers": ["example.com/keep"]}}))
                .await?;
            // A second owner that exists and never goes: the collector waits for it with us.
            let second: ConfigMap = site.theirs(&site.config("owner", &json!({}))).await?;
            let mut owners_now: Vec<Value> = Vec::new();
            for owner in site.configs().get("shared").await?.owner_references() {
                owners_now.push(serde_json::to_value(owner)?);
            }
            owners_now.push(json!({"apiVersion": "v1", "kind": "Nothing", "name": "owner", "uid": second.uid()}));
            site.tamper("shared", &json!({"metadata": {"ownerReferences": owners_now}}))
                .await?;
            site.works().delete(&site.name, &DeleteParams::default()).await?;
            wait::until_gone(site.configs(), "alone").await?;
            let event = site.until_event("CleanupStuck").await?;
            ensure!(
                event.message.clone().unwrap_or_default().contains("anchored"),
                "{event:?}"
            );
            let freed = |config: &ConfigMap| {
                let ours = config.owner_references().iter().find(|o| o.kind == "AppliedWork");
                ours.is_none_or(|ours| ours.block_owner_deletion == Some(false))
            };
            wait::until_present(site.configs(), "shared", "freed", freed).await?;
            site.tamper("anchored", &json!({"metadata": {"finalizers": null}}))
                .await?;
            wait::until_gone(site.works(), &site.name).await?;
            ensure!(
                site.configs().get_opt("shared").await?.is_some(),
                "what others own too is gone"
            );
            ensure!(site.configs().get_opt("anchored").await?.is_none());
            Ok(())
        },
    );
}

#[test]
fn leaving_keeps_what_was_placed_and_joining_again_goes_on_with_it() {
    on_own_site(
        "leave",
        |_| {},
        |mut site| async move {
            let member = site.member()?.clone();
            let names: Vec<String> = (0..10).map(|i| format!("c{i}")).collect();
            for name in &names {
                site.name = site.ctx.name(name);
                site.apply(&json!({}), &[site.config(name, &json!({"a": "1"}))]).await?;
            }
            for name in &names {
                site.name = site.ctx.name(name);
                site.available().await?;
            }
            // One more that is being worked on while the member leaves.
            site.name = site.ctx.name("late");
            let many: Vec<Value> = (0..40).map(|i| site.config(&format!("late{i}"), &json!({}))).collect();
            site.apply(&json!({}), &many).await?;
            member.delete().await?;
            member.until_gone().await?;
            let ours = |config: &ConfigMap| owners(config) == ["AppliedWork"];
            for name in &names {
                let config = site.configs().get(name).await?;
                ensure!(ours(&config) && data(&config, "a") == Some("1"));
            }
            let before = site.configs().get("c0").await?.uid();
            member.create_again().await?;
            member.joined().await?;
            // The same names find their AppliedWorks: nothing has to be taken over.
            site.name = site.ctx.name("c0");
            site.apply(
                &json!({"whenToTakeOver": "Never"}),
                &[site.config("c0", &json!({"a": "2"}))],
            )
            .await?;
            site.available().await?;
            let config = site.configs().get("c0").await?;
            ensure!(config.uid() == before && data(&config, "a") == Some("2"));
            // Another name takes over what an AppliedWork without a Work has left.
            site.name = site.ctx.name("other");
            site.apply(&json!({}), &[site.config("c1", &json!({"a": "2"}))]).await?;
            site.available().await?;
            site.remove().await
        },
    );
}

/// An agent whose way to the hub can be cut: to its API server, and to the channel.
async fn behind_proxies(ctx: &fleet_e2e::harness::Ctx) -> Result<(Site, Proxy, Proxy)> {
    let member = Member::create(ctx, "m").await?;
    let (server, _) = agents::hub_address(ctx.fleet())?;
    let api = Proxy::to(server.trim_start_matches("https://")).await?;
    let channel = Proxy::to(&member.address().await?.endpoint).await?;
    let mut spec = member.agent("member-2").await?;
    spec.env
        .insert("HUB_SERVER_URL".to_owned(), format!("https://{}", api.address()));
    spec.env
        .insert("HUB_CHANNEL_URL".to_owned(), format!("https://{}", channel.address()));
    ctx.start_process(spec).await?;
    Ok((Site::of(ctx.clone(), member).await?, api, channel))
}

#[test]
fn without_the_channel_objects_are_applied_and_reported_later() {
    scenario("no-channel", |ctx| async move {
        let (site, _api, channel) = behind_proxies(&ctx).await?;
        site.apply(&json!({}), &[site.config("c", &json!({"a": "1"}))]).await?;
        site.available().await?;
        channel.close();
        let changed = site.edit(&[site.config("c", &json!({"a": "2"}))]).await?;
        site.until_data("c", "a", "2").await?;
        let work = site.get().await?;
        ensure!(!is(&work, "Applied", "True"), "told without a channel");
        channel.heal();
        let done = site.available().await?;
        ensure!(done.metadata.generation == changed.metadata.generation);
        // Its end too.
        channel.close();
        site.works().delete(&site.name, &DeleteParams::default()).await?;
        wait::until_gone(site.configs(), "c").await?;
        ensure!(site.works().get_opt(&site.name).await?.is_some());
        channel.heal();
        wait::until_gone(site.works(), &site.name).await
    });
}

#[test]
fn without_the_hub_what_was_applied_is_kept_as_it_should_be() {
    scenario("no-hub", |ctx| async move {
        let (site, api, channel) = behind_proxies(&ctx).await?;
        site.apply(&json!({}), &[site.config("c", &json!({"a": "1"}))]).await?;
        site.available().await?;
        api.close();
        channel.close();
        // Long enough for every watch to have failed several times.
        tokio::time::sleep(Duration::from_secs(10)).await;
        site.tamper("c", &json!({"data": {"a": "theirs"}})).await?;
        site.until_data("c", "a", "1").await?;
        site.edit(&[site.config("c", &json!({"a": "2"})), site.config("d", &json!({}))])
            .await?;
        api.heal();
        channel.heal();
        site.until_data("c", "a", "2").await?;
        site.available().await?;
        site.remove().await
    });
}

/// With the option, differences that were found by comparing everything count as reported.
#[test]
fn a_setting_lets_comparisons_in_degraded_mode_count() {
    let flag = "--work-applier-count-degraded-diff-as-reported=true";
    on_own_site(
        "degraded-on",
        |spec| spec.args.push(flag.into()),
        |site| async move {
            let fixed = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": site.namespace}, "immutable": true, "data": {"a": value}});
            let made: ConfigMap = serde_json::from_value(fixed("theirs"))?;
            site.configs().create(&PostParams::default(), &made).await?;
            let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never"});
            site.apply(&strategy, &[fixed("ours")]).await?;
            let done: Work = site.until("DiffReported", "True").await?;
            ensure!(reasons(&done, "DiffReported") == ["FoundDiffInDegradedMode"]);
            site.remove().await
        },
    );
}

/// With the option, a label of Kubernetes' own domains is a label like any other.
#[test]
fn a_setting_lets_reserved_labels_be_compared() {
    let flag = "--work-applier-compare-reserved-keys=true";
    on_own_site(
        "reserved-on",
        |spec| spec.args.push(flag.into()),
        |site| async move {
            let labelled = |version: &str| {
                let mut config = site.config("c", &json!({}));
                config["metadata"]["labels"] = json!({"app.kubernetes.io/version": version});
                config
            };
            site.apply(&json!({"whenToApply": "IfNotDrifted"}), &[labelled("1")])
                .await?;
            site.available().await?;
            let theirs = json!({"metadata": {"labels": {"app.kubernetes.io/version": "theirs"}}});
            site.tamper("c", &theirs).await?;
            let drifted = site.until("Applied", "False").await?;
            ensure!(reasons(&drifted, "Applied") == ["FoundDrifts"], "{drifted:?}");
            let paths: Vec<_> = drifts(&drifted, 0).into_iter().map(|(path, ..)| path).collect();
            ensure!(paths == ["/metadata/labels/app.kubernetes.io~1version"], "{paths:?}");
            // A new version is no drift, though the hash, which leaves such labels out, is the same.
            site.edit(&[labelled("2")]).await?;
            site.available().await?;
            let version = |config: &ConfigMap| config.labels().get("app.kubernetes.io/version").cloned();
            let found = version(&site.configs().get("c").await?);
            ensure!(found.as_deref() == Some("2"), "{found:?}");
            site.remove().await
        },
    );
}
