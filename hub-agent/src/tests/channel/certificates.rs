//! Sessions by client certificate: who gets one, and when it ends.

use super::*;

#[tokio::test]
async fn a_client_certificate_is_as_good_as_a_token() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.dial_as("user-a").await;
    member.hello(hello("a")).await;
    member.accepted().await;
    assert_eq!(member.ask(joined("a")).await, Outcome::Persisted);
    let mut stranger = hub.dial_as("user-b").await;
    stranger.hello(hello("a")).await;
    assert_eq!(stranger.rejected().await.0, RejectCode::PermissionDenied);
}

/// Another CA, and its key.
fn foreign() -> (String, String) {
    let data = certificate::make(&CHANNEL, &BTreeMap::new(), &[], Clock::system().now()).unwrap();
    let text = |field: &str| String::from_utf8(data[field].0.clone()).unwrap();
    (text("ca.crt"), text("ca.key"))
}

#[tokio::test]
async fn a_certificate_of_a_foreign_ca_is_refused_in_the_handshake() {
    let hub = Hub::start().await;
    hub.member("a");
    let (ca, ca_key) = foreign();
    let certificate = client_certificate("user-a", &ca, &ca_key);
    // Refused when it is presented, or as soon as something is said.
    if let Ok(mut member) = hub.try_dial(None, Some(certificate)).await {
        member.hello(hello("a")).await;
        assert!(member.receive.message().await.is_err());
    }
    assert!(!hub.metric("fleet_channel_sessions 1"));
    assert_eq!(hub.api.writes(""), 0);
}

#[tokio::test]
async fn a_session_ends_when_its_ca_is_no_longer_trusted() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.member("b");
    let mut by_token = hub.connect("b").await;
    let mut member = hub.dial_as("user-a").await;
    member.hello(hello("a")).await;
    member.accepted().await;
    // Another CA beside it changes nothing.
    let both = format!("{}{}", hub.ca, foreign().0);
    hub.tls.send_replace(Some(hub.serving.tls(Some(&both)).unwrap()));
    assert_eq!(member.ask(joined("a")).await, Outcome::Persisted);
    hub.tls.send_replace(Some(hub.serving.tls(Some(&foreign().0)).unwrap()));
    let (code, why) = member.rejected().await;
    assert_eq!(code, RejectCode::Unauthenticated);
    assert!(why.starts_with("the client certificate is not accepted"), "{why}");
    assert_eq!(by_token.ask(joined("b")).await, Outcome::Persisted);

    hub.tls.send_replace(Some(hub.serving.tls(Some(&hub.ca)).unwrap()));
    let mut again = hub.dial_as("user-a").await;
    again.hello(hello("a")).await;
    again.accepted().await;
    hub.tls.send_replace(Some(hub.serving.tls(None).unwrap()));
    assert_eq!(
        again.rejected().await.0,
        RejectCode::Unauthenticated,
        "no CA, no certificates"
    );
}
