//! Writes that the API server refuses, by admission policies of the scenario's own. Whoever writes sees an answer like
//! any other, and nobody else is bothered.

use anyhow::{Context as _, Result};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use kube::api::{Api, DeleteParams};
use serde_json::json;

use crate::harness::Ctx;
use crate::wait;

/// What the API server says.
pub const WORDS: &str = "refused by the test";

/// One kind of write.
#[derive(Debug, Clone)]
pub struct Rule<'a> {
    /// Tells this rule from the scenario's others.
    pub word: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The plural, with a subresource if that is meant.
    pub resource: &'a str,
    /// CEL over `object`, `oldObject` and `request`: which ones.
    pub condition: String,
    /// `Invalid`: as it is, it is never accepted. `Forbidden`: it may be some day.
    pub reason: &'a str,
}

/// Makes the API server refuse these on the hub, and waits until it does.
pub async fn refuse(ctx: &Ctx, rules: &[Rule<'_>]) -> Result<()> {
    for rule in rules {
        policy(ctx, rule).await?;
    }
    // Policies become known in the order in which they were made: one more, of something that nobody else writes.
    let last = rules.last().map(|rule| rule.word).unwrap_or_default();
    let (word, name) = (format!("{last}-known"), ctx.name(&format!("{last}-probe")));
    let condition = format!("object.metadata.name == '{name}'");
    let probe = Rule {
        word: &word,
        group: "rbac.authorization.k8s.io",
        resource: "clusterroles",
        condition,
        reason: "Invalid",
    };
    policy(ctx, &probe).await?;
    let manifest = format!("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {name}\n");
    let kubectl = ctx.kubectl("hub")?;
    let refused = async {
        loop {
            let answer = kubectl
                .ok_with(&["create", "--dry-run=server", "-f", "-"], &manifest)
                .await;
            if answer.is_err_and(|error| error.to_string().contains(WORDS)) {
                return;
            }
        }
    };
    tokio::time::timeout(wait::PATIENCE, refused)
        .await
        .context("the policy has no effect")
}

/// Lets the write through again.
pub async fn allow(ctx: &Ctx, word: &str) -> Result<()> {
    let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(ctx.hub().await?);
    bindings.delete(&ctx.name(word), &DeleteParams::default()).await?;
    Ok(())
}

async fn policy(ctx: &Ctx, rule: &Rule<'_>) -> Result<()> {
    let name = ctx.name(rule.word);
    let matched = json!({
        "apiGroups": [rule.group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [rule.resource],
    });
    let policy = json!({ "metadata": { "name": name }, "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": { "resourceRules": [matched] },
        "matchConditions": [{ "name": "ours", "expression": rule.condition }],
        "validations": [{ "expression": "false", "message": WORDS, "reason": rule.reason }],
    } });
    ctx.create::<ValidatingAdmissionPolicy>("hub", serde_json::from_value(policy)?)
        .await?;
    let binding =
        json!({ "metadata": { "name": name }, "spec": { "policyName": name, "validationActions": ["Deny"] } });
    ctx.create::<ValidatingAdmissionPolicyBinding>("hub", serde_json::from_value(binding)?)
        .await?;
    Ok(())
}
