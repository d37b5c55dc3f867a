//! What the API server asks, and what it is answered: AdmissionReviews.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fleet_api::guard;
use fleet_core::admission::{Verdict, defaults::Addition};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

const VERSIONS: [&str; 2] = ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"];

/// A question, its objects as text.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Review<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(borrow, default)]
    request: Option<Request<'a>>,
}

/// The request that it is about.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request<'a> {
    #[serde(default)]
    pub(super) uid: String,
    #[serde(default)]
    pub(super) operation: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: String,
    #[serde(default)]
    pub(super) sub_resource: String,
    #[serde(default)]
    pub(super) dry_run: Option<bool>,
    #[serde(borrow, default)]
    pub(super) object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) old_object: Option<&'a RawValue>,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// By the rules.
    Judged(Verdict),
    /// Passes, with these additions.
    Filled(Vec<Addition>),
    /// Could not be judged: an HTTP status and why.
    Failed(u16, String),
}

/// Reads a question.
///
/// # Errors
/// Why it is none.
pub(super) fn read(body: &[u8]) -> Result<(String, Request<'_>), String> {
    let review: Review<'_> =
        serde_json::from_slice(body).map_err(|error| format!("the body is not an AdmissionReview: {error}"))?;
    if review.kind != "AdmissionReview" || !VERSIONS.contains(&review.api_version.as_str()) {
        let (kind, version) = (cut(&review.kind), cut(&review.api_version));
        return Err(format!(
            "unexpected kind {kind:?} in version {version:?}: only AdmissionReview of {} is served",
            VERSIONS.join(" and ")
        ));
    }
    let request = review.request.ok_or("the AdmissionReview has no request")?;
    Ok((review.api_version, request))
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(64)]
}

impl Request<'_> {
    /// The object as it is to be.
    pub(super) fn new_object<K: DeserializeOwned>(&self) -> Result<K, Answer> {
        decode(self.object, "object")
    }

    /// The object as it is; none if it is to be created, or if it is such that nobody can read it.
    pub(super) fn old_object<K: DeserializeOwned>(&self) -> Option<K> {
        decode(self.old_object, "oldObject").ok()
    }

    /// The object that is to go.
    pub(super) fn deleted_object<K: DeserializeOwned>(&self) -> Result<K, Answer> {
        decode(self.old_object, "oldObject")
    }
}

fn decode<K: DeserializeOwned>(text: Option<&RawValue>, field: &str) -> Result<K, Answer> {
    let text = text.ok_or_else(|| Answer::Failed(400, format!("there is no {field} to judge in the request")))?;
    guard::decode(text.get()).map_err(|error| Answer::Failed(400, format!("the {field} cannot be decoded: {error}")))
}

impl Answer {
    /// As the API server reads it.
    pub(super) fn to_review(&self, version: &str, uid: &str) -> Value {
        let mut response = match self {
            Self::Judged(Verdict::Allowed(why)) => json!({"allowed": true, "status": {"code": 200, "message": why}}),
            Self::Judged(Verdict::Denied(why)) => json!({"allowed": false, "status":
                {"status": "Failure", "code": 403, "reason": "Forbidden", "message": why}}),
            Self::Failed(code, why) => json!({"allowed": false, "status":
                {"status": "Failure", "code": code, "message": why}}),
            Self::Filled(patch) if patch.is_empty() => json!({"allowed": true}),
            Self::Filled(patch) => {
                let text = serde_json::to_vec(patch).unwrap_or_else(|_| b"[]".to_vec());
                json!({"allowed": true, "patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(text)})
            }
        };
        response["uid"] = json!(uid);
        json!({"apiVersion": version, "kind": "AdmissionReview", "response": response})
    }
}
