//! A credential is not believed for ever: asked again every few minutes, when it ends, and when the client CA changes.

use std::{sync::Arc, time::Duration};

use fleet_core::session::{hello::may_continue, identity::Caller};
use fleet_proto::convert::RejectCode;
use fleet_runtime::Key;

use super::{close::Close, hello::Credential, registry::Live, shared::Shared};

/// After a failure to judge a credential again, for want of an API server.
const REVIEW_AGAIN: Duration = Duration::from_secs(30);

/// Judges the credential again, every few minutes and when it ends by itself. Ends never; the session drops it.
pub(super) async fn run(
    shared: Arc<Shared>,
    live: Arc<Live>,
    credential: Credential,
    mut expires: Option<jiff::Timestamp>,
) {
    let mut wait = shared.deps.settings.review_interval;
    let mut tls = shared.tls.clone();
    loop {
        let until_end = expires.map(|at| at.duration_since(shared.deps.clock.now()));
        let wait_now = until_end.map_or(wait, |left| wait.min(left.try_into().unwrap_or(Duration::ZERO)));
        // Whom the hub trusts may change at any time; asking again about a certificate costs nothing.
        tokio::select! {
            () = tokio::time::sleep(wait_now) => {}
            Ok(()) = tls.changed(), if credential.is_certificate() => {}
        }
        let is_over = |expires: Option<jiff::Timestamp>| expires.is_some_and(|at| at <= shared.deps.clock.now());
        match credential.judge(&shared).await {
            Ok(caller) => {
                expires = caller.expires;
                wait = shared.deps.settings.review_interval;
                let caller = Caller {
                    user: caller.user,
                    groups: caller.groups,
                };
                let mc = shared.deps.members.get(&Key::cluster(live.cluster.as_str()));
                if !may_continue(&caller, &live.cluster, mc.as_deref()) {
                    let why = "the caller is no longer the MemberCluster's spec.identity";
                    live.close(Close::new(RejectCode::PermissionDenied, why));
                }
            }
            Err(close) if close.code == RejectCode::Unauthenticated || is_over(expires) => {
                live.close(Close::new(RejectCode::Unauthenticated, close.message));
            }
            // The API server could not be asked. Until it can, or the credential ends, the last word stands.
            Err(_) => wait = REVIEW_AGAIN.min(shared.deps.settings.review_interval),
        }
    }
}
