//! Placements whose hub agent dies, is replaced or was away: nothing is lost, nothing is left behind, and the budget holds
//! all the same. These kill what all scenarios share, so they run one after the other on a fleet of their own.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::finalizers;
use fleet_api::placement::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, Work,
};
use fleet_e2e::agents::{self, API_SERVER, HUB_AGENT, with_hub_flags};
use fleet_e2e::binaries;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, change, furnished, place, rolling, whole_namespace};
use fleet_e2e::played::{Act, Cast, affinity};
use fleet_e2e::works::{cluster_of, contains};
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tokio::time::Instant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Listed,
    Write,
}

/// Every write to what belongs to a placement, by whomever; what is there already is not counted.
async fn writes(crp: &Crp, ctx: &Ctx) -> Result<BoxStream<'static, Seen>> {
    fn of<K>(api: Api<K>, config: watcher::Config) -> BoxStream<'static, Seen>
    where
        K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
    {
        let events = watcher(api, config).default_backoff();
        events
            .filter_map(|event| async move {
                match event {
                    Ok(watcher::Event::Apply(_) | watcher::Event::Delete(_)) => Some(Seen::Write),
                    Ok(watcher::Event::InitDone) => Some(Seen::Listed),
                    _ => None,
                }
            })
            .boxed()
    }
    let hub = ctx.hub().await?;
    let ours = watcher::Config::default().labels(&crp.selector());
    let own = watcher::Config::default().fields(&format!("metadata.name={}", crp.name));
    let mut all = select_all([
        of::<ClusterResourcePlacement>(Api::all(hub.clone()), own),
        of::<ClusterSchedulingPolicySnapshot>(Api::all(hub.clone()), ours.clone()),
        of::<ClusterResourceSnapshot>(Api::all(hub.clone()), ours.clone()),
        of::<ClusterResourceBinding>(Api::all(hub.clone()), ours.clone()),
        of::<Work>(Api::all(hub), ours),
    ]);
    for _ in 0..all.len() {
        while all.next().await.context("watches do not end")? != Seen::Listed {}
    }
    Ok(all.filter(|seen| std::future::ready(*seen == Seen::Write)).boxed())
}

/// Kills the hub agent as soon as so many writes have been seen. False if the work was done before.
async fn kill_after(
    ctx: &Ctx,
    seen: &mut BoxStream<'static, Seen>,
    count: usize,
    done: impl Future<Output = Result<()>>,
) -> Result<bool> {
    let written = async {
        for _ in 0..count {
            seen.next().await;
        }
    };
    tokio::select! {
        biased;
        () = written => {
            ctx.fleet().crash(HUB_AGENT).await?;
            Ok(true)
        }
        outcome = done => outcome.map(|()| false),
    }
}

/// Everything once: snapshots, a binding and a Work for each of the clusters.
async fn in_order(crp: &Crp, clusters: usize) -> Result<()> {
    crp.is_whole(clusters).await?;
    let works = crp.works().await?;
    let mut on: Vec<_> = works.iter().map(cluster_of).collect();
    on.sort();
    on.dedup();
    ensure!(on.len() == clusters && works.len() == clusters, "{works:?}");
    Ok(())
}

/// Disturbs a placement of something onto two clusters: the hub agent is killed after the first write that `begin` causes,
/// then with another placement after the second, and so on, until there are no more. Each time it ends as `done` says.
async fn killed_after_every_write(
    ctx: &Ctx,
    prepare: impl AsyncFn(&Crp, &Value) -> Result<()>,
    begin: impl AsyncFn(&Crp, &Value) -> Result<()>,
    done: impl AsyncFn(&Crp) -> Result<()>,
) -> Result<()> {
    let cast = Cast::new(ctx, &["a", "b"]).await?;
    let spec = json!({
        "resourceSelectors": whole_namespace(&furnished(ctx).await?), "policy": cast.everywhere(),
        "strategy": rolling(&json!(1), &json!(1)),
    });
    // One that is killed leads again as soon as it is back.
    with_hub_flags(ctx.fleet(), &["--leader-elect=false"], async || {
        for count in 1.. {
            let crp = Crp::named(ctx, &ctx.name(&format!("crp-{count}")));
            prepare(&crp, &spec).await?;
            let mut seen = writes(&crp, ctx).await?;
            begin(&crp, &spec).await?;
            let at = || format!("killed after write {count}");
            let killed = kill_after(ctx, &mut seen, count, done(&crp)).await.with_context(at)?;
            done(&crp).await.with_context(at)?;
            // The next one has its writes to itself.
            let api = crp.api::<ClusterResourcePlacement>().await?;
            if api.get_opt(&crp.name).await?.is_some() {
                crp.remove().await?;
            }
            if !killed {
                break;
            }
        }
        Ok(())
    })
    .await
}

#[test]
fn a_hub_agent_killed_after_any_write_of_a_creation_goes_on() {
    scenario("crash-new", |ctx| async move {
        let create = async |crp: &Crp, spec: &Value| Crp::create_called(&ctx, &crp.name, spec).await.map(drop);
        killed_after_every_write(
            &ctx,
            async |_, _| Ok(()),
            create,
            async |crp| {
                crp.until_available(0).await?;
                in_order(crp, 2).await
            },
        )
        .await
    });
}

#[test]
fn a_hub_agent_killed_after_any_write_of_an_update_goes_on() {
    scenario("crash-next", |ctx| async move {
        let there = async |crp: &Crp, spec: &Value| {
            Crp::create_called(&ctx, &crp.name, spec).await?;
            crp.until_available(0).await.map(drop)
        };
        // The value is the placement's name: none of them finds what it wants already there.
        let update = async |crp: &Crp, _: &Value| change(&ctx, &crp.name).await;
        killed_after_every_write(&ctx, there, update, async |crp| {
            crp.until_available(1).await?;
            in_order(crp, 2).await?;
            let (works, wanted) = (crp.works().await?, format!("{:?}", crp.name));
            ensure!(works.iter().all(|work| contains(work, &wanted)), "{works:?}");
            Ok(())
        })
        .await
    });
}

#[test]
fn a_hub_agent_killed_after_any_write_of_a_deletion_leaves_nothing() {
    scenario("crash-end", |ctx| async move {
        let there = async |crp: &Crp, spec: &Value| {
            Crp::create_called(&ctx, &crp.name, spec).await?;
            crp.until_available(0).await.map(drop)
        };
        let delete = async |crp: &Crp, _: &Value| crp.delete().await;
        killed_after_every_write(&ctx, there, delete, async |crp| crp.until_gone().await).await
    });
}

#[test]
fn a_rollout_keeps_its_budget_when_the_hub_agent_dies_in_its_middle() {
    scenario("crash-roll", |ctx| async move {
        let words = ["a", "b", "c", "d"];
        let cast = Cast::new(&ctx, &words).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        cast.act(&words, Act::Silent);
        change(&ctx, "two").await?;
        for done in 0..words.len() {
            // The next one has it, and only that one is not available.
            crp.until_text_on("\"two\"", &cast.names(&words[..=done])).await?;
            ctx.fleet().crash(HUB_AGENT).await?;
            // Another placement shows that the new one is at work.
            let spec = json!({ "resourceSelectors": whole_namespace(ctx.prefix()), "policy": cast.everywhere() });
            let other = Crp::create(&ctx, &format!("other-{done}"), &spec).await?;
            other.until_works("on all", |works| works.len() == words.len()).await?;
            crp.until_text_on("\"two\"", &cast.names(&words[..=done])).await?;
            other.remove().await?;
            cast.act(&words[..=done], Act::Available);
        }
        crp.until_available(1).await?;
        in_order(&crp, 4).await
    });
}

#[test]
fn what_happened_while_the_hub_agent_was_away_is_made_up_for() {
    scenario("away", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let going = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        going.until_available(0).await?;
        let spec = json!({ "resourceSelectors": whole_namespace(ctx.prefix()), "policy": cast.some(1) });
        let staying = Crp::create(&ctx, "staying", &spec).await?;
        staying.until_available(0).await?;
        let before = staying.bindings().await?;
        let asked = Instant::now();
        ctx.fleet().stop_process(HUB_AGENT).await?;
        let took = asked.elapsed();
        // After three seconds it would have been killed.
        ensure!(took < Duration::from_secs(3), "it took {took:?} to end");

        // One is deleted, and its snapshots as well; one is made; one loses its cluster's binding.
        going.delete().await?;
        let policies: Api<ClusterSchedulingPolicySnapshot> = Api::all(ctx.hub().await?);
        let ours = ListParams::default().labels(&going.selector());
        policies.delete_collection(&DeleteParams::default(), &ours).await?;
        let made = Crp::create(&ctx, "made", &spec).await?;
        staying.evict(&before[0].name_any()).await?;
        change(&ctx, "two").await?;
        ctx.fleet().start_again(HUB_AGENT).await?;
        going.until_gone().await?;
        made.until_available(0).await?;
        staying.until_available(1).await?;
        in_order(&staying, 1).await?;
        ensure!(staying.bindings().await?[0].uid() != before[0].uid(), "it was evicted");
        staying.until_text_on("\"two\"", &[cast.name("b")]).await?;
        Ok(())
    });
}

#[test]
fn another_replica_goes_on_with_a_rollout() {
    scenario("replica", |ctx| async move {
        let words = ["a", "b"];
        let cast = Cast::new(&ctx, &words).await?;
        let fleet = ctx.fleet();
        let helm = binaries::find_or_build_helm().await?;
        let second = format!("hub/{}", ctx.name("replica"));
        let first = agents::until_leader(fleet, "").await?;
        agents::start_hub_agent(fleet, &helm, &second, &["--pod-name=replica".to_owned()]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        cast.act(&words, Act::Silent);
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &[cast.name("a")]).await?;
        fleet.kill(HUB_AGENT).await?;
        agents::until_leader(fleet, &first).await?;
        cast.act(&words, Act::Available);
        crp.until_available(1).await?;
        in_order(&crp, 2).await?;
        // The first comes back and stands by; then it has to lead again.
        fleet.start_again(HUB_AGENT).await?;
        change(&ctx, "three").await?;
        crp.until_available(2).await?;
        fleet.stop_process(&second).await?;
        change(&ctx, "four").await?;
        crp.until_available(3).await?;
        crp.remove().await
    });
}

#[test]
fn an_api_server_that_goes_away_in_the_middle_makes_no_duplicates() {
    scenario("api-away", |ctx| async move {
        let words = ["a", "b", "c", "d"];
        let cast = Cast::new(&ctx, &words).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        ctx.fleet().crash(API_SERVER).await?;
        crp.until_available(0).await?;
        in_order(&crp, words.len()).await?;
        change(&ctx, "two").await?;
        crp.until_works("the first with the change", |works| {
            works.iter().any(|w| contains(w, "\"two\""))
        })
        .await?;
        ctx.fleet().crash(API_SERVER).await?;
        crp.until_available(1).await?;
        in_order(&crp, words.len()).await?;
        crp.remove().await
    });
}

#[test]
fn writes_of_others_in_between_are_survived() {
    scenario("conflicts", |ctx| async move {
        let words = ["a", "b", "c", "d", "e"];
        let cast = Cast::new(&ctx, &words).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        // Somebody touches every binding and the placement all the time.
        let noise = {
            let crp = crp.clone();
            tokio::spawn(async move {
                for n in 0.. {
                    let note = json!({ "metadata": { "annotations": { "example.com/noise": n.to_string() } } });
                    for binding in crp.bindings().await.unwrap_or_default() {
                        let _ = crp.patch_binding(&binding.name_any(), note.clone()).await;
                    }
                    let _ = crp.patch(&note).await;
                }
            })
        };
        let changed = async {
            change(&ctx, "two").await?;
            crp.until_text_on("\"two\"", &cast.names(&words)).await?;
            crp.edit(json!({ "policy": { "affinity": affinity(&[("none", "none")]) } }))
                .await?;
            crp.until_bindings("none", <[_]>::is_empty).await?;
            crp.edit(json!({ "policy": cast.everywhere() })).await?;
            crp.until_bindings("all", |all| all.len() == words.len()).await?;
            anyhow::Ok(())
        };
        let outcome = changed.await;
        noise.abort();
        outcome?;
        let placement = crp.get().await?;
        ensure!(
            placement.finalizers().iter().any(|f| f == finalizers::SCHEDULER),
            "{placement:?}"
        );
        crp.remove().await
    });
}
