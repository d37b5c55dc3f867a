//! Which programs a local control plane consists of, their versions, and the name of the cache directory that holds them.
//!
//! Everything that changes the bytes of a binary goes into the cache key, so that a new version never meets an old binary.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The Kubernetes version of the local control planes.
pub const KUBERNETES: &str = "1.36.3";
/// The minor version that binaries found elsewhere must have.
pub const KUBERNETES_MINOR: &str = "1.36";
/// The etcd version.
pub const ETCD: &str = "3.6.16";
/// The kwok version; kwok plays the nodes and their kubelets.
pub const KWOK: &str = "0.8.0";
/// The helm version, built only when a chart is tested.
pub const HELM: &str = "3.22.0";

/// The pinned module the binaries are built from; embedded, so that the launcher does not need the source tree.
pub const GO_MOD: &str = include_str!("../../control-plane/go.mod");
/// Its checksums.
pub const GO_SUM: &str = include_str!("../../control-plane/go.sum");
/// Its imports.
pub const TOOLS_GO: &str = include_str!("../../control-plane/tools.go");

/// How a program gets built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `go build` in the pinned module.
    Pinned(&'static str),
    /// `go install package@version`: programs whose own go.mod has no replace directives.
    Install(&'static str, &'static str),
}

/// One program and how long its first build takes on two cores, which is what the progress lines promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its file name.
    pub name: &'static str,
    /// Where it comes from.
    pub source: Source,
    /// Seconds of a cold build on two cores, after the ones before it in the list.
    pub cold_secs: u64,
}

/// What one control plane needs, in build order: the API server first, because the next three share most of its packages.
pub const CONTROL_PLANE: [Program; 6] = [
    Program {
        name: "kube-apiserver",
        source: Source::Pinned("k8s.io/kubernetes/cmd/kube-apiserver"),
        cold_secs: 330,
    },
    Program {
        name: "kube-controller-manager",
        source: Source::Pinned("k8s.io/kubernetes/cmd/kube-controller-manager"),
        cold_secs: 90,
    },
    Program {
        name: "kube-scheduler",
        source: Source::Pinned("k8s.io/kubernetes/cmd/kube-scheduler"),
        cold_secs: 10,
    },
    Program {
        name: "kubectl",
        source: Source::Pinned("k8s.io/kubernetes/cmd/kubectl"),
        cold_secs: 30,
    },
    Program {
        name: "etcd",
        source: Source::Pinned("go.etcd.io/etcd/server/v3"),
        cold_secs: 20,
    },
    Program {
        name: "kwok",
        source: Source::Install("sigs.k8s.io/kwok/cmd/kwok", KWOK),
        cold_secs: 150,
    },
];

/// Helm, for chart tests only.
pub const HELM_PROGRAM: Program = Program {
    name: "helm",
    source: Source::Install("helm.sh/helm/v3/cmd/helm", HELM),
    cold_secs: 180,
};

/// Linker flags of a program. Without the version stamp the servers call themselves v0.0.0 and version checks go wrong.
pub fn ldflags(source: Source) -> String {
    match source {
        Source::Install(..) => "-s -w".to_owned(),
        Source::Pinned(_) => {
            let package = "k8s.io/component-base/version";
            let (major, minor) = KUBERNETES_MINOR
                .split_once('.')
                .expect("a constant of the form major.minor");
            format!(
                "-s -w -X {package}.gitVersion=v{KUBERNETES} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}"
            )
        }
    }
}

/// The name of the cache directory for exactly these sources and flags on this kind of machine.
pub fn cache_key() -> String {
    key_of(&[GO_MOD, GO_SUM, TOOLS_GO])
}

fn key_of(sources: &[&str]) -> String {
    let mut hash = Sha256::new();
    for source in sources {
        hash.update(source.as_bytes());
        hash.update([0]);
    }
    for program in CONTROL_PLANE {
        hash.update(format!("{:?} {}", program.source, ldflags(program.source)));
    }
    hash.update(std::env::consts::OS);
    hash.update(std::env::consts::ARCH);
    let mut short = String::new();
    for byte in &hash.finalize()[..4] {
        write!(short, "{byte:02x}").expect("writing to a String cannot fail");
    }
    format!("kubernetes-{KUBERNETES}-etcd-{ETCD}-kwok-{KWOK}-{short}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_names_the_versions_and_changes_with_the_sources() {
        let key = cache_key();
        assert!(key.starts_with("kubernetes-1.36.3-etcd-3.6.16-kwok-0.8.0-"), "{key}");
        assert_eq!(key, cache_key());
        assert_ne!(key_of(&["a", "b"]), key_of(&["a", "c"]));
        assert_ne!(key_of(&["ab", ""]), key_of(&["a", "b"]));
    }

    #[test]
    fn the_constants_are_the_pinned_versions() {
        assert!(GO_MOD.contains(&format!("k8s.io/kubernetes v{KUBERNETES}")));
        assert!(GO_MOD.contains(&format!("go.etcd.io/etcd/server/v3 v{ETCD}")));
        assert!(KUBERNETES.starts_with(&format!("{KUBERNETES_MINOR}.")));
    }

    #[test]
    fn servers_carry_their_version() {
        let flags = ldflags(CONTROL_PLANE[0].source);
        assert!(
            flags.contains("gitVersion=v1.36.3") && flags.contains("gitMinor=36"),
            "{flags}"
        );
    }
}
