//! Where the channel is: what the hub announces on the InternalMemberCluster, unless settings say otherwise.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Uri;

use super::settings::{HubSettings, Trust};
use crate::membership::Imc;

/// Where to connect, and how the hub agent there proves itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// How its certificate is judged.
    pub trust: Trust,
}

/// Why there is nowhere to connect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nobody said where.
    #[error("the InternalMemberCluster names no channel endpoint yet, and HUB_CHANNEL_URL is not set")]
    Unknown,
    /// What was announced is no address.
    #[error("the announced channel endpoint {0:?} is neither host:port nor https://host:port")]
    Malformed(String),
    /// What was announced is no certificate.
    #[error("the announced channel CA is not base64 of PEM")]
    BadCa,
}

impl Endpoint {
    /// The endpoint for this InternalMemberCluster, if there is one.
    pub fn find(settings: &HubSettings, imc: Option<&Imc>) -> Result<Self, Error> {
        let (host, port) = match (&settings.channel, imc.and_then(|imc| imc.endpoint.as_deref())) {
            (Some(uri), _) => address(uri).ok_or_else(|| Error::Malformed(uri.to_string()))?,
            (None, Some(announced)) => announced_address(announced)?,
            (None, None) => return Err(Error::Unknown),
        };
        let trust = match (
            &settings.trust,
            &settings.channel_ca,
            imc.and_then(|imc| imc.ca.as_deref()),
        ) {
            (Trust::Anything, ..) => Trust::Anything,
            (_, Some(pem), _) => Trust::Bundle(pem.clone()),
            (_, None, Some(announced)) => Trust::Bundle(decoded(announced).ok_or(Error::BadCa)?),
            (trust, None, None) => trust.clone(),
        };
        Ok(Self { host, port, trust })
    }
}

fn announced_address(text: &str) -> Result<(String, u16), Error> {
    let malformed = || Error::Malformed(text.to_owned());
    // Anything but TLS is out of the question, whoever announces it.
    let uri: Uri = if text.contains("://") {
        text.parse().map_err(|_| malformed())?
    } else {
        format!("https://{text}").parse().map_err(|_| malformed())?
    };
    if uri.scheme_str() != Some("https") {
        return Err(malformed());
    }
    address(&uri).ok_or_else(malformed)
}

fn address(uri: &Uri) -> Option<(String, u16)> {
    // An IPv6 address stands in brackets, which are not part of it.
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), uri.port_u16().unwrap_or(443)))
}

fn decoded(ca: &str) -> Option<String> {
    let pem = String::from_utf8(STANDARD.decode(ca.trim()).ok()?).ok()?;
    pem.contains("-----BEGIN CERTIFICATE-----").then_some(pem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(channel: Option<&str>, ca: Option<&str>, insecure: bool) -> HubSettings {
        let get = |name: &str| match name {
            "HUB_SERVER_URL" => Some("https://hub:6443".into()),
            "MEMBER_CLUSTER_NAME" => Some("east".into()),
            "CONFIG_PATH" => Some("/token".into()),
            "HUB_CHANNEL_URL" => channel.map(Into::into),
            _ => None,
        };
        let mut settings = HubSettings::read(get, false, insecure).unwrap();
        settings.channel_ca = ca.map(Into::into);
        settings
    }

    fn imc(endpoint: Option<&str>, ca: Option<&str>) -> Imc {
        Imc {
            endpoint: endpoint.map(Into::into),
            ca: ca.map(Into::into),
            ..Imc::for_tests("u", 1)
        }
    }

    #[test]
    fn what_the_hub_announces_is_enough() {
        let pem = "-----BEGIN CERTIFICATE-----\n";
        let ca = STANDARD.encode(pem);
        for (announced, host, port) in [
            ("hub.example:8443", "hub.example", 8443),
            ("https://hub.example", "hub.example", 443),
            ("https://[fd00::1]:8443", "fd00::1", 8443),
            ("10.0.0.1:1", "10.0.0.1", 1),
        ] {
            let found = Endpoint::find(&settings(None, None, false), Some(&imc(Some(announced), Some(&ca))));
            let trust = Trust::Bundle(pem.into());
            assert_eq!(
                found,
                Ok(Endpoint {
                    host: host.into(),
                    port,
                    trust
                })
            );
        }
    }

    #[test]
    fn settings_come_first() {
        let imc = imc(Some("a:1"), Some("!"));
        let found = Endpoint::find(&settings(Some("https://b:2"), Some("PEM"), false), Some(&imc)).unwrap();
        assert_eq!((found.host.as_str(), found.port), ("b", 2));
        assert_eq!(found.trust, Trust::Bundle("PEM".into()));
        let found = Endpoint::find(&settings(Some("https://b"), None, false), None).unwrap();
        assert_eq!((found.port, found.trust), (443, Trust::System));
        let found = Endpoint::find(&settings(None, None, true), Some(&imc)).unwrap();
        assert_eq!(found.trust, Trust::Anything);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let find = |endpoint, ca| Endpoint::find(&settings(None, None, false), Some(&imc(endpoint, ca)));
        assert_eq!(find(None, None), Err(Error::Unknown));
        assert_eq!(
            find(Some("http://hub:1"), None),
            Err(Error::Malformed("http://hub:1".into()))
        );
        assert_eq!(find(Some("a b"), None), Err(Error::Malformed("a b".into())));
        assert_eq!(find(Some("hub:1"), Some("eA==")), Err(Error::BadCa));
    }
}
