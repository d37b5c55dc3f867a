//! A fleet that is larger than any page.

use fleet_api::cluster::MemberCluster;
use fleet_testkit::Server;

use super::{visitor::Visitor, world};

/// What a browser shows without thinking.
const PAGE_MAX: usize = 400 * 1024;

#[tokio::test]
async fn pages_of_ten_thousand_members_are_no_larger_than_others() {
    const PLACED: usize = 300;
    let server = Server::new();
    world::crowd(&server, PLACED, 1, PLACED);
    let visitor = Visitor::on(server, true).await;
    // The rest without the way through a server in memory, which would take its time.
    let all = visitor.server.all("memberclusters");
    let one = all.first().unwrap();
    for at in PLACED..10_000 {
        let mut member: MemberCluster = serde_json::from_value(one.clone()).unwrap();
        let meta = &mut member.metadata;
        meta.name = Some(format!("member-{at:04}"));
        meta.uid = Some(format!("uid-{at}"));
        meta.resource_version = Some((1_000_000 + at).to_string());
        visitor.hub.members.wrote(member);
    }
    assert_eq!(visitor.hub.members.len(), 10_000);
    for path in [
        "/",
        "/?group=region",
        "/?show=trouble",
        "/?q=member",
        "/?members=199",
        "/placements",
        "/placements/placement-000",
        "/placements/placement-000?page=2&others=150",
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
