//! Scenario tests on a running fleet.

/// Whether failed scenarios stay for somebody to look at (`FLEET_KEEP=1`).
pub fn keep_wrecks() -> bool {
    std::env::var("FLEET_KEEP").is_ok_and(|v| !v.is_empty() && v != "0")
}
