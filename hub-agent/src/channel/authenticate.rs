//! Who is at the other end of a stream: a bearer token judged by the API server, or a client certificate that the
//! TLS handshake has verified. What the caller may do is decided elsewhere, from the MemberCluster it claims.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use fleet_runtime::client::answered;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::{Api, Client, api::PostParams};
use rustls::{
    pki_types::{CertificateDer, UnixTime},
    server::danger::ClientCertVerifier,
};

/// A token for this audience is of no use at the API server if it is stolen here.
pub(crate) const AUDIENCE: &str = "fleet-channel";
/// The user that the API server gives to requests without credentials.
const ANONYMOUS: &str = "system:anonymous";
const BEARER: &str = "Bearer ";

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The user name, as RBAC subjects spell it.
    pub(crate) user: String,
    /// Its groups.
    pub(crate) groups: Vec<String>,
    /// When the credential ends by itself.
    pub(crate) expires: Option<Timestamp>,
}

/// Why a caller is nobody to us.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Neither a token nor a certificate came along.
    #[error("no credential: send a bearer token or a client certificate")]
    NoCredential,
    /// The API server does not know the token.
    #[error("the hub's API server does not accept the token: {0}")]
    Refused(String),
    /// The certificate says nothing usable.
    #[error("the client certificate has no common name")]
    NoCommonName,
    /// The client CA of now did not sign it, or it is over.
    #[error("the client certificate is not accepted: {0}")]
    Untrusted(String),
    /// The API server could not be asked; the caller may try again.
    #[error("could not ask the API server about the token")]
    Review(#[source] kube::Error),
}

/// The token in the value of an `authorization` header.
pub(crate) fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_at_checked(BEARER.len())?;
    (scheme.eq_ignore_ascii_case(BEARER) && !token.trim().is_empty()).then(|| token.trim())
}

/// Asks the API server about `token`: with our audience first, then without, so that the long-lived Secret tokens
/// of the join recipe work too. A token that says itself that it is not for us spares the first question.
pub(crate) async fn by_token(client: &Client, token: &str) -> Result<Caller, Error> {
    if claims(token).is_some_and(|claims| !is_for_us(&claims)) {
        return review(client, token, None).await;
    }
    match review(client, token, Some(vec![AUDIENCE.to_owned()])).await {
        Err(Error::Refused(_)) => review(client, token, None).await,
        answer => answer,
    }
}

async fn review(client: &Client, token: &str, audiences: Option<Vec<String>>) -> Result<Caller, Error> {
    let request = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token.to_owned()),
            audiences,
        },
        ..TokenReview::default()
    };
    let reviews = Api::all(client.clone());
    let answer = answered(reviews.create(&PostParams::default(), &request)).await;
    let answer = answer.map_err(Error::Review)?;
    let status = answer.status.unwrap_or_default();
    let user = status.user.unwrap_or_default();
    match user.username {
        Some(name) if status.authenticated == Some(true) && !name.is_empty() && name != ANONYMOUS => Ok(Caller {
            user: name,
            groups: user.groups.unwrap_or_default(),
            expires: expiry(token),
        }),
        _ => Err(Error::Refused(
            status.error.unwrap_or_else(|| "not authenticated".to_owned()),
        )),
    }
}

/// The caller that a client certificate names, if whoever is trusted now has signed it: the handshake was then, and the
/// session may be long.
pub(super) fn by_chain(
    chain: &[CertificateDer<'_>],
    trusted: Option<&dyn ClientCertVerifier>,
    now: Timestamp,
) -> Result<Caller, Error> {
    let (leaf, rest) = chain.split_first().ok_or(Error::NoCredential)?;
    let trusted = trusted.ok_or_else(|| Error::Untrusted("there is no client CA".to_owned()))?;
    let now = UnixTime::since_unix_epoch(now.duration_since(Timestamp::UNIX_EPOCH).unsigned_abs());
    let verified = trusted.verify_client_cert(leaf, rest, now);
    verified.map_err(|error| Error::Untrusted(error.to_string()))?;
    by_certificate(leaf)
}

/// The caller that a verified client certificate names: common name and organisations, as the API server reads it.
pub(crate) fn by_certificate(leaf: &CertificateDer<'_>) -> Result<Caller, Error> {
    let (_, certificate) = x509_parser::parse_x509_certificate(leaf).map_err(|_| Error::NoCommonName)?;
    let subject = certificate.subject();
    let user = subject
        .iter_common_name()
        .find_map(|cn| cn.as_str().ok())
        .filter(|cn| !cn.is_empty());
    Ok(Caller {
        user: user.ok_or(Error::NoCommonName)?.to_owned(),
        groups: subject
            .iter_organization()
            .filter_map(|o| o.as_str().ok())
            .map(str::to_owned)
            .collect(),
        expires: Timestamp::from_second(certificate.validity().not_after.timestamp()).ok(),
    })
}

/// What a token says of itself, which nobody has verified.
fn claims(token: &str) -> Option<serde_json::Value> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&claims).ok()
}

/// Whether the audiences that a token claims contain ours: one text, or a list of them.
fn is_for_us(claims: &serde_json::Value) -> bool {
    let Some(audiences) = claims.get("aud") else {
        return false;
    };
    audiences == AUDIENCE
        || audiences
            .as_array()
            .is_some_and(|list| list.iter().any(|a| a == AUDIENCE))
}

/// The `exp` claim. Read only after the API server has vouched for the token, and only to look again in time.
fn expiry(token: &str) -> Option<Timestamp> {
    Timestamp::from_second(claims(token)?.get("exp")?.as_i64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_header_is_read_whatever_its_case() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for odd in ["", "Bearer", "Bearer ", "Basic abc", "Bearé abc"] {
            assert_eq!(bearer(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_token_without_a_readable_expiry_has_none() {
        let token = format!("x.{}.y", URL_SAFE_NO_PAD.encode(r#"{"exp":1767225600}"#));
        assert_eq!(expiry(&token).unwrap().to_string(), "2026-01-01T00:00:00Z");
        for odd in ["", "a.b.c", "opaque", "x.e30.y"] {
            assert_eq!(expiry(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_token_says_whether_it_is_for_us() {
        let token = |claims: &str| format!("x.{}.y", URL_SAFE_NO_PAD.encode(claims));
        for (claimed, for_us) in [
            (r#"{"aud":["a","fleet-channel"]}"#, true),
            (r#"{"aud":"fleet-channel"}"#, true),
            (r#"{"aud":["https://kubernetes.default.svc"]}"#, false),
            (r#"{"sub":"a legacy token"}"#, false),
        ] {
            assert_eq!(is_for_us(&claims(&token(claimed)).unwrap()), for_us, "{claimed}");
        }
        assert_eq!(claims("opaque"), None, "both questions are asked");
    }

    #[test]
    fn a_certificate_names_its_user_and_groups() {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, "member-1");
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "members");
        let der = params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        let caller = by_certificate(der.der()).unwrap();
        assert_eq!(
            (caller.user.as_str(), caller.groups),
            ("member-1", vec!["members".to_owned()])
        );
    }
}
