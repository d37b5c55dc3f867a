//! One watch per kind for the whole process.

pub(crate) mod cluster_profile;
pub(crate) mod evictions;
pub(crate) mod family;
pub(crate) mod overrides;
pub(crate) mod runs;
pub(crate) mod user;
pub(crate) mod works;

use fleet_api::{
    cluster::{InternalMemberCluster, MemberCluster},
    guard::Guarded,
    kind::Kind,
    labels,
    names::ClusterName,
};
use fleet_core::session::identity::{self, Name};
use fleet_runtime::{
    Key,
    cache::{self, Builder, Era, Index, Selection, Store},
    dump::Dump,
    health::Health,
    shutdown::Tasks,
};
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{Role, RoleBinding},
};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use self::cluster_profile::ClusterProfile;

/// What the agent knows of the hub. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Caches {
    /// Every MemberCluster.
    pub(crate) members: Store<MemberCluster>,
    /// The same by who they are.
    pub(crate) members_by_identity: Index<MemberCluster, Name>,
    /// Every InternalMemberCluster.
    pub(crate) internals: Store<InternalMemberCluster>,
    /// Namespaces with the fleet's label.
    pub(crate) namespaces: Store<Namespace>,
    /// Roles with the fleet's label.
    pub(crate) roles: Store<Role>,
    /// RoleBindings with the fleet's label.
    pub(crate) role_bindings: Store<RoleBinding>,
    /// ClusterProfiles in the agent's namespace; none if they are not exported.
    pub(crate) profiles: Option<Store<ClusterProfile>>,
}

impl Caches {
    /// Starts the watches.
    pub(crate) fn start(client: &Client, era: &Era, profiles_in: Option<&str>, tasks: &mut Tasks) -> Self {
        let ours = || Selection {
            labels: Some(format!("{}={}", labels::IS_FLEET_RESOURCE, labels::TRUE)),
            ..Selection::all(era)
        };
        let (members, members_by_identity) = members();
        Self {
            members: watched(members, client, era, tasks),
            members_by_identity,
            internals: watched(Store::builder("internalmemberclusters"), client, era, tasks),
            namespaces: namespaces(client, ours(), tasks),
            roles: plain(Api::all(client.clone()), "roles", ours(), tasks),
            role_bindings: plain(Api::all(client.clone()), "rolebindings", ours(), tasks),
            profiles: profiles_in.map(|namespace| {
                plain(
                    Api::namespaced(client.clone(), namespace),
                    "clusterprofiles",
                    Selection::all(era),
                    tasks,
                )
            }),
        }
    }

    /// Lets people who debug see the stores.
    pub(crate) fn show_in(&self, dump: &Dump) {
        self.members.show_in(dump);
        self.internals.show_in(dump);
        self.namespaces.show_in(dump);
        self.roles.show_in(dump);
        self.role_bindings.show_in(dump);
        if let Some(profiles) = &self.profiles {
            profiles.show_in(dump);
        }
    }

    /// Waits until every store has been filled once; `health` says which is not.
    pub(crate) async fn synced(&self, health: &Health) {
        let check = health.check("informer-cache");
        let next = |name: &str| check.not_ready(format!("{name} are not listed yet"));
        next("memberclusters");
        self.members.synced().await;
        next("internalmemberclusters");
        self.internals.synced().await;
        next("namespaces");
        self.namespaces.synced().await;
        next("roles");
        self.roles.synced().await;
        next("rolebindings");
        self.role_bindings.synced().await;
        if let Some(profiles) = &self.profiles {
            next("clusterprofiles");
            profiles.synced().await;
        }
        check.ready();
    }
}

/// A store of MemberClusters to be, with its index.
pub(crate) fn members() -> (Builder<MemberCluster>, Index<MemberCluster, Name>) {
    let mut builder = Store::<MemberCluster>::builder("memberclusters");
    let by_identity = builder.index(|member| {
        let cluster = ClusterName::new(member.name_any()).ok();
        let name = cluster.and_then(|cluster| identity::name_of(&member.spec.identity, &cluster));
        name.into_iter().collect()
    });
    (builder, by_identity)
}

/// A kind that users can write to: one odd object must not stop the watch.
fn watched<K: Kind>(builder: Builder<K>, client: &Client, era: &Era, tasks: &mut Tasks) -> Store<K> {
    let store = builder.build();
    let api = Api::<Guarded<K>>::all(client.clone());
    let decode = |guarded: Guarded<K>| guarded.0.map_err(|odd| odd.error);
    tasks.spawn_endless(store.name(), store.clone().watch(api, Selection::all(era), decode));
    store
}

/// A namespace stays until it is empty, which its spec says and no finalizer in its metadata.
fn namespaces(client: &Client, selection: Selection, tasks: &mut Tasks) -> Store<Namespace> {
    let held = |namespace: &Namespace| {
        let spec = namespace.spec.as_ref();
        spec.is_some_and(|spec| spec.finalizers.as_ref().is_some_and(|held| !held.is_empty()))
    };
    let store = Store::<Namespace>::builder("namespaces").lingers(held).build();
    let watch = store.clone().watch(Api::all(client.clone()), selection, cache::plain);
    tasks.spawn_endless("namespaces", watch);
    store
}

fn plain<K>(api: Api<K>, name: &'static str, selection: Selection, tasks: &mut Tasks) -> Store<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let store = Store::<K>::new(name);
    tasks.spawn_endless(name, store.clone().watch(api, selection, cache::plain));
    store
}

/// The key of a member's namespaced object.
pub(crate) fn in_namespace(namespace: &str, name: &str) -> Key {
    Key::namespaced(namespace.to_owned(), name.to_owned())
}

/// The key of a placement's snapshot or binding with this name.
pub(crate) fn beside(placement: &Key, name: &str) -> Key {
    match placement.namespace() {
        Some(namespace) => Key::namespaced(namespace, name),
        None => Key::cluster(name),
    }
}
