//! Who gave a cluster other content. A binding that somebody edits by hand keeps the signature of the run before.

use jiff::Timestamp;

use super::ending::ended_at;
use super::needed::records;
use super::world::Run;

/// Whether `run` may have given a cluster this snapshot after `since`: it rolls it out, or has it to give back, and had not
/// ended before.
pub fn may_have_given(run: &Run<'_>, snapshot: &str, since: Timestamp) -> bool {
    records(run, snapshot) && ended_at(run).is_none_or(|end| end >= since)
}
