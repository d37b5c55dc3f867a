//! One certificate authority per cluster and the certificates of its parts, plus the ServiceAccount signing key.

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SigningKey as _, date_time_ymd,
};
use serde_json::{Value, json};

/// Long before and long after any run: a local fleet is thrown away, its certificates are never renewed.
const VALID_FROM: (i32, u8, u8) = (2020, 1, 1);
const VALID_TO: (i32, u8, u8) = (2099, 1, 1);

/// Somebody who talks to the API server with a certificate.
#[derive(Debug, Clone, Copy)]
pub struct Identity {
    /// The file name.
    pub file: &'static str,
    /// The user name it stands for.
    user: &'static str,
    /// The group, if any.
    group: Option<&'static str>,
}

/// The user of the kubeconfig.
pub const ADMIN: Identity = Identity {
    file: "admin",
    user: "fleet-admin",
    group: Some("system:masters"),
};
/// kube-controller-manager.
pub const CONTROLLER_MANAGER: Identity = Identity {
    file: "kube-controller-manager",
    user: "system:kube-controller-manager",
    group: None,
};
/// kube-scheduler.
pub const SCHEDULER: Identity = Identity {
    file: "kube-scheduler",
    user: "system:kube-scheduler",
    group: None,
};
/// kwok plays every kubelet at once and a volume provisioner, so no narrower built-in role fits it.
pub const KWOK: Identity = Identity {
    file: "kwok",
    user: "kwok",
    group: Some("system:masters"),
};
/// The API server as a client of etcd.
pub const ETCD_CLIENT: Identity = Identity {
    file: "etcd-client",
    user: "kube-apiserver-etcd-client",
    group: None,
};

/// The directory that holds a cluster's keys and certificates.
#[derive(Debug, Clone)]
pub struct Pki {
    dir: PathBuf,
}

impl Pki {
    /// Makes everything a cluster needs in `dir`.
    pub fn create(dir: &Path, cluster: &str) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|e| crate::disk::explain(e, dir))?;
        let this = Self { dir: dir.to_owned() };

        let ca_key = KeyPair::generate()?;
        let mut ca = params(&format!("flotilla local CA {cluster}"), None);
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::CrlSign,
        ];
        let ca_certificate = ca.self_signed(&ca_key)?;
        this.write("ca.crt", &ca_certificate.pem())?;
        this.write("ca.key", &ca_key.serialize_pem())?;
        let issuer = Issuer::new(ca, ca_key);

        this.issue(&issuer, "serving", &serving()?)?;
        for identity in [ADMIN, CONTROLLER_MANAGER, SCHEDULER, KWOK, ETCD_CLIENT] {
            let mut client = params(identity.user, identity.group);
            client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            this.issue(&issuer, identity.file, &client)?;
        }
        let signing = KeyPair::generate()?;
        this.write("service-account.key", &signing.serialize_pem())?;
        this.write("service-account.pub", &signing.public_key_pem())?;
        Ok(this)
    }

    /// What was made in `dir`.
    pub fn open(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// A token with these claims, signed as the cluster signs those of ServiceAccounts. For claims that it would not make
    /// itself: what it issues lives for ten minutes at least.
    pub fn sign_token(&self, claims: &Value) -> Result<String> {
        let key = KeyPair::from_pem(&self.read("service-account.key")?)?;
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({"alg": "ES256", "typ": "JWT"})), part(claims));
        let signature = of_fixed_size(&key.sign(signed.as_bytes())?).context("no ECDSA signature")?;
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// A client certificate for a user and its key, PEM.
    pub fn client(&self, user: &str) -> Result<(String, String)> {
        let ca_key = KeyPair::from_pem(&self.read("ca.key")?)?;
        let issuer = Issuer::from_ca_cert_pem(&self.read("ca.crt")?, ca_key)?;
        let mut client = params(user, None);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        Ok((client.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
    }

    /// The path of one file.
    pub fn path(&self, file: &str) -> String {
        self.dir.join(file).display().to_string()
    }

    /// The text of one file.
    pub fn read(&self, file: &str) -> Result<String> {
        let path = self.dir.join(file);
        fs::read_to_string(&path).map_err(|e| anyhow::anyhow!("cannot read {}: {e}", path.display()))
    }

    fn issue(&self, issuer: &Issuer<'_, KeyPair>, name: &str, params: &CertificateParams) -> Result<()> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, issuer)?;
        self.write(&format!("{name}.crt"), &certificate.pem())?;
        self.write(&format!("{name}.key"), &key.serialize_pem())
    }

    fn write(&self, file: &str, text: &str) -> Result<()> {
        let path = self.dir.join(file);
        write_private(&path, text)
    }
}

/// Writes a file that only this user can read.
pub fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| crate::disk::explain(e, path))
}

/// One serving certificate for all servers of a cluster: they all listen on loopback.
fn serving() -> Result<CertificateParams> {
    let names = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "127.0.0.1",
        super::API_IP,
    ];
    let mut params = CertificateParams::new(names.map(str::to_owned))?;
    date(&mut params);
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn params(user: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    date(&mut params);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    params
}

fn date(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(VALID_FROM.0, VALID_FROM.1, VALID_FROM.2);
    params.not_after = date_time_ymd(VALID_TO.0, VALID_TO.1, VALID_TO.2);
}

/// An ECDSA signature as tokens have it. ASN.1 has its two numbers as short as they can be, a token in 32 bytes each.
fn of_fixed_size(asn1: &[u8]) -> Option<[u8; 64]> {
    let mut numbers = [0; 64];
    let mut rest = asn1.get(2..)?;
    for number in numbers.chunks_exact_mut(32) {
        let (length, after) = (usize::from(*rest.get(1)?), rest.get(2..)?);
        let (digits, next) = after.split_at_checked(length)?;
        let digits = &digits[digits.len().saturating_sub(32)..];
        number[32 - digits.len()..].copy_from_slice(digits);
        rest = next;
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn every_part_has_its_files_and_keys_are_private() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::create(dir.path(), "hub").unwrap();
        for name in [
            "ca",
            "serving",
            "admin",
            "kube-controller-manager",
            "kube-scheduler",
            "kwok",
            "etcd-client",
        ] {
            assert!(
                pki.read(&format!("{name}.crt")).unwrap().contains("BEGIN CERTIFICATE"),
                "{name}"
            );
        }
        let mode = fs::metadata(pki.path("service-account.key"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
