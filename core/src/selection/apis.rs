//! Which kinds can be placed: the allowed and the skipped APIs.

use fleet_api::placement::GROUP;

/// One entry of a list; empty parts match everything.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Api {
    group: String,
    version: Option<String>,
    kind: Option<String>,
}

impl Api {
    fn new(group: &str, version: Option<&str>, kind: Option<&str>) -> Self {
        Self {
            group: group.into(),
            version: version.map(Into::into),
            kind: kind.map(Into::into),
        }
    }

    fn matches(&self, group: &str, version: &str, kind: &str) -> bool {
        self.group == group
            && self.version.as_deref().is_none_or(|own| own == version)
            && self.kind.as_deref().is_none_or(|own| own == kind)
    }
}

/// Groups of which nothing is placed.
const SKIPPED_GROUPS: [&str; 5] = [
    "cluster.kubernetes-fleet.io",
    "placement.kubefleet.dev",
    "events.k8s.io",
    "coordination.k8s.io",
    "metrics.k8s.io",
];
/// Kinds of the fleet's own group; its envelopes are not among them.
const SKIPPED_PLACEMENT_KINDS: [&str; 22] = [
    "ClusterResourcePlacement",
    "ResourcePlacement",
    "ClusterResourceBinding",
    "ResourceBinding",
    "ClusterResourceSnapshot",
    "ResourceSnapshot",
    "ClusterSchedulingPolicySnapshot",
    "SchedulingPolicySnapshot",
    "Work",
    "ClusterStagedUpdateRun",
    "ClusterStagedUpdateStrategy",
    "ClusterApprovalRequest",
    "StagedUpdateRun",
    "StagedUpdateStrategy",
    "ApprovalRequest",
    "ClusterResourcePlacementEviction",
    "ClusterResourcePlacementDisruptionBudget",
    "ClusterResourceOverride",
    "ClusterResourceOverrideSnapshot",
    "ResourceOverride",
    "ResourceOverrideSnapshot",
    "ClusterResourcePlacementStatus",
];

/// Which kinds can be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apis {
    allowed: Option<Vec<Api>>,
    skipped: Vec<Api>,
}

/// Why a list of APIs cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    /// A token has too many parts; the list and the token.
    #[error("invalid list of {0} for propagation APIs: failed to parse token: invalid parameter: {1}")]
    Token(&'static str, String),
    /// Both lists are given.
    #[error("--skipped-propagating-apis and --allowed-propagating-apis are mutually exclusive")]
    Both,
}

impl Default for Apis {
    /// Only the built-in list.
    fn default() -> Self {
        Self {
            allowed: None,
            skipped: built_in(),
        }
    }
}

impl Apis {
    /// From the two flags. An allow list replaces the built-in skip list, which a skip list extends.
    pub fn new(skipped: &str, allowed: &str) -> Result<Self, BadList> {
        let allowed = parse("allowed", allowed)?;
        let skipped = parse("skipped", skipped)?;
        match (allowed.is_empty(), skipped.is_empty()) {
            (false, false) => Err(BadList::Both),
            (false, true) => Ok(Self {
                allowed: Some(allowed),
                skipped: Vec::new(),
            }),
            (true, _) => Ok(Self {
                allowed: None,
                skipped: built_in().into_iter().chain(skipped).collect(),
            }),
        }
    }

    /// Whether objects of this kind can be placed.
    pub fn is_enabled(&self, group: &str, version: &str, kind: &str) -> bool {
        let listed = |list: &[Api]| list.iter().any(|api| api.matches(group, version, kind));
        self.allowed.as_deref().map_or_else(|| !listed(&self.skipped), listed)
    }
}

fn built_in() -> Vec<Api> {
    let groups = SKIPPED_GROUPS.iter().map(|group| Api::new(group, None, None));
    // Core Events too: upstream leaves them out of namespaces by accident only.
    let core = ["Pod", "Node", "Event"].map(|kind| Api::new("", Some("v1"), Some(kind)));
    let networking = ["ServiceImport", "TrafficManagerProfile", "TrafficManagerBackend"]
        .map(|kind| Api::new("networking.fleet.azure.com", None, Some(kind)));
    let placement = SKIPPED_PLACEMENT_KINDS
        .iter()
        .map(|kind| Api::new(GROUP, None, Some(kind)));
    groups.chain(core).chain(networking).chain(placement).collect()
}

/// Tokens are separated by `;`: a group, `group/version`, `group/version/Kind[,Kind…]` or, for the core group,
/// `v1[/Kind…]`. Blanks around them do not count, nor do empty ones.
fn parse(list: &'static str, text: &str) -> Result<Vec<Api>, BadList> {
    let mut apis = Vec::new();
    for token in text.split(';').map(str::trim).filter(|token| !token.is_empty()) {
        let parts: Vec<_> = token.split('/').map(str::trim).collect();
        let (group, version, kinds) = match parts.as_slice() {
            [version] if is_version(version) => ("", Some(*version), None),
            [group] => (*group, None, None),
            [version, kinds] if is_version(version) => ("", Some(*version), Some(*kinds)),
            [group, version] => (*group, Some(*version), None),
            [group, version, kinds] => (*group, Some(*version), Some(*kinds)),
            _ => return Err(BadList::Token(list, token.into())),
        };
        match kinds {
            None => apis.push(Api::new(group, version, None)),
            Some(kinds) => {
                let kinds = kinds.split(',').map(str::trim).filter(|kind| !kind.is_empty());
                apis.extend(kinds.map(|kind| Api::new(group, version, Some(kind))));
            }
        }
    }
    Ok(apis)
}

/// Whether it is a version of the core group and not the name of a group.
fn is_version(text: &str) -> bool {
    text.starts_with("v1") && !text.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_skips_what_must_not_travel() {
        let apis = Apis::default();
        for (group, version, kind, enabled) in [
            ("", "v1", "ConfigMap", true),
            ("", "v1", "Pod", false),
            ("", "v1", "Event", false),
            ("events.k8s.io", "v1", "Event", false),
            ("placement.kubernetes-fleet.io", "v1", "Work", false),
            ("placement.kubernetes-fleet.io", "v1beta1", "ResourceEnvelope", true),
            ("placement.kubefleet.dev", "v1", "Anything", false),
            ("networking.fleet.azure.com", "v1", "ServiceExport", true),
            ("networking.fleet.azure.com", "v1", "ServiceImport", false),
        ] {
            assert_eq!(
                apis.is_enabled(group, version, kind),
                enabled,
                "{group}/{version} {kind}"
            );
        }
    }

    #[test]
    fn lists_are_read_by_their_slashes() {
        let skipping = |list: &str| Apis::new(list, "");
        for (list, api, enabled) in [
            ("apps", ("apps", "v1", "Deployment"), false),
            ("apps/v1", ("apps", "v1", "Deployment"), false),
            ("apps/v1", ("apps", "v1beta1", "Deployment"), true),
            ("v1/ConfigMap,Secret", ("", "v1", "Secret"), false),
            ("v1/ConfigMap,Secret", ("", "v1", "Service"), true),
            ("g/v/K1, K2", ("g", "v", "K2"), false),
            (" ; v1/ConfigMap ;", ("", "v1", "ConfigMap"), false),
            ("apps;", ("", "v1", "Secret"), true),
        ] {
            let apis = skipping(list).unwrap();
            assert_eq!(apis.is_enabled(api.0, api.1, api.2), enabled, "{list}");
        }
        assert_eq!(
            skipping("a/b/c/d").unwrap_err().to_string(),
            "invalid list of skipped for propagation APIs: failed to parse token: invalid parameter: a/b/c/d"
        );
        assert_eq!(Apis::new("apps", "v1/Secret"), Err(BadList::Both));
    }

    #[test]
    fn an_allow_list_is_all_there_is() {
        let apis = Apis::new("", "apps/v1/Deployment; v1/Pod").unwrap();
        assert!(apis.is_enabled("apps", "v1", "Deployment") && apis.is_enabled("", "v1", "Pod"));
        assert!(!apis.is_enabled("", "v1", "Namespace"));
    }
}
