//! Samples of published guides, played on a fleet and compared word by word.
//!
//! The samples stand in `samples/`: what the guides show, in the words of today where the published ones are older; those of
//! one older guide as it has them in `samples/2025/`. Only
//! times, names and what the API server counts differ from run to run. Guides speak of all clusters of a fleet, so these
//! run one after the other on a fleet of two members that nobody else uses.

mod concepts;
mod member_namespace;
mod of_2025;
mod sample;
mod staged;
