//! What names of snapshots say.

/// The index of a placement's master snapshot, by its name.
pub(super) fn index_of<'a>(placement: &str, snapshot: &'a str) -> &'a str {
    let index = snapshot.strip_prefix(placement);
    let index = index.and_then(|rest| rest.strip_prefix('-')?.strip_suffix("-snapshot"));
    index.unwrap_or("unknown")
}
