//! `kubectl fleet support-bundle`: what somebody needs to see who is to help, in files. Without what Secrets hold, and of
//! limited size.

mod redact;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use fleet_api::{crds, names::FLEET_SYSTEM_NAMESPACE};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, LogParams},
};
use serde_json::Value;

use self::redact::redact;
use crate::{clusters, exit::Exit, globals::Globals, progress, terminal};

/// Objects of one kind; a fleet of a thousand members has tens of thousands of Works.
const OBJECTS_MAX: usize = 2000;
const PAGE: u32 = 500;
/// Of objects that carry others: up to a megabyte each.
const PAGE_OF_LARGE: u32 = 10;
const LARGE: [&str; 8] = [
    "clusterresourcesnapshots",
    "resourcesnapshots",
    "works",
    "clusterresourceplacements",
    "resourceplacements",
    "clusterresourceplacementstatuses",
    "clusterstagedupdateruns",
    "stagedupdateruns",
];
/// The end of each log.
const LOG_LINES: i64 = 5000;
const LOG_BYTES: i64 = 4 * 1024 * 1024;
/// All files together.
const BYTES_MAX: usize = 256 * 1024 * 1024;

/// Collect what somebody needs to see who is to help.
///
/// Objects, Events, logs and metrics. What Secrets hold is left out, and so are the manifests in Works and snapshots: only their names are kept. Look at the files
/// before you pass them on all the same: names may tell something too.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubectl fleet support-bundle --output-dir fleet-support\n  tar czf fleet-support.tgz fleet-support"
)]
pub(crate) struct Args {
    /// The directory to write to; it must not exist yet
    #[arg(long, value_name = "DIR", default_value = "fleet-support")]
    output_dir: PathBuf,
    /// The kubeconfig context of a member, to collect its agent's logs too; may be repeated
    #[arg(long, value_name = "NAME")]
    member_context: Vec<String>,
    #[command(flatten)]
    globals: Globals,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        output_dir,
        member_context,
        globals,
    } = args;
    let hub = clusters::connect_with(&globals).await?;
    let mut members = Vec::new();
    for context in member_context {
        members.push((
            context.clone(),
            clusters::connect_with(&globals.of_member(&context)).await?.client,
        ));
    }
    let mut bundle = Bundle::new(output_dir)?;
    let collecting = async {
        bundle.cluster(&hub.client, "hub").await?;
        for (context, client) in &members {
            bundle.cluster(client, &format!("member-{context}")).await?;
        }
        bundle.close()
    };
    progress::shown("collecting", collecting).await?;
    terminal::note(&format!(
        "{} files, {} KiB in {}{}",
        bundle.files,
        bundle.bytes.div_ceil(1024),
        bundle.root.display(),
        if bundle.left_out.is_empty() {
            ""
        } else {
            "; left-out.txt says what is missing"
        }
    ));
    Ok(Exit::Done)
}

/// The files, as far as they are written.
struct Bundle {
    root: PathBuf,
    files: usize,
    bytes: usize,
    /// What could not be collected, and why.
    left_out: Vec<String>,
}

impl Bundle {
    fn new(root: PathBuf) -> Result<Self> {
        // Never among somebody's other files.
        fs::create_dir(&root)
            .with_context(|| format!("cannot make {} (--output-dir names another)", root.display()))?;
        Ok(Self {
            root,
            files: 0,
            bytes: 0,
            left_out: Vec::new(),
        })
    }

    /// Everything of one cluster.
    async fn cluster(&mut self, client: &Client, name: &str) -> Result<()> {
        for crd in crds::all() {
            let names = &crd.spec.names;
            let version = fleet_api::kind::VERSION;
            let kind = resource(&crd.spec.group, version, &names.kind, &names.plural);
            self.objects(client, name, &kind, None).await?;
        }
        let system = Some(FLEET_SYSTEM_NAMESPACE);
        for (group, version, kind, plural, namespace) in [
            ("", "v1", "Event", "events", None),
            ("", "v1", "Pod", "pods", system),
            ("apps", "v1", "Deployment", "deployments", system),
            ("coordination.k8s.io", "v1", "Lease", "leases", system),
        ] {
            self.objects(client, name, &resource(group, version, kind, plural), namespace)
                .await?;
        }
        self.pods(client, name).await
    }

    async fn objects(
        &mut self,
        client: &Client,
        cluster: &str,
        kind: &ApiResource,
        namespace: Option<&str>,
    ) -> Result<()> {
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
            None => Api::all_with(client.clone(), kind),
        };
        let file = format!("{cluster}/{}.json", kind.plural);
        let is_large = LARGE.contains(&kind.plural.as_str());
        let mut params = ListParams::default().limit(if is_large { PAGE_OF_LARGE } else { PAGE });
        let mut found: Vec<Value> = Vec::new();
        loop {
            let page = match api.list(&params).await {
                Ok(page) => page,
                // A member does not serve what only hubs have.
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                Err(error) => {
                    self.left_out.push(format!("{file}: {error}"));
                    return Ok(());
                }
            };
            for mut object in page.items {
                object.metadata.managed_fields = None;
                let mut value = serde_json::to_value(object)?;
                value["kind"] = kind.kind.clone().into();
                redact(&mut value);
                found.push(value);
            }
            if found.len() >= OBJECTS_MAX {
                found.truncate(OBJECTS_MAX);
                self.left_out.push(format!("{file}: only the first {OBJECTS_MAX}"));
                break;
            }
            let Some(next) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
                break;
            };
            params = params.continue_token(&next);
        }
        if found.is_empty() {
            return Ok(());
        }
        let text = serde_json::to_string_pretty(&found)?;
        self.write(&file, text.as_bytes())
    }

    /// Logs and metrics of the fleet's own pods.
    async fn pods(&mut self, client: &Client, cluster: &str) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), FLEET_SYSTEM_NAMESPACE);
        let found = match pods.list(&ListParams::default()).await {
            Ok(found) => found,
            Err(error) => {
                self.left_out.push(format!("{cluster}/logs: {error}"));
                return Ok(());
            }
        };
        for pod in found {
            let name = pod.name_any();
            for previous in [false, true] {
                let params = LogParams {
                    tail_lines: Some(LOG_LINES),
                    limit_bytes: Some(LOG_BYTES),
                    previous,
                    timestamps: true,
                    ..LogParams::default()
                };
                let file = format!("{cluster}/logs/{name}{}.log", if previous { ".previous" } else { "" });
                match pods.logs(&name, &params).await {
                    Ok(text) => self.write(&file, text.as_bytes())?,
                    // It has never been restarted.
                    Err(_) if previous => {}
                    Err(error) => self.left_out.push(format!("{file}: {error}")),
                }
            }
            let path = format!("/api/v1/namespaces/{FLEET_SYSTEM_NAMESPACE}/pods/{name}:8080/proxy/metrics");
            let file = format!("{cluster}/metrics/{name}.txt");
            let request = http::Request::get(path).body(Vec::new())?;
            match client.request_text(request).await {
                Ok(text) => self.write(&file, text.as_bytes())?,
                Err(error) => self.left_out.push(format!("{file}: {error}")),
            }
        }
        Ok(())
    }

    fn write(&mut self, file: &str, bytes: &[u8]) -> Result<()> {
        if self.bytes + bytes.len() > BYTES_MAX {
            self.left_out
                .push(format!("{file}: the bundle is as large as it may be"));
            return Ok(());
        }
        write(&self.root.join(file), bytes)?;
        self.files += 1;
        self.bytes += bytes.len();
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if !self.left_out.is_empty() {
            let text = self.left_out.join("\n") + "\n";
            write(&self.root.join("left-out.txt"), text.as_bytes())?;
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use fleet_testkit::{Fault, Server};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn what_secrets_hold_is_in_no_file_and_what_is_missing_is_listed() {
        let server = Server::new();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "app" }, "data": { "p": "aHVudGVyMg==" },
        });
        server.put(
            "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcesnapshots/web-0-snapshot",
            json!({ "spec": { "selectedResources": [secret] } }),
        );
        server.fail(Fault::new("/works", 403));
        let folder = tempfile::tempdir().expect("a directory");
        let mut bundle = Bundle::new(folder.path().join("bundle")).expect("it is new");
        bundle.cluster(&server.client(), "hub").await.expect("it is collected");
        bundle.close().expect("it is written");
        let read = |file: &str| fs::read_to_string(bundle.root.join(file)).unwrap_or_default();
        let snapshots = read("hub/clusterresourcesnapshots.json");
        assert!(
            snapshots.contains("web-0-snapshot") && snapshots.contains("\"name\": \"s\""),
            "{snapshots}"
        );
        assert!(!snapshots.contains("aHVudGVyMg"), "{snapshots}");
        assert!(read("left-out.txt").contains("hub/works.json: "));
        assert!(
            Bundle::new(bundle.root.clone()).is_err(),
            "it never writes among other files"
        );
    }
}
