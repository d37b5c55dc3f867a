//! `use`: clusters that exist already, named by kubeconfig contexts. Nothing is started, and the user's kubeconfig is used
//! where it is. CRDs are installed; they are removed only when somebody asks for it, because deleting a CRD deletes every
//! object of its kind.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::DeleteParams;
use kube::config::Kubeconfig;

use crate::binaries;
use crate::cluster::{Role, kubeconfig};
use crate::fleet::state::{ClusterState, Kind, State};
use crate::fleet::{Fleet, crds};
use crate::lock::Lock;

/// Points the fleet in `dir` at existing clusters.
///
/// CRDs of these names that somebody else installed belong to a fleet in use, perhaps of another version; they are replaced
/// only if `replace_crds`.
pub async fn point_at(dir: &Path, hub: &str, members: &[String], replace_crds: bool) -> Result<Fleet> {
    let dir = std::path::absolute(dir)?;
    ensure!(
        !Lock::is_held(&dir.join("lock")),
        "a local fleet runs in {}; stop it with `fleet-local down`, or choose another --dir",
        dir.display()
    );
    let clusters = clusters(hub, members)?;
    let kubeconfig = Kubeconfig::read().context("cannot read your kubeconfig")?;
    for cluster in &clusters {
        let known = kubeconfig.contexts.iter().any(|c| c.name == cluster.context);
        ensure!(
            known,
            "your kubeconfig has no context {:?}; see `kubectl config get-contexts`",
            cluster.context
        );
    }
    // What an earlier call created is still ours.
    let mut created_crds = match State::read(&dir) {
        Ok(Some(State {
            kind: Kind::External { created_crds },
            ..
        })) => created_crds,
        _ => BTreeMap::new(),
    };
    let all = crds::load(&crds::dir())?;
    if !replace_crds {
        // All clusters before the first change to any of them.
        for cluster in &clusters {
            let client = kubeconfig::client(kubeconfig.clone(), &cluster.context).await?;
            let foreign = crds::foreign(&client, &crds::for_role(&all, cluster.role))
                .await
                .with_context(|| format!("the cluster of context {:?} does not answer", cluster.context))?;
            ensure!(
                foreign.is_empty(),
                "context {:?} has CRDs that somebody else installed ({}); to replace them: --replace-crds",
                cluster.context,
                foreign.join(", ")
            );
        }
    }
    for cluster in &clusters {
        let client = kubeconfig::client(kubeconfig.clone(), &cluster.context).await?;
        let version = client
            .apiserver_version()
            .await
            .with_context(|| format!("the cluster of context {:?} does not answer", cluster.context))?;
        let wanted = crds::for_role(&all, cluster.role);
        let new = crds::install(&client, &wanted).await?;
        eprintln!(
            "{} is context {} (Kubernetes {}): {} CRDs, {} of them new",
            cluster.name,
            cluster.context,
            version.git_version,
            wanted.len(),
            new.len()
        );
        let created = created_crds.entry(cluster.context.clone()).or_default();
        created.extend(new);
        created.sort();
        created.dedup();
    }
    std::fs::create_dir_all(&dir).map_err(|e| crate::disk::explain(e, &dir))?;
    let kubectl = binaries::which("kubectl").context("kubectl is missing: install it, or use a local fleet")?;
    State::new(Kind::External { created_crds }, None, kubectl, clusters).write(&dir)?;
    Fleet::attach(&dir)
}

fn clusters(hub: &str, members: &[String]) -> Result<Vec<ClusterState>> {
    if members.iter().any(|m| m == hub) {
        bail!("context {hub:?} is named as hub and as member");
    }
    let cluster = |name: String, role, context: &str| ClusterState {
        name,
        role,
        context: context.to_owned(),
        audit_log: None,
    };
    let mut clusters = vec![cluster("hub".into(), Role::Hub, hub)];
    clusters.extend(
        members
            .iter()
            .enumerate()
            .map(|(i, m)| cluster(format!("member-{}", i + 1), Role::Member, m)),
    );
    Ok(clusters)
}

/// Lets go of existing clusters. Removes the CRDs that we created only if `delete_crds`; otherwise says which are there.
pub async fn let_go(dir: &Path, fleet: &Fleet, delete_crds: bool) -> Result<()> {
    let Kind::External { created_crds } = &fleet.state().kind else {
        bail!("{} is a local fleet", dir.display());
    };
    for cluster in fleet.clusters() {
        let names = created_crds
            .get(&cluster.context)
            .map(Vec::as_slice)
            .unwrap_or_default();
        if names.is_empty() {
            continue;
        }
        if !delete_crds {
            eprintln!(
                "{} (context {}) keeps the {} CRDs that were installed; to remove them and all their objects: \
                 kubectl --context {} delete crd {}",
                cluster.name,
                cluster.context,
                names.len(),
                cluster.context,
                names.join(" ")
            );
            continue;
        }
        eprintln!(
            "removing {} CRDs and all their objects from {} (context {})",
            names.len(),
            cluster.name,
            cluster.context
        );
        let api: Api<CustomResourceDefinition> = Api::all(fleet.client(&cluster.name).await?);
        for name in names {
            match api.delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => _ = result.with_context(|| format!("cannot remove CRD {name}"))?,
            }
        }
    }
    State::remove(dir);
    let _ = std::fs::remove_dir(dir);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_become_a_hub_and_members() {
        let found = clusters("prod-hub", &["a".into(), "b".into()]).unwrap();
        let names = found
            .iter()
            .map(|c| (c.name.as_str(), c.context.as_str()))
            .collect::<Vec<_>>();
        assert_eq!(names, [("hub", "prod-hub"), ("member-1", "a"), ("member-2", "b")]);
        assert!(clusters("a", &["a".into()]).is_err());
    }
}
