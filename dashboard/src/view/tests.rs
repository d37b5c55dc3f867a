//! Every page has one URL, and every URL at most one page.

use super::*;

#[test]
fn every_page_is_found_under_its_own_url() {
    let name = || Name::new("team a", "<b>&/?#");
    let odd = || "x\"y/z".to_owned();
    let filter = Filter {
        text: "a&b=c".into(),
        group: "topology/region".into(),
        trouble: true,
        members: 2,
        placements: 1,
    };
    for view in [
        View::Fleet(Filter::default()),
        View::Fleet(filter),
        View::Placements(0),
        View::Placements(2),
        View::placement(name()),
        View::Placement(Name::new("", "web"), Turned { clusters: 3, others: 0 }),
        View::Placement(name(), Turned { clusters: 1, others: 2 }),
        View::On(name(), odd()),
        View::Differences(name()),
        View::Snapshots(name()),
        View::Changes(name(), 3, 12),
        View::Runs(0),
        View::Runs(7),
        View::Run(name()),
        View::Members(0),
        View::Members(4),
        View::Member(odd()),
        View::Timeline(None),
        View::Timeline(Some(About::Placement(name()))),
        View::Timeline(Some(About::Run(name()))),
        View::Timeline(Some(About::Member(odd()))),
    ] {
        let url = view.url();
        let (path, query) = url.split_once('?').unwrap_or((&url, ""));
        assert_eq!(View::parse(path, query), Some(view), "{url}");
        assert!(url.starts_with('/') && !url.contains(['<', '"', ' ']), "{url}");
    }
}

#[test]
fn other_urls_are_nobodys() {
    for path in [
        "",
        "//",
        "/nothing",
        "/placements/",
        "/namespaces/a/members/b",
        "/namespaces//runs/b",
        "/runs/%ff",
    ] {
        assert_eq!(View::parse(path, ""), None, "{path}");
    }
}

#[test]
fn a_command_that_asks_why_has_a_page() {
    let web = || Name::new("", "web");
    for (command, view) in [
        ("kubectl fleet why crp/web", Some(View::placement(web()))),
        ("kubectl fleet why crp/web east", Some(View::On(web(), "east".into()))),
        (
            "kubectl fleet why rp/web east -n shop",
            Some(View::On(Name::new("shop", "web"), "east".into())),
        ),
        (
            "kubectl fleet why sur/web -n shop",
            Some(View::Run(Name::new("shop", "web"))),
        ),
        (
            "kubectl fleet why membercluster/east",
            Some(View::Member("east".into())),
        ),
        ("kubectl fleet diff crp/web", Some(View::Differences(web()))),
        ("kubectl fleet diff crp/web east", Some(View::On(web(), "east".into()))),
        ("kubectl fleet drain east", None),
        ("kubectl get crp", None),
        ("kubectl fleet why deployment.apps/web -n shop", None),
    ] {
        assert_eq!(View::of_command(command), view, "{command}");
    }
}
