//! Events: what `kubectl describe` shows below an object.
//!
//! They are core/v1 Events, which `describe` reads and which name a component as upstream's do. They are the least
//! important writes there are: recording never waits, equal ones become one with a count, at most one request is spent on
//! each, and when too many wait the newest are dropped and counted.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use tokio::{sync::Notify, time::Instant};

use crate::{
    clock::Clock,
    key::Key,
    logs,
    metrics::Metrics,
    writes::{Lane, Target, Writes},
};

/// How long one waits: what it tells of is under way then, and needs the API server more.
const PAUSE: Duration = Duration::from_secs(1);
/// How many different ones may wait.
const WAITING_MAX: usize = 1024;
/// How many sent ones are remembered, to count further.
const REMEMBERED_MAX: usize = 4096;
/// After this time an equal one is news again. The server keeps Events for an hour.
const REPEAT_WINDOW: Duration = Duration::from_mins(10);
/// The API's limits for a message and a reason.
const MESSAGE_MAX: usize = 1024;

/// How an Event is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

/// Records Events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    more: Notify,
    instance: String,
    clock: Clock,
    dropped: Counter,
}

#[derive(Debug, Default)]
struct State {
    /// The time is that of the first of equal ones.
    order: VecDeque<(Subject, Instant)>,
    waiting: HashMap<Subject, Recorded>,
}

/// One that waits.
#[derive(Clone, Debug)]
struct Recorded {
    count: u32,
    first: Time,
    last: Time,
}

/// What makes two Events equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Subject {
    api_version: String,
    kind: String,
    key: Key,
    uid: String,
    component: &'static str,
    severity: Severity,
    reason: &'static str,
    message: String,
}

/// One that was sent.
#[derive(Debug)]
struct Sent {
    name: String,
    count: u32,
    at: Instant,
}

/// Sends what a [`Recorder`] records.
pub struct Sender {
    recorder: Recorder,
    client: Client,
    writes: Writes,
    sent: HashMap<Subject, Sent>,
}

impl Recorder {
    /// A recorder, and what sends its Events when run. `instance` is the name of the Pod.
    pub fn new(client: Client, writes: Writes, clock: Clock, instance: &str, metrics: &Metrics) -> (Self, Sender) {
        let dropped = Counter::default();
        let help = "Events that were not recorded because too many waited";
        metrics.register(|registry| registry.register("fleet_events_dropped", help, dropped.clone()));
        let recorder = Self(Arc::new(Inner {
            state: Mutex::default(),
            more: Notify::new(),
            instance: instance.to_owned(),
            clock,
            dropped,
        }));
        (
            recorder.clone(),
            Sender {
                recorder,
                client,
                writes,
                sent: HashMap::new(),
            },
        )
    }

    /// Records an Event about an object. `component` is who says it, as the specification names it.
    pub fn record<K: Resource<DynamicType = ()>>(
        &self,
        component: &'static str,
        object: &K,
        severity: Severity,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let mut message = message.into();
        if message.len() > MESSAGE_MAX {
            let end = message.floor_char_boundary(MESSAGE_MAX - '…'.len_utf8());
            message.truncate(end);
            message.push('…');
        }
        self.push(Subject {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            key: Key::of(object),
            uid: object.uid().unwrap_or_default(),
            component,
            severity,
            reason,
            message,
        });
    }

    fn push(&self, subject: Subject) {
        let now = Time(self.0.clock.now_secs());
        let mut state = self.0.state.lock();
        if let Some(recorded) = state.waiting.get_mut(&subject) {
            recorded.count += 1;
            recorded.last = now;
        } else if state.order.len() >= WAITING_MAX {
            drop(state);
            self.0.dropped.inc();
        } else {
            let recorded = Recorded {
                count: 1,
                first: now.clone(),
                last: now,
            };
            state.order.push_back((subject.clone(), Instant::now() + PAUSE));
            state.waiting.insert(subject, recorded);
            drop(state);
            self.0.more.notify_one();
        }
    }

    /// When the next one is due.
    fn due(&self) -> Option<Instant> {
        self.0.state.lock().order.front().map(|(_, at)| *at)
    }

    fn pop(&self) -> Option<(Subject, Recorded)> {
        let mut state = self.0.state.lock();
        let (subject, _) = state.order.pop_front()?;
        let recorded = state.waiting.remove(&subject)?;
        Some((subject, recorded))
    }
}

impl Sender {
    /// Sends Events a moment after they came, one at a time. Never ends.
    pub async fn run(mut self) {
        loop {
            let Some(due) = self.recorder.due() else {
                self.recorder.0.more.notified().await;
                continue;
            };
            tokio::time::sleep_until(due).await;
            if let Some((subject, recorded)) = self.recorder.pop() {
                self.send(subject, recorded).await;
            }
        }
    }

    async fn send(&mut self, subject: Subject, recorded: Recorded) {
        let repeated = self
            .sent
            .remove(&subject)
            .filter(|sent| sent.at.elapsed() < REPEAT_WINDOW);
        // Events of cluster-scoped objects live where `kubectl describe` looks for them.
        let api: Api<Event> = Api::namespaced(self.client.clone(), subject.key.namespace().unwrap_or("default"));
        let (name, total) = if let Some(sent) = &repeated {
            (sent.name.clone(), sent.count.saturating_add(recorded.count))
        } else {
            // An Event's name may be no longer than its object's: 253.
            let stem = &subject.key.name()[..subject.key.name().len().min(236)];
            (
                format!("{}.{:016x}", stem.trim_end_matches(['.', '-']), fastrand::u64(..)),
                recorded.count,
            )
        };
        let target = Target::new("events", Key::cluster(name.as_str()));
        let is_new = repeated.is_none();
        let request = || {
            let event = self.event(&subject, &name, total, &recorded);
            let (api, name) = (&api, &name);
            Some(async move {
                if is_new {
                    return api.create(&PostParams::default(), &event).await.map(drop);
                }
                let patch = serde_json::json!({ "count": event.count, "lastTimestamp": event.last_timestamp });
                api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .map(drop)
            })
        };
        match self.writes.write(Lane::Events, target, &subject.key, request).await {
            Some(Ok(())) => {
                if self.sent.len() >= REMEMBERED_MAX {
                    self.sent.retain(|_, sent| sent.at.elapsed() < REPEAT_WINDOW);
                }
                if self.sent.len() < REMEMBERED_MAX {
                    self.sent.insert(
                        subject,
                        Sent {
                            name,
                            count: total,
                            at: Instant::now(),
                        },
                    );
                }
            }
            // Not sent again: by then it would be old, and the next one makes a new Event.
            Some(Err(error)) => {
                let (reason, error) = (subject.reason, logs::chain(&error).to_string());
                tracing::debug!(object = %subject.key, reason, error, "Event not recorded");
            }
            None => {}
        }
    }

    fn event(&self, subject: &Subject, name: &str, count: u32, recorded: &Recorded) -> Event {
        let namespace = subject.key.namespace();
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.unwrap_or("default").to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(subject.api_version.clone()),
                kind: Some(subject.kind.clone()),
                name: Some(subject.key.name().to_owned()),
                namespace: namespace.map(ToOwned::to_owned),
                uid: Some(subject.uid.clone()).filter(|uid| !uid.is_empty()),
                ..ObjectReference::default()
            },
            type_: Some(format!("{:?}", subject.severity)),
            reason: Some(subject.reason.to_owned()),
            message: Some(subject.message.clone()),
            source: Some(EventSource {
                component: Some(subject.component.to_owned()),
                host: None,
            }),
            reporting_component: Some(subject.component.to_owned()),
            reporting_instance: Some(self.recorder.0.instance.clone()),
            first_timestamp: Some(recorded.first.clone()),
            last_timestamp: Some(recorded.last.clone()),
            count: Some(i32::try_from(count).unwrap_or(i32::MAX)),
            ..Event::default()
        }
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("recorder", &self.recorder)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

    use super::*;
    use crate::testing::{self, Asked};

    fn recorder(metrics: &Metrics) -> (Recorder, Sender, tokio::sync::mpsc::UnboundedReceiver<Asked>) {
        let (asked, log) = tokio::sync::mpsc::unbounded_channel();
        let client = testing::client(move |request| {
            let body = request.body.to_string();
            asked.send(request).unwrap();
            async { (200, body) }
        });
        let clock = Clock::manual(jiff::Timestamp::from_second(1_800_000_000).unwrap());
        let writes = Writes::new("hub", metrics);
        let (recorder, sender) = Recorder::new(client, writes, clock, "hub-agent-0", metrics);
        (recorder, sender, log)
    }

    fn namespace() -> Namespace {
        let mut object = Namespace::default();
        object.metadata.name = Some("fleet-member-c1".to_owned());
        object.metadata.uid = Some("u1".to_owned());
        object
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_are_counted_in_one_event() {
        let (recorder, sender, mut log) = recorder(&Metrics::new());
        let record = |times| {
            for _ in 0..times {
                recorder.record(
                    "mcv1beta1",
                    &namespace(),
                    Severity::Normal,
                    "NamespaceCreated",
                    "Namespace was created",
                );
            }
        };
        record(3);
        let running = tokio::spawn(sender.run());
        let first = log.recv().await.unwrap();
        assert!(
            first.line.starts_with("POST /api/v1/namespaces/default/events"),
            "{}",
            first.line
        );
        assert_eq!(first.body["count"], 3, "those that waited together are one request");
        assert_eq!(first.body["source"]["component"], "mcv1beta1");
        assert_eq!(first.body["involvedObject"]["uid"], "u1");
        assert_eq!(first.body["type"], "Normal");
        assert_eq!(first.body["firstTimestamp"], "2027-01-15T08:00:00Z");

        record(1);
        let second = log.recv().await.unwrap();
        let name = first.body["metadata"]["name"].as_str().unwrap();
        assert!(
            second
                .line
                .starts_with(&format!("PATCH /api/v1/namespaces/default/events/{name}")),
            "{}",
            second.line
        );
        assert_eq!(second.body["count"], 4);

        tokio::time::sleep(REPEAT_WINDOW).await;
        record(1);
        assert_eq!(
            log.recv().await.unwrap().body["count"],
            1,
            "after a while it is news again"
        );
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_are_dropped_and_counted_without_waiting() {
        let metrics = Metrics::new();
        let (recorder, _sender, _log) = recorder(&metrics);
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("ns".to_owned());
        for n in 0..WAITING_MAX + 7 {
            object.metadata.name = Some(format!("o{n}"));
            recorder.record("test", &object, Severity::Warning, "Reason", "m".repeat(2000));
        }
        assert!(metrics.encode().contains("fleet_events_dropped_total 7\n"));
        assert!(recorder.pop().unwrap().0.message.len() <= MESSAGE_MAX);
    }
}
