//! Kinds of cluster.kubernetes-fleet.io.
