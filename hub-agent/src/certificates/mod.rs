//! Certificates: made ([`issue`]), renewed ([`renew`]), and kept current while the agent runs ([`keep`]).

pub(crate) mod issue;
mod keep;
mod renew;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    issue::Tls,
    keep::{Source, hosts, keep},
};
