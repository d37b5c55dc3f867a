//! Our credential, always the newest: files are looked at again before each use, a Secret is watched.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use parking_lot::Mutex;
use rustls::{
    SignatureScheme,
    client::ResolvesClientCert,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};

use super::settings::Identity;

/// The key of the token in its Secret.
const TOKEN_KEY: &str = "token";

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
                token: Mutex::new(None),
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
        token: Mutex<Option<Arc<str>>>,
    },
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
            Self::Secret { namespace, name, token } => token
                .lock()
                .clone()
                .ok_or_else(|| Error::Secret(format!("{namespace}/{name}"))),
        }
    }

    /// Keeps a Secret's token up to date, for ever. A token that vanishes is kept: it may still be good, and a
    /// Secret is often deleted and created anew to rotate it.
    pub async fn follow(&self, member: Client) {
        let Self::Secret { namespace, name, token } = self else {
            return futures::future::pending().await;
        };
        let secrets = Api::<Secret>::namespaced(member, namespace);
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut events = watcher::watcher(secrets, only).default_backoff().boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(secret) | Event::InitApply(secret)) => {
                    let data = secret.data.unwrap_or_default();
                    let new = data
                        .get(TOKEN_KEY)
                        .and_then(|b| std::str::from_utf8(&b.0).ok())
                        .map(str::trim);
                    match new.filter(|t| !t.is_empty()) {
                        None => {
                            tracing::warn!(secret = %format!("{namespace}/{name}"), "the token data is missing or empty");
                        }
                        Some(new) if token.lock().as_deref() == Some(new) => {}
                        Some(new) => {
                            *token.lock() = Some(new.into());
                            tracing::info!(secret = %format!("{namespace}/{name}"), "Read the hub token");
                        }
                    }
                }
                Ok(Event::Delete(_)) => {
                    tracing::warn!(secret = %format!("{namespace}/{name}"), "the token secret was deleted; its last token is kept");
                }
                Ok(Event::Init | Event::InitDone) => {}
                Err(error) => tracing::warn!(%error, "token secret watch interrupted"),
            }
        }
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
