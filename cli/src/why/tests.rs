use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use fleet_testkit::{Fault, Server};
use serde_json::json;

use super::*;
use crate::{
    output::{Format, Style},
    problem,
    testing::{
        CLUSTERS, PLACEMENT_API,
        shown::{assert_fits, assert_golden, entry, hub, narrow, now, piped, place, placement},
    },
};

async fn asked(server: &Server, line: &str) -> Result<Answer> {
    let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
    ask(&place(server), &words, None, now()).await
}

fn counted(server: &Server) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    server.answer(move |_, _, _| {
        counter.fetch_add(1, Ordering::Relaxed);
        None
    });
    count
}

#[tokio::test]
async fn every_situation_is_explained_with_few_requests() {
    for (line, golden, exit) in [
        ("crp/web", "why-placement.txt", Exit::Left),
        ("crp/web north", "why-placement-on-cluster.txt", Exit::Left),
        ("crp/web west", "why-placement-not-picked.txt", Exit::Left),
        ("rp/api east", "why-namespaced.txt", Exit::Done),
        ("csur/release", "why-run.txt", Exit::Left),
        ("membercluster/west", "why-silent-member.txt", Exit::Left),
        ("membercluster/east", "why-member.txt", Exit::Done),
        ("crpe/move", "why-eviction.txt", Exit::Left),
        ("deployment.apps/api", "why-object.txt", Exit::Done),
        ("deploy/api east", "why-object-on-cluster.txt", Exit::Done),
        ("deployment/nothing", "why-object-unplaced.txt", Exit::Error),
        ("crp/none", "why-missing.txt", Exit::Error),
    ] {
        let server = hub();
        let count = counted(&server);
        let answer = asked(&server, line).await.expect(line);
        assert!(count.load(Ordering::Relaxed) <= 11, "{line}: {count:?} requests");
        assert_golden(golden, &piped(&answer));
        assert_eq!(answer.exit(), exit, "{line}");
        let text = piped(&answer);
        let unmet = answer.chain.first_unmet().is_some();
        assert!(!unmet || text.contains("next: kubectl "), "{text}");
        let narrow = output::rendered(&answer, Format::Table, &narrow()).expect(line);
        assert_fits(&narrow, 40);
        let json = output::rendered(&answer, Format::Json, &Style::default()).expect(line);
        let json: serde_json::Value = serde_json::from_str(&json).expect(line);
        assert_eq!(json["subject"], answer.chain.subject);
    }
}

#[tokio::test]
async fn a_name_alone_is_the_first_of_the_fleets_kinds_that_has_it() {
    let server = hub();
    for (name, subject) in [
        ("web", "crp/web"),
        ("api", "rp/api"),
        ("release", "csur/release"),
        ("east", "membercluster/east"),
        ("move", "crpe/move"),
    ] {
        assert_eq!(asked(&server, name).await.expect(name).chain.subject, subject);
    }
    let error = asked(&server, "nobody").await.expect_err("nothing has the name");
    assert_eq!(problem::next(&error, "why"), "kubectl fleet status");
}

#[tokio::test]
async fn what_belongs_to_something_is_asked_as_that() {
    let server = hub();
    for (line, subject) in [
        ("careq/release-after-canary", "csur/release"),
        ("crb/web-north", "crp/web on north"),
        ("crpdb/web", "crp/web"),
    ] {
        assert_eq!(asked(&server, line).await.expect(line).chain.subject, subject);
    }
    let place = Place {
        namespace: "fleet-member-east".into(),
        ..place(&server)
    };
    let answer = ask(&place, &["work/web-work".to_owned()], None, now()).await;
    assert_eq!(answer.expect("it is there").chain.subject, "crp/web on east");
}

#[tokio::test]
async fn the_history_of_an_object_is_told() {
    let answer = asked(&hub(), "deployment.apps/api east").await.expect("it is placed");
    let [origin] = answer.origins.as_slice() else {
        panic!("one member has it: {answer:?}")
    };
    assert_eq!(
        (origin.lineage.work.as_str(), origin.lineage.snapshot.as_str()),
        ("web-work", "web-1-snapshot")
    );
    let before = origin.before.as_ref().expect("there is a snapshot before");
    assert_eq!(before.snapshot, "web-0-snapshot");
    let [change] = before.changes.as_slice() else {
        panic!("one field was changed: {before:?}")
    };
    assert_eq!(
        (change.path.as_str(), change.before.as_str(), change.now.as_str()),
        ("/spec/replicas", "1", "2")
    );
}

#[tokio::test]
async fn who_did_it_is_read_from_the_member() {
    let (server, member) = (hub(), hub());
    member.put(
        "/apis/apps/v1/namespaces/shop/deployments/api",
        json!({ "metadata": { "managedFields": [{
            "manager": "kubectl-scale", "operation": "Update", "time": "2026-01-02T11:29:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { "f:replicas": {} } },
        }], "ownerReferences": [
            { "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": "web-work", "uid": "u" },
        ] } }),
    );
    let member = Hub::new(member.client());
    let words = ["deployment/api".to_owned(), "east".to_owned()];
    let answer = ask(&place(&server), &words, Some(&member), now())
        .await
        .expect("it is placed");
    let live = answer.origins[0].live.as_ref().expect("it was read");
    assert_eq!(live.owners, ["appliedwork/web-work"]);
    assert_eq!(live.managers[0].name, "kubectl-scale");
    assert!(
        piped(&answer).contains("written by kubectl-scale 31m ago"),
        "{}",
        piped(&answer)
    );
    // Where nothing would be read from the member, nobody is led to believe that it was.
    for words in [
        "deployment/api",
        "crp/web",
        "csur/release",
        "careq/release-after-canary",
        "crpe/move",
    ] {
        let refused = ask(&place(&server), &[words.to_owned()], Some(&member), now()).await;
        assert_eq!(problem::exit_of(&refused.expect_err(words)), Exit::Usage, "{words}");
    }
}

#[tokio::test]
async fn the_agent_of_a_silent_member_is_asked_why() {
    let (server, member) = (hub(), Server::new());
    let pod = |name: &str| {
        json!({
            "metadata": { "labels": { "app.kubernetes.io/name": name } },
            "spec": { "containers": [{ "name": name, "ports": [{ "name": "hubhealthz", "containerPort": 9081 }] }] },
            "status": { "phase": "Running" },
        })
    };
    let ask = async |member: &Server| {
        let words = ["membercluster/west".to_owned()];
        ask(&place(&server), &words, Some(&Hub::new(member.client())), now())
            .await
            .expect("it is known")
    };
    // Another agent of the fleet, as where the hub is a member of its own fleet.
    member.put("/api/v1/namespaces/fleet-system/pods/hub-agent-0", pod("hub-agent"));
    let text = piped(&ask(&member).await);
    assert!(text.contains("no Pod of it runs in fleet-system"), "{text}");
    member.put(
        "/api/v1/namespaces/fleet-system/pods/member-agent-0",
        pod("member-agent"),
    );
    member.answer(|_, path, _| {
        path.ends_with("/pods/member-agent-0:9081/proxy/readyz").then(|| {
            let says = "[+]ping ok\n[+]hub-watch ok\n[-]session failed: could not connect to hub:8443: invalid peer \
                        certificate: UnknownIssuer\nreadyz check failed\n";
            (
                500,
                json!({ "kind": "Status", "status": "Failure", "code": 500, "message": says }),
            )
        })
    });
    assert_golden("why-wrong-channel-ca.txt", &piped(&ask(&member).await));
}

#[tokio::test]
async fn what_a_placement_has_left_behind_is_found() {
    let server = hub();
    // It no longer selects the object, which is still there.
    let path = format!("{PLACEMENT_API}/clusterresourceplacements/web");
    server.put(&path, placement("api", "ClusterResourcePlacement", None, &[]));
    let answer = asked(&server, "deployment.apps/api east").await.expect("it is there");
    assert_eq!(answer.exit(), Exit::Left);
    assert_golden("why-object-no-longer-selected.txt", &piped(&answer));
    // Nor is there anything that could.
    server.delete(&path);
    server.delete(&format!("{PLACEMENT_API}/clusterresourcebindings/web-east"));
    for (namespace, line, golden) in [
        ("shop", "deployment.apps/api east", "why-object-orphaned.txt"),
        ("shop", "membercluster/east", "why-member-orphans.txt"),
        ("fleet-member-east", "work/web-work", "why-orphan.txt"),
    ] {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let place = Place {
            namespace: namespace.into(),
            ..place(&server)
        };
        let answer = ask(&place, &words, None, now()).await.expect(line);
        assert_golden(golden, &piped(&answer));
    }
    // Who may not list placements does not know that one is gone.
    forbid(&server, "clusterresourceplacements");
    let text = piped(&asked(&server, "membercluster/east").await.expect("it is known"));
    assert!(!text.contains("belongs to no binding"), "{text}");
}

#[tokio::test]
async fn placements_that_are_not_looked_at_are_counted() {
    let server = hub();
    for number in 0..10 {
        let mut holds = placement("none", "ClusterResourcePlacement", None, &[]);
        holds["status"]["selectedResources"] = json!([{
            "group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": "ResourceEnvelope",
            "name": "e", "namespace": "shop",
        }]);
        server.put(&format!("{PLACEMENT_API}/clusterresourceplacements/e{number}"), holds);
    }
    let text = piped(&asked(&server, "deployment.apps/api").await.expect("it is placed"));
    assert!(
        text.contains("hidden: placements (3 more may have it in an envelope)"),
        "{text}"
    );
}

fn forbid(server: &Server, word: &'static str) {
    server.answer(move |_, path, _| {
        path.ends_with(word).then(|| {
            let words = format!("{word} is forbidden: User \"eve\" cannot list resource \"{word}\"");
            (
                403,
                json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": words }),
            )
        })
    });
}

#[tokio::test]
async fn what_may_not_be_read_is_left_out_and_named() {
    let server = hub();
    forbid(&server, "internalmemberclusters");
    forbid(&server, "clusterresourcesnapshots");
    let answer = asked(&server, "crp/web").await.expect("the rest can be read");
    let hidden: Vec<_> = answer.hidden.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(hidden, ["clusterresourcesnapshots", "internalmemberclusters"]);
    let text = piped(&answer);
    assert!(
        text.contains("hidden: internalmemberclusters (no right to list them)\n"),
        "{text}"
    );
    assert!(
        text.contains("next: kubectl auth can-i list internalmemberclusters.cluster.kubernetes-fleet.io"),
        "{text}"
    );
    forbid(&server, "clusterresourceplacements");
    let error = asked(&server, "crp/web")
        .await
        .expect_err("without the placement nothing can be said");
    assert_eq!(problem::exit_of(&error), Exit::Refused);
}

#[tokio::test]
async fn a_credential_that_has_expired_and_a_cluster_without_the_kinds_are_said_with_what_to_type() {
    let server = hub();
    server.fail(Fault::new("/apis/", 401));
    let error = asked(&server, "crp/web").await.expect_err("nobody is let in");
    assert_eq!(problem::next(&error, "why"), "kubectl auth whoami");
    assert_eq!(problem::exit_of(&error), Exit::Error);
    let elsewhere = Server::new();
    elsewhere.serve(PLACEMENT_API, "somethingelse", "SomethingElse", false);
    elsewhere.serve(
        CLUSTERS.trim_end_matches("/memberclusters"),
        "somethingelse",
        "SomethingElse",
        false,
    );
    let error = asked(&elsewhere, "crp/web")
        .await
        .expect_err("the kinds are not served");
    assert!(
        error
            .to_string()
            .contains("are the CRDs installed, and is this the context of the hub?"),
        "{error}"
    );
    assert_eq!(
        problem::next(&error, "why"),
        "kubectl api-resources --api-group=placement.kubernetes-fleet.io"
    );
    let error = asked(&elsewhere, "web").await.expect_err("nor is any other");
    assert_eq!(problem::exit_of(&error), Exit::Error);
}

#[tokio::test]
async fn words_of_others_do_nothing_to_the_terminal_and_make_no_lines_of_their_own() {
    let server = hub();
    let evil = crate::testing::shown::condition(
        "Applied",
        "False",
        "Odd",
        "\u{1b}[2J\nok    all is well\nnext: kubectl delete ns x",
    );
    let entries = [entry("east", Some(&evil))];
    server.put(
        &format!("{PLACEMENT_API}/clusterresourceplacements/web"),
        placement("web", "ClusterResourcePlacement", Some(&evil), &entries),
    );
    server.delete(&format!("{PLACEMENT_API}/clusterresourcebindings/web-east"));
    let text = piped(&asked(&server, "crp/web").await.expect("it is there"));
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(
        !text
            .lines()
            .any(|line| line.trim_start().starts_with("next: kubectl delete")),
        "{text}"
    );
}
