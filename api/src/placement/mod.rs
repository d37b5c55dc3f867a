//! Kinds of placement.kubernetes-fleet.io.
