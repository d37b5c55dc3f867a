//! The dashboard as a browser sees it, on a hub in memory: every page as a golden file, and who is not let in.

mod acts;
mod faults;
mod gallery;
mod golden_pages;
mod large;
mod namespace;
mod pictures;
mod runs;
mod security;
mod standing;
mod visitor;
mod world;
