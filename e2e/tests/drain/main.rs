//! `kubectl fleet drain`, `uncordon` and the commands of KubeFleet's plugin, as a user of the chart's ClusterRole
//! `fleet-operator` runs them. Members are played (`fleet_e2e::played`), each scenario has its own, so all of them run side by
//! side. They need a fleet with agents (`fleet-local agents`).

mod operator;
mod refused;
mod scripts;
mod waiting;
mod whole;
