//! `kubectl fleet version`.

/// What was built, and from what. Builds of a release set both.
pub(crate) fn print() {
    let version = option_env!("FLEET_VERSION").unwrap_or(env!("CARGO_PKG_VERSION"));
    let commit = option_env!("FLEET_COMMIT").unwrap_or("unknown");
    println!("kubectl-fleet {version} ({commit})");
}
