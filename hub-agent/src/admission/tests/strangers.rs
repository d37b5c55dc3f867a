//! Whoever reaches the port can connect. It does not keep the API server from being answered.

use futures::StreamExt as _;

use super::*;

/// A request with a body of its own making.
fn head(rest: &str) -> String {
    format!("POST {PLACEMENT} HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\n{rest}\r\n\r\n")
}

/// A good request is answered in time.
async fn answers(hub: &Webhooks) {
    let good = placement(&json!({"resourceSelectors": of("Namespace")}));
    let asked = hub.ask(PLACEMENT, creating(&good));
    let answer = tokio::time::timeout(Duration::from_secs(4), asked).await;
    assert_eq!(answer.expect("before the API server gives up")["allowed"], true);
}

#[tokio::test]
async fn silent_callers_do_not_keep_the_api_server_out() {
    fleet_runtime::files::raise_limit();
    let hub = Webhooks::start().await;
    let mut silent = Vec::new();
    for _ in 0..1100 {
        silent.push(TcpStream::connect(hub.address).await.unwrap());
    }
    let mut slow = hub.connect().await;
    slow.write_all(b"POST /x HTTP/1.1\r\nContent-Le").await.unwrap();
    answers(&hub).await;
}

#[tokio::test]
async fn bodies_that_never_come_do_not_keep_the_api_server_out() {
    fleet_runtime::files::raise_limit();
    let hub = Webhooks::start().await;
    let waiting = futures::stream::iter(0..1100).map(async |_| {
        // Some of them have to make room for others at once.
        let mut stream = hub.try_connect("127.0.0.1").await.ok()?;
        let asked = head("Content-Length: 1");
        stream.write_all(asked.as_bytes()).await.ok()?;
        Some(stream)
    });
    let waiting: Vec<_> = waiting.buffer_unordered(32).collect().await;
    assert!(waiting.iter().flatten().count() > 100);
    answers(&hub).await;
}

#[tokio::test]
async fn a_body_in_tiny_parts_costs_no_more_than_it_is_long() {
    let hub = Webhooks::start().await;
    let mut stream = hub.connect().await;
    let chunked = head("Transfer-Encoding: chunked");
    stream.write_all(chunked.as_bytes()).await.unwrap();
    stream.write_all(&b"1\r\nx\r\n".repeat(70_000)).await.unwrap();
    answers(&hub).await;
    // It is not waited for.
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(4), stream.read_to_end(&mut answer));
    let _ = ended.await.expect("in time");
    assert!(
        answer.starts_with(b"HTTP/1.1 408 "),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[tokio::test]
async fn large_bodies_from_elsewhere_leave_room() {
    let hub = Webhooks::start().await;
    let mut held = Vec::new();
    for _ in 0..12 {
        let mut stream = hub.connect_from("127.0.0.2").await;
        let size = 7 << 20;
        let large = head(&format!("Content-Length: {size}"));
        stream.write_all(large.as_bytes()).await.unwrap();
        // All but the end; who is refused need not send the rest.
        let _ = stream.write_all(&vec![b' '; size - 1]).await;
        held.push(stream);
    }
    let mut large = placement(&json!({"resourceSelectors": of("Namespace")}));
    large["metadata"]["annotations"] = json!({"a": "x".repeat(3 << 20)});
    assert_eq!(hub.ask(PLACEMENT, creating(&large)).await["allowed"], true);
    answers(&hub).await;
}
