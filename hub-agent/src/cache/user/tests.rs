//! What is told to listeners.

use futures::FutureExt as _;
use kube::Config;

use super::*;

#[tokio::test]
async fn changes_wait_for_a_listener_that_is_behind() {
    let config = Config::new("http://127.0.0.1:1".parse().unwrap());
    let user = UserResources::new(Client::try_from(config).unwrap(), Era::default(), Apis::default());
    let (mut slow, gone) = (user.listen(), user.listen());
    drop(gone);
    let change = |n: usize| Touched::Kinds((Scope::Cluster, Key::cluster(format!("crp-{n}"))));
    for n in 0..TOUCHED_MAX {
        user.0.tell(&change(n)).await;
    }
    let one_more = change(TOUCHED_MAX);
    let mut telling = std::pin::pin!(user.0.tell(&one_more));
    assert!(telling.as_mut().now_or_never().is_none(), "no more are kept");
    let first = slow.recv().await;
    assert!(matches!(first, Some(Touched::Kinds((_, key))) if key.name() == "crp-0"));
    telling.await;
    let mut left = 0;
    while slow.try_recv().is_ok() {
        left += 1;
    }
    assert_eq!(left, TOUCHED_MAX, "and none is lost");
}
