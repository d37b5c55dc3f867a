//! Faults in the middle of placing: the hub agent killed between any two writes, its API server gone, other flags, many
//! objects at once. Everybody feels these, so they run one after the other on a fleet of their own.

mod crashes;
mod fat;
mod flags;
mod many;
mod report_back;
mod runs;
mod unlisted;
