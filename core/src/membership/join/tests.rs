use super::super::fixtures::{at, member};
use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

fn settings() -> JoinSettings {
    JoinSettings {
        channel_endpoint: Some("hub:443".into()),
        channel_ca: Some("Q0E=".into()),
        ..JoinSettings::default()
    }
}

/// A hub on which plans are carried out.
#[derive(Default)]
struct Hub {
    namespace: Option<Namespace>,
    role: Option<Role>,
    role_binding: Option<RoleBinding>,
    imc: Option<InternalMemberCluster>,
}

impl Hub {
    fn plan(&self, mc: &MemberCluster, settings: &JoinSettings) -> Result<Vec<Step>, Blocked> {
        let world = World {
            mc,
            namespace: self.namespace.as_ref(),
            role: self.role.as_ref(),
            role_binding: self.role_binding.as_ref(),
            imc: self.imc.as_ref(),
        };
        plan(&world, settings)
    }

    fn carry_out(&mut self, mc: &mut MemberCluster, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::PatchMember {
                    finalizers,
                    member_name_label,
                } => {
                    if finalizers.is_some() {
                        mc.metadata.finalizers = finalizers;
                    }
                    if let Some(name) = member_name_label {
                        mc.metadata
                            .labels
                            .get_or_insert_default()
                            .insert(labels::MEMBER_NAME.into(), name);
                    }
                }
                Step::CreateNamespace(namespace) => self.namespace = Some(*namespace),
                Step::LabelNamespace { .. } => {
                    let namespace = self.namespace.as_mut().expect("exists");
                    let labels = namespace.metadata.labels.get_or_insert_default();
                    labels.insert(labels::IS_FLEET_RESOURCE.into(), "true".into());
                }
                Step::IdentifyNamespace { identity, .. } => {
                    let namespace = self.namespace.as_mut().expect("exists");
                    let annotations = namespace.metadata.annotations.get_or_insert_default();
                    annotations.insert(MEMBER_IDENTITY.into(), identity);
                }
                Step::CreateRole(role) | Step::UpdateRole(role) => self.role = Some(*role),
                Step::CreateRoleBinding(binding)
                | Step::UpdateRoleBinding(binding)
                | Step::ReplaceRoleBinding(binding) => self.role_binding = Some(*binding),
                Step::CreateInternal(imc) => self.imc = Some(*imc),
                Step::PatchInternal { spec, annotations } => {
                    let imc = self.imc.as_mut().expect("exists");
                    if let Some(spec) = spec {
                        imc.spec = spec;
                    }
                    imc.metadata.annotations.get_or_insert_default().extend(annotations);
                }
            }
        }
    }
}

impl Hub {
    /// Who the guard rails take for the member.
    fn identity(&self) -> Option<&str> {
        let annotations = self.namespace.as_ref()?.metadata.annotations.as_ref()?;
        annotations.get(MEMBER_IDENTITY).map(String::as_str)
    }
}

fn joined(settings: &JoinSettings) -> (Hub, MemberCluster) {
    let (mut hub, mut mc) = (Hub::default(), member("c1"));
    let steps = hub.plan(&mc, settings).expect("no obstacle");
    hub.carry_out(&mut mc, steps);
    (hub, mc)
}

#[test]
fn a_new_member_gets_everything_once() {
    let (hub, mut mc) = (Hub::default(), member("c1"));
    mc.metadata.labels = Some([("fleet.azure.com/location".into(), "eastus".into())].into());
    let steps = hub.plan(&mc, &settings()).expect("no obstacle");
    let events: Vec<_> = steps.iter().filter_map(Step::event).collect();
    assert_eq!(
        events,
        [
            Event::NamespaceCreated,
            Event::RoleCreated,
            Event::RoleBindingCreated,
            Event::InternalMemberClusterCreated
        ]
    );
    assert!(steps.is_sorted_by_key(Step::stage));
    let (hub, mc) = joined(&settings());
    assert_eq!(
        hub.plan(&mc, &settings()),
        Ok(vec![]),
        "the second look finds nothing to do"
    );
    let namespace = hub.namespace.expect("created");
    assert_eq!(namespace.metadata.owner_references, Some(vec![owner(&mc)]));
    let imc = hub.imc.expect("created");
    assert_eq!(imc.metadata.namespace.as_deref(), Some("fleet-member-c1"));
    assert_eq!(imc.metadata.annotations.expect("channel")[CHANNEL_ENDPOINT], "hub:443");
}

#[test]
fn the_label_is_restored_and_finalizers_are_added_beside_others() {
    let (hub, mut mc) = joined(&settings());
    mc.metadata.labels = Some([(labels::MEMBER_NAME.into(), "other".into())].into());
    mc.metadata.finalizers = Some(vec!["user/own".into()]);
    let both = JoinSettings {
        export_profiles: true,
        ..settings()
    };
    assert_eq!(
        hub.plan(&mc, &both).expect("no obstacle"),
        [Step::PatchMember {
            finalizers: Some(vec![
                "user/own".into(),
                "kubernetes-fleet.io/membercluster-finalizer".into(),
                "kubernetes-fleet.io/cluster-profile-cleanup".into(),
            ]),
            member_name_label: Some("c1".into()),
        }]
    );
}

#[test]
fn a_namespace_of_somebody_else_is_not_adopted() {
    let (mut hub, mc) = joined(&settings());
    let mine = hub.namespace.clone();
    hub.namespace = Some(Namespace::default());
    let blocked = hub.plan(&mc, &settings()).expect_err("foreign");
    assert!(
        blocked
            .to_string()
            .starts_with("namespace fleet-member-c1 exists and belongs to something else")
    );
    hub.namespace = mine;
    hub.namespace.as_mut().expect("there").metadata.labels = None;
    let steps = hub.plan(&mc, &settings()).expect("ours by owner");
    assert_eq!(
        steps.iter().filter_map(Step::event).collect::<Vec<_>>(),
        [Event::NamespacePatched]
    );
}

#[test]
fn a_terminating_namespace_is_waited_for_and_its_works_let_go() {
    let (mut hub, mc) = joined(&settings());
    hub.namespace.as_mut().expect("there").metadata.deletion_timestamp = Some(Time(at(1)));
    let blocked = hub.plan(&mc, &settings()).expect_err("terminating");
    assert!(blocked.strips_works());
    assert_eq!(
        blocked.to_string(),
        "namespace fleet-member-c1 is being deleted; it is created again once it is gone"
    );
}

#[test]
fn names_and_identities_that_can_never_work_are_refused() {
    for name in ["a.b", &"a".repeat(51)] {
        assert!(
            matches!(Hub::default().plan(&member(name), &settings()), Err(Blocked::Name(_))),
            "{name}"
        );
    }
    let mut robot = member("c1");
    robot.spec.identity.kind = "Robot".into();
    let text = Hub::default()
        .plan(&robot, &settings())
        .expect_err("no such kind")
        .to_string();
    assert_eq!(
        text,
        "spec.identity.kind is \"Robot\", but only User, Group and ServiceAccount exist"
    );
}

#[test]
fn members_only_read_unless_networking_agents_are_expected() {
    let cluster = ClusterName::new("c1").expect("valid");
    let verbs = |s: &JoinSettings| rules(&cluster, s).into_iter().flat_map(|r| r.verbs).collect::<Vec<_>>();
    assert!(
        verbs(&settings())
            .iter()
            .all(|v| ["get", "list", "watch"].contains(&v.as_str()))
    );
    let networking = JoinSettings {
        networking: true,
        ..settings()
    };
    assert_eq!(rules(&cluster, &networking).len(), 5);
    let (hub, mc) = joined(&settings());
    let steps = hub.plan(&mc, &networking).expect("no obstacle");
    assert_eq!(
        steps.iter().filter_map(Step::event).collect::<Vec<_>>(),
        [Event::RoleUpdated]
    );
}

#[test]
fn the_identity_follows_the_member_cluster() {
    let (mut hub, mut mc) = joined(&settings());
    let stored = hub.role_binding.clone().expect("there").subjects.expect("one")[0].clone();
    assert_eq!(
        stored.api_group.as_deref(),
        Some("rbac.authorization.k8s.io"),
        "as the API server fills it in"
    );
    mc.spec.identity.kind = "ServiceAccount".into();
    let steps = hub.plan(&mc, &settings()).expect("no obstacle");
    assert_eq!(
        steps.iter().filter_map(Step::event).collect::<Vec<_>>(),
        [Event::RoleBindingUpdated]
    );
    hub.carry_out(&mut mc, steps);
    let stored = hub.role_binding.clone().expect("there").subjects.expect("one")[0].clone();
    assert_eq!(stored.namespace.as_deref(), Some("fleet-member-c1"));
    assert_eq!(hub.identity(), Some("system:serviceaccount:fleet-member-c1:u"));
    assert_eq!(hub.plan(&mc, &settings()), Ok(vec![]));
    hub.role_binding.as_mut().expect("there").role_ref.name = "other".into();
    let steps = hub.plan(&mc, &settings()).expect("no obstacle");
    assert!(
        matches!(steps.as_slice(), [Step::ReplaceRoleBinding(_)]),
        "a roleRef cannot be changed"
    );
}

/// Namespaces of older releases have none, and then nobody is kept out.
#[test]
fn a_namespace_says_whose_it_is_from_the_first_write_on() {
    let (mut hub, mut mc) = joined(&settings());
    assert_eq!(hub.identity(), Some("u"));
    hub.namespace.as_mut().expect("there").metadata.annotations = None;
    let steps = hub.plan(&mc, &settings()).expect("no obstacle");
    assert!(
        matches!(steps.as_slice(), [Step::IdentifyNamespace { .. }]) && steps[0].event().is_none(),
        "{steps:?}"
    );
    hub.carry_out(&mut mc, steps);
    assert_eq!(hub.identity(), Some("u"));
    assert_eq!(hub.plan(&mc, &settings()), Ok(vec![]));
}

#[test]
fn a_new_period_or_endpoint_reaches_the_internal_member_cluster() {
    let (hub, mut mc) = joined(&settings());
    mc.spec.heartbeat_period_seconds = 15;
    let moved = JoinSettings {
        channel_endpoint: Some("hub:8443".into()),
        ..settings()
    };
    let steps = hub.plan(&mc, &moved).expect("no obstacle");
    let [
        Step::PatchInternal {
            spec: Some(spec),
            annotations,
        },
    ] = steps.as_slice()
    else {
        panic!("{steps:?}")
    };
    assert_eq!(spec.heartbeat_period_seconds, 15);
    assert_eq!(annotations.len(), 1);
    let steps = hub.plan(&member("c1"), &moved).expect("no obstacle");
    assert!(
        steps.iter().find_map(Step::event).is_none(),
        "annotations alone are no news"
    );
}
