//! How things are named in texts and commands, so that what is printed can be typed.

use std::borrow::Cow;

use fleet_api::names::Scope;
use fleet_api::placement::ResourceIdentifier;

use super::shell::quoted;
use crate::text;

/// The names that a text or a command may speak of. Those that are not known are empty.
#[derive(Debug, Clone, Default)]
pub struct Names<'a> {
    /// The namespace of the placement and its family; empty for a cluster-scoped one.
    pub namespace: &'a str,
    /// The placement.
    pub placement: &'a str,
    /// The cluster.
    pub cluster: &'a str,
    /// The update run.
    pub run: &'a str,
    /// The object on the member, as [`object`] says it.
    pub object: String,
    /// The object's API group.
    pub group: String,
    /// What somebody has said: the end of a condition's message, an API server's answer.
    pub message: &'a str,
}

impl Names<'_> {
    /// Which family is spoken of.
    pub fn scope(&self) -> Scope {
        if self.namespace.is_empty() {
            Scope::Cluster
        } else {
            Scope::Namespaced
        }
    }

    /// `template` with the names in it, each as a shell takes it: `{placement}`, `{run}` and `{object}` as kubectl takes them,
    /// `{n}` the flag for the family's namespace, `{crb}`, `{crs}` and `{csur}` the kinds of the family.
    pub fn fill(&self, template: &str) -> String {
        let (crp, csur, crb, crs) = match self.scope() {
            Scope::Cluster => ("crp", "csur", "clusterresourcebindings", "clusterresourcesnapshots"),
            Scope::Namespaced => ("rp", "sur", "resourcebindings", "resourcesnapshots"),
        };
        // A name may hold anything, also what stands for another: what is put in is not looked at again.
        let mut out = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let word = after.split_once('}').map_or("", |(word, _)| word);
            match word {
                "placement" => out += &quoted(&format!("{crp}/{}", self.placement)),
                "name" => out += &typed(self.placement),
                "run" => out += &quoted(&format!("{csur}/{}", self.run)),
                "cluster" => out += &typed(self.cluster),
                "object" => out += &self.object,
                "group" => out += &typed(&self.group),
                "n" if self.scope() == Scope::Namespaced => {
                    out += " -n ";
                    out += &quoted(self.namespace);
                }
                "n" => {}
                "crb" => out += crb,
                "crs" => out += crs,
                "csur" => out += csur,
                "message" => out += self.message,
                _ => {
                    out.push('{');
                    rest = after;
                    continue;
                }
            }
            rest = &after[word.len() + 1..];
        }
        out + rest
    }
}

/// An object as kubectl takes it, and a shell: `deployments.apps/web -n shop`.
pub(super) fn object(id: &ResourceIdentifier) -> String {
    let kind = id.kind.to_lowercase();
    let kind = if id.group.is_empty() {
        kind
    } else {
        format!("{kind}.{}", id.group)
    };
    let flag = if id.namespace.is_empty() {
        String::new()
    } else {
        format!(" -n {}", quoted(&id.namespace))
    };
    let name = format!("{kind}/{}", id.name);
    format!("{}{flag}", quoted(&name))
}

/// A name that may not be known, in a command.
fn typed(name: &str) -> Cow<'_, str> {
    if name.is_empty() { name.into() } else { quoted(name) }
}

/// An object as texts name it: `Deployment shop/web`.
pub(super) fn spoken(id: &ResourceIdentifier) -> String {
    let slash = if id.namespace.is_empty() { "" } else { "/" };
    format!("{} {}{slash}{}", id.kind, id.namespace, id.name)
}

/// At most three names, and how many more there are.
pub(super) fn few<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const NAMED_MAX: usize = 3;
    let names: Vec<_> = names.into_iter().collect();
    text::few(&names, NAMED_MAX)
}

/// `1 cluster`, `2 clusters`.
pub(super) fn clusters(count: usize) -> String {
    match count {
        1 => "1 cluster".into(),
        count => format!("{count} clusters"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scope_decides_the_words() {
        let template = "kubectl fleet why {placement} {cluster}{n}; kubectl get {csur} {crb} {crs}: {message}";
        let cluster = Names {
            placement: "web",
            cluster: "east",
            message: "{n}",
            ..Names::default()
        };
        assert_eq!(
            cluster.fill(template),
            "kubectl fleet why crp/web east; kubectl get csur clusterresourcebindings clusterresourcesnapshots: {n}"
        );
        let namespaced = Names {
            namespace: "shop",
            ..cluster
        };
        assert_eq!(
            namespaced.fill(template),
            "kubectl fleet why rp/web east -n shop; kubectl get sur resourcebindings resourcesnapshots: {n}"
        );
    }

    #[test]
    fn objects_are_named_as_kubectl_takes_them() {
        let deployment = ResourceIdentifier {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
            name: "web".into(),
            namespace: "shop".into(),
            envelope: None,
        };
        assert_eq!(object(&deployment), "deployment.apps/web -n shop");
        assert_eq!(spoken(&deployment), "Deployment shop/web");
        let namespace = ResourceIdentifier {
            version: "v1".into(),
            kind: "Namespace".into(),
            name: "shop".into(),
            ..ResourceIdentifier::default()
        };
        assert_eq!(object(&namespace), "namespace/shop");
        assert_eq!(spoken(&namespace), "Namespace shop");
    }

    #[test]
    fn no_name_gets_out_of_its_word() {
        let role = ResourceIdentifier {
            group: "rbac.authorization.k8s.io".into(),
            kind: "Role".into(),
            name: "a\n$(reboot)".into(),
            namespace: "shop; reboot".into(),
            ..ResourceIdentifier::default()
        };
        let names = Names {
            placement: "{cluster}",
            cluster: "a $(reboot)",
            run: "it's",
            object: object(&role),
            ..Names::default()
        };
        for (template, typed) in [
            (
                "kubectl --context {cluster} get {object} -o yaml",
                r"kubectl --context 'a $(reboot)' get $'role.rbac.authorization.k8s.io/a\012$(reboot)' -n $'shop\073 reboot' -o yaml",
            ),
            ("kubectl edit {placement}{n}", "kubectl edit 'crp/{cluster}'"),
            ("kubectl get x -l parent={name}", "kubectl get x -l parent='{cluster}'"),
            (
                "kubectl patch {run} -p '{\"spec\":{\"state\":\"Run\"}}'",
                r#"kubectl patch 'csur/it'\''s' -p '{"spec":{"state":"Run"}}'"#,
            ),
            ("{message}{unknown}{", "{unknown}{"),
        ] {
            assert_eq!(names.fill(template), typed);
        }
    }

    #[test]
    fn only_a_few_names_are_named() {
        assert_eq!(few(["a", "b", "c"]), "a, b, c");
        assert_eq!(few(["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
    }
}
