//! An etcd that is restored from an older backup, on the hub and on a member: agents go on without a restart, and nothing
//! is removed because the hub has forgotten it.
//!
//! These stop the control plane that all scenarios share, so they run one after the other on a fleet of their own.
//!
//! A backup is some seconds old when it is restored. `FLEET_BACKUP_AGE=600` makes it ten minutes: API servers have then
//! compacted what the watches came from, tokens were renewed, and leases ended.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use fleet_api::annotations::{RECOVERED_AT, WENT_BACK_AT};
use fleet_api::cluster::InternalMemberCluster;
use fleet_api::conditions;
use fleet_api::placement::Work;
use fleet_e2e::agents::HUB_AGENT;
use fleet_e2e::backup::Backup;
use fleet_e2e::events::Events;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::Member;
use fleet_e2e::placements::{Crp, config_map, spec, whole_namespace};
use fleet_e2e::wait;
use jiff::ToSpan as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

const MEMBERS: [&str; 2] = ["member-1", "member-2"];

/// Onto both of the fleet's members, and onto none that a scenario adds on the same clusters.
fn everywhere() -> Value {
    only(&MEMBERS)
}

fn only(clusters: &[&str]) -> Value {
    json!({ "placementType": "PickFixed", "clusterNames": clusters })
}

/// The backup grows old.
async fn age() {
    let seconds = std::env::var("FLEET_BACKUP_AGE")
        .ok()
        .and_then(|text| text.parse().ok());
    tokio::time::sleep(Duration::from_secs(seconds.unwrap_or(0))).await;
}

async fn configs(ctx: &Ctx, cluster: &str, namespace: &str) -> Result<Api<ConfigMap>> {
    Ok(Api::namespaced(ctx.client(cluster).await?, namespace))
}

fn value(config: &ConfigMap) -> Option<&str> {
    config.data.as_ref()?.get("key").map(String::as_str)
}

/// Waits until both members have this value.
async fn arrives(ctx: &Ctx, namespace: &str, name: &str, wanted: &str) -> Result<()> {
    for member in MEMBERS {
        let api = configs(ctx, member, namespace).await?;
        wait::until_present(api, name, wanted, |config| value(config) == Some(wanted)).await?;
    }
    Ok(())
}

/// Both members have this value now.
async fn is_there(ctx: &Ctx, namespace: &str, name: &str, wanted: &str) -> Result<()> {
    for member in MEMBERS {
        has(ctx, member, namespace, name, wanted).await?;
    }
    Ok(())
}

/// A cluster has this value now.
async fn has(ctx: &Ctx, cluster: &str, namespace: &str, name: &str, wanted: &str) -> Result<()> {
    let found = configs(ctx, cluster, namespace).await?.get_opt(name).await?;
    let is = found.as_ref().and_then(value);
    ensure!(is == Some(wanted), "{name} on {cluster} is {is:?}, not {wanted}");
    Ok(())
}

/// Places a namespace of its own on a member that runs on `cluster`, and waits for it; returns its name.
async fn place_on(ctx: &Ctx, word: &str, member: &Member, cluster: &str) -> Result<String> {
    let namespace = ctx.another_namespace("hub", word).await?;
    ctx.create_in("hub", &namespace, config_map("settings", "one")).await?;
    let spec = spec(&whole_namespace(&namespace), &only(&[&member.name]));
    Crp::create(ctx, word, &spec).await?;
    let api = configs(ctx, cluster, &namespace).await?;
    wait::until_present(api, "settings", "arrives", |_| true).await?;
    Ok(namespace)
}

async fn write(ctx: &Ctx, cluster: &str, namespace: &str, name: &str, to: &str) -> Result<()> {
    let patch = Patch::Merge(json!({ "data": { "key": to } }));
    let api = configs(ctx, cluster, namespace).await?;
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn internals(ctx: &Ctx, member: &str) -> Result<Api<InternalMemberCluster>> {
    Ok(Api::namespaced(ctx.hub().await?, &format!("fleet-member-{member}")))
}

/// Somebody has looked, and says so with the command of the page about restoring: of all members, also those that other
/// scenarios had when the backup was taken.
async fn recover(ctx: &Ctx) -> Result<()> {
    // By the second, as `date` writes it; what was noticed in this very second is not newer.
    let now = fleet_e2e::now().checked_add(1.second())?;
    let mark = format!("{RECOVERED_AT}={}", now.strftime("%Y-%m-%dT%H:%M:%SZ"));
    let annotate = [
        "annotate",
        "internalmemberclusters",
        "--all",
        "--all-namespaces",
        "--overwrite",
    ];
    let kubectl = ctx.kubectl("hub")?;
    kubectl.ok(&[&annotate[..], &[mark.as_str()]].concat()).await?;
    Ok(())
}

/// A scenario after which somebody has always looked: a fleet that holds still would fail all that come after it.
fn restoring<Story: Future<Output = Result<()>>>(name: &str, story: impl FnOnce(Ctx) -> Story) {
    scenario(name, |ctx| async move {
        let outcome = story(ctx.clone()).await;
        recover(&ctx).await?;
        outcome
    });
}

fn has_mark(imc: &InternalMemberCluster) -> bool {
    imc.metadata
        .annotations
        .as_ref()
        .is_some_and(|list| list.contains_key(WENT_BACK_AT))
}

fn log_of(ctx: &Ctx, member: &str) -> PathBuf {
    ctx.fleet().log_path(&fleet_e2e::agents::member_agent(member))
}

/// Waits until both members and the hub agent hold still. `before` is where the members' logs ended before the restore.
async fn held(ctx: &Ctx, before: &[u64]) -> Result<()> {
    for (member, before) in MEMBERS.into_iter().zip(before) {
        wait::until_present(internals(ctx, member).await?, member, "is marked", has_mark).await?;
        let log = log_of(ctx, member);
        wait::until_log_after(
            &log,
            *before,
            "The hub went back in time: nothing is applied or removed",
        )
        .await?;
    }
    Ok(())
}

/// Whether its member says of the Work as it is now that it holds still.
fn says_why(work: &Work) -> bool {
    let status = work.status.as_ref();
    let applied = status.and_then(|status| conditions::find(&status.conditions, "Applied"));
    applied.is_some_and(|applied| {
        applied.reason == "HubWentBackInTime"
            && applied.status == "False"
            && applied.observed_generation == work.metadata.generation
    })
}

/// Removes from members what the hub has forgotten, which nobody else would.
async fn sweep(ctx: &Ctx, words: &[&str]) -> Result<()> {
    for member in MEMBERS {
        let client = ctx.client(member).await?;
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
        let orphans: Api<fleet_api::placement::AppliedWork> = Api::all(client);
        for orphan in orphans.list(&ListParams::default()).await? {
            let name = orphan.metadata.name.unwrap_or_default();
            if words.iter().any(|word| name.starts_with(&ctx.name(word))) {
                orphans.delete(&name, &DeleteParams::background()).await?;
            }
        }
        for word in words {
            let _ = namespaces.delete(&ctx.name(word), &DeleteParams::default()).await;
        }
    }
    Ok(())
}

#[test]
fn a_restored_hub_deletes_nothing_and_goes_on_when_told() {
    restoring("hub-restored", |ctx| async move {
        // Before the backup: one placement to be changed, one to be removed.
        let changed = ctx.namespace("hub").await?;
        ctx.create_in("hub", &changed, config_map("settings", "one")).await?;
        let removed = ctx.another_namespace("hub", "removed").await?;
        ctx.create_in("hub", &removed, config_map("settings", "one")).await?;
        let crp = Crp::create(&ctx, "changed", &spec(&whole_namespace(&changed), &everywhere())).await?;
        let gone = Crp::create(&ctx, "removed", &spec(&whole_namespace(&removed), &everywhere())).await?;
        arrives(&ctx, &changed, "settings", "one").await?;
        arrives(&ctx, &removed, "settings", "one").await?;
        let leaver = Member::create(&ctx, "leaver").await?;
        leaver.join_agent(MEMBERS[0]).await?;
        let kept = place_on(&ctx, "kept", &leaver, MEMBERS[0]).await?;
        let backup = Backup::take(ctx.fleet(), "hub").await?;

        // Since the backup: an object added, one changed, a placement added, another removed; a member joined, another left.
        ctx.create_in("hub", &changed, config_map("late", "new")).await?;
        write(&ctx, "hub", &changed, "settings", "two").await?;
        let added = ctx.another_namespace("hub", "added").await?;
        ctx.create_in("hub", &added, config_map("settings", "new")).await?;
        Crp::create(&ctx, "added", &spec(&whole_namespace(&added), &everywhere())).await?;
        gone.remove().await?;
        arrives(&ctx, &changed, "late", "new").await?;
        arrives(&ctx, &changed, "settings", "two").await?;
        arrives(&ctx, &added, "settings", "new").await?;
        let joiner = Member::create(&ctx, "joiner").await?;
        joiner.join_agent(MEMBERS[1]).await?;
        let theirs = place_on(&ctx, "theirs", &joiner, MEMBERS[1]).await?;
        leaver.delete().await?;
        leaver.until_gone().await?;
        age().await;

        let logs = MEMBERS.map(|member| wait::end_of(&log_of(&ctx, member)));
        backup.restore(ctx.fleet()).await?;
        held(&ctx, &logs).await?;
        ensure!(
            joiner.api().await?.get_opt(&joiner.name).await?.is_none(),
            "the hub does not know it"
        );
        // The hub agent sees what is there, and is told nothing by members that hold still but why.
        let works = crp
            .until_works("say why nothing is done", |works| works.iter().any(says_why))
            .await?;
        ensure!(!works.is_empty());
        is_there(&ctx, &changed, "late", "new").await?;
        is_there(&ctx, &changed, "settings", "two").await?;
        is_there(&ctx, &added, "settings", "new").await?;
        // A deletion on the hub waits as well.
        gone.delete().await?;
        // Both agents start anew, and know it still.
        ctx.fleet().crash(HUB_AGENT).await?;
        ctx.fleet().start_again(HUB_AGENT).await?;
        for member in MEMBERS {
            let process = fleet_e2e::agents::member_agent(member);
            ctx.fleet().crash(&process).await?;
            ctx.fleet().start_again(&process).await?;
        }
        write(&ctx, "hub", &changed, "settings", "three").await?;
        // Both members have seen the change, and both agents all that was there before it.
        crp.until_works("have the change, which is not applied", |works| {
            let new = |work: &Work| fleet_e2e::works::contains(work, "three") && says_why(work);
            works.len() == MEMBERS.len() && works.iter().all(new)
        })
        .await?;
        for member in MEMBERS {
            Member::named(&ctx, member).next_beat().await?;
        }
        is_there(&ctx, &changed, "late", "new").await?;
        is_there(&ctx, &changed, "settings", "two").await?;
        let going = gone.works().await?;
        ensure!(!going.is_empty() && going.iter().all(|work| work.metadata.deletion_timestamp.is_none()));

        recover(&ctx).await?;
        arrives(&ctx, &changed, "settings", "three").await?;
        gone.until_gone().await?;
        // The member that had left is back, and leaves again, which keeps what it has as ever. The one that had joined is
        // unknown, and keeps what it has.
        leaver.joined().await?;
        leaver.delete().await?;
        leaver.until_gone().await?;
        has(&ctx, MEMBERS[0], &kept, "settings", "one").await?;
        has(&ctx, MEMBERS[1], &theirs, "settings", "one").await?;
        // What the backup does not know stays, and belongs to nobody.
        is_there(&ctx, &added, "settings", "new").await?;
        is_there(&ctx, &changed, "late", "new").await?;
        for member in MEMBERS {
            let api = configs(&ctx, member, &changed).await?;
            wait::until_present(api, "late", "belongs to nobody", |config| {
                config.metadata.owner_references.as_ref().is_none_or(Vec::is_empty)
            })
            .await?;
            let (home, work) = (format!("fleet-member-{member}"), ctx.name("changed-work"));
            let told = Events::about(&ctx, Some(&home), "Work", &work).await?;
            told.until("LeftoverKept", &["late", "the hub may have forgotten it"])
                .await?;
        }
        // Everything works as ever: what is removed on purpose goes.
        ctx.create_in("hub", &changed, config_map("short", "lived")).await?;
        arrives(&ctx, &changed, "short", "lived").await?;
        configs(&ctx, "hub", &changed)
            .await?
            .delete("short", &DeleteParams::default())
            .await?;
        for member in MEMBERS {
            wait::until_gone(configs(&ctx, member, &changed).await?, "short").await?;
        }
        sweep(&ctx, &["added", "kept", "theirs"]).await
    });
}

#[test]
fn a_restored_member_gets_back_what_it_should_have() {
    restoring("member-restored", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "one")).await?;
        Crp::create(&ctx, "crp", &spec(&whole_namespace(&namespace), &everywhere())).await?;
        arrives(&ctx, &namespace, "settings", "one").await?;
        let backup = Backup::take(ctx.fleet(), MEMBERS[0]).await?;
        ctx.create_in("hub", &namespace, config_map("late", "new")).await?;
        write(&ctx, "hub", &namespace, "settings", "two").await?;
        arrives(&ctx, &namespace, "settings", "two").await?;
        arrives(&ctx, &namespace, "late", "new").await?;
        backup.restore(ctx.fleet()).await?;
        // Without a restart of its agent.
        arrives(&ctx, &namespace, "settings", "two").await?;
        arrives(&ctx, &namespace, "late", "new").await?;
        // Its watches see again what happens on the cluster, and its reports are stored.
        write(&ctx, MEMBERS[0], &namespace, "settings", "theirs").await?;
        arrives(&ctx, &namespace, "settings", "two").await?;
        write(&ctx, "hub", &namespace, "settings", "three").await?;
        arrives(&ctx, &namespace, "settings", "three").await
    });
}
