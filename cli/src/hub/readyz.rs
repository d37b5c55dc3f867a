//! What the agent of a member says of itself, for whoever can reach the member: its readyz, through the API server.

use fleet_api::names::FLEET_SYSTEM_NAMESPACE;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::ListParams};

use super::Hub;

/// The port of the probes, by its name in the chart, and where it has none.
const PORT: (&str, i32) = ("hubhealthz", 8081);

impl Hub {
    /// The readyz of the member agent that runs here: of several the first that is not ready. None if no Pod of it runs.
    pub(crate) async fn readyz(&self) -> kube::Result<Option<String>> {
        let labelled = ListParams::default().labels("app.kubernetes.io/name=member-agent");
        let pods = self.core::<Pod>(FLEET_SYSTEM_NAMESPACE, &labelled).await?;
        let runs = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        let mut found = None;
        for pod in pods.iter().filter(runs) {
            let text = self.readyz_of(pod).await?;
            if text.contains("[-]") {
                return Ok(Some(text));
            }
            found = found.or(Some(text));
        }
        Ok(found)
    }

    async fn readyz_of(&self, pod: &Pod) -> kube::Result<String> {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
        let port = ports.find(|port| port.name.as_deref() == Some(PORT.0));
        let port = port.map_or(PORT.1, |port| port.container_port);
        let path = format!(
            "/api/v1/namespaces/{FLEET_SYSTEM_NAMESPACE}/pods/{}:{port}/proxy/readyz",
            pod.name_any()
        );
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(kube::Error::HttpError)?;
        match self.client.request_text(request).await {
            // An agent that is not ready says why in an answer that is no good one.
            Err(kube::Error::Api(status)) if status.message.contains("[-]") => Ok(status.message.clone()),
            answer => answer,
        }
    }
}
