//! A placement on one cluster: why it stands where it stands, and what differs there.

use fleet_api::placement::BindingSpec;
use fleet_core::explain;
use maud::{Markup, html};

use super::{Page, Site, difference, parts, placement, typed::quoted};
use crate::view::{Name, View};

pub(super) fn page(site: &Site<'_>, name: &Name, cluster: &str) -> Page {
    let hub = site.hub;
    let mut gathering = hub.gather();
    gathering.placement(name);
    let fleet = gathering.objects.fleet(&name.namespace, hub.clock.now());
    let chain = explain::placement_on(&fleet, &name.name, cluster);
    let binding = fleet.binding(&name.name, cluster);
    let body = html! {
        h1 {
            (parts::link(&View::placement(name.clone()), &name.shown()))
            " on "
            (parts::link(&View::Member(cluster.to_owned()), cluster))
        }
        (parts::bar(&chain))
        section.card aria-labelledby="why" { h2 id="why" { "Why" } (parts::chain(site, &chain)) }
        @if let Some(binding) = binding {
            dl.facts {
                dt { "Picked because" } dd { (binding.spec.cluster_decision.reason) }
                dt { "Resource snapshot" } dd { (binding.spec.resource_snapshot_name) }
                @if !binding.run().is_empty() {
                    dt { "Brought by" }
                    dd { (parts::link(&View::Run(Name::new(name.namespace.as_str(), binding.run())), binding.run())) }
                }
                dt { "Overrides" } dd { (placement::overrides(binding.spec)) (changes(site, binding.spec)) }
            }
            @if let Some(status) = binding.status {
                (difference::of(site, status, cluster))
                (difference::failed(status))
            }
        }
    };
    Page {
        title: format!("{} on {cluster}", name.shown()),
        command: format!(
            "kubectl fleet why {}/{} {cluster}{}",
            name.word("crp", "rp"),
            name.name,
            name.flag()
        ),
        body,
    }
}

/// What overrides change is in their snapshots, which nobody else needs: the commands that show it.
fn changes(site: &Site<'_>, spec: &BindingSpec) -> Markup {
    let wide = spec.cluster_resource_override_snapshots.iter();
    let wide = wide.map(|name| format!("kubectl get clusterresourceoverridesnapshot {} -o yaml", quoted(name)));
    let own = spec.resource_override_snapshots.iter();
    let own = own.map(|it| {
        format!(
            "kubectl get resourceoverridesnapshot {} -n {} -o yaml",
            quoted(&it.name),
            quoted(&it.namespace)
        )
    });
    html! {
        @for command in wide.chain(own) { p.next { "What it changes: " (parts::typed(site, &command)) } }
    }
}
