//! Placements whose hub agent dies, is replaced or was away: nothing is lost, nothing is left behind, and the budget holds
//! all the same. These kill what all scenarios share, so they run one after the other on a fleet of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, Work,
};
use fleet_api::{finalizers, labels};
use fleet_e2e::agents::{self, HUB_AGENT};
use fleet_e2e::binaries;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placing::{Placed, change, cluster_of, config_map, contains, place, rolling, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::wait;
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

const API_SERVER: &str = "hub/kube-apiserver";
/// Who writes nothing more for so long is done.
const QUIET: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Listed,
    Write,
}

/// Every write to what belongs to a placement, by whomever; what is there already is not counted.
async fn writes(crp: &Placed, ctx: &Ctx) -> Result<BoxStream<'static, Seen>> {
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
            ctx.fleet().kill(HUB_AGENT).await?;
            ctx.fleet().start_again(HUB_AGENT).await?;
            Ok(true)
        }
        outcome = done => outcome.map(|()| false),
    }
}

/// One binding and one Work for each of the clusters, and one latest snapshot of each kind.
async fn in_order(ctx: &Ctx, crp: &Placed, clusters: usize) -> Result<()> {
    let bindings = crp.bindings().await?;
    ensure!(bindings.len() == clusters, "{bindings:?}");
    let works = crp.works().await?;
    let mut on: Vec<_> = works.iter().map(cluster_of).collect();
    on.sort();
    on.dedup();
    ensure!(on.len() == clusters && works.len() == clusters, "{works:?}");
    let latest = ListParams::default().labels(&format!("{},{}=true", crp.selector(), labels::IS_LATEST_SNAPSHOT));
    let policies: Api<ClusterSchedulingPolicySnapshot> = Api::all(ctx.hub().await?);
    ensure!(policies.list(&latest).await?.items.len() == 1, "policy snapshots");
    let snapshots: Api<ClusterResourceSnapshot> = Api::all(ctx.hub().await?);
    ensure!(snapshots.list(&latest).await?.items.len() == 1, "resource snapshots");
    Ok(())
}

/// Nothing is left of a placement.
async fn nothing_left(ctx: &Ctx, crp: &Placed) -> Result<()> {
    wait::until_gone(crp.api().await?, &crp.name).await?;
    crp.until_bindings("none left", <[_]>::is_empty).await?;
    crp.until_works("none left", <[_]>::is_empty).await?;
    let ours = ListParams::default().labels(&crp.selector());
    let policies: Api<ClusterSchedulingPolicySnapshot> = Api::all(ctx.hub().await?);
    let snapshots: Api<ClusterResourceSnapshot> = Api::all(ctx.hub().await?);
    let left = (
        policies.list(&ours).await?.items.len(),
        snapshots.list(&ours).await?.items.len(),
    );
    ensure!(left == (0, 0), "snapshots are left: {left:?}");
    Ok(())
}

/// From here on a hub agent that is killed leads again as soon as it is back.
async fn without_election(ctx: &Ctx) -> Result<()> {
    ctx.fleet().stop_process(HUB_AGENT).await?;
    let helm = binaries::find_or_build_helm().await?;
    let args = ["--leader-elect=false".to_owned()];
    agents::start_hub_agent(ctx.fleet(), &helm, HUB_AGENT, &args).await
}

async fn with_election(ctx: &Ctx) -> Result<()> {
    ctx.fleet().stop_process(HUB_AGENT).await?;
    let helm = binaries::find_or_build_helm().await?;
    agents::start_hub_agent(ctx.fleet(), &helm, HUB_AGENT, &[]).await
}

/// The stage of the crashes: two members and something to place, and a hub agent that leads as soon as it is back.
struct Stage {
    ctx: Ctx,
    _cast: Cast,
    spec: Value,
}

impl Stage {
    async fn new(ctx: &Ctx) -> Result<Self> {
        // The hub has seen what is placed long before the first placement.
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "one")).await?;
        without_election(ctx).await?;
        let cast = Cast::new(ctx, &["a", "b"]).await?;
        let spec = json!({
            "resourceSelectors": whole_namespace(&namespace), "policy": cast.everywhere(),
            "strategy": rolling(&json!(1), &json!(1)),
        });
        Ok(Self {
            ctx: ctx.clone(),
            _cast: cast,
            spec,
        })
    }

    fn placement(&self, count: usize) -> Placed {
        Placed::named(&self.ctx, &self.ctx.name(&format!("crp-{count}")))
    }

    async fn create(&self, crp: &Placed) -> Result<()> {
        Placed::create(&self.ctx, &crp.name, self.spec.clone()).await?;
        Ok(())
    }
}

#[test]
fn a_hub_agent_killed_after_any_write_of_a_creation_goes_on() {
    scenario("crash-new", |ctx| async move {
        let stage = Stage::new(&ctx).await?;
        // After the first write, the second, and so on, until there are no more.
        for count in 1.. {
            let crp = stage.placement(count);
            let mut seen = writes(&crp, &ctx).await?;
            stage.create(&crp).await?;
            let at = || format!("killed after write {count}");
            let done = || async { crp.until_available(0).await.map(|_| ()).with_context(at) };
            let killed = kill_after(&ctx, &mut seen, count, done()).await?;
            done().await?;
            in_order(&ctx, &crp, 2).await.with_context(at)?;
            crp.remove().await?;
            if !killed {
                break;
            }
        }
        with_election(&ctx).await
    });
}

#[test]
fn a_hub_agent_killed_after_any_write_of_an_update_goes_on() {
    scenario("crash-next", |ctx| async move {
        let stage = Stage::new(&ctx).await?;
        for count in 1.. {
            // A new one each time: a placement that changes again and again makes its users wait.
            let crp = stage.placement(count);
            stage.create(&crp).await?;
            crp.until_available(0).await?;
            let mut seen = writes(&crp, &ctx).await?;
            let value = format!("value-{count}");
            change(&ctx, &value).await?;
            let at = || format!("killed after write {count}");
            let done = || async { crp.until_available(1).await.map(|_| ()).with_context(at) };
            let killed = kill_after(&ctx, &mut seen, count, done()).await?;
            done().await?;
            in_order(&ctx, &crp, 2).await.with_context(at)?;
            let works = crp.works().await?;
            ensure!(works.iter().all(|work| contains(work, &value)), "{}: {works:?}", at());
            crp.remove().await?;
            if !killed {
                break;
            }
        }
        with_election(&ctx).await
    });
}

#[test]
fn a_hub_agent_killed_after_any_write_of_a_deletion_leaves_nothing() {
    scenario("crash-end", |ctx| async move {
        let stage = Stage::new(&ctx).await?;
        for count in 1.. {
            let crp = stage.placement(count);
            stage.create(&crp).await?;
            crp.until_available(0).await?;
            let mut seen = writes(&crp, &ctx).await?;
            crp.api().await?.delete(&crp.name, &DeleteParams::default()).await?;
            let at = || format!("killed after write {count}");
            let done = || async { nothing_left(&ctx, &crp).await.with_context(at) };
            let killed = kill_after(&ctx, &mut seen, count, done()).await?;
            done().await?;
            if !killed {
                break;
            }
        }
        with_election(&ctx).await
    });
}

#[test]
fn a_rollout_keeps_its_budget_when_the_hub_agent_dies_in_its_middle() {
    scenario("crash-roll", |ctx| async move {
        let words = ["a", "b", "c", "d"];
        let cast = Cast::new(&ctx, &words).await?;
        let on = |words: &[&str]| -> Vec<_> { words.iter().map(|word| cast.name(word)).collect() };
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        cast.act(&words, Act::Silent);
        change(&ctx, "two").await?;
        for done in 0..words.len() {
            // The next one has it, and only that one is not available.
            crp.until_text_on("\"two\"", &on(&words[..=done])).await?;
            ctx.fleet().kill(HUB_AGENT).await?;
            ctx.fleet().start_again(HUB_AGENT).await?;
            // Another placement shows that the new one is at work.
            let spec = json!({ "resourceSelectors": whole_namespace(ctx.prefix()), "policy": cast.everywhere() });
            let other = Placed::create(&ctx, &ctx.name(&format!("other-{done}")), spec).await?;
            other.until_works("on all", |works| works.len() == words.len()).await?;
            crp.until_text_on("\"two\"", &on(&words[..=done])).await?;
            other.remove().await?;
            cast.act(&words[..=done], Act::Available);
        }
        crp.until_available(1).await?;
        in_order(&ctx, &crp, 4).await
    });
}

#[test]
fn what_happened_while_the_hub_agent_was_away_is_made_up_for() {
    scenario("away", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let going = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        going.until_available(0).await?;
        let spec = json!({ "resourceSelectors": whole_namespace(ctx.prefix()), "policy": cast.some(1) });
        let staying = Placed::create(&ctx, &ctx.name("staying"), spec.clone())
            .await?
            .settled()
            .await?;
        staying.until_available(0).await?;
        let before = staying.bindings().await?;
        let asked = Instant::now();
        ctx.fleet().stop_process(HUB_AGENT).await?;
        let took = asked.elapsed();
        // After three seconds it would have been killed.
        ensure!(took < Duration::from_secs(3), "it took {took:?} to end");

        // One is deleted, and its snapshots as well; one is made; one loses its cluster's binding.
        going.api().await?.delete(&going.name, &DeleteParams::default()).await?;
        let policies: Api<ClusterSchedulingPolicySnapshot> = Api::all(ctx.hub().await?);
        let ours = ListParams::default().labels(&going.selector());
        policies.delete_collection(&DeleteParams::default(), &ours).await?;
        let made = Placed::create(&ctx, &ctx.name("made"), spec).await?;
        staying.evict(&before[0].name_any()).await?;
        change(&ctx, "two").await?;
        ctx.fleet().start_again(HUB_AGENT).await?;
        nothing_left(&ctx, &going).await?;
        made.until_available(0).await?;
        staying.until_available(1).await?;
        in_order(&ctx, &staying, 1).await?;
        ensure!(staying.bindings().await?[0].uid() != before[0].uid(), "it was evicted");
        staying.until_text_on("\"two\"", &[cast.name("b")]).await?;
        Ok(())
    });
}

#[test]
fn a_restart_with_nothing_to_do_writes_nothing() {
    scenario("quiet", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let state = || async {
            let mut versions = BTreeMap::new();
            for binding in crp.bindings().await? {
                versions.insert(format!("binding {}", binding.name_any()), binding.resource_version());
            }
            for work in crp.works().await? {
                versions.insert(format!("work {}", cluster_of(&work)), work.resource_version());
            }
            versions.insert("policy".to_owned(), crp.policy().await?.resource_version());
            versions.insert("placement".to_owned(), crp.get().await?.resource_version());
            anyhow::Ok(versions)
        };
        // The last writes of the roll-up may still be on their way.
        let mut seen = writes(&crp, &ctx).await?;
        while timeout(QUIET, seen.next()).await.is_ok() {}
        let before = state().await?;
        ctx.fleet().restart(HUB_AGENT).await?;
        let spec = json!({ "resourceSelectors": whole_namespace(ctx.prefix()), "policy": cast.everywhere() });
        let other = Placed::create(&ctx, &ctx.name("other"), spec).await?.settled().await?;
        other.until_available(0).await?;
        let after = state().await?;
        ensure!(before == after, "before {before:?}\nafter {after:?}");
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
        let leases = Api::<Lease>::namespaced(ctx.hub().await?, agents::NAMESPACE);
        let lease = "136224848560.hub.fleet.azure.com";
        let holder = |lease: &Lease| {
            lease
                .spec
                .as_ref()
                .and_then(|s| s.holder_identity.clone())
                .unwrap_or_default()
        };
        let first_holder = holder(&leases.get(lease).await?);
        agents::start_hub_agent(fleet, &helm, &second, &["--pod-name=replica".to_owned()]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        cast.act(&words, Act::Silent);
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &[cast.name("a")]).await?;
        fleet.kill(HUB_AGENT).await?;
        wait::until_present(leases, lease, "another holder", |lease| {
            !holder(lease).is_empty() && holder(lease) != first_holder
        })
        .await?;
        cast.act(&words, Act::Available);
        crp.until_available(1).await?;
        in_order(&ctx, &crp, 2).await?;
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
        ctx.fleet().kill(API_SERVER).await?;
        ctx.fleet().start_again(API_SERVER).await?;
        crp.until_available(0).await?;
        in_order(&ctx, &crp, words.len()).await?;
        change(&ctx, "two").await?;
        crp.until_works("the first with the change", |works| {
            works.iter().any(|w| contains(w, "\"two\""))
        })
        .await?;
        ctx.fleet().kill(API_SERVER).await?;
        ctx.fleet().start_again(API_SERVER).await?;
        crp.until_available(1).await?;
        in_order(&ctx, &crp, words.len()).await?;
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
            let (crp, placements) = (crp.clone(), crp.api().await?);
            tokio::spawn(async move {
                for n in 0.. {
                    let note = json!({ "metadata": { "annotations": { "example.com/noise": n.to_string() } } });
                    for binding in crp.bindings().await.unwrap_or_default() {
                        let _ = crp.patch_binding(&binding.name_any(), note.clone()).await;
                    }
                    let _ = placements
                        .patch(&crp.name, &PatchParams::default(), &Patch::Merge(&note))
                        .await;
                }
            })
        };
        let changed = async {
            change(&ctx, "two").await?;
            crp.until_text_on("\"two\"", &words.map(|word| cast.name(word))).await?;
            crp.edit(json!({ "policy": { "affinity": fleet_e2e::played::affinity(&[("none", "none")]) } }))
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
