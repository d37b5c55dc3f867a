//! Who asks. All of them may do everything, as far as RBAC is concerned.

use super::asking::Who;

/// Everybody's rights on the hub of these tests.
pub(crate) const EVERYBODY: &str = r"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: everybody }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: Group, name: 'system:authenticated' }]
";

pub(crate) const DEV: Who = Who::new("dev", &["developers"]);
/// In whitelistedUsers.
pub(crate) const BOSS: Who = Who::new("boss", &[]);
/// In whitelistedGroups.
pub(crate) const HEAD: Who = Who::new("head", &["fleet-admins"]);
pub(crate) const MASTER: Who = Who::new("root", &["system:masters"]);
pub(crate) const KUBEADM: Who = Who::new("kubernetes-admin", &["kubeadm:cluster-admins"]);
pub(crate) const ACCOUNT: Who = Who::new(
    "system:serviceaccount:tools:robot",
    &["system:serviceaccounts", "system:serviceaccounts:tools"],
);
/// The hub agent of the chart.
pub(crate) const AGENT: Who = Who::new(
    "system:serviceaccount:fleet-system:hub-agent-sa",
    &["system:serviceaccounts", "system:serviceaccounts:fleet-system"],
);
pub(crate) const NODE: Who = Who::new("system:node:a", &["system:nodes"]);
pub(crate) const SCHEDULER: Who = Who::new("system:kube-scheduler", &[]);
pub(crate) const CONTROLLERS: Who = Who::new("system:kube-controller-manager", &[]);
pub(crate) const CLOUD: Who = Who::new("system:cloud-controller-manager", &[]);
pub(crate) const SUPPORT: Who = Who::new("aks-support", &[]);
/// With the one that the API server adds, eleven groups.
pub(crate) const JOINER: Who = Who::new("joiner", &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);

/// Whom guard rails let change what programs change.
pub(crate) const OPERATORS: [Who; 11] = [
    BOSS,
    HEAD,
    MASTER,
    KUBEADM,
    ACCOUNT,
    AGENT,
    NODE,
    SCHEDULER,
    CONTROLLERS,
    CLOUD,
    SUPPORT,
];
/// Whom they let change everything.
pub(crate) const ADMINS: [Who; 5] = [BOSS, HEAD, MASTER, KUBEADM, AGENT];
