//! Callers that are no members: they hold little, not for long, and keep nobody out.

use fleet_core::session::digest::KnownWork;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::io::AsyncReadExt as _;

use super::*;

/// A Hello of so many Works: about a hundred bytes each.
fn long_hello(name: &str, works: usize) -> Hello {
    let work = |i| KnownWork {
        name: format!("work-{i:050}"),
        uid: format!("uid-{i:032}"),
        generation: 1,
        status_digest: vec![7; 16],
    };
    Hello {
        works: (0..works).map(work).collect(),
        ..hello(name)
    }
}

#[tokio::test]
async fn silent_connections_do_not_keep_members_out() {
    fleet_runtime::files::raise_limit();
    let hub = Hub::start().await;
    hub.member("a");
    // More than there are places, from the very address that the member comes from.
    let mut silent = Vec::new();
    for _ in 0..700 {
        silent.push(TcpStream::connect(hub.address).await.unwrap());
    }
    let since = tokio::time::Instant::now();
    let mut member = hub.connect("a").await;
    assert_eq!(member.ask(joined("a")).await, Outcome::Persisted);
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    // The first have made room.
    let ended = tokio::time::timeout(PATIENCE, silent[0].read(&mut [0; 1]))
        .await
        .unwrap();
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    // And a member is not a guest: it stays, whoever else comes.
    for _ in 0..700 {
        silent.push(TcpStream::connect(hub.address).await.unwrap());
    }
    let MemberMessage::AgentStatus(mut status) = joined("a") else {
        unreachable!()
    };
    status.conditions[0].message = "still here".to_owned();
    assert_eq!(member.ask(MemberMessage::AgentStatus(status)).await, Outcome::Persisted);
}

#[tokio::test]
async fn only_an_identity_of_a_member_may_say_much() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.api.allow("token-x", "nobody");
    let mut stranger = hub.dial(Some("token-x")).await;
    stranger.hello(long_hello("a", 1_000)).await;
    let (code, why) = stranger.rejected().await;
    assert_eq!(code, RejectCode::Misbehaved);
    assert!(why.contains("16384 are allowed now"), "{why}");
    let mut stranger = hub.dial(Some("token-x")).await;
    stranger.hello(hello("a")).await;
    assert_eq!(
        stranger.rejected().await.0,
        RejectCode::PermissionDenied,
        "told as before"
    );
    let mut member = hub.dial(Some("token-a")).await;
    member.hello(long_hello("a", 20_000)).await;
    member.accepted().await;
}

/// The beginning of what a body says, and then nothing any more.
fn stalled(body: tonic::body::Body) -> tonic::body::Body {
    let begun = futures::StreamExt::map(futures::StreamExt::take(body.into_data_stream(), 1), |data| {
        data.map(|data| Frame::data(data.slice(..100.min(data.len()))))
    });
    let silence = futures::stream::pending();
    tonic::body::Body::new(StreamBody::new(futures::StreamExt::chain(begun, silence)))
}

#[tokio::test]
async fn hellos_of_strangers_that_never_end_keep_no_member_waiting() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut held = Vec::new();
    for stranger in 0..4 {
        let token = format!("token-of-{stranger}");
        hub.api.allow(&token, &format!("stranger-{stranger}"));
        for _ in 0..32 {
            let channel = hub.channel(None).await.unwrap();
            let begins = tower::ServiceBuilder::new()
                .map_request(|request: http::Request<tonic::body::Body>| request.map(stalled))
                .service(channel);
            let hello: pb::MemberMessage = FromMember {
                seq: 1,
                epoch: 0,
                body: MemberMessage::Hello(long_hello("a", 120)),
            }
            .into();
            let request = with_token(Request::new(tokio_stream::once(hello)), Some(&token));
            let answers = FleetChannelClient::new(begins).session(request).await.unwrap();
            held.push(answers);
        }
    }
    // What they have begun to say is there.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let since = tokio::time::Instant::now();
    let mut member = hub.dial(Some("token-a")).await;
    member.hello(long_hello("a", 300)).await;
    member.accepted().await;
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    drop(held);
}

#[tokio::test]
async fn a_refused_caller_does_not_keep_its_connection() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.dial(Some("wrong")).await;
    member.hello(hello("a")).await;
    assert_eq!(member.rejected().await.0, RejectCode::Unauthenticated);
    tokio::time::timeout(PATIENCE, member.send.closed())
        .await
        .expect("closed");
    // The same token at once is not even asked about.
    let asked = hub.api.reviews();
    let mut again = hub.dial(Some("wrong")).await;
    again.hello(hello("a")).await;
    assert_eq!(again.rejected().await.0, RejectCode::Unauthenticated);
    assert_eq!(hub.api.reviews(), asked);
}

#[tokio::test]
async fn a_message_that_swells_when_decoded_is_not_decoded() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    let status = pb::WorkStatus {
        manifests: vec![pb::ManifestEntry::default(); 1_500_000],
        ..pb::WorkStatus::default()
    };
    member
        .raw(pb::MemberMessage {
            seq: 2,
            epoch: member.epoch,
            body: Some(pb::member_message::Body::WorkStatus(status)),
        })
        .await;
    let (code, why) = member.rejected().await;
    assert_eq!(code, RejectCode::Misbehaved);
    assert!(why.contains("too many parts"), "{why}");
}
