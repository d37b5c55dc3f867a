//! The health of this cluster's API server, as the agent sees it.

use std::time::Duration;

use fleet_api::conditions::member_agent::Healthy;
use http::Request;
use kube::{Client, client::Body};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// How often to ask. More often than most heartbeats, since a change is reported at once.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long an answer may take before it counts as none.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks again and again, for ever, and publishes what it hears. At least once per heartbeat `period`.
pub async fn run(client: Client, period: watch::Receiver<Duration>, health: watch::Sender<Option<Healthy>>) {
    loop {
        let new = probe(&client).await;
        let changed = health.send_if_modified(|known| {
            let changed = known.as_ref() != Some(&new);
            *known = Some(new.clone());
            changed
        });
        if changed {
            match &new {
                Healthy::Healthy => tracing::info!("The API server of this cluster is healthy"),
                Healthy::Unhealthy { code } => tracing::warn!(code, "The API server of this cluster is not healthy"),
            }
        }
        let interval = INTERVAL.min(*period.borrow());
        sleep(interval).await;
    }
}

async fn probe(client: &Client) -> Healthy {
    let request = Request::get("/readyz")
        .body(Body::empty())
        .expect("a constant request is valid");
    // Without a connection there is no code: 0.
    let code = match timeout(ANSWER_TIMEOUT, client.send(request)).await {
        Ok(Ok(answer)) => answer.status().as_u16(),
        Ok(Err(_)) | Err(_) => 0,
    };
    if code == 200 {
        Healthy::Healthy
    } else {
        Healthy::Unhealthy { code }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU16, Ordering},
    };

    use http::Response;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_change_is_published_and_nothing_else() {
        let code = Arc::new(AtomicU16::new(200));
        let answers = code.clone();
        let client = Client::new(
            tower::service_fn(move |request: Request<Body>| {
                assert_eq!(request.uri().path(), "/readyz");
                let code = answers.load(Ordering::SeqCst);
                async move {
                    if code == 0 {
                        return Err(std::io::Error::other("no route"));
                    }
                    let mut answer = Response::new(Body::empty());
                    *answer.status_mut() = code.try_into().unwrap();
                    Ok(answer)
                }
            }),
            "default",
        );
        let (health, mut seen) = watch::channel(None);
        let (_period, period) = watch::channel(Duration::from_secs(1));
        let running = tokio::spawn(run(client, period, health));
        for (next, expected) in [
            (200, Healthy::Healthy),
            (500, Healthy::Unhealthy { code: 500 }),
            (0, Healthy::Unhealthy { code: 0 }),
            (200, Healthy::Healthy),
        ] {
            code.store(next, Ordering::SeqCst);
            seen.changed().await.unwrap();
            assert_eq!(*seen.borrow_and_update(), Some(expected));
            assert!(timeout(Duration::from_mins(1), seen.changed()).await.is_err());
        }
        running.abort();
    }
}
