//! The API as the real API server sees it: every kind accepts its example, refuses what is wrong with a clear message,
//! prints its columns, and reads the same in both versions.

mod columns;
mod examples;
mod kinds;
mod refusals;
mod rules;
mod strategies;
