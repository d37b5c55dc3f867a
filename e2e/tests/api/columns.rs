//! What `kubectl get` prints: documented columns, short names and categories.

use anyhow::{Result, ensure};
use fleet_e2e::harness::scenario;

use crate::kinds;

/// Plural, short name, heading, heading with `-o wide` (empty: the same).
#[rustfmt::skip]
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("appliedworks", "", "NAME AGE", ""),
    ("approvalrequests", "areq", "NAME UPDATE-RUN STAGE APPROVED AGE", ""),
    ("clusterapprovalrequests", "careq", "NAME UPDATE-RUN STAGE APPROVED AGE", ""),
    ("clusterresourcebindings", "crb", "NAME WORKSYNCHRONIZED RESOURCESAPPLIED AGE", "NAME WORKSYNCHRONIZED RESOURCESAPPLIED RESOURCEAVAILABLE AGE"),
    ("clusterresourceenvelopes", "", "NAME AGE", ""),
    ("clusterresourceoverrides", "", "NAME AGE", ""),
    ("clusterresourceoverridesnapshots", "", "NAME AGE", ""),
    ("clusterresourceplacementdisruptionbudgets", "crpdb", "NAME AGE", ""),
    ("clusterresourceplacementevictions", "crpe", "NAME VALID EXECUTED", ""),
    ("clusterresourceplacements", "crp", "NAME GEN SCHEDULED SCHEDULED-GEN AVAILABLE AVAILABLE-GEN AGE", "NAME GEN TYPE SCHEDULED SCHEDULED-GEN WORK-SYNCHRONIZED WORK-SYNCHRONIZED-GEN AVAILABLE AVAILABLE-GEN AGE"),
    ("clusterresourceplacementstatuses", "crps", "NAME RESOURCE-INDEX LAST-UPDATED AGE", ""),
    ("clusterresourcesnapshots", "crs", "NAME GEN AGE", ""),
    ("clusterschedulingpolicysnapshots", "csps", "NAME GEN AGE", ""),
    ("clusterstagedupdateruns", "csur", "NAME PLACEMENT RESOURCE-SNAPSHOT-INDEX POLICY-SNAPSHOT-INDEX INITIALIZED PROGRESSING SUCCEEDED AGE", "NAME PLACEMENT RESOURCE-SNAPSHOT-INDEX POLICY-SNAPSHOT-INDEX INITIALIZED PROGRESSING SUCCEEDED AGE STRATEGY"),
    ("clusterstagedupdatestrategies", "csus", "NAME AGE", ""),
    ("internalmemberclusters", "imc", "NAME AGE", ""),
    ("memberclusters", "cluster", "NAME JOINED AGE MEMBER-AGENT-LAST-SEEN NODE-COUNT AVAILABLE-CPU AVAILABLE-MEMORY", "NAME JOINED AGE MEMBER-AGENT-LAST-SEEN NODE-COUNT AVAILABLE-CPU AVAILABLE-MEMORY ALLOCATABLE-CPU ALLOCATABLE-MEMORY"),
    ("resourcebindings", "rb", "NAME WORKSYNCHRONIZED RESOURCESAPPLIED AGE", "NAME WORKSYNCHRONIZED RESOURCESAPPLIED RESOURCEAVAILABLE AGE"),
    ("resourceenvelopes", "", "NAME AGE", ""),
    ("resourceoverrides", "", "NAME AGE", ""),
    ("resourceoverridesnapshots", "", "NAME AGE", ""),
    ("resourceplacements", "rp", "NAME GEN SCHEDULED SCHEDULED-GEN AVAILABLE AVAILABLE-GEN AGE", "NAME GEN TYPE SCHEDULED SCHEDULED-GEN WORK-SYNCHRONIZED WORK-SYNCHRONIZED-GEN AVAILABLE AVAILABLE-GEN AGE"),
    ("resourcesnapshots", "rs", "NAME GEN AGE", ""),
    ("schedulingpolicysnapshots", "sps", "NAME GEN AGE", ""),
    ("stagedupdateruns", "sur", "NAME PLACEMENT RESOURCE-SNAPSHOT-INDEX POLICY-SNAPSHOT-INDEX INITIALIZED PROGRESSING SUCCEEDED AGE", "NAME PLACEMENT RESOURCE-SNAPSHOT-INDEX POLICY-SNAPSHOT-INDEX INITIALIZED PROGRESSING SUCCEEDED AGE STRATEGY"),
    ("stagedupdatestrategies", "sus", "NAME AGE", ""),
    ("works", "", "NAME AGE", ""),
];

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn kubectl_prints_the_documented_columns() {
    scenario("columns", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        for (plural, _, heading, wide) in KINDS {
            let kind = kinds::find(plural);
            let object = kind.named(&ctx, &namespace);
            kind.create(&ctx, &namespace, object).await?;
            let kubectl = ctx.kubectl(kind.cluster)?;
            for version in kind.crd.spec.versions.iter().map(|v| &v.name) {
                let resource = format!("{plural}.{version}.{}", kind.crd.spec.group);
                let mut args = vec!["get", &resource, ctx.prefix()];
                if kind.namespaced() {
                    args.extend(["-n", &namespace]);
                }
                let narrow = kubectl.ok(&args).await?;
                ensure!(words(first(&narrow)?) == words(heading), "{resource}:\n{narrow}");
                args.extend(["-o", "wide"]);
                let printed = kubectl.ok(&args).await?;
                let wanted = if wide.is_empty() { heading } else { wide };
                ensure!(
                    words(first(&printed)?) == words(wanted),
                    "{resource} -o wide:\n{printed}"
                );
            }
        }
        Ok(())
    });
}

fn first(printed: &str) -> Result<&str> {
    printed
        .lines()
        .next()
        .ok_or_else(|| anyhow::anyhow!("nothing was printed"))
}

#[test]
fn values_appear_under_their_columns() {
    scenario("values", |ctx| async move {
        let kind = kinds::find("memberclusters");
        kind.create(&ctx, "", kind.named(&ctx, "")).await?;
        let status = serde_json::json!({"status": {
            "conditions": [{
                "type": "Joined", "status": "True", "reason": "MemberClusterJoined", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "properties": {"kubernetes-fleet.io/node-count": {"value": "3", "observationTime": "2026-01-01T00:00:00Z"}},
            "resourceUsage": {"available": {"cpu": "3720m", "memory": "32784416Ki"}},
        }});
        let api = kind.api(&ctx, "v1beta1", "").await?;
        let patch = kube::api::Patch::Merge(status);
        api.patch_status(ctx.prefix(), &kube::api::PatchParams::default(), &patch)
            .await?;
        let printed = ctx.kubectl("hub")?.ok(&["get", "memberclusters", ctx.prefix()]).await?;
        let row = words(printed.lines().nth(1).unwrap_or_default());
        ensure!(
            row[1] == "True" && row[row.len() - 3..] == ["3", "3720m", "32784416Ki"],
            "{printed}"
        );
        Ok(())
    });
}

#[test]
fn short_names_and_categories_are_served() {
    scenario("short-names", |ctx| async move {
        let kubectl = ctx.kubectl("hub")?;
        let served = kubectl
            .ok(&["api-resources", "--categories=fleet", "--no-headers"])
            .await?;
        for (plural, short, ..) in KINDS.iter().filter(|(plural, ..)| *plural != "appliedworks") {
            let line = served
                .lines()
                .find(|line| line.split_whitespace().next() == Some(*plural));
            let line = line.ok_or_else(|| anyhow::anyhow!("{plural} is not in category fleet:\n{served}"))?;
            ensure!(
                short.is_empty() || words(line)[1].split(',').any(|s| s == *short),
                "no {short} in {line}"
            );
            // `rs` means ReplicaSet to kubectl, which asks the built-in groups first.
            if !short.is_empty() && *short != "rs" {
                let name = kubectl.ok(&["get", short, "-A", "-o", "name"]).await?;
                ensure!(
                    name.lines().all(|line| line.starts_with(&singular(plural))),
                    "{short} lists {name}"
                );
            }
        }
        for category in ["fleet-cluster", "fleet-placement"] {
            let served = kubectl
                .ok(&["api-resources", &format!("--categories={category}"), "-o", "name"])
                .await?;
            let group = category.strip_prefix("fleet-").unwrap_or_default();
            ensure!(
                !served.is_empty() && served.lines().all(|line| line.contains(&format!(".{group}."))),
                "{served}"
            );
        }
        Ok(())
    });
}

fn singular(plural: &str) -> String {
    kinds::find(plural).crd.spec.names.singular.unwrap_or_default()
}
