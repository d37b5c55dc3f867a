//! Certificates: made ([`issue`]), renewed ([`renew`]), and kept current while the agent runs ([`keep`]).
//!
//! Each server of the agent has one of its own, which a [`Certificate`] describes, with a Secret, names and a CA of its own.

pub(crate) mod issue;
mod keep;
mod renew;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    issue::Tls,
    keep::{Deps, Source, hosts, keep},
};

/// Which certificate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// Who serves it: in messages, and in the names that it carries.
    pub(crate) server: &'static str,
    /// Who connects there, in messages.
    pub(crate) peers: &'static str,
    /// The Secret that the agent makes for itself where nobody else provides one.
    pub(crate) secret: &'static str,
    /// What can be spoken there (ALPN).
    pub(crate) protocols: &'static [&'static str],
    /// Whether peers may show a certificate of the API server's client CA.
    pub(crate) client_certificates: bool,
}

/// Members connect with it.
pub(crate) static CHANNEL: Certificate = Certificate {
    server: "channel",
    peers: "members",
    secret: "fleet-channel-tls",
    protocols: &["h2"],
    client_certificates: true,
};

impl Certificate {
    fn common_name(&self) -> String {
        format!("fleet-{}", self.server)
    }
}
