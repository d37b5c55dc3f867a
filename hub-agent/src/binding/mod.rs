//! Bindings: everything that is written to them, whoever decides it.
//!
//! | file | what | decided by |
//! |---|---|---|
//! | `picks` | created for a picked cluster, moved to another policy, unscheduled | scheduler |
//! | `content` | state, snapshot, overrides, apply strategy; deleted once nothing keeps it | rollout |
//! | `updates` | the same for update runs, which sign what they start | update run |
//! | `evictions` | deleted, if it is still the one that was recorded | eviction |
//! | `status` | every condition, `RolloutStarted` among them | rollout (has to wait), binding roll-up (all else) |
//! | `release` | finalizers, and the end of all bindings of a placement | scheduler, work |
//! | `started` | nothing: tells from stored objects whether the rollout of a binding has started, what is said of that, and whether it has Works | |

mod content;
mod evictions;
mod picks;
mod release;
mod started;
mod status;
mod updates;

pub(crate) use self::{
    content::{DesiredContent, advance, push_strategy, remove},
    evictions::evict,
    picks::{create, move_to_policy, unschedule},
    release::{delete_all, hold, release_all, release_picks},
    started::{is_ending, is_ready, is_started, stamp},
    status::{say, say_held},
    updates::{Unwritten, update},
};
