//! The heartbeat channel between hub agent and member agents: messages and generated code.
