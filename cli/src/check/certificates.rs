//! How long the certificates of channel and webhooks are good for.

use fleet_api::names::FLEET_SYSTEM_NAMESPACE;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PodSpec, Secret};
use kube::{Api, Client};
use x509_parser::pem::Pem;

use super::{CheckResults, agent};

const CHECK: &str = "certificates";
const CHANNEL: &str = "fleet-channel-tls";
const WEBHOOKS: &str = "fleet-webhook-tls";
/// The hub agent renews thirty days before the end: one that has less has not been renewed.
const LEFT_MIN: SignedDuration = SignedDuration::from_hours(20 * 24);

/// The Secrets in which the hub agent keeps them, or that it is told to use. One that is not there is not used.
pub(super) async fn check(client: &Client, pod: Option<&PodSpec>, now: Timestamp, report: &mut CheckResults) {
    let channel = pod.and_then(|pod| agent::flag(pod, "channel-certificate-secret"));
    let secrets: Api<Secret> = Api::namespaced(client.clone(), FLEET_SYSTEM_NAMESPACE);
    for (whose, name) in [("the channel", channel.unwrap_or(CHANNEL)), ("the webhooks", WEBHOOKS)] {
        match secrets.get_opt(name).await {
            Ok(None) => {}
            Ok(Some(secret)) => one(whose, name, &secret, now, report),
            Err(error) => {
                let right = format!("get secret/{name} -n {FLEET_SYSTEM_NAMESPACE}");
                report.unread_core(CHECK, "kubectl", &right, &error);
            }
        }
    }
}

fn one(whose: &str, name: &str, secret: &Secret, now: Timestamp, report: &mut CheckResults) {
    let data = secret.data.iter().flatten();
    let certificates = data.filter(|(key, _)| matches!(key.as_str(), "tls.crt" | "ca.crt"));
    let ends = certificates.map(|(key, value)| (key.as_str(), end(&value.0)));
    let next =
        format!("kubectl logs -n {FLEET_SYSTEM_NAMESPACE} deployment/hub-agent # or whoever keeps Secret {name}");
    let Some((key, first)) = ends.min_by_key(|(_, end)| *end) else {
        return report.fail(CHECK, format!("Secret {name} of {whose} holds no certificate"), next);
    };
    let Some(first) = first else {
        return report.fail(
            CHECK,
            format!("{key} of {whose} is no certificate (Secret {name})"),
            next,
        );
    };
    let left = first.duration_since(now);
    let day = first.strftime("%Y-%m-%d");
    if left.is_negative() {
        report.fail(CHECK, format!("{key} of {whose} ended on {day}"), next);
    } else if left < LEFT_MIN {
        let days = left.as_hours() / 24;
        report.warn(
            CHECK,
            format!("{key} of {whose} ends in {days} days, on {day}, and should have been renewed"),
            next,
        );
    } else {
        report.ok(CHECK, format!("those of {whose} are good until {day}"));
    }
}

/// When the first of a chain of certificates ends; none if any cannot be read.
fn end(pem: &[u8]) -> Option<Timestamp> {
    let mut ends = Vec::new();
    for part in Pem::iter_from_buffer(pem) {
        let part = part.ok()?;
        let certificate = part.parse_x509().ok()?;
        ends.push(Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()?);
    }
    ends.into_iter().min()
}

#[cfg(test)]
mod tests {
    use fleet_testkit::Server;
    use serde_json::{Value, json};

    use super::*;

    /// A certificate that ends on 2030-01-01.
    fn certificate() -> String {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(vec!["hub".to_owned()]).expect("a name");
        params.not_after = rcgen::date_time_ymd(2030, 1, 1);
        params.self_signed(&key).expect("it is signed").pem()
    }

    async fn lines(data: &Value, now: &str) -> Vec<String> {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let server = Server::new();
        let data: serde_json::Map<_, _> = data
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, text)| (key.clone(), json!(STANDARD.encode(text.as_str().unwrap_or_default()))))
            .collect();
        server.put(
            &format!("/api/v1/namespaces/{FLEET_SYSTEM_NAMESPACE}/secrets/{CHANNEL}"),
            json!({ "data": data }),
        );
        let mut report = CheckResults::default();
        let now = now.parse().expect("a time");
        check(&server.client(), None, now, &mut report).await;
        report
            .lines
            .into_iter()
            .map(|line| format!("{:?} {}", line.verdict, line.text))
            .collect()
    }

    #[tokio::test]
    async fn what_has_ended_and_what_should_have_been_renewed_is_said() {
        let good = json!({ "tls.crt": certificate(), "ca.crt": certificate(), "tls.key": "no certificate" });
        for (data, now, said) in [
            (
                &good,
                "2029-01-01T00:00:00Z",
                "Ok those of the channel are good until 2030-01-01",
            ),
            (
                &good,
                "2029-12-20T00:00:00Z",
                "Warning ca.crt of the channel ends in 12 days, on 2030-01-01, and should have been renewed",
            ),
            (
                &good,
                "2030-02-01T00:00:00Z",
                "Failed ca.crt of the channel ended on 2030-01-01",
            ),
            (
                &json!({ "tls.crt": "garbage" }),
                "2029-01-01T00:00:00Z",
                "Failed tls.crt of the channel is no certificate (Secret fleet-channel-tls)",
            ),
            (
                &json!({}),
                "2029-01-01T00:00:00Z",
                "Failed Secret fleet-channel-tls of the channel holds no certificate",
            ),
        ] {
            assert_eq!(lines(data, now).await, [said], "{now}");
        }
    }
}
