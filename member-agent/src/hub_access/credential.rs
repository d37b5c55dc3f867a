//! Our credential, always the newest: files are looked at again before each use, a Secret is watched.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use fleet_api::annotations::RENEW_TOKEN;
use fleet_core::session::token::TOKEN_MAX;
use fleet_runtime::cache::{self, Selection, Store};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;
use rustls::{
    SignatureScheme,
    client::ResolvesClientCert,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use tokio::sync::watch;

use super::settings::Identity;

/// The key of the token in its Secret.
pub(super) const TOKEN_KEY: &str = "token";

/// Why there is no credential at the moment.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The Secret is not there, or not read yet, or has no token.
    #[error("the token data is missing or empty in secret {0}")]
    Secret(String),
    /// A file cannot be used.
    #[error("{}: {detail}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
}

/// How we prove who we are, at this moment.
#[derive(Clone)]
pub enum Credential {
    /// A bearer token.
    Token(Arc<TokenSource>),
    /// A client certificate, presented in the TLS handshake.
    Certificate(Arc<CertificateFiles>),
}

impl Credential {
    /// The credential that `identity` names. Nothing is read yet.
    pub fn new(identity: &Identity) -> Self {
        match identity {
            Identity::TokenFile(path) => Self::Token(Arc::new(TokenSource::File(CachedFile::new(path.clone())))),
            Identity::TokenSecret { namespace, name } => Self::Token(Arc::new(TokenSource::Secret {
                namespace: namespace.clone(),
                name: name.clone(),
                held: watch::Sender::new(None),
            })),
            Identity::Certificate { cert, key } => Self::Certificate(Arc::new(CertificateFiles {
                cert: CachedFile::new(cert.clone()),
                key: CachedFile::new(key.clone()),
                current: Mutex::new(None),
            })),
        }
    }
}

/// Where a token comes from. `Debug` never shows it.
pub enum TokenSource {
    /// A file.
    File(CachedFile),
    /// A watched Secret on this cluster.
    Secret {
        /// The Secret's namespace.
        namespace: String,
        /// The Secret's name.
        name: String,
        /// What it held last.
        held: watch::Sender<Option<StoredToken>>,
    },
}

/// What the Secret held when it was last read.
#[derive(Clone)]
pub struct StoredToken {
    /// The token.
    pub token: Arc<str>,
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The Secret's version.
    pub version: String,
    /// Whether it is ours to renew.
    pub renew: bool,
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "token file {}", file.path.display()),
            Self::Secret { namespace, name, .. } => write!(f, "token secret {namespace}/{name}"),
        }
    }
}

impl TokenSource {
    /// The token of this moment.
    pub fn current(&self) -> Result<Arc<str>, Error> {
        match self {
            Self::File(file) => {
                let text = file.read()?;
                match text.trim() {
                    "" => Err(file.error("the token is empty")),
                    token => Ok(token.into()),
                }
            }
            Self::Secret { namespace, name, held } => {
                let held = held.borrow();
                let token = held.as_ref().map(|held| held.token.clone());
                token.ok_or_else(|| Error::Secret(format!("{namespace}/{name}")))
            }
        }
    }

    /// What the Secret holds, and what it will hold; nothing if the token is not in a Secret.
    pub(super) fn held(&self) -> Option<watch::Receiver<Option<StoredToken>>> {
        match self {
            Self::File(_) => None,
            Self::Secret { held, .. } => Some(held.subscribe()),
        }
    }

    /// What has just been written to the Secret, before its watch says so.
    pub(super) fn put(&self, new: StoredToken) {
        if let Self::Secret { held, .. } = self {
            held.send_replace(Some(new));
        }
    }

    /// Keeps a Secret's token up to date, for ever. A token that vanishes is kept: it may still be good, and a
    /// Secret is often deleted and created anew to rotate it.
    pub async fn follow(&self, member: Client) {
        let Self::Secret { namespace, name, held } = self else {
            return futures::future::pending().await;
        };
        let store = Store::<Secret>::new("secrets");
        let only = Selection {
            fields: Some(format!("metadata.name={name}")),
            ..Selection::default()
        };
        let mut changes = store.subscribe();
        let watching = store.watch(Api::namespaced(member, namespace), only, cache::plain);
        let following = async {
            let secret = format!("{namespace}/{name}");
            loop {
                let Some(now) = changes.next().await.new else {
                    tracing::warn!(secret, "the token secret was deleted; its last token is kept");
                    continue;
                };
                let Some(new) = StoredToken::of(&now) else {
                    tracing::warn!(secret, "the token data is missing or empty");
                    continue;
                };
                let known = held.borrow().as_ref().is_some_and(|held| held.token == new.token);
                held.send_replace(Some(new));
                if !known {
                    tracing::info!(secret, "Read the hub token");
                }
            }
        };
        tokio::select! {
            () = watching => {}
            () = following => {}
        }
    }
}

impl StoredToken {
    fn of(secret: &Secret) -> Option<Self> {
        let data = secret.data.as_ref()?.get(TOKEN_KEY)?;
        let token = std::str::from_utf8(&data.0).ok()?.trim();
        let usable = !token.is_empty() && token.len() <= TOKEN_MAX;
        usable.then(|| Self {
            token: token.into(),
            namespace: secret.namespace().unwrap_or_default(),
            name: secret.name_any(),
            version: secret.resource_version().unwrap_or_default(),
            renew: secret.annotations().get(RENEW_TOKEN).is_some_and(|word| word == "true"),
        })
    }
}

/// A file read again when it has changed.
pub struct CachedFile {
    path: PathBuf,
    seen: Mutex<Option<(SystemTime, Arc<str>)>>,
}

impl CachedFile {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: Mutex::new(None),
        }
    }

    fn error(&self, detail: impl fmt::Display) -> Error {
        Error::File {
            path: self.path.clone(),
            detail: detail.to_string(),
        }
    }

    fn read(&self) -> Result<Arc<str>, Error> {
        let modified = modified(&self.path).map_err(|e| self.error(e))?;
        let mut seen = self.seen.lock();
        if let Some((at, text)) = &*seen
            && *at == modified
        {
            return Ok(Arc::clone(text));
        }
        let text: Arc<str> = fs::read_to_string(&self.path).map_err(|e| self.error(e))?.into();
        *seen = Some((modified, Arc::clone(&text)));
        Ok(text)
    }
}

fn modified(path: &Path) -> io::Result<SystemTime> {
    // Through links: the kubelet rotates mounted files by moving a link.
    fs::metadata(path)?.modified()
}

/// The texts of both files, and what they made.
type Loaded = (Arc<str>, Arc<str>, Arc<CertifiedKey>);

/// A client certificate in two files, loaded anew for the first handshake after they changed.
pub struct CertificateFiles {
    cert: CachedFile,
    key: CachedFile,
    current: Mutex<Option<Loaded>>,
}

impl fmt::Debug for CertificateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client certificate {}", self.cert.path.display())
    }
}

impl CertificateFiles {
    /// The certificate of this moment.
    pub fn current(&self) -> Result<Arc<CertifiedKey>, Error> {
        let (cert, key) = (self.cert.read()?, self.key.read()?);
        let mut current = self.current.lock();
        if let Some((c, k, loaded)) = &*current
            && (c, k) == (&cert, &key)
        {
            return Ok(Arc::clone(loaded));
        }
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(cert.as_bytes()).collect();
        let chain = chain.map_err(|e| self.cert.error(e))?;
        let secret = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| self.key.error(e))?;
        let provider = CryptoProvider::get_default().ok_or_else(|| self.key.error("no TLS provider is installed"))?;
        let loaded = CertifiedKey::from_der(chain, secret, provider).map_err(|e| self.cert.error(e))?;
        let loaded = Arc::new(loaded);
        *current = Some((cert, key, Arc::clone(&loaded)));
        Ok(loaded)
    }
}

impl ResolvesClientCert for CertificateFiles {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current()
            .inspect_err(|error| tracing::warn!(%error, "no client certificate for the hub"))
            .ok()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_token_file_is_read_again_and_an_empty_one_refused() {
        let dir = std::env::temp_dir().join(format!("fleet-token-{}", std::process::id()));
        let at = |secs| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(secs);
        let write = |text: &str, time: u64| {
            fs::write(&dir, text).unwrap();
            fs::File::options()
                .write(true)
                .open(&dir)
                .unwrap()
                .set_modified(at(time))
                .unwrap();
        };
        let Credential::Token(token) = Credential::new(&Identity::TokenFile(dir.clone())) else {
            unreachable!()
        };
        assert!(token.current().is_err(), "not there yet");
        write("first\n", 1);
        assert_eq!(&*token.current().unwrap(), "first");
        write("second", 2);
        assert_eq!(&*token.current().unwrap(), "second");
        write("", 3);
        assert!(token.current().unwrap_err().to_string().ends_with("the token is empty"));
        fs::remove_file(&dir).unwrap();
        assert!(!format!("{token:?}").contains("second"));
    }
}
