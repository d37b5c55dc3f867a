//! Flotilla's API: the kinds, their words, and the CRDs made from them.
//!
//! `cluster` and `placement` hold the kinds, one file per family (a cluster-scoped and a namespaced kind that differ
//! only in scope share their spec and status). The words that travel with them are here too: labels, annotations,
//! finalizers, derived names, and every condition's type, reason and message as a typed state. No client.
//!
//! Reading and writing objects safely is here as well: `raw` keeps payload as text, `guard` lets a watch survive odd
//! objects, `patch` changes an object without touching what this version does not know, and [`part_of!`] makes a kind of what
//! holds a part of one.

pub mod annotations;
pub mod cluster;
pub mod conditions;
pub mod crds;
pub mod events;
pub mod finalizers;
pub mod guard;
pub mod kind;
pub mod labels;
mod lenient;
pub mod names;
mod part;
pub mod patch;
pub mod placement;
pub mod raw;
mod schema;
mod words;

pub use kind::{Kind, SpecKind};
