//! How long what is under way may take once told to stop.

use std::time::Duration;

/// How long passes may take to finish once told to stop. Two leaders do not overlap as long as the lease lasts longer than
/// the leader tries to renew it by at least this, which the options see to.
pub const GRACE: Duration = Duration::from_secs(3);
