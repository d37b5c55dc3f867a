//! Renews the hub token before it ends, and keeps the new one in the Secret that the old one came from.
//!
//! No clock decides when: a token that we did not get ourselves is renewed as soon as it is seen, because its age is known
//! only by comparing two clocks; one that we got is renewed after half of its life has passed here. So it survives
//! restarts, a wrong clock, and a hub that cannot be reached for as long as the token lives.

use std::{sync::Arc, time::Duration};

use fleet_api::{
    events::{Event as _, InternalMemberClusterEvent},
    names::ClusterName,
};
use fleet_core::session::token::{Claims, Standing};
use fleet_runtime::{clock::Clock, logs};
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{Secret, ServiceAccount},
    },
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::{Instant, sleep_until, timeout};

use super::credential::{StoredToken, TOKEN_KEY, TokenSource};
use crate::measures::Measures;

const FIELD_MANAGER: &str = "member-agent";
/// How long the hub or this cluster may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The least time between two tokens, whatever happens to the Secret.
const SPACING: Duration = Duration::from_secs(10);

/// Tells people on the hub. False: not yet, because the object that they look at has not been read.
pub type Recorder = dyn Fn(&InternalMemberClusterEvent) -> bool + Send + Sync;

/// What renewing needs.
pub struct Renewal {
    /// The token and its Secret.
    pub source: Arc<TokenSource>,
    /// The hub, as the member that the token stands for.
    pub hub: Client,
    /// This cluster, where the Secret is.
    pub member: Client,
    /// Our name in the fleet.
    pub cluster: ClusterName,
    /// Tells people on the hub.
    pub record: Arc<Recorder>,
    /// Shows when the token ends.
    pub measures: Measures,
    /// The time, for words.
    pub clock: Clock,
}

/// Why there is no new token.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the hub does not accept the token any more: {0}")]
    Refused(String),
    #[error("this member may not renew its token: {0}")]
    Forbidden(String),
    #[error("the hub cannot be reached: {0}")]
    Unreachable(String),
    #[error("the new token cannot be stored: {0}")]
    NotStored(String),
}

impl Error {
    fn of_hub(error: &kube::Error) -> Self {
        let text = logs::chain(error).to_string();
        match error {
            kube::Error::Api(status) if status.code == 401 => Self::Refused(text),
            // Without the ServiceAccount its Role means nothing either.
            kube::Error::Api(status) if status.code == 403 || status.code == 404 => Self::Forbidden(text),
            _ => Self::Unreachable(text),
        }
    }
}

impl Renewal {
    /// Renews for ever, or waits for ever if there is nothing to renew.
    pub async fn run(self) {
        let Some(mut held) = self.source.held() else {
            return std::future::pending().await;
        };
        let mut due = Instant::now();
        let mut own: Option<Arc<str>> = None;
        let (mut failures, mut last, mut untold, mut announced) = (0_u32, None, None, false);
        loop {
            let now = held.borrow_and_update().clone();
            let renewable = now.and_then(|held| Some((Claims::of(&held.token)?, held)));
            self.measures
                .token_ends(renewable.as_ref().map(|(claims, _)| claims.ends));
            let Some((claims, current)) = renewable.filter(|(_, held)| held.renew) else {
                if held.changed().await.is_err() {
                    return std::future::pending().await;
                }
                continue;
            };
            if own.as_ref().is_some_and(|own| *own != current.token) {
                // Somebody has put another one there.
                (own, due, failures) = (None, due.min(Instant::now() + SPACING), 0);
            }
            tokio::select! {
                () = sleep_until(due) => {}
                changed = held.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    continue;
                }
            }
            match self.renew(&claims, &current).await {
                Ok((token, new)) => {
                    tracing::info!(ends = %new.ends, "Renewed the hub token");
                    (last, untold) = (None, None);
                    if std::mem::take(&mut announced) {
                        (self.record)(&InternalMemberClusterEvent::HubTokenRenewed {
                            ends: new.ends.to_string(),
                        });
                    }
                    due = Instant::now() + pause(new.renew_after(fastrand::f64())).max(SPACING);
                    (own, failures) = (Some(token), 0);
                }
                Err(error) => {
                    failures += 1;
                    due = Instant::now() + pause(claims.retry_after(failures));
                    let standing = claims.standing(self.clock.now());
                    let news = Some((std::mem::discriminant(&error), standing));
                    if last != news {
                        untold = self.complain(&claims, standing, &error);
                    }
                    last = news;
                    if untold.take_if(|event| (self.record)(event)).is_some() {
                        announced = true;
                    }
                }
            }
        }
    }

    /// The next token, which is in the Secret and in use when this returns.
    async fn renew(&self, claims: &Claims, current: &StoredToken) -> Result<(Arc<str>, Claims), Error> {
        let no_answer = || "no answer".to_owned();
        let accounts = Api::<ServiceAccount>::namespaced(self.hub.clone(), &claims.namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(claims.next_lifetime().as_secs()),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let params = PostParams::default();
        let asked = timeout(PATIENCE, accounts.create_token_request(&claims.name, &params, &request)).await;
        let answer = asked.map_err(|_| Error::Unreachable(no_answer()))?;
        let token = answer
            .map_err(|error| Error::of_hub(&error))?
            .status
            .map(|status| status.token);
        let token: Arc<str> = token.unwrap_or_default().into();
        let new =
            Claims::of(&token).ok_or_else(|| Error::Unreachable("it answered with no token that ends".to_owned()))?;

        let secrets = Api::<Secret>::namespaced(self.member.clone(), &current.namespace);
        // Only in place of the one that we renewed: somebody may have put another there in the meantime.
        let patch = json!({
            "metadata": { "resourceVersion": current.version },
            "data": { TOKEN_KEY: ByteString(token.as_bytes().to_vec()) },
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(&patch);
        let stored = timeout(PATIENCE, secrets.patch(&current.name, &params, &patch)).await;
        let stored = stored.map_err(|_| Error::NotStored(no_answer()))?;
        let stored = stored.map_err(|error| Error::NotStored(logs::chain(&error).to_string()))?;
        self.source.put(StoredToken {
            token: token.clone(),
            version: stored.resource_version().unwrap_or_default(),
            ..current.clone()
        });
        Ok((token, new))
    }

    /// Says what is wrong. Gives what to tell people on the hub, unless it passes by itself and there is time.
    fn complain(&self, claims: &Claims, standing: Standing, error: &Error) -> Option<InternalMemberClusterEvent> {
        let event = InternalMemberClusterEvent::HubTokenNotRenewed {
            cluster: self.cluster.to_string(),
            ends: claims.ends.to_string(),
            error: error.to_string(),
        };
        match (standing, error) {
            (Standing::Good, Error::Unreachable(_) | Error::NotStored(_)) => {
                tracing::warn!(ends = %claims.ends, %error, "Could not renew the hub token");
                return None;
            }
            (Standing::Ended, _) | (_, Error::Refused(_)) => tracing::error!("{}", event.message()),
            _ => tracing::warn!("{}", event.message()),
        }
        Some(event)
    }
}

fn pause(of: jiff::SignedDuration) -> Duration {
    Duration::try_from(of).unwrap_or_default()
}
