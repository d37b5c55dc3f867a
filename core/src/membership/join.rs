//! What the hub keeps for a living MemberCluster: namespace, Role, RoleBinding and InternalMemberCluster.
//!
//! The plan lists exactly the writes that are missing, by stage: those of one stage may run in parallel, and each stage
//! needs the one before. Doing a plan twice, or half of it, is harmless.

use std::collections::BTreeMap;

use fleet_api::annotations::{CHANNEL_CA, CHANNEL_ENDPOINT, MEMBER_IDENTITY};
use fleet_api::cluster::{ClusterState, InternalMemberCluster, InternalMemberClusterSpec, MemberCluster};
use fleet_api::events::MemberClusterEvent as Event;
use fleet_api::names::{ClusterName, ClusterNameError};
use fleet_api::{finalizers, labels};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

const RBAC: &str = "rbac.authorization.k8s.io";

/// What exists, as far as the caches know.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The MemberCluster.
    pub mc: &'a MemberCluster,
    /// The member namespace.
    pub namespace: Option<&'a Namespace>,
    /// The member's Role.
    pub role: Option<&'a Role>,
    /// The member's RoleBinding.
    pub role_binding: Option<&'a RoleBinding>,
    /// The InternalMemberCluster.
    pub imc: Option<&'a InternalMemberCluster>,
}

/// What the plan depends on besides.
#[derive(Debug, Clone, Default)]
pub struct JoinSettings {
    /// Networking agents share the member's identity and write to its namespace.
    pub networking: bool,
    /// ClusterProfiles are exported, so that every MemberCluster needs their finalizer too.
    pub export_profiles: bool,
    /// Where members find the channel.
    pub channel_endpoint: Option<String>,
    /// Its CA, base64 of PEM.
    pub channel_ca: Option<String>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Merge into the MemberCluster's metadata; other labels and finalizers stay.
    PatchMember {
        /// The full new list, if one is missing.
        finalizers: Option<Vec<String>>,
        /// The name label, if it is missing or wrong.
        member_name_label: Option<String>,
    },
    /// Create the namespace.
    CreateNamespace(Box<Namespace>),
    /// Add the fleet label to it.
    LabelNamespace {
        /// Its name.
        name: String,
    },
    /// Write to it who the member is.
    IdentifyNamespace {
        /// Its name.
        name: String,
        /// See [`MEMBER_IDENTITY`].
        identity: String,
    },
    /// Create the Role.
    CreateRole(Box<Role>),
    /// Replace the Role's rules.
    UpdateRole(Box<Role>),
    /// Create the RoleBinding.
    CreateRoleBinding(Box<RoleBinding>),
    /// Replace its subjects.
    UpdateRoleBinding(Box<RoleBinding>),
    /// Delete and create it: a roleRef cannot be changed.
    ReplaceRoleBinding(Box<RoleBinding>),
    /// Create the InternalMemberCluster.
    CreateInternal(Box<InternalMemberCluster>),
    /// Merge into the InternalMemberCluster.
    PatchInternal {
        /// The new spec, if it differs.
        spec: Option<InternalMemberClusterSpec>,
        /// Annotations that are missing or wrong.
        annotations: BTreeMap<String, String>,
    },
}

impl Step {
    /// The last stage.
    pub const LAST_STAGE: u8 = 3;

    /// When: smaller ones first. A binding may only name a Role that exists, since the agent's right to bind it follows
    /// from what the Role grants.
    pub fn stage(&self) -> u8 {
        match self {
            Self::PatchMember { .. }
            | Self::CreateNamespace(_)
            | Self::LabelNamespace { .. }
            | Self::IdentifyNamespace { .. } => 1,
            Self::CreateRole(_) | Self::UpdateRole(_) => 2,
            _ => Self::LAST_STAGE,
        }
    }

    /// What to tell people once it is done.
    pub fn event(&self) -> Option<Event> {
        match self {
            Self::PatchMember { .. } | Self::IdentifyNamespace { .. } | Self::PatchInternal { spec: None, .. } => None,
            Self::CreateNamespace(_) => Some(Event::NamespaceCreated),
            Self::LabelNamespace { .. } => Some(Event::NamespacePatched),
            Self::CreateRole(_) => Some(Event::RoleCreated),
            Self::UpdateRole(_) => Some(Event::RoleUpdated),
            Self::CreateRoleBinding(_) => Some(Event::RoleBindingCreated),
            Self::UpdateRoleBinding(_) | Self::ReplaceRoleBinding(_) => Some(Event::RoleBindingUpdated),
            Self::CreateInternal(_) => Some(Event::InternalMemberClusterCreated),
            Self::PatchInternal { spec: Some(_), .. } => Some(Event::InternalMemberClusterUpdated),
        }
    }
}

/// Why a cluster cannot join. The text goes into `ReadyToJoin`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Blocked {
    /// Its namespace could not exist.
    #[error(transparent)]
    Name(#[from] ClusterNameError),
    /// The namespace is somebody else's.
    #[error(
        "namespace {0} exists and belongs to something else: delete it, or label it \
         kubernetes-fleet.io/is-fleet-resource=true to hand it over"
    )]
    ForeignNamespace(String),
    /// The namespace is going; once it is gone everything is created again. Works in it lose their cleanup finalizer
    /// meanwhile, or it would never go.
    #[error("namespace {0} is being deleted; it is created again once it is gone")]
    NamespaceTerminating(String),
    /// RBAC knows no such subject.
    #[error("spec.identity.kind is {0:?}, but only User, Group and ServiceAccount exist")]
    IdentityKind(String),
}

impl Blocked {
    /// Whether Works in the namespace lose their cleanup finalizer now.
    pub fn strips_works(&self) -> bool {
        matches!(self, Self::NamespaceTerminating(_))
    }
}

/// The writes that are missing, in order, or what is in the way.
pub fn plan(world: &World<'_>, settings: &JoinSettings) -> Result<Vec<Step>, Blocked> {
    let mc = world.mc;
    let cluster = ClusterName::new(mc.metadata.name.clone().unwrap_or_default())?;
    let subject = subject(&mc.spec.identity, &cluster)?;
    let mut steps: Vec<Step> = patch_member(mc, &cluster, settings).into_iter().collect();
    let owner = owner(mc);
    let owned_by_member = |name: String, namespace: Option<String>| ObjectMeta {
        name: Some(name),
        namespace,
        owner_references: Some(vec![owner.clone()]),
        ..ObjectMeta::default()
    };
    let inside = |name: String| owned_by_member(name, Some(cluster.namespace()));
    let fleet_label = || Some([(labels::IS_FLEET_RESOURCE.to_owned(), labels::TRUE.to_owned())].into());
    // Labelled, so that the agent watches these and not every Role of the hub.
    let labelled_inside = |name: String| ObjectMeta {
        labels: fleet_label(),
        ..inside(name)
    };

    match world.namespace {
        None => steps.push(Step::CreateNamespace(Box::new(Namespace {
            metadata: ObjectMeta {
                labels: fleet_label(),
                annotations: Some([(MEMBER_IDENTITY.to_owned(), user(&subject))].into()),
                ..owned_by_member(cluster.namespace(), None)
            },
            ..Namespace::default()
        }))),
        Some(found) => steps.extend(keep_namespace(found, mc, &cluster, user(&subject))?),
    }

    let rules = rules(&cluster, settings);
    let role = || Role {
        metadata: labelled_inside(cluster.role()),
        rules: Some(rules.clone()),
    };
    match world.role {
        None => steps.push(Step::CreateRole(Box::new(role()))),
        Some(found) if found.rules.as_ref() != Some(&rules) => steps.push(Step::UpdateRole(Box::new(role()))),
        Some(_) => {}
    }

    let role_ref = RoleRef {
        api_group: RBAC.into(),
        kind: "Role".into(),
        name: cluster.role(),
    };
    let binding = || {
        Box::new(RoleBinding {
            metadata: labelled_inside(cluster.role_binding()),
            role_ref: role_ref.clone(),
            subjects: Some(vec![subject.clone()]),
        })
    };
    match world.role_binding {
        None => steps.push(Step::CreateRoleBinding(binding())),
        Some(found) if found.role_ref != role_ref => steps.push(Step::ReplaceRoleBinding(binding())),
        Some(found) if found.subjects.as_deref() != Some(std::slice::from_ref(&subject)) => {
            steps.push(Step::UpdateRoleBinding(binding()));
        }
        Some(_) => {}
    }

    let spec = InternalMemberClusterSpec {
        state: ClusterState::Join,
        heartbeat_period_seconds: mc.spec.heartbeat_period_seconds,
    };
    let channel = channel_annotations(settings);
    match world.imc {
        None => steps.push(Step::CreateInternal(Box::new(InternalMemberCluster {
            metadata: ObjectMeta {
                annotations: Some(channel).filter(|a| !a.is_empty()),
                ..inside(cluster.as_str().to_owned())
            },
            spec,
            status: None,
        }))),
        Some(found) => {
            let there = found.metadata.annotations.clone().unwrap_or_default();
            let annotations: BTreeMap<_, _> = channel.into_iter().filter(|(k, v)| there.get(k) != Some(v)).collect();
            let spec = (found.spec != spec).then_some(spec);
            if spec.is_some() || !annotations.is_empty() {
                steps.push(Step::PatchInternal { spec, annotations });
            }
        }
    }
    Ok(steps)
}

/// What an existing namespace needs. Adopting somebody else's would mean deleting it one day, with whatever is in it.
fn keep_namespace(
    found: &Namespace,
    mc: &MemberCluster,
    cluster: &ClusterName,
    identity: String,
) -> Result<Option<Step>, Blocked> {
    let metadata = &found.metadata;
    if metadata.deletion_timestamp.is_some() {
        return Err(Blocked::NamespaceTerminating(cluster.namespace()));
    }
    let label = metadata.labels.as_ref().and_then(|l| l.get(labels::IS_FLEET_RESOURCE));
    if label.is_some_and(|value| value == labels::TRUE) {
        let written = metadata.annotations.as_ref().and_then(|a| a.get(MEMBER_IDENTITY));
        return Ok((written != Some(&identity)).then(|| Step::IdentifyNamespace {
            name: cluster.namespace(),
            identity,
        }));
    }
    let is_owner = |o: &OwnerReference| o.kind == "MemberCluster" && Some(&o.uid) == mc.metadata.uid.as_ref();
    if metadata.owner_references.iter().flatten().any(is_owner) {
        return Ok(Some(Step::LabelNamespace {
            name: cluster.namespace(),
        }));
    }
    Err(Blocked::ForeignNamespace(cluster.namespace()))
}

fn patch_member(mc: &MemberCluster, cluster: &ClusterName, settings: &JoinSettings) -> Option<Step> {
    let mut list = mc.metadata.finalizers.clone().unwrap_or_default();
    let before = list.len();
    let mut wanted = vec![finalizers::MEMBER_CLUSTER];
    if settings.export_profiles {
        // Both in one write. The export then never has to touch the object while it lives.
        wanted.push(finalizers::CLUSTER_PROFILE);
    }
    for finalizer in wanted {
        if !list.iter().any(|f| f == finalizer) {
            list.push(finalizer.to_owned());
        }
    }
    let label = mc.metadata.labels.as_ref().and_then(|l| l.get(labels::MEMBER_NAME));
    let finalizers = (list.len() > before).then_some(list);
    let member_name_label = (label.map(String::as_str) != Some(cluster.as_str())).then(|| cluster.as_str().to_owned());
    (finalizers.is_some() || member_name_label.is_some()).then_some(Step::PatchMember {
        finalizers,
        member_name_label,
    })
}

/// The owner reference on everything that the hub keeps for a member.
pub fn owner(mc: &MemberCluster) -> OwnerReference {
    OwnerReference {
        api_version: "cluster.kubernetes-fleet.io/v1beta1".into(),
        kind: "MemberCluster".into(),
        name: mc.metadata.name.clone().unwrap_or_default(),
        uid: mc.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

/// What a member may do on the hub: read its own conversation and its own Works, and see whether its namespace lives.
pub fn rules(cluster: &ClusterName, settings: &JoinSettings) -> Vec<PolicyRule> {
    let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let rule = |group: &str, resource: &str, names: Option<Vec<String>>, verbs: &[&str]| PolicyRule {
        api_groups: Some(strings(&[group])),
        resources: Some(strings(&[resource])),
        resource_names: names,
        verbs: strings(verbs),
        non_resource_urls: None,
    };
    let read = ["get", "list", "watch"];
    let mut rules = vec![
        rule("cluster.kubernetes-fleet.io", "internalmemberclusters", None, &read),
        rule("placement.kubernetes-fleet.io", "works", None, &read),
        rule("", "namespaces", Some(vec![cluster.namespace()]), &["get"]),
    ];
    if settings.networking {
        // Separate programs under the same identity, which write their own entry directly.
        rules.push(rule(
            "cluster.kubernetes-fleet.io",
            "internalmemberclusters/status",
            None,
            &["get", "update", "patch"],
        ));
        rules.push(rule("networking.fleet.azure.com", "*", None, &["*"]));
    }
    rules
}

/// The identity as the API server stores it in a RoleBinding, so that comparing causes no endless update.
pub fn subject(identity: &Subject, cluster: &ClusterName) -> Result<Subject, Blocked> {
    let said = |field: &Option<String>| field.clone().filter(|s| !s.is_empty());
    match identity.kind.as_str() {
        "User" | "Group" => Ok(Subject {
            api_group: Some(said(&identity.api_group).unwrap_or_else(|| RBAC.to_owned())),
            kind: identity.kind.clone(),
            name: identity.name.clone(),
            namespace: None,
        }),
        "ServiceAccount" => Ok(Subject {
            api_group: None,
            kind: identity.kind.clone(),
            name: identity.name.clone(),
            namespace: Some(said(&identity.namespace).unwrap_or_else(|| cluster.namespace())),
        }),
        other => Err(Blocked::IdentityKind(other.to_owned())),
    }
}

/// The subject as the API server names whoever makes a request: by it the guard rails know a member.
fn user(subject: &Subject) -> String {
    match &subject.namespace {
        Some(namespace) => format!("system:serviceaccount:{namespace}:{}", subject.name),
        None => subject.name.clone(),
    }
}

fn channel_annotations(settings: &JoinSettings) -> BTreeMap<String, String> {
    [
        (CHANNEL_ENDPOINT, &settings.channel_endpoint),
        (CHANNEL_CA, &settings.channel_ca),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)))
    .collect()
}

#[cfg(test)]
mod tests;
