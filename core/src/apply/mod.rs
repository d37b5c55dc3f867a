//! What the member does with a Work: every decision of the applier, from decoding to reporting.
//!
//! In the order in which a round uses them: [`identify`] decodes, [`inventory`] says what must be written down before
//! the first change and what is left over, [`waves`] orders, [`decide`] names the steps for each manifest (with
//! [`owners`], [`prepare`], [`merge`] and [`compare`] below it), [`availability`] judges what came of it, [`status`]
//! reports, [`backoff`] and [`requeue`] say when to look again, [`deletion`] how a Work ends. [`trim`] is for whoever stores a status.

pub mod availability;
pub mod backoff;
pub mod canonical;
pub mod clean;
pub mod compare;
pub mod decide;
pub mod deletion;
pub mod diff;
mod expression;
pub mod identify;
pub mod inventory;
mod json;
pub mod merge;
pub mod owners;
pub mod prepare;
pub mod requeue;
pub mod status;
pub mod waves;
