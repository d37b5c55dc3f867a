//! The bounds of update strategies: what is just inside passes, what is just outside does not.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::ClusterStagedUpdateStrategy;
use fleet_e2e::harness::{Ctx, scenario};
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};

/// What the API server says to a strategy with these stages; nothing is stored.
async fn tried(ctx: &Ctx, stages: &Value) -> Result<kube::Result<DynamicObject>> {
    let kind = ApiResource::erase::<ClusterStagedUpdateStrategy>(&());
    let object = DynamicObject::new(&ctx.name("strategy"), &kind).data(json!({ "spec": { "stages": stages } }));
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let api = Api::<DynamicObject>::all_with(ctx.hub().await?, &kind);
    Ok(api.create(&dry_run, &object).await)
}

/// A stage with this field.
fn with(field: &str, value: Value) -> Value {
    let mut stage = json!({ "name": "s" });
    stage[field] = value;
    json!([stage])
}

fn waits(time: &str) -> Value {
    with("afterStageTasks", json!([{ "type": "TimedWait", "waitTime": time }]))
}

#[test]
fn a_strategy_has_its_bounds() {
    scenario("strategy-bounds", |ctx| async move {
        let named = |count: usize| {
            json!(
                (0..count)
                    .map(|n| json!({ "name": format!("s{n}") }))
                    .collect::<Vec<_>>()
            )
        };
        let tasks = |field: &str, count: usize| with(field, json!(vec![json!({ "type": "Approval" }); count]));
        let concurrency = |value: Value| with("maxConcurrency", value);
        for good in [
            named(0),
            named(31),
            with("name", json!("s".repeat(63))),
            tasks("afterStageTasks", 2),
            tasks("beforeStageTasks", 1),
            concurrency(json!(1)),
            concurrency(json!(150)),
            concurrency(json!("1%")),
            concurrency(json!("100%")),
            waits("0s"),
            waits("1h30m"),
        ] {
            let answer = tried(&ctx, &good).await?;
            ensure!(answer.is_ok(), "{good}: {answer:?}");
        }
        let many = "spec.stages: Too many: 32: must have at most 31 items";
        for (bad, says) in [
            (named(32), many),
            (with("name", json!("Stage_1")), "spec.stages[0].name"),
            (with("name", json!("s".repeat(64))), "spec.stages[0].name"),
            (tasks("afterStageTasks", 3), "spec.stages[0].afterStageTasks"),
            (tasks("beforeStageTasks", 2), "spec.stages[0].beforeStageTasks"),
            (concurrency(json!(0)), "maxConcurrency must be at least 1"),
            (concurrency(json!(-1)), "maxConcurrency must be at least 1"),
            (
                concurrency(json!("0")),
                "spec.stages[0].maxConcurrency in body should match",
            ),
            (
                concurrency(json!("50")),
                "spec.stages[0].maxConcurrency in body should match",
            ),
            (
                concurrency(json!("0%")),
                "spec.stages[0].maxConcurrency in body should match",
            ),
            (
                concurrency(json!("101%")),
                "spec.stages[0].maxConcurrency in body should match",
            ),
            (waits("1"), "waitTime in body should match"),
            (waits("1d"), "waitTime in body should match"),
            (waits("01h"), "waitTime in body should match"),
            (waits("0abc"), "waitTime in body should match"),
        ] {
            let answer = tried(&ctx, &bad).await?;
            let error = answer.err().with_context(|| format!("{bad} was accepted"))?;
            ensure!(error.to_string().contains(says), "{bad}: {error}");
        }
        let plain = tried(&ctx, &named(1)).await??;
        let default = &plain.data["spec"]["stages"][0]["maxConcurrency"];
        ensure!(*default == json!(1), "{default}");
        Ok(())
    });
}
