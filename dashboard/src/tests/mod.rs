//! The dashboard as a browser sees it, on a hub in memory: every page as a golden file, and who is not let in.

mod acts;
mod faults;
mod golden_pages;
mod runs;
mod security;
mod standing;
mod visitor;
mod world;
