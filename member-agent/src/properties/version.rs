//! The version of this cluster's API server.

use std::time::Duration;

use fleet_runtime::{clock::Clock, logs};
use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

/// API servers are upgraded rarely, and nobody places by their version within minutes.
const KEPT: Duration = Duration::from_mins(15);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The version, asked for rarely.
pub struct Version {
    client: Client,
    clock: Clock,
    known: Mutex<Option<(String, Timestamp, Instant)>>,
}

impl Version {
    /// Nothing is asked yet.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            known: Mutex::new(None),
        }
    }

    /// The version and when the server said it. An error if it is not known, or too old and the server does not answer.
    pub async fn get(&self) -> Result<(String, Timestamp), String> {
        let mut known = self.known.lock().await;
        if let Some((version, at, asked)) = &*known
            && asked.elapsed() < KEPT
        {
            return Ok((version.clone(), *at));
        }
        *known = None;
        let asked = Instant::now();
        let info = match timeout(ANSWER_TIMEOUT, self.client.apiserver_version()).await {
            Ok(Ok(info)) => info,
            Ok(Err(error)) => return Err(logs::chain(&error).to_string()),
            Err(_) => return Err(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())),
        };
        let now = self.clock.now();
        *known = Some((info.git_version.clone(), now, asked));
        Ok((info.git_version, now))
    }
}
