//! Where the hub is and how to reach it, from the environment that the join recipe sets.

use std::{ffi::OsString, path::PathBuf};

use base64::{Engine, engine::general_purpose::STANDARD};
use fleet_api::names::ClusterName;
use http::{HeaderName, HeaderValue, Uri};
use rustls::pki_types::{CertificateDer, pem::PemObject};

/// What the environment says about the hub.
#[derive(Debug, Clone)]
pub struct HubSettings {
    /// The hub's API server.
    pub server: Uri,
    /// The MemberCluster that this cluster is.
    pub cluster: ClusterName,
    /// How we prove who we are.
    pub identity: Identity,
    /// How the hub's API server proves itself.
    pub trust: Trust,
    /// Header lines added to each request to the hub.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The channel's address, when it overrides what the hub announces.
    pub channel: Option<Uri>,
    /// The channel's CA (PEM), when it overrides what the hub announces.
    pub channel_ca: Option<String>,
}

/// Where our credential comes from. All of them are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// A bearer token in a file.
    TokenFile(PathBuf),
    /// A bearer token under the key `token` of a Secret on this cluster.
    TokenSecret {
        /// The Secret's namespace.
        namespace: String,
        /// The Secret's name.
        name: String,
    },
    /// A client certificate and its key, PEM.
    Certificate {
        /// The certificate chain.
        cert: PathBuf,
        /// Its key.
        key: PathBuf,
    },
}

/// How a server's certificate is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// By the system's roots.
    System,
    /// By these certificates (PEM).
    Bundle(String),
    /// Not at all (`--tls-insecure`).
    Anything,
}

/// A setting that is missing or wrong. The texts are those that troubleshooting guides quote.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// `HUB_SERVER_URL` is not set.
    #[error("hub server api cannot be empty: set HUB_SERVER_URL to the https:// address of the hub's API server")]
    NoServer,
    /// An address cannot be used.
    #[error("{variable} is not an https:// address: {value}")]
    BadAddress {
        /// The environment variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// `MEMBER_CLUSTER_NAME` is not set.
    #[error("member cluster name cannot be empty: set MEMBER_CLUSTER_NAME to the name of the MemberCluster on the hub")]
    NoCluster,
    /// `MEMBER_CLUSTER_NAME` names no possible member.
    #[error("MEMBER_CLUSTER_NAME: {0}")]
    BadCluster(String),
    /// No token source.
    #[error("hub token file path cannot be empty if CA auth not used: set CONFIG_PATH or HUB_TOKEN_SECRET")]
    NoToken,
    /// `HUB_TOKEN_SECRET` is not `namespace/name`.
    #[error("HUB_TOKEN_SECRET must be namespace/name, got {0:?}")]
    BadSecret(String),
    /// `IDENTITY_KEY` is not set.
    #[error("identity key file path cannot be empty: set IDENTITY_KEY")]
    NoKey,
    /// `IDENTITY_CERT` is not set.
    #[error("identity certificate file path cannot be empty: set IDENTITY_CERT")]
    NoCertificate,
    /// A variable is set to nothing.
    #[error("environment variable {0} should not be empty")]
    Empty(&'static str),
    /// Two sources for one CA.
    #[error("environment variables CA_BUNDLE and HUB_CERTIFICATE_AUTHORITY should not be set at same time")]
    TwoCas,
    /// A CA cannot be read.
    #[error("{variable} holds no certificate: {detail}")]
    BadCa {
        /// The environment variable.
        variable: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// `HUB_KUBE_HEADER` is not a list of header lines.
    #[error("HUB_KUBE_HEADER: {0:?} is not a header line (Name: value)")]
    BadHeader(String),
}

impl HubSettings {
    /// Reads the settings through `get` (the environment in production).
    pub fn read(
        get: impl Fn(&str) -> Option<OsString>,
        use_certificate: bool,
        tls_insecure: bool,
    ) -> Result<Self, Error> {
        let text = |name: &str| get(name).map(|v| v.to_string_lossy().into_owned());
        let filled = |name: &str| text(name).filter(|v| !v.is_empty());

        let server = address("HUB_SERVER_URL", &filled("HUB_SERVER_URL").ok_or(Error::NoServer)?)?;
        let cluster = filled("MEMBER_CLUSTER_NAME").ok_or(Error::NoCluster)?;
        let cluster = cluster
            .parse::<ClusterName>()
            .map_err(|e| Error::BadCluster(e.to_string()))?;
        let identity = if use_certificate {
            Identity::Certificate {
                key: filled("IDENTITY_KEY").ok_or(Error::NoKey)?.into(),
                cert: filled("IDENTITY_CERT").ok_or(Error::NoCertificate)?.into(),
            }
        } else if let Some(secret) = filled("HUB_TOKEN_SECRET") {
            match secret.split_once('/') {
                Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Identity::TokenSecret {
                    namespace: namespace.into(),
                    name: name.into(),
                },
                _ => return Err(Error::BadSecret(secret)),
            }
        } else {
            Identity::TokenFile(filled("CONFIG_PATH").ok_or(Error::NoToken)?.into())
        };
        let trust = if tls_insecure { Trust::Anything } else { trust(&text)? };
        let channel = filled("HUB_CHANNEL_URL")
            .map(|v| address("HUB_CHANNEL_URL", &v))
            .transpose()?;
        let channel_ca = filled("HUB_CHANNEL_CA")
            .map(|v| decoded("HUB_CHANNEL_CA", &v))
            .transpose()?;
        let headers = headers(&filled("HUB_KUBE_HEADER").unwrap_or_default())?;
        Ok(Self {
            server,
            cluster,
            identity,
            trust,
            headers,
            channel,
            channel_ca,
        })
    }
}

fn trust(text: &impl Fn(&str) -> Option<String>) -> Result<Trust, Error> {
    const FILE: &str = "CA_BUNDLE";
    const DATA: &str = "HUB_CERTIFICATE_AUTHORITY";
    match (text(FILE), text(DATA)) {
        (Some(file), _) if file.is_empty() => Err(Error::Empty(FILE)),
        (_, Some(data)) if data.is_empty() => Err(Error::Empty(DATA)),
        (Some(_), Some(_)) => Err(Error::TwoCas),
        (None, None) => Ok(Trust::System),
        (Some(file), None) => {
            let bad = |detail| Error::BadCa { variable: FILE, detail };
            let pem = std::fs::read_to_string(&file).map_err(|e| bad(format!("{file}: {e}")))?;
            checked(FILE, pem).map(Trust::Bundle)
        }
        (None, Some(data)) => decoded(DATA, &data).map(Trust::Bundle),
    }
}

fn decoded(variable: &'static str, data: &str) -> Result<String, Error> {
    let bad = |detail: String| Error::BadCa { variable, detail };
    let bytes = STANDARD
        .decode(data.trim())
        .map_err(|e| bad(format!("not base64: {e}")))?;
    checked(variable, String::from_utf8(bytes).map_err(|e| bad(e.to_string()))?)
}

fn checked(variable: &'static str, pem: String) -> Result<String, Error> {
    match CertificateDer::pem_slice_iter(pem.as_bytes()).next() {
        Some(Ok(_)) => Ok(pem),
        Some(Err(e)) => Err(Error::BadCa {
            variable,
            detail: e.to_string(),
        }),
        None => Err(Error::BadCa {
            variable,
            detail: "no PEM certificate in it".into(),
        }),
    }
}

fn address(variable: &'static str, value: &str) -> Result<Uri, Error> {
    let bad = || Error::BadAddress {
        variable,
        value: value.to_owned(),
    };
    let uri: Uri = value.parse().map_err(|_| bad())?;
    if uri.scheme_str() == Some("https") && uri.host().is_some() {
        Ok(uri)
    } else {
        Err(bad())
    }
}

fn headers(lines: &str) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
    lines
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let bad = || Error::BadHeader(line.to_owned());
            let (name, value) = line.split_once(':').ok_or_else(bad)?;
            Ok((
                name.trim().parse().map_err(|_| bad())?,
                value.trim().parse().map_err(|_| bad())?,
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[(&str, &str)] = &[
        ("HUB_SERVER_URL", "https://hub:6443"),
        ("MEMBER_CLUSTER_NAME", "east"),
        ("CONFIG_PATH", "/token"),
    ];

    fn read(changes: &[(&str, &str)], use_certificate: bool) -> Result<HubSettings, Error> {
        let value = |name: &str| {
            let pick = |list: &[(&str, &str)]| list.iter().find(|(k, _)| *k == name).map(|(_, v)| (*v).into());
            pick(changes).or_else(|| pick(GOOD))
        };
        HubSettings::read(value, use_certificate, false)
    }

    #[test]
    fn the_join_recipe_is_enough() {
        let settings = read(&[], false).unwrap();
        assert_eq!(settings.cluster.as_str(), "east");
        assert_eq!(settings.identity, Identity::TokenFile("/token".into()));
        assert_eq!(settings.trust, Trust::System);
    }

    #[test]
    fn every_wrong_setting_is_named() {
        type Row<'a> = (&'a [(&'a str, &'a str)], bool, &'a str);
        let table: &[Row<'_>] = &[
            (&[("HUB_SERVER_URL", "")], false, "hub server api cannot be empty"),
            (
                &[("HUB_SERVER_URL", "http://hub")],
                false,
                "HUB_SERVER_URL is not an https:// address: http://hub",
            ),
            (
                &[("HUB_SERVER_URL", "::")],
                false,
                "HUB_SERVER_URL is not an https:// address: ::",
            ),
            (
                &[("MEMBER_CLUSTER_NAME", "")],
                false,
                "member cluster name cannot be empty",
            ),
            (&[("MEMBER_CLUSTER_NAME", "a.b")], false, "MEMBER_CLUSTER_NAME: "),
            (
                &[("CONFIG_PATH", "")],
                false,
                "hub token file path cannot be empty if CA auth not used",
            ),
            (
                &[("HUB_TOKEN_SECRET", "token")],
                false,
                "HUB_TOKEN_SECRET must be namespace/name, got \"token\"",
            ),
            (&[], true, "identity key file path cannot be empty"),
            (
                &[("IDENTITY_KEY", "/k")],
                true,
                "identity certificate file path cannot be empty",
            ),
            (
                &[("CA_BUNDLE", "")],
                false,
                "environment variable CA_BUNDLE should not be empty",
            ),
            (
                &[("HUB_CERTIFICATE_AUTHORITY", "")],
                false,
                "environment variable HUB_CERTIFICATE_AUTHORITY should not be empty",
            ),
            (
                &[("CA_BUNDLE", "/ca"), ("HUB_CERTIFICATE_AUTHORITY", "eA==")],
                false,
                "environment variables CA_BUNDLE and HUB_CERTIFICATE_AUTHORITY should not be set at same time",
            ),
            (
                &[("HUB_CERTIFICATE_AUTHORITY", "%")],
                false,
                "HUB_CERTIFICATE_AUTHORITY holds no certificate: not base64",
            ),
            (
                &[("HUB_CERTIFICATE_AUTHORITY", "eA==")],
                false,
                "HUB_CERTIFICATE_AUTHORITY holds no certificate: no PEM",
            ),
            (
                &[("CA_BUNDLE", "/does/not/exist")],
                false,
                "CA_BUNDLE holds no certificate: /does/not/exist",
            ),
            (
                &[("HUB_KUBE_HEADER", "no colon")],
                false,
                "HUB_KUBE_HEADER: \"no colon\" is not a header line",
            ),
        ];
        for (changes, use_certificate, says) in table {
            let error = read(changes, *use_certificate).unwrap_err().to_string();
            assert!(error.starts_with(says), "{changes:?}: {error}");
        }
    }

    #[test]
    fn tls_insecure_ignores_the_ca_variables() {
        let get = |name: &str| match name {
            "CA_BUNDLE" => Some("".into()),
            _ => GOOD.iter().find(|(k, _)| *k == name).map(|(_, v)| (*v).into()),
        };
        assert_eq!(HubSettings::read(get, false, true).unwrap().trust, Trust::Anything);
    }

    #[test]
    fn header_lines_are_read() {
        let settings = read(&[("HUB_KUBE_HEADER", "X-A: 1\nX-B: two words\n")], false).unwrap();
        assert_eq!(settings.headers.len(), 2);
        assert_eq!(settings.headers[1].1, "two words");
    }
}
