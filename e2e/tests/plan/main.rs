//! `kubectl fleet plan` against what then happens: planned, applied, compared. Members are played, each scenario has its own.
//! They need a fleet with agents (`fleet-local agents`).

mod outcome;
