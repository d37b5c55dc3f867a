//! A serving certificate: made here when nobody provides one, and judged for its age.
//!
//! A Secret holds it, so that every replica serves the same CA and a restart changes nothing:
//! `ca.crt` (what peers are told to trust), `ca.key` (only when made here), `tls.crt`, `tls.key`.
//! The CA outlives the leaf by years: peers keep trusting it while leaves are renewed.

use std::{collections::BTreeMap, fmt::Display, sync::Arc};

use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use x509_parser::extensions::GeneralName;

use super::Certificate;

/// Peers reconnect through a leaf change without noticing, so a short life costs nothing.
const LEAF_DAYS: i64 = 90;
/// Renewed with a third of its life left: weeks to notice a hub that cannot write its Secret.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(30 * 24);
const CA_DAYS: i64 = 3650;
/// Clocks of peers may be behind ours.
const BACKDATE: SignedDuration = SignedDuration::from_hours(24);

/// Keys of the Secret, those of a `kubernetes.io/tls` Secret as cert-manager writes it.
pub(crate) const CA_CERT: &str = "ca.crt";
const CA_KEY: &str = "ca.key";
const CERT: &str = "tls.crt";
const KEY: &str = "tls.key";

/// What a Secret's data amounts to.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Serving {
    of: &'static Certificate,
    /// PEM of the CA that peers are told to trust.
    pub(crate) ca: String,
    /// PEM of the chain served.
    pub(crate) chain: String,
    /// PEM of its key.
    pub(crate) key: String,
}

impl std::fmt::Debug for Serving {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Serving")
            .field("chain", &self.chain)
            .finish_non_exhaustive()
    }
}

/// What the listener works with.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// For handshakes.
    pub(crate) config: Arc<ServerConfig>,
    /// Judges client certificates; none if none are accepted.
    pub(crate) clients: Option<Arc<dyn ClientCertVerifier>>,
}

/// Why a certificate cannot be used. `of` is who serves it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the {of} certificate has no {field}")]
    Missing { of: &'static str, field: &'static str },
    #[error("{field} of the {of} certificate is not valid PEM: {detail}")]
    Malformed {
        of: &'static str,
        field: &'static str,
        detail: String,
    },
    #[error("could not make the {of} certificate")]
    Make { of: &'static str, source: rcgen::Error },
    #[error("the {of} certificate cannot be served")]
    Serve { of: &'static str, source: rustls::Error },
    #[error("the client CA cannot be used")]
    ClientCa(#[from] rustls::server::VerifierBuilderError),
}

impl Certificate {
    fn malformed(&self, field: &'static str, detail: &dyn Display) -> Error {
        Error::Malformed {
            of: self.server,
            field,
            detail: detail.to_string(),
        }
    }

    fn unserved(&self, source: rustls::Error) -> Error {
        Error::Serve {
            of: self.server,
            source,
        }
    }
}

impl Serving {
    /// Reads the keys of a Secret.
    pub(crate) fn from_data(of: &'static Certificate, data: &BTreeMap<String, ByteString>) -> Result<Self, Error> {
        let text = |field: &'static str| {
            let bytes = data
                .get(field)
                .filter(|b| !b.0.is_empty())
                .ok_or(Error::Missing { of: of.server, field })?;
            String::from_utf8(bytes.0.clone()).map_err(|e| of.malformed(field, &e))
        };
        let serving = Self {
            of,
            ca: text(CA_CERT)?,
            chain: text(CERT)?,
            key: text(KEY)?,
        };
        serving.not_after()?; // a leaf that cannot be read is refused here, where its field can be named
        Ok(serving)
    }

    /// Whether the leaf is good for all of these names and addresses.
    pub(crate) fn covers(&self, hosts: &[String]) -> bool {
        let Ok(der) = CertificateDer::from_pem_slice(self.chain.as_bytes()) else {
            return false;
        };
        let Ok((_, leaf)) = x509_parser::parse_x509_certificate(&der) else {
            return false;
        };
        let Ok(Some(names)) = leaf.subject_alternative_name() else {
            return hosts.is_empty();
        };
        hosts.iter().all(|host| {
            let address: Option<std::net::IpAddr> = host.parse().ok();
            names.value.general_names.iter().any(|name| match (name, address) {
                (GeneralName::DNSName(name), None) => name.eq_ignore_ascii_case(host),
                (GeneralName::IPAddress(bytes), Some(std::net::IpAddr::V4(ip))) => *bytes == ip.octets(),
                (GeneralName::IPAddress(bytes), Some(std::net::IpAddr::V6(ip))) => *bytes == ip.octets(),
                _ => false,
            })
        })
    }

    /// When the leaf stops being valid.
    pub(crate) fn not_after(&self) -> Result<Timestamp, Error> {
        let der = CertificateDer::from_pem_slice(self.chain.as_bytes()).map_err(|e| self.of.malformed(CERT, &e))?;
        let (_, leaf) = x509_parser::parse_x509_certificate(&der).map_err(|e| self.of.malformed(CERT, &e))?;
        Timestamp::from_second(leaf.validity().not_after.timestamp()).map_err(|e| self.of.malformed(CERT, &e))
    }

    /// The instant from which it should be renewed.
    pub(crate) fn renew_at(&self) -> Result<Timestamp, Error> {
        Ok(self.not_after()? - RENEW_BEFORE)
    }

    /// What the listener serves. Client certificates are optional, and checked against `client_ca` (PEM) if there is one.
    pub(crate) fn tls(&self, client_ca: Option<&str>) -> Result<Tls, Error> {
        let of = self.of;
        let chain = certificates(of, CERT, &self.chain)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|e| of.malformed(KEY, &e))?;
        let clients = client_ca.map(|ca| verifier(of, ca)).transpose()?;
        let builder = ServerConfig::builder();
        let builder = match &clients {
            None => builder.with_no_client_auth(),
            Some(clients) => builder.with_client_cert_verifier(clients.clone()),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|e| of.unserved(e))?;
        config.alpn_protocols = of.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let config = Arc::new(config);
        Ok(Tls { config, clients })
    }
}

/// Accepts client certificates of this CA (PEM), and connections without any.
fn verifier(of: &Certificate, client_ca: &str) -> Result<Arc<dyn ClientCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for ca in certificates(of, "client-ca-file", client_ca)? {
        roots.add(ca).map_err(|e| of.unserved(e))?;
    }
    let verifier = WebPkiClientVerifier::builder(roots.into());
    Ok(verifier.allow_unauthenticated().build()?)
}

fn certificates(of: &Certificate, field: &'static str, pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match all {
        Ok(list) if !list.is_empty() => Ok(list),
        Ok(_) => Err(of.malformed(field, &"it holds no certificate")),
        Err(e) => Err(of.malformed(field, &e)),
    }
}

/// A new leaf for `hosts`, under the CA of `data` if it has one with its key, else under a new CA.
/// Returns the Secret's whole new data.
pub(crate) fn make(
    of: &Certificate,
    data: &BTreeMap<String, ByteString>,
    hosts: &[String],
    now: Timestamp,
) -> Result<BTreeMap<String, ByteString>, Error> {
    try_make(of, data, hosts, now).map_err(|source| Error::Make { of: of.server, source })
}

fn try_make(
    of: &Certificate,
    data: &BTreeMap<String, ByteString>,
    hosts: &[String],
    now: Timestamp,
) -> Result<BTreeMap<String, ByteString>, rcgen::Error> {
    let text = |field: &str| data.get(field).and_then(|b| String::from_utf8(b.0.clone()).ok());
    let kept = text(CA_CERT).zip(text(CA_KEY)).and_then(|(cert, key)| {
        let issuer = Issuer::from_ca_cert_pem(&cert, KeyPair::from_pem(&key).ok()?).ok()?;
        Some((cert, key, issuer))
    });
    let (ca_pem, ca_key_pem, issuer) = match kept {
        Some(ca) => ca,
        None => new_ca(of, now)?,
    };
    let key = KeyPair::generate()?;
    let mut leaf = CertificateParams::new(hosts.to_vec())?;
    leaf.distinguished_name.push(DnType::CommonName, of.common_name());
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    set_validity(&mut leaf, now, LEAF_DAYS);
    let chain = leaf.signed_by(&key, &issuer)?.pem();
    Ok([
        (CA_CERT, ca_pem),
        (CA_KEY, ca_key_pem),
        (CERT, chain),
        (KEY, key.serialize_pem()),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), ByteString(v.into_bytes())))
    .collect())
}

fn new_ca(of: &Certificate, now: Timestamp) -> Result<(String, String, Issuer<'static, KeyPair>), rcgen::Error> {
    let key = KeyPair::generate()?;
    let key_pem = key.serialize_pem();
    let mut params = CertificateParams::default();
    let name = format!("{}-ca", of.common_name());
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, CA_DAYS);
    let pem = params.self_signed(&key)?.pem();
    Ok((pem, key_pem, Issuer::new(params, key)))
}

fn days(n: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * n)
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, days_valid: i64) {
    let day = |at: Timestamp| {
        let date = at.to_zoned(TimeZone::UTC).date();
        rcgen::date_time_ymd(
            i32::from(date.year()),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    params.not_before = day(now - BACKDATE);
    params.not_after = day(now + days(days_valid));
}

#[cfg(test)]
mod tests {
    use super::{super::CHANNEL, *};

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().unwrap()
    }

    fn hosts() -> Vec<String> {
        vec!["hub.example.com".into(), "127.0.0.1".into()]
    }

    #[test]
    fn what_is_made_can_be_served_and_is_renewed_a_month_before_its_end() {
        let serving =
            Serving::from_data(&CHANNEL, &make(&CHANNEL, &BTreeMap::new(), &hosts(), now()).unwrap()).unwrap();
        serving.tls(Some(&serving.ca)).unwrap();
        assert!(serving.covers(&hosts()));
        assert!(!serving.covers(&["other.example.com".into()]) && !serving.covers(&["10.0.0.1".into()]));
        assert!(!format!("{serving:?}").contains("PRIVATE KEY"));
        assert_eq!(serving.not_after().unwrap().to_string(), "2026-04-01T00:00:00Z");
        assert_eq!(serving.renew_at().unwrap().to_string(), "2026-03-02T00:00:00Z");
    }

    #[test]
    fn a_renewed_leaf_keeps_its_ca() {
        let first = make(&CHANNEL, &BTreeMap::new(), &hosts(), now()).unwrap();
        let second = make(&CHANNEL, &first, &hosts(), now() + days(61)).unwrap();
        let (first, second) = (
            Serving::from_data(&CHANNEL, &first).unwrap(),
            Serving::from_data(&CHANNEL, &second).unwrap(),
        );
        assert_eq!(first.ca, second.ca);
        assert_ne!(first.chain, second.chain);
    }

    #[test]
    fn a_damaged_secret_is_refused_by_the_name_of_its_field() {
        let good = make(&CHANNEL, &BTreeMap::new(), &hosts(), now()).unwrap();
        for (field, value, says) in [
            (CERT, "", "the channel certificate has no tls.crt"),
            (CERT, "garbage", "tls.crt of the channel certificate is not valid PEM"),
        ] {
            let mut bad = good.clone();
            bad.insert(field.into(), ByteString(value.into()));
            let error = Serving::from_data(&CHANNEL, &bad).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
        let mut bad = good;
        bad.insert(CA_KEY.into(), ByteString(b"garbage".to_vec()));
        make(&CHANNEL, &bad, &hosts(), now()).expect("a CA that cannot sign is replaced");
    }
}
