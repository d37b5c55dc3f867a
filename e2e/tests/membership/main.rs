//! Membership on a real fleet: real agents, and scripted members where an agent would never do what is to be tested.
//! Every scenario has MemberClusters of its own, so that all run in parallel.

mod channel;
mod credentials;
mod health;
mod join;
mod leave;
mod profile;
mod properties;
mod refusals;
mod renewal;
mod reports;
mod sessions;
