//! The hub's API server: whether it answers, how old it is, what its clock says.

use jiff::{SignedDuration, Timestamp};
use kube::{Client, client::Body};

use super::CheckResults;
use crate::{problem::said, terminal::now};

const CHECK: &str = "hub API server";
/// Heartbeats and leases are judged by this clock.
pub(super) const SKEW_MAX: SignedDuration = SignedDuration::from_secs(30);
/// The oldest minor version that serves all that the charts use (admission policies).
const MINOR_MIN: u32 = 30;

/// Whether it answers at all.
pub(super) async fn check(client: &Client, report: &mut CheckResults) -> bool {
    match client.apiserver_version().await {
        Ok(version) => {
            let minor: u32 = version.minor.trim_end_matches('+').parse().unwrap_or_default();
            let text = format!("it answers, and is {}", version.git_version);
            if minor >= MINOR_MIN {
                report.ok(CHECK, text);
            } else {
                let hint = format!("upgrade the hub to 1.{MINOR_MIN} or newer");
                report.warn(CHECK, format!("{text}: admission policies need 1.{MINOR_MIN}"), hint);
            }
        }
        Err(error @ kube::Error::Api(_)) => {
            let text = format!("it answers, and does not say its version: {}", said(&error));
            report.warn(CHECK, text, "kubectl auth whoami");
        }
        Err(error) => {
            report.fail(
                CHECK,
                format!("it does not answer: {}", said(&error)),
                "kubectl cluster-info",
            );
            return false;
        }
    }
    let Some(there) = time(client).await else { return true };
    let skew = there.duration_since(now());
    if skew.abs() > SKEW_MAX {
        let text = format!("its clock differs from this machine's by {} s", skew.as_secs());
        report.warn(
            CHECK,
            text,
            "compare `date -u` here and on the hub's nodes: silence is judged by the clock",
        );
    } else {
        report.ok(CHECK, "its clock agrees with this machine's");
    }
    true
}

/// What the clock of an API server says, as it signs its answers.
pub(super) async fn time(client: &Client) -> Option<Timestamp> {
    let request = http::Request::get("/version").body(Body::empty()).ok()?;
    let answer = client.send(request).await.ok()?;
    let date = answer.headers().get("date")?.to_str().ok()?;
    jiff::fmt::rfc2822::parse(date).ok().map(|zoned| zoned.timestamp())
}
