//! The five processes of a control plane and their arguments. Pure: from paths, ports and a spec to process specs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::certs::{self, Pki};
use super::ports::Ports;
use super::spec::ClusterSpec;
use crate::binaries::Binaries;
use crate::process::{Ready, Spec};

/// Marks the nodes that kwok plays; tests may add nodes of their own without it.
pub const NODE_ANNOTATION: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// What the arguments are made from.
#[derive(Debug)]
pub struct Layout<'a> {
    /// The programs.
    pub binaries: &'a Binaries,
    /// The cluster.
    pub spec: &'a ClusterSpec,
    /// Its ports.
    pub ports: Ports,
    /// Its certificates.
    pub pki: &'a Pki,
    /// Its configuration files.
    pub conf: &'a Path,
    /// Its etcd data.
    pub data: &'a Path,
    /// Its logs.
    pub logs: &'a Path,
}

impl Layout<'_> {
    /// etcd, without fsync: the data is thrown away with the fleet.
    pub fn etcd(&self) -> Spec {
        let (client, peer) = (
            https(self.ports.etcd),
            format!("http://127.0.0.1:{}", self.ports.etcd_peer),
        );
        let args = vec![
            arg("name", &self.spec.name),
            arg("data-dir", self.data.join("etcd").display()),
            arg("listen-client-urls", &client),
            arg("advertise-client-urls", &client),
            arg("listen-peer-urls", &peer),
            arg("initial-advertise-peer-urls", &peer),
            arg("initial-cluster", format_args!("{}={peer}", self.spec.name)),
            arg("cert-file", self.pki.path("serving.crt")),
            arg("key-file", self.pki.path("serving.key")),
            arg("trusted-ca-file", self.pki.path("ca.crt")),
            arg("client-cert-auth", true),
            arg("unsafe-no-fsync", true),
            arg("log-level", "warn"),
        ];
        self.process(
            "etcd",
            &self.binaries.etcd,
            args,
            Ready::Tcp(format!("127.0.0.1:{}", self.ports.etcd)),
        )
    }

    /// kube-apiserver, with RBAC, Node authorization the default admission plugins, and one more.
    pub fn apiserver(&self) -> Spec {
        let mut args = vec![
            arg("etcd-servers", https(self.ports.etcd)),
            arg("etcd-cafile", self.pki.path("ca.crt")),
            arg(
                "etcd-certfile",
                self.pki.path(&format!("{}.crt", certs::ETCD_CLIENT.file)),
            ),
            arg(
                "etcd-keyfile",
                self.pki.path(&format!("{}.key", certs::ETCD_CLIENT.file)),
            ),
            arg("bind-address", "127.0.0.1"),
            arg("advertise-address", "127.0.0.1"),
            arg("secure-port", self.ports.apiserver),
            arg("tls-cert-file", self.pki.path("serving.crt")),
            arg("tls-private-key-file", self.pki.path("serving.key")),
            arg("client-ca-file", self.pki.path("ca.crt")),
            arg("service-account-issuer", "https://kubernetes.default.svc"),
            arg("service-account-key-file", self.pki.path("service-account.pub")),
            arg("service-account-signing-key-file", self.pki.path("service-account.key")),
            arg("service-cluster-ip-range", super::SERVICE_RANGE),
            arg("authorization-mode", "Node,RBAC"),
            // Some distributions check owner references; agents that get by with it get by everywhere.
            arg(
                "enable-admission-plugins",
                "NodeRestriction,OwnerReferencesPermissionEnforcement",
            ),
            // The advertised address is loopback, which Endpoints may not contain.
            arg("endpoint-reconciler-type", "none"),
            arg("allow-privileged", true),
            arg("profiling", false),
            arg("v", 1),
        ];
        if self.spec.audit {
            args.push(arg("audit-policy-file", self.conf.join("audit-policy.yaml").display()));
            args.push(arg("audit-log-path", self.audit_log().display()));
        }
        args.extend(self.spec.apiserver_args.iter().cloned());
        let ready = self.https_ready(self.ports.apiserver, "/readyz");
        self.process("kube-apiserver", &self.binaries.kube_apiserver, args, ready)
    }

    /// kube-controller-manager; every controller under its own ServiceAccount, as in a real cluster.
    pub fn controller_manager(&self) -> Spec {
        let kubeconfig = self.kubeconfig(certs::CONTROLLER_MANAGER.file);
        let args = vec![
            arg("kubeconfig", kubeconfig.display()),
            arg("bind-address", "127.0.0.1"),
            arg("secure-port", self.ports.controller_manager),
            arg("tls-cert-file", self.pki.path("serving.crt")),
            arg("tls-private-key-file", self.pki.path("serving.key")),
            arg("root-ca-file", self.pki.path("ca.crt")),
            arg("cluster-signing-cert-file", self.pki.path("ca.crt")),
            arg("cluster-signing-key-file", self.pki.path("ca.key")),
            arg("service-account-private-key-file", self.pki.path("service-account.key")),
            arg("use-service-account-credentials", true),
            arg("leader-elect", false),
            // Tests make and remove many namespaces at once; the defaults (20/30) are for clusters that wait for kubelets.
            arg("kube-api-qps", 200),
            arg("kube-api-burst", 400),
            arg("concurrent-namespace-syncs", 20),
            arg("profiling", false),
            arg("v", 1),
        ];
        let ready = self.https_ready(self.ports.controller_manager, "/healthz");
        self.process(
            "kube-controller-manager",
            &self.binaries.kube_controller_manager,
            args,
            ready,
        )
    }

    /// kube-scheduler.
    pub fn scheduler(&self) -> Spec {
        let args = vec![
            arg("kubeconfig", self.kubeconfig(certs::SCHEDULER.file).display()),
            arg("bind-address", "127.0.0.1"),
            arg("secure-port", self.ports.scheduler),
            arg("tls-cert-file", self.pki.path("serving.crt")),
            arg("tls-private-key-file", self.pki.path("serving.key")),
            arg("leader-elect", false),
            arg("kube-api-qps", 200),
            arg("kube-api-burst", 400),
            arg("profiling", false),
            arg("v", 1),
        ];
        let ready = self.https_ready(self.ports.scheduler, "/healthz");
        self.process("kube-scheduler", &self.binaries.kube_scheduler, args, ready)
    }

    /// kwok. The node leases matter: without them the node lifecycle controller turns every node NotReady once a minute,
    /// and Deployments become unavailable for no visible reason.
    pub fn kwok(&self) -> Spec {
        let (key, value) = NODE_ANNOTATION;
        let args = vec![
            arg("kubeconfig", self.kubeconfig(certs::KWOK.file).display()),
            arg("config", self.conf.join("kwok.yaml").display()),
            arg("manage-all-nodes", false),
            arg("manage-nodes-with-annotation-selector", format_args!("{key}={value}")),
            arg("node-lease-duration-seconds", 40),
            arg("cidr", "10.0.0.1/16"),
            arg("node-ip", "127.0.0.1"),
            arg("server-address", format_args!("127.0.0.1:{}", self.ports.kwok)),
        ];
        let server = format!("http://127.0.0.1:{}", self.ports.kwok);
        self.process(
            "kwok",
            &self.binaries.kwok,
            args,
            Ready::Http {
                server,
                path: "/healthz".into(),
                ca: None,
            },
        )
    }

    /// The kubeconfig of one of the parts.
    pub fn kubeconfig(&self, identity: &str) -> PathBuf {
        self.conf.join(format!("{identity}.kubeconfig"))
    }

    /// Where the audit log goes when it is on.
    pub fn audit_log(&self) -> PathBuf {
        self.logs.join("audit.log")
    }

    fn process(&self, component: &str, program: &Path, args: Vec<String>, ready: Ready) -> Spec {
        Spec {
            name: format!("{}/{component}", self.spec.name),
            program: program.to_owned(),
            args,
            env: std::collections::BTreeMap::new(),
            log: self.logs.join(format!("{component}.log")),
            ready,
            ready_within: Duration::from_mins(2),
        }
    }

    fn https_ready(&self, port: u16, path: &str) -> Ready {
        Ready::Http {
            server: https(port),
            path: path.into(),
            ca: Some(self.pki.path("ca.crt").into()),
        }
    }
}

fn arg(name: &str, value: impl std::fmt::Display) -> String {
    format!("--{name}={value}")
}

/// The address of a TLS server on loopback.
pub fn https(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_layout<T>(spec: &ClusterSpec, check: impl FnOnce(&Layout<'_>) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::create(dir.path(), &spec.name).unwrap();
        let binaries: Binaries = serde_json::from_value(serde_json::json!({
            "etcd": "/b/etcd", "kubeApiserver": "/b/kube-apiserver", "kubeControllerManager": "/b/kcm",
            "kubeScheduler": "/b/ks", "kubectl": "/b/kubectl", "kwok": "/b/kwok"
        }))
        .unwrap();
        let ports = Ports {
            etcd: 1,
            etcd_peer: 2,
            apiserver: 3,
            controller_manager: 4,
            scheduler: 5,
            kwok: 6,
        };
        let (conf, data, logs) = (Path::new("/c"), Path::new("/d"), Path::new("/l"));
        check(&Layout {
            binaries: &binaries,
            spec,
            ports,
            pki: &pki,
            conf,
            data,
            logs,
        })
    }

    #[test]
    fn everything_listens_on_loopback_at_its_port() {
        with_layout(&ClusterSpec::hub(), |layout| {
            for (spec, port) in [
                (layout.etcd(), "--listen-client-urls=https://127.0.0.1:1"),
                (layout.apiserver(), "--secure-port=3"),
                (layout.controller_manager(), "--secure-port=4"),
                (layout.scheduler(), "--secure-port=5"),
                (layout.kwok(), "--server-address=127.0.0.1:6"),
            ] {
                assert!(spec.args.iter().any(|a| a == port), "{} lacks {port}", spec.name);
                assert!(!spec.args.iter().any(|a| a.contains("0.0.0.0")), "{}", spec.name);
            }
        });
    }

    #[test]
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method alone has one lifetime too few"
    )]
    fn audit_and_more_arguments_are_switches() {
        let plain = with_layout(&ClusterSpec::hub(), |layout| layout.apiserver());
        assert!(!plain.args.iter().any(|a| a.starts_with("--audit")));
        let spec = ClusterSpec {
            audit: true,
            apiserver_args: vec!["--v=4".into()],
            ..ClusterSpec::hub()
        };
        let audited = with_layout(&spec, |layout| layout.apiserver());
        assert!(audited.args.contains(&"--audit-log-path=/l/audit.log".to_owned()));
        assert_eq!(audited.args.last().map(String::as_str), Some("--v=4"));
    }
}
