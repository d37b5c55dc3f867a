//! What begins and ends a round: the same things are written before it and after it.

use super::{
    barrier::Barrier, member_api::MemberApi, owners::Owners, records::Records, report::Reporter, watches::Watches,
};

/// What the phases before and after the waves work with. Cheap to clone.
#[derive(Clone)]
pub(super) struct Handles {
    pub(super) api: MemberApi,
    pub(super) owners: Owners,
    pub(super) watches: Watches,
    pub(super) barrier: Barrier,
    pub(super) records: Records,
    pub(super) reporter: Reporter,
}
