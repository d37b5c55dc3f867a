//! Objects in a few words, for tests.

use fleet_api::cluster::{
    AgentStatus, InternalMemberCluster, InternalMemberClusterStatus, MemberCluster, MemberClusterSpec,
};
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).expect("time")
}

pub(crate) fn condition(type_: &str, status: &str, since: i64) -> Condition {
    Condition {
        type_: type_.into(),
        status: status.into(),
        reason: "R".into(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(at(since)),
    }
}

pub(crate) fn agent(last: Option<i64>) -> AgentStatus {
    AgentStatus {
        type_: "MemberAgent".into(),
        conditions: vec![],
        last_received_heartbeat: last.map(|s| Time(at(s))),
    }
}

pub(crate) fn member(name: &str) -> MemberCluster {
    let identity = Subject {
        kind: "User".into(),
        name: "u".into(),
        api_group: None,
        namespace: None,
    };
    MemberCluster {
        metadata: ObjectMeta {
            name: Some(name.into()),
            uid: Some(format!("mc-{name}")),
            generation: Some(7),
            ..ObjectMeta::default()
        },
        spec: MemberClusterSpec {
            identity,
            heartbeat_period_seconds: 60,
            taints: vec![],
            delete_options: None,
        },
        status: None,
    }
}

pub(crate) fn internal(name: &str, uid: &str) -> InternalMemberCluster {
    InternalMemberCluster {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: Some(format!("fleet-member-{name}")),
            uid: Some(uid.into()),
            generation: Some(1),
            ..ObjectMeta::default()
        },
        spec: fleet_api::cluster::InternalMemberClusterSpec::default(),
        status: None,
    }
}

pub(crate) trait Fixture: Sized {
    fn reporting(self, agent: AgentStatus) -> Self;
    fn deleting(self, since: i64) -> Self;
}

impl Fixture for MemberCluster {
    fn reporting(mut self, agent: AgentStatus) -> Self {
        self.status.get_or_insert_default().agent_status.push(agent);
        self
    }

    fn deleting(mut self, since: i64) -> Self {
        self.metadata.deletion_timestamp = Some(Time(at(since)));
        self
    }
}

impl Fixture for InternalMemberCluster {
    fn reporting(mut self, agent: AgentStatus) -> Self {
        self.status
            .get_or_insert_with(InternalMemberClusterStatus::default)
            .agent_status
            .push(agent);
        self
    }

    fn deleting(mut self, since: i64) -> Self {
        self.metadata.deletion_timestamp = Some(Time(at(since)));
        self
    }
}
