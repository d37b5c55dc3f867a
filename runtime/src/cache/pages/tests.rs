use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::testing;

/// A server with objects of these sizes, and what each of its answers had.
fn server(sizes: Vec<usize>) -> (kube::Client, Arc<Mutex<Vec<usize>>>) {
    let answers: Arc<Mutex<Vec<usize>>> = Arc::default();
    let log = answers.clone();
    let client = testing::client(move |request| {
        let number = |name: &str| {
            let text = request.line.split(['?', '&']).find_map(|pair| pair.strip_prefix(name));
            text.map_or(0, |text| text.parse::<usize>().unwrap())
        };
        let (from, limit) = (number("continue="), number("limit="));
        let to = sizes.len().min(from + limit);
        let item = |i: usize| json!({ "metadata": { "name": i.to_string() }, "data": { "x": "x".repeat(sizes[i]) } });
        let items: Vec<_> = (from..to).map(item).collect();
        let more = if to < sizes.len() {
            to.to_string()
        } else {
            String::new()
        };
        let text = json!({ "metadata": { "resourceVersion": "7", "continue": more }, "items": items }).to_string();
        log.lock().push(text.len());
        async move { (200, text) }
    });
    (client, answers)
}

/// The names that a whole list gives, in order.
async fn list(client: kube::Client, pages: &mut Pages) -> Vec<String> {
    let source: Api<ConfigMap> = Api::all(client);
    let (mut names, mut params) = (Vec::new(), ListParams::default());
    loop {
        let mut sink = |object: ConfigMap| names.extend(object.metadata.name);
        let meta = pages.read(&source, &params, &mut sink).await.unwrap();
        params.continue_token = meta.continue_.filter(|token| !token.is_empty());
        if params.continue_token.is_none() {
            assert_eq!(meta.resource_version.as_deref(), Some("7"));
            return names;
        }
    }
}

fn all(count: usize) -> Vec<String> {
    (0..count).map(|i| i.to_string()).collect()
}

#[tokio::test]
async fn fat_objects_come_in_small_pages() {
    let (client, answers) = server(vec![256 * 1024; 30]);
    assert_eq!(list(client, &mut Pages::new(250)).await, all(30));
    let answers = answers.lock();
    assert!(answers[0] < FIRST as usize * 257 * 1024, "{answers:?}");
    assert!(
        answers[1..].iter().all(|bytes| *bytes <= PAGE_BYTES + 1024),
        "{answers:?}"
    );
}

#[tokio::test]
async fn small_objects_come_in_large_pages() {
    let (client, answers) = server(vec![100; 1000]);
    assert_eq!(list(client, &mut Pages::new(250)).await, all(1000));
    assert_eq!(answers.lock().len(), 5);
}

/// What was seen says nothing about what comes: a page that turns out too large is given up, none of it is kept, and the
/// rest comes in smaller ones.
#[tokio::test]
async fn a_page_that_is_too_large_is_asked_for_again_with_fewer() {
    let mut sizes = vec![100; 30];
    sizes.extend([PAGE_MAX / 2; 2]);
    sizes.push(PAGE_MAX + 1);
    let count = sizes.len();
    let (client, _) = server(sizes);
    let mut pages = Pages::new(250);
    assert_eq!(list(client.clone(), &mut pages).await, all(count));
    assert_eq!(pages.next, 1);
    // The next list begins with what this one has learnt.
    assert_eq!(list(client, &mut pages).await, all(count));
}

#[test]
fn only_a_list_is_a_list() {
    let mut sink = |_: ConfigMap| {};
    let mut decoded = |text: &str| decode(text.as_bytes(), &mut sink).is_ok();
    assert!(decoded(r#"{"items":null,"metadata":{"resourceVersion":"1"}}"#));
    assert!(decoded(r#"{"kind":"ConfigMapList","items":[{"metadata":{}}]}"#));
    assert!(!decoded(r#"{"kind":"Status","metadata":{}}"#));
    assert!(!decoded(r#"{"items":[7]}"#));
    assert!(!decoded(r#"{"items":[]} and more"#));
}
