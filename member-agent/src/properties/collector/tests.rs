use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::advance};

use super::*;

/// A provider that does what it is told.
#[derive(Default)]
struct Scripted {
    starts: Mutex<Vec<Result<(), String>>>,
    start_takes: Duration,
    hang: Mutex<bool>,
    resume: Notify,
}

impl Provider for Scripted {
    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            sleep(self.start_takes).await;
            self.starts.lock().pop().unwrap_or(Ok(()))
        })
    }

    fn collect(&self) -> BoxFuture<'_, Collected> {
        Box::pin(async {
            if *self.hang.lock() {
                self.resume.notified().await;
            }
            let mut collected = Collected::default();
            collected.set("from", "scripted", jiff::Timestamp::UNIX_EPOCH);
            collected
        })
    }
}

struct Plain;

impl Provider for Plain {
    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn collect(&self) -> BoxFuture<'_, Collected> {
        Box::pin(std::future::ready(Collected::default()))
    }
}

fn collector(provider: Option<Arc<Scripted>>) -> (Collector, Arc<Mutex<Vec<Event>>>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let log = events.clone();
    let provider = provider.map(|p| p as Arc<dyn Provider>);
    (
        Collector::new(Arc::new(Plain), provider, Arc::new(move |e| log.lock().push(e))),
        events,
    )
}

fn short(report: &ClusterReport) -> String {
    let words: Vec<String> = report
        .conditions
        .iter()
        .map(|c| format!("{}:{}", c.type_.trim_start_matches("ClusterProperty"), c.reason))
        .collect();
    let from = match &report.collected {
        None => "nothing",
        Some(collected) if collected.properties.is_empty() => "plain",
        Some(_) => "scripted",
    };
    format!("{from} {}", words.join(" "))
}

#[tokio::test(start_paused = true)]
async fn without_a_provider_there_is_no_word_about_one() {
    let (mut collector, events) = collector(None);
    collector.first_start().await;
    assert_eq!(
        short(&collector.collect().await),
        "plain CollectionSucceeded:PropertiesCollected"
    );
    assert!(events.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_is_tried_again_and_adopted() {
    let provider = Arc::new(Scripted {
        starts: Mutex::new(vec![Ok(()), Err("no nodes found with the region label".into())]),
        ..Scripted::default()
    });
    let (mut collector, events) = collector(Some(provider));
    collector.first_start().await;
    assert_eq!(
        short(&collector.collect().await),
        "plain CollectionSucceeded:PropertiesCollected ProviderStarted:FailedToStart"
    );
    collector.start_changed().await;
    for _ in 0..2 {
        assert_eq!(
            short(&collector.collect().await),
            "scripted CollectionSucceeded:PropertiesCollected ProviderStarted:Started"
        );
    }
    let error = "no nodes found with the region label".into();
    assert_eq!(
        *events.lock(),
        [Event::ProviderFailedToStart { error }, Event::ProviderStarted]
    );
}

#[tokio::test(start_paused = true)]
async fn a_start_that_takes_long_is_adopted_late() {
    let provider = Arc::new(Scripted {
        start_takes: Duration::from_secs(11),
        ..Scripted::default()
    });
    let (mut collector, events) = collector(Some(provider));
    collector.first_start().await;
    assert_eq!(
        short(&collector.collect().await),
        "plain CollectionSucceeded:PropertiesCollected ProviderStarted:TimedOut"
    );
    collector.start_changed().await;
    assert!(short(&collector.collect().await).ends_with("ProviderStarted:Started"));
    assert_eq!(*events.lock(), [Event::ProviderStartTimedOut, Event::ProviderStarted]);
}

#[tokio::test(start_paused = true)]
async fn calls_that_hang_are_bounded_and_forgiven() {
    let provider = Arc::new(Scripted::default());
    let (mut collector, events) = collector(Some(provider.clone()));
    collector.first_start().await;
    *provider.hang.lock() = true;
    for _ in 0..CALLS_MAX {
        let report = collector.collect().await;
        assert_eq!(
            short(&report),
            "nothing CollectionSucceeded:TimedOut ProviderStarted:Started"
        );
    }
    // Refusals cost nothing, however many there are.
    for _ in 0..10 {
        let report = collector.collect().await;
        assert_eq!(
            short(&report),
            "nothing CollectionSucceeded:TooManyCalls ProviderStarted:Started"
        );
    }
    assert_eq!(
        events.lock().iter().filter(|e| **e == Event::ProviderTimedOut).count(),
        CALLS_MAX
    );
    *provider.hang.lock() = false;
    provider.resume.notify_waiters();
    advance(Duration::from_millis(1)).await;
    for _ in 0..5 {
        assert!(short(&collector.collect().await).starts_with("scripted "));
    }
}
