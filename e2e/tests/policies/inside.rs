//! What is inside the namespaces of members, of the fleet and of Kubernetes.

use serde_json::{Value, json};

use super::asking::{Row, Who};
use super::people::{ACCOUNT, BOSS, DEV, MASTER, OPERATORS};

/// The member whose namespace is `fleet-member-east`, by the bare name of its identity.
const EAST: Who = Who::new("east-access", &[]);
/// The one of `fleet-member-west`.
const WEST: Who = Who::new("west", &[]);
/// Of a group whose name is the identity.
const WESTERN: Who = Who::new("somebody", &["west"]);
/// Of a member too, as most are. Guard rails trust it; what keeps it out of others' namespaces is that it has no right there,
/// which here everybody has.
const ANOTHER: Who = Who::new(
    "system:serviceaccount:connect:west-access",
    &["system:serviceaccounts", "system:serviceaccounts:connect"],
);
const KEEPER: Who = Who::new("keeper", &["keepers"]);

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

fn core(namespace: &str, plural: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{plural}")
}

fn internal(version: &str, member: &str) -> String {
    format!(
        "/apis/cluster.kubernetes-fleet.io/{version}/namespaces/fleet-member-{member}/internalmemberclusters/{member}"
    )
}

fn works(version: &str, namespace: &str) -> String {
    format!("/apis/placement.kubernetes-fleet.io/{version}/namespaces/{namespace}/works")
}

pub(crate) fn rows() -> Vec<Row> {
    let imc = "cluster.kubernetes-fleet.io/v1beta1, Kind=InternalMemberCluster/";
    let status = json!({ "status": { "conditions": [] } });
    let work = |version: &str| {
        let version = format!("placement.kubernetes-fleet.io/{version}");
        json!({ "apiVersion": version, "kind": "Work", "metadata": { "name": "w" }, "spec": {} })
    };
    let status_of = |member: &str| format!("{}/status", internal("v1beta1", member));
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let role = json!({ "metadata": { "name": "r" }, "rules": [] });
    let event = json!({
        "metadata": { "name": "e" }, "involvedObject": { "kind": "Pod", "namespace": "kube-system", "name": "p" },
    });
    let accounts =
        "writing service accounts in reserved namespaces or requesting tokens from such service accounts is disallowed";
    let mut rows = vec![
        DEV.creates(&core("kube-system", "secrets"), named("s"))
            .refused("/v1, Kind=Secret/", "kube-system/s"),
        DEV.creates(&core("fleet-system", "secrets"), named("s"))
            .refused("/v1, Kind=Secret/", "fleet-system/s"),
        DEV.creates(&core("fleet-member-old", "secrets"), named("s"))
            .refused("/v1, Kind=Secret/", "fleet-member-old/s"),
        DEV.creates(&core("team", "configmaps"), named("c"))
            .refused("/v1, Kind=ConfigMap/", "team/c"),
        DEV.creates(&core("default", "secrets"), named("s")),
        DEV.merges(
            &format!("{}/settings", core("kube-public", "configmaps")),
            json!({ "data": { "a": "b" } }),
        )
        .refused("/v1, Kind=ConfigMap/", "kube-public/settings"),
        DEV.creates(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/fleet-member-east/roles",
            role,
        )
        .refused("rbac.authorization.k8s.io/v1, Kind=Role/", "fleet-member-east/r"),
        DEV.creates(
            &format!("{}/east/token", core("fleet-system", "serviceaccounts")),
            json!({ "spec": {} }),
        )
        .refused("authentication.k8s.io/v1, Kind=TokenRequest/token", "fleet-system/east"),
        // Any kind may be created that is not listed; deleted it may not be.
        DEV.deletes("/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-system/resourceoverrides/stray")
            .refused(
                "placement.kubernetes-fleet.io/v1beta1, Kind=ResourceOverride/",
                "fleet-system/stray",
            ),
        // Never in the way of those who must be elected, or have something to say.
        DEV.creates(lease, json!({ "metadata": { "name": "l" } })),
        DEV.deletes(&format!("{lease}/held")),
        DEV.creates(&core("kube-system", "events"), event),
        DEV.deletes(&format!("{}/said", core("kube-system", "events"))),
        // Members.
        DEV.merges(&status_of("east"), status.clone())
            .refused(&format!("{imc}status"), "fleet-member-east/east"),
        WEST.merges(&status_of("east"), status.clone())
            .refused(&format!("{imc}status"), "fleet-member-east/east"),
        EAST.merges(&status_of("east"), status.clone()),
        WEST.merges(&status_of("west"), status.clone()),
        WESTERN.merges(&status_of("west"), status.clone()),
        EAST.merges(&status_of("west"), status.clone())
            .refused(&format!("{imc}status"), "fleet-member-west/west"),
        DEV.merges(&status_of("old"), status.clone()),
        DEV.deletes(&internal("v1beta1", "east"))
            .refused(imc, "fleet-member-east/east"),
        DEV.merges(&internal("v1", "east"), json!({ "spec": { "state": "Leave" } }))
            .refused(
                "cluster.kubernetes-fleet.io/v1, Kind=InternalMemberCluster/",
                "fleet-member-east/east",
            ),
        DEV.creates(&works("v1beta1", "fleet-member-west"), work("v1beta1"))
            .refused(
                "placement.kubernetes-fleet.io/v1beta1, Kind=Work/",
                "fleet-member-west/w",
            ),
        DEV.creates(&works("v1", "fleet-member-west"), work("v1"))
            .refused("placement.kubernetes-fleet.io/v1, Kind=Work/", "fleet-member-west/w"),
        WEST.creates(&works("v1beta1", "fleet-member-west"), work("v1beta1")),
        // Its own conversation, and nothing else.
        WEST.creates(&core("fleet-member-west", "secrets"), named("s"))
            .refused("/v1, Kind=Secret/", "fleet-member-west/s"),
        DEV.creates(&works("v1beta1", "fleet-system"), work("v1beta1"))
            .refused("placement.kubernetes-fleet.io/v1beta1, Kind=Work/", "fleet-system/w"),
        DEV.creates(&works("v1beta1", "team"), work("v1beta1")),
        DEV.creates(&works("v1beta1", "default"), work("v1beta1")),
        // KubeFleet's second generated policy, with a configuration of its own.
        DEV.creates(&core("locked-1", "serviceaccounts"), named("a"))
            .says(accounts),
        DEV.deletes(&format!("{}/default", core("locked-1", "serviceaccounts")))
            .says(accounts),
        DEV.creates(
            &format!("{}/default/token", core("locked-1", "serviceaccounts")),
            json!({ "spec": {} }),
        )
        .says(accounts),
        DEV.creates(&core("tools", "serviceaccounts"), named("a")),
        BOSS.creates(&core("locked-1", "serviceaccounts"), named("a")),
        KEEPER.creates(&core("locked-1", "serviceaccounts"), named("a")),
        ACCOUNT.creates(&core("locked-1", "serviceaccounts"), named("a")),
        MASTER.creates(&core("locked-1", "serviceaccounts"), named("a")),
    ];
    for who in OPERATORS.into_iter().chain([ANOTHER]) {
        rows.push(who.creates(&core("kube-system", "secrets"), named("s")));
        rows.push(who.merges(&status_of("east"), status.clone()));
        rows.push(who.creates(&works("v1beta1", "fleet-member-east"), work("v1beta1")));
    }
    rows
}
