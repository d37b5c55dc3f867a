//! What both agents share: options, logs, metrics, health, leases, caches, the write queue.
