//! "ClusterStagedUpdateRun TSG", of 2025. Each of its outputs is, in the words of today, one that the guide of 2026 shows, and
//! that one is played on a fleet (`staged`). The one that is not, of a Deployment in an envelope, is played here.
//!
//! Its outputs of `kubectl get deploy` and `kubectl get pods` on a member are Kubernetes' own.

use anyhow::{Context as _, Result};
use fleet_api::placement::ResourceEnvelope;
use fleet_e2e::agents::with_hub_flags;
use fleet_e2e::harness::scenario;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::sample;
use crate::staged::{Guide, nginx};

/// What the guide says, and what the one of 2026 says instead.
const WORDS: [(&str, &str); 14] = [
    (
        "    Message:  There are still 2 cluster(s) in the process of deciding whether to roll out the latest resources or \
         not\n    Observed Generation:  1\n    Reason:  RolloutStartedUnknown",
        "    Message:  Rollout is controlled by an external controller and no resource snapshot name is observed across \
         clusters, probably rollout has not started yet\n    Observed Generation:  1\n    Reason:  \
         RolloutControlledByExternalController",
    ),
    ("  Observed Resource Index:  0\n", ""),
    ("  Selected Resources:  \n    ...\n", ""),
    (
        "to roll out the latest resources or not",
        "to roll out some version of the resources or not",
    ),
    (
        "cannot continue the ClusterStagedUpdateRun",
        "cannot continue the updateRun",
    ),
    (
        "failed to initialize the clusterStagedUpdateRun",
        "failed to validate the updateRun",
    ),
    (
        "no clusterResourceSnapshots with index `1` found for clusterResourcePlacement `example-placement`",
        "no resourceSnapshots with index `1` found for placement `/example-placement`",
    ),
    (
        "parent clusterResourcePlacement not found",
        "parent placement not found",
    ),
    (
        "ClusterStagedUpdateRun initialized successfully",
        "The UpdateRun initialized successfully",
    ),
    (
        "unexpected behavior which cannot be handled by the controller: the clusterResourceBinding of the updating cluster \
         `member1` in the stage `staging` does not have expected status: binding spec diff: binding has different \
         resourceSnapshotName, want: example-placement-0-snapshot, got: example-placement-1-snapshot; binding state (want \
         Bound): Bound; binding RolloutStarted (want true): true, please check if there is concurrent clusterStagedUpdateRun",
        "failed to process the request due to a client error: the binding of the updating cluster `member1` in the stage \
         `staging` is not up-to-date with the desired status, please check the status of binding \
         `example-placement-member1-2afc7d7f` and see if there is a concurrent updateRun referencing the same placement and \
         updating the same cluster",
    ),
    (
        "waiting for cluster member1 in stage staging to finish updating, please check crp status",
        "waiting for member1 cluster(s) in stage staging to finish updating, please check placement status",
    ),
    ("clusterStagedUpdateRun: example-run", "updateRun: example-run"),
    (
        "Manifest is trackable but not available yet",
        "Manifest is not yet available; Fleet will check again later",
    ),
    ("Type:  ConfigMap", "Type:  ResourceEnvelope"),
];

/// The guide of 2026 has its first stage on the other cluster.
const NAMES: [(&str, &str); 6] = [
    ("example-placement-member1-2afc7d7f", "example-placement-left-e1a567da"),
    ("example-placement-member2-fc081413", "example-placement-right-9a1ee3a0"),
    ("member1", "left"),
    ("member2", "right"),
    ("left", "member2"),
    ("right", "member1"),
];

/// The Work of an envelope, as the samples name it.
const OLD_WORK: &str = "example-placement-work-configmap-c5971133-2779-4f6f-8681-3e05c4458c82";
const WORK: &str = "example-placement-work-envelope-0123456789abcdef";

fn replaced(text: &str, pairs: &[(&str, &str)]) -> String {
    pairs
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// `kubectl describe`, in today's words.
fn described(sample: &str) -> String {
    let lines = sample.lines().map(sample::field).collect::<Vec<_>>().join("\n");
    replaced(&format!("{lines}\n"), &WORDS)
}

/// The conditions of `kubectl get -o yaml`, in the words of today if they are not.
fn conditions(sample: &str, pairs: &[(&str, &str)]) -> Result<Value> {
    let mut value: Value = serde_saphyr::from_str(sample)?;
    sample::blind(&mut value, pairs);
    Ok(value["status"]["conditions"].take())
}

/// The run of today was created with `state: Initialize`, and `Run` was its second generation.
fn of_second_generation(mut conditions: Value) -> Value {
    for condition in conditions.as_array_mut().into_iter().flatten() {
        condition["observedGeneration"] = json!(2);
    }
    conditions
}

#[test]
fn descriptions_are_those_of_2026() {
    let (old, new) = (
        include_str!("samples/2025/external.describe.txt"),
        include_str!("samples/external.describe.txt"),
    );
    assert_eq!(described(old), described(new));
    let old = described(include_str!("samples/2025/run-not-initialized.describe.txt"));
    let new = described(include_str!("samples/run-not-initialized.describe.txt"));
    // The newer one begins with the apply strategy.
    let old = old.strip_prefix("Status:  \n").unwrap_or(&old);
    assert!(new.ends_with(old), "{old}\n{new}");
}

#[test]
fn conditions_are_those_of_2026() -> Result<()> {
    let pairs = [WORDS.as_slice(), &NAMES].concat();
    let (old, new) = (
        conditions(include_str!("samples/2025/run-failed.yaml"), &pairs)?,
        conditions(include_str!("samples/run-failed.yaml"), &[])?,
    );
    assert_eq!(of_second_generation(old), new);
    let (old, new) = (
        conditions(include_str!("samples/2025/run-preempted.yaml"), &pairs)?,
        conditions(include_str!("samples/run-preempted.yaml"), &[])?,
    );
    assert_eq!(old, new);
    let (old, new) = (
        conditions(include_str!("samples/2025/run-stuck.yaml"), &pairs)?,
        conditions(include_str!("samples/run-stuck.yaml"), &[])?,
    );
    assert_eq!(of_second_generation(old), new);
    Ok(())
}

#[test]
fn a_binding_is_that_of_2026() -> Result<()> {
    let mut old: Value = serde_saphyr::from_str(include_str!("samples/2025/binding-preempted.yaml"))?;
    let mut new: Value = serde_saphyr::from_str(include_str!("samples/binding-preempted.yaml"))?;
    sample::blind(&mut old, &[WORDS.as_slice(), &NAMES].concat());
    sample::blind(&mut new, &[]);
    assert_eq!(old, sample::cut(&new, &old));
    Ok(())
}

#[test]
fn tables_are_those_of_2026_without_their_new_column() {
    let tables = [
        (
            include_str!("samples/2025/run-not-initialized.get.txt"),
            include_str!("samples/run-not-initialized.get.txt"),
        ),
        (
            include_str!("samples/2025/run-failed.get.txt"),
            include_str!("samples/run-failed.get.txt"),
        ),
    ];
    for (old, new) in tables {
        let mut new = sample::cells(new, &[]);
        let column = new[0].iter().position(|head| head == "PROGRESSING");
        let column = column.expect("the column that came in 2026");
        for row in &mut new {
            row.remove(column);
        }
        assert_eq!(sample::cells(old, &[]), new);
    }
    let sorted = |mut rows: Vec<Vec<String>>| {
        rows[1..].sort();
        rows
    };
    let old = sorted(sample::cells(include_str!("samples/2025/bindings.get.txt"), &NAMES));
    assert_eq!(old, sample::cells(include_str!("samples/bindings.get.txt"), &[]));
}

#[test]
fn a_run_that_is_stuck_over_an_envelope() {
    scenario("guide-envelope", |ctx| async move {
        with_hub_flags(ctx.fleet(), &["--update-run-stuck-threshold=5s"], async || {
            let mut guide = Guide::new(&ctx, &json!({})).await?;
            let (namespace, mut inside) = (ctx.name("test-namespace"), nginx("nginx"));
            inside["metadata"]["namespace"] = json!(namespace);
            let envelope = json!({
                "metadata": { "name": "envelope-nginx-deploy" }, "data": { "nginx.yaml": inside },
            });
            ctx.create_in::<ResourceEnvelope>("hub", &namespace, serde_json::from_value(envelope)?)
                .await?;
            let run = guide.run("example-run", &json!({ "state": "Run" })).await?;
            guide.until(&run, "Progressing=False UpdateRunStuck").await?;
            guide.until_failed().await?;
            let works = guide.crp.works().await?;
            let work = works.iter().find(|work| work.name_any().contains("-work-envelope-"));
            let work = work.context("the Work of the envelope")?;
            guide.names.insert(0, (work.name_any(), WORK.to_owned()));
            let sample = described(include_str!("samples/2025/stuck-placement.describe.txt"));
            let sample = replaced(&sample, &NAMES).replace(OLD_WORK, WORK);
            guide.describes("crp", &guide.crp.name, &sample).await?;
            let next = format!("next: kubectl --context member-2 describe deployment.apps/nginx -n {namespace}");
            let said = ["stuck: member-2", "applied, but not available yet", &next];
            guide.why(&format!("csur/{run}"), &said).await?;
            guide.end().await
        })
        .await
    });
}
