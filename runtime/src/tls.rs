//! The one TLS provider of the process.

/// Makes ring the process-wide rustls provider. Call it first in `main`: kube and tonic take whatever is installed, and
/// rustls panics when it has to choose by itself.
///
/// Calling it again changes nothing.
pub fn install() {
    // An error means that a provider is installed already, for example by another test of the same process.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
