//! Flags that kubectl has too, with its names: where the hub is, who asks, and in which namespace.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args as _, Command};
use jiff::SignedDuration;
use kube::config::{AuthInfo, Kubeconfig};

/// How to reach the hub.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Options of kubectl")]
pub(crate) struct Globals {
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubeconfig context of the hub [default: the current one]
    #[arg(
        long,
        value_name = "NAME",
        visible_alias = "hub-cluster-context",
        alias = "hubClusterContext"
    )]
    pub(crate) context: Option<String>,
    /// The kubeconfig cluster
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// The kubeconfig user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// The API server, instead of that of the kubeconfig
    #[arg(long, short, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Do not verify the certificate of the API server: whoever is in between sees all
    #[arg(long, conflicts_with = "certificate_authority")]
    pub(crate) insecure_skip_tls_verify: bool,
    /// The name that the certificate of the API server is to have
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,
    /// A file with the CA of the API server
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// A bearer token to ask with
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// A file with the certificate to ask with
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_certificate: Option<PathBuf>,
    /// A file with its key
    #[arg(long, value_name = "FILE", requires = "client_certificate")]
    pub(crate) client_key: Option<PathBuf>,
    /// Ask as this user
    #[arg(long = "as", value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// Ask as this group; may be repeated
    #[arg(long, value_name = "GROUP", requires = "as_user")]
    pub(crate) as_group: Vec<String>,
    /// How long one request may take, such as 10s; 0s for ever
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = timeout)]
    pub(crate) request_timeout: Duration,
}

// The token is nobody's business.
impl std::fmt::Debug for Globals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("Globals");
        out.field("context", &self.context).field("server", &self.server);
        out.finish_non_exhaustive()
    }
}

/// Reads `5m` or `1m30s`.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok();
    let positive = parsed.and_then(|duration| Duration::try_from(duration).ok());
    positive.ok_or_else(|| "want a duration, such as 5m".to_owned())
}

/// The namespace of what is asked about.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Options of kubectl")]
pub(crate) struct InNamespace {
    /// The namespace of what is asked about [default: that of the context]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
}

impl Globals {
    /// The same flags for a member. Where the hub is, and what it is asked with, is not said of members.
    pub(crate) fn of_member(&self, context: &str) -> Self {
        Self {
            context: Some(context.to_owned()),
            kubeconfig: self.kubeconfig.clone(),
            as_user: self.as_user.clone(),
            as_group: self.as_group.clone(),
            request_timeout: self.request_timeout,
            ..Self::default()
        }
    }

    /// What these flags say instead of the kubeconfig: of each of its clusters and users, since only one is used.
    pub(crate) fn put_into(&self, kubeconfig: &mut Kubeconfig) {
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|it| it.cluster.as_mut()) {
            if self.server.is_some() {
                cluster.server.clone_from(&self.server);
            }
            if self.tls_server_name.is_some() {
                cluster.tls_server_name.clone_from(&self.tls_server_name);
            }
            if self.insecure_skip_tls_verify {
                cluster.insecure_skip_tls_verify = Some(true);
            }
            if let Some(file) = &self.certificate_authority {
                cluster.certificate_authority = Some(shown(file));
                cluster.insecure_skip_tls_verify = None;
            }
            if self.insecure_skip_tls_verify || self.certificate_authority.is_some() {
                cluster.certificate_authority_data = None;
            }
        }
        for user in kubeconfig.auth_infos.iter_mut().filter_map(|it| it.auth_info.as_mut()) {
            if let Some(token) = &self.token {
                *user = AuthInfo {
                    token: Some(token.clone().into()),
                    ..AuthInfo::default()
                };
            }
            if let (Some(certificate), Some(key)) = (&self.client_certificate, &self.client_key) {
                *user = AuthInfo {
                    client_certificate: Some(shown(certificate)),
                    client_key: Some(shown(key)),
                    token: user.token.clone().filter(|_| self.token.is_some()),
                    ..AuthInfo::default()
                };
            }
        }
    }
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}

/// As kubectl takes them, these flags may stand before the command too: `line` with those after it.
pub(crate) fn after_the_command(line: Vec<OsString>) -> Vec<OsString> {
    let flags = InNamespace::augment_args(Globals::augment_args(Command::new("")));
    let known = |word: &str| {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        let mut all = flags.get_arguments();
        all.find(|flag| match name.strip_prefix("--") {
            Some(long) => flag.get_long() == Some(long) || flag.get_all_aliases().unwrap_or_default().contains(&long),
            // `-n shop`, and `-nshop`.
            None => name
                .strip_prefix('-')
                .is_some_and(|short| short.chars().next() == flag.get_short() && !short.is_empty()),
        })
    };
    let mut end = 1;
    while let Some(word) = line
        .get(end)
        .and_then(|word| word.to_str())
        .filter(|word| word.starts_with('-'))
    {
        let Some(flag) = known(word) else { break };
        let has_value = if word.starts_with("--") {
            word.contains('=')
        } else {
            word.len() > 2
        };
        end += if flag.get_action().takes_values() && !has_value {
            2
        } else {
            1
        };
    }
    // Without a command there is nothing to put them behind.
    if end == 1 || line.len() <= end {
        return line;
    }
    let mut rest = line;
    let mut moved: Vec<_> = rest.drain(..end).collect();
    let program = moved.remove(0);
    let place = rest.iter().position(|word| word == "--").unwrap_or(rest.len());
    rest.splice(place..place, moved);
    rest.insert(0, program);
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let words = after_the_command(words);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn flags_may_stand_before_the_command() {
        for (line, wanted) in [
            ("fleet status", "fleet status"),
            ("fleet --context hub status", "fleet status --context hub"),
            (
                "fleet --hub-cluster-context=hub -n shop why rp/web",
                "fleet why rp/web --hub-cluster-context=hub -n shop",
            ),
            ("fleet -nshop -s https://hub top", "fleet top -nshop -s https://hub"),
            (
                "fleet --insecure-skip-tls-verify status -o json",
                "fleet status -o json --insecure-skip-tls-verify",
            ),
            (
                "fleet --context hub rollout watch crp/web",
                "fleet rollout watch crp/web --context hub",
            ),
            ("fleet --context hub", "fleet --context hub"),
            ("fleet --version", "fleet --version"),
            ("fleet --help", "fleet --help"),
            ("fleet --nonsense x status", "fleet --nonsense x status"),
        ] {
            assert_eq!(moved(line), wanted);
        }
    }

    fn kubeconfig() -> Kubeconfig {
        let text = "clusters: [{ name: c, cluster: { server: 'https://old', certificate-authority-data: QQ== } }]\n\
                    users: [{ name: u, user: { client-certificate-data: QQ==, client-key-data: QQ== } }]\n";
        Kubeconfig::from_yaml(text).expect("a kubeconfig")
    }

    #[test]
    fn flags_count_more_than_the_kubeconfig() {
        let mut file = kubeconfig();
        let globals = Globals {
            server: Some("https://new".into()),
            insecure_skip_tls_verify: true,
            tls_server_name: Some("hub".into()),
            token: Some("t".into()),
            ..Globals::default()
        };
        globals.put_into(&mut file);
        let cluster = file.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://new"));
        assert_eq!(cluster.tls_server_name.as_deref(), Some("hub"));
        assert_eq!(
            (cluster.insecure_skip_tls_verify, &cluster.certificate_authority_data),
            (Some(true), &None)
        );
        let user = file.auth_infos[0].auth_info.as_ref().expect("a user");
        assert!(user.token.is_some() && user.client_certificate_data.is_none());
        let mut file = kubeconfig();
        let globals = Globals {
            certificate_authority: Some("ca.pem".into()),
            client_certificate: Some("me.pem".into()),
            client_key: Some("me.key".into()),
            ..Globals::default()
        };
        globals.put_into(&mut file);
        let cluster = file.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.certificate_authority.as_deref(), Some("ca.pem"));
        assert_eq!(cluster.certificate_authority_data, None);
        let user = file.auth_infos[0].auth_info.as_ref().expect("a user");
        assert_eq!(user.client_certificate.as_deref(), Some("me.pem"));
        assert!(user.client_certificate_data.is_none() && user.client_key_data.is_none());
        let mut same = kubeconfig();
        Globals::default().put_into(&mut same);
        let cluster = same.clusters[0].cluster.as_ref().expect("a cluster");
        assert_eq!(cluster.server.as_deref(), Some("https://old"));
        assert!(cluster.certificate_authority_data.is_some());
        // None of it is meant for members.
        let of_member = globals.of_member("east");
        assert!(of_member.certificate_authority.is_none() && of_member.client_key.is_none());
    }
}
