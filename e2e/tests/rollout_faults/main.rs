//! Placements whose hub agent dies, is replaced or was away: nothing is lost, nothing is left behind, and the budget holds
//! all the same. These kill what all scenarios share, so they run one after the other on a fleet of their own.

mod runs;
mod screen;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::finalizers;
use fleet_api::placement::{ClusterSchedulingPolicySnapshot, Scope};
use fleet_e2e::agents::{self, API_SERVER, HUB_AGENT, with_hub_flags};
use fleet_e2e::binaries;
use fleet_e2e::gate::Gate;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, Placement, change, furnished, place, rolling, whole_namespace};
use fleet_e2e::played::{Act, Cast, affinity};
use fleet_e2e::works::{cluster_of, contains};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};
use tokio::time::Instant;

/// Everything once: snapshots, a binding and a Work for each of the clusters.
async fn in_order<S: Scope>(placement: &Placement<S>, clusters: usize) -> Result<()> {
    placement.is_whole(clusters).await?;
    let works = placement.works().await?;
    let mut on: Vec<_> = works.iter().map(cluster_of).collect();
    on.sort();
    on.dedup();
    ensure!(on.len() == clusters && works.len() == clusters, "{works:?}");
    Ok(())
}

/// Disturbs a placement, and its run of the same name if it has one: the hub agent is killed before the first write that
/// `begin` causes, then with another placement after the first, and so on, until there are no more. Each time it ends as
/// `done` says. Gives how many writes there are.
async fn killed_after_every_write<S: Scope>(
    ctx: &Ctx,
    named: impl Fn(&str) -> Placement<S>,
    prepare: impl AsyncFn(&Placement<S>) -> Result<()>,
    begin: impl AsyncFn(&Placement<S>) -> Result<()>,
    done: impl AsyncFn(&Placement<S>) -> Result<()>,
) -> Result<usize> {
    let mut writes = 0;
    // One that is killed leads again as soon as it is back.
    with_hub_flags(ctx.fleet(), &["--leader-elect=false"], async || {
        for count in 0.. {
            let placement = named(&ctx.name(&format!("p-{count}")));
            prepare(&placement).await?;
            let gate = Gate::new(ctx, &placement.name, count).await?;
            let at = || format!("killed after write {count}");
            begin(&placement).await?;
            let killed = tokio::select! {
                biased;
                () = gate.held() => true,
                outcome = done(&placement) => outcome.with_context(at).map(|()| false)?,
            };
            if killed {
                ctx.fleet().kill(HUB_AGENT).await?;
            }
            gate.open().await?;
            if killed {
                ctx.fleet().start_again(HUB_AGENT).await?;
            }
            done(&placement).await.with_context(at)?;
            // The next one has its writes to itself.
            let api = placement.api::<S::Placement>().await?;
            if api.get_opt(&placement.name).await?.is_some() {
                placement.remove().await?;
            }
            if !killed {
                writes = count;
                break;
            }
        }
        Ok(())
    })
    .await?;
    Ok(writes)
}

/// The furnished namespace onto two clusters, and who plays them.
async fn two(ctx: &Ctx) -> Result<(Cast, Value)> {
    let cast = Cast::new(ctx, &["a", "b"]).await?;
    let spec = json!({
        "resourceSelectors": whole_namespace(&furnished(ctx).await?), "policy": cast.everywhere(),
        "strategy": rolling(&json!(1), &json!(1)),
    });
    Ok((cast, spec))
}

/// None is left out: a placement on two clusters cannot do with fewer.
fn at_least(least: usize, writes: usize) -> Result<()> {
    println!("killed after each of {writes} writes");
    ensure!(writes >= least, "the agent was killed after {writes} writes only");
    Ok(())
}

#[test]
fn a_hub_agent_killed_after_any_write_of_a_creation_goes_on() {
    scenario("crash-new", |ctx| async move {
        let (_cast, spec) = two(&ctx).await?;
        let create = async |crp: &Crp| Crp::create_called(&ctx, &crp.name, &spec).await.map(drop);
        let whole = async |crp: &Crp| {
            crp.until_available(0).await?;
            in_order(crp, 2).await
        };
        let named = |name: &str| Crp::named(&ctx, name);
        // Finalizers, two snapshots, two bindings, two Works, and the status of each but the Works.
        at_least(
            9,
            killed_after_every_write(&ctx, named, async |_| Ok(()), create, whole).await?,
        )
    });
}

#[test]
fn a_hub_agent_killed_after_any_write_of_an_update_goes_on() {
    scenario("crash-next", |ctx| async move {
        let (_cast, spec) = two(&ctx).await?;
        let there = async |crp: &Crp| {
            Crp::create_called(&ctx, &crp.name, &spec).await?;
            crp.until_available(0).await.map(drop)
        };
        // The value is the placement's name: none of them finds what it wants already there.
        let update = async |crp: &Crp| change(&ctx, &crp.name).await;
        let updated = async |crp: &Crp| {
            crp.until_available(1).await?;
            in_order(crp, 2).await?;
            let (works, wanted) = (crp.works().await?, format!("{:?}", crp.name));
            ensure!(works.iter().all(|work| contains(work, &wanted)), "{works:?}");
            Ok(())
        };
        let named = |name: &str| Crp::named(&ctx, name);
        // A snapshot, and for each cluster its binding, its Work and its status.
        at_least(7, killed_after_every_write(&ctx, named, there, update, updated).await?)
    });
}

#[test]
fn a_hub_agent_killed_after_any_write_of_a_deletion_leaves_nothing() {
    scenario("crash-end", |ctx| async move {
        let (_cast, spec) = two(&ctx).await?;
        let there = async |crp: &Crp| {
            Crp::create_called(&ctx, &crp.name, &spec).await?;
            crp.until_available(0).await.map(drop)
        };
        let delete = async |crp: &Crp| crp.delete().await;
        let gone = async |crp: &Crp| crp.until_gone().await;
        let named = |name: &str| Crp::named(&ctx, name);
        // Two bindings, two Works, two snapshots and the finalizers.
        at_least(7, killed_after_every_write(&ctx, named, there, delete, gone).await?)
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

/// How many writes of anybody to these kinds the hub's API server has refused because something else came in between.
async fn conflicts(ctx: &Ctx, plurals: &[&str]) -> Result<u64> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let text = ctx.hub().await?.request_text(request).await?;
    let of_ours = |line: &&str| {
        line.starts_with("apiserver_request_total{")
            && line.contains("code=\"409\"")
            && plurals
                .iter()
                .any(|plural| line.contains(&format!("resource=\"{plural}\"")))
    };
    let counts = text.lines().filter(of_ours).filter_map(|line| line.rsplit_once(' '));
    Ok(counts.filter_map(|(_, count)| count.parse::<u64>().ok()).sum())
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
        let written = ["clusterresourcebindings", "clusterresourceplacements"];
        let before = conflicts(&ctx, &written).await?;
        let outcome = changed.await;
        noise.abort();
        outcome?;
        // Otherwise this has shown nothing.
        ensure!(conflicts(&ctx, &written).await? > before, "nothing came in between");
        let placement = crp.get().await?;
        ensure!(
            placement.finalizers().iter().any(|f| f == finalizers::SCHEDULER),
            "{placement:?}"
        );
        crp.remove().await
    });
}
