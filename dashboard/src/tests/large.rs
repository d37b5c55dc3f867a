//! A fleet that is larger than any page.

use fleet_testkit::Server;

use super::{visitor::Visitor, world};

/// What a browser shows without thinking.
const PAGE_MAX: usize = 400 * 1024;

#[tokio::test]
async fn pages_of_ten_thousand_members_are_no_larger_than_others() {
    let server = Server::new();
    world::crowd(&server, 10_000, 1, 1_000);
    let visitor = Visitor::on(server, true).await;
    assert_eq!(visitor.hub.members.len(), 10_000);
    for path in [
        "/",
        "/?group=region",
        "/?show=trouble",
        "/?q=member",
        "/?members=199",
        "/placements",
        "/placements/placement-000",
        "/placements/placement-000?page=9&others=3",
        "/placements/placement-000/differences",
        "/placements/placement-000/snapshots",
        "/placements/placement-000/timeline",
        "/placements/placement-000/on/member-0000",
        "/runs",
        "/members",
        "/members?page=99",
        "/members/member-9999",
        "/timeline",
    ] {
        let answer = visitor.get(path).await;
        assert_eq!(answer.code, 200, "{path}");
        assert!(answer.body.len() < PAGE_MAX, "{path} has {} bytes", answer.body.len());
    }
    assert!(visitor.get("/").await.body.contains("10000</span>"));
}
