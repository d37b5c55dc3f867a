//! What a request is about.

/// A collection, or one object of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Collection {
    /// `/api/v1`, `/apis/apps/v1`.
    pub(crate) prefix: String,
    pub(crate) plural: String,
}

/// Kinds of Kubernetes itself that are replaced only by who names the version.
const STRICT: [&str; 4] = [
    "apiservices",
    "customresourcedefinitions",
    "leases",
    "poddisruptionbudgets",
];

impl Collection {
    /// Whether a replacement need not name the version that it is for. True for most kinds of Kubernetes, and for no custom
    /// resource.
    pub(crate) fn takes_any_version(&self) -> bool {
        let group = self.prefix.trim_start_matches("/apis/").split('/').next();
        let group = group.unwrap_or_default();
        let own = !group.contains('.') || group.ends_with(".k8s.io") && !group.ends_with(".x-k8s.io");
        own && !STRICT.contains(&self.plural.as_str())
    }
}

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) collection: Collection,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// A path, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) collection: Collection,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    /// None if it is not about objects.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (prefix, rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => (format!("/api/{version}"), rest),
            ["apis", group, version, rest @ ..] => (format!("/apis/{group}/{version}"), rest),
            _ => return None,
        };
        // A Namespace itself is an object beside others; what follows its name and is no subresource is in it.
        let (namespace, rest) = match rest {
            ["namespaces", namespace, inner, ..] if !["status", "finalize"].contains(inner) => {
                (Some((*namespace).to_owned()), &rest[2..])
            }
            _ => (None, rest),
        };
        let [plural, rest @ ..] = rest else { return None };
        let owned = |part: &&str| (*part).to_owned();
        Some(Self {
            collection: Collection {
                prefix,
                plural: (*plural).to_owned(),
            },
            namespace,
            name: rest.first().map(owned),
            subresource: rest.get(1).map(owned),
        })
    }

    /// The object, if it is about one.
    pub(crate) fn place(&self) -> Option<Place> {
        Some(Place {
            collection: self.collection.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone()?,
        })
    }

    /// Whether an object is in the collection that is meant.
    pub(crate) fn has(&self, place: &Place) -> bool {
        self.collection == place.collection && (self.namespace.is_none() || self.namespace == place.namespace)
    }
}

/// A value of a query, decoded as far as selectors need it.
pub(crate) fn value(query: &str, key: &str) -> Option<String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut found = pairs.filter(|(name, _)| *name == key);
    let (_, value) = found.next()?;
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        let code = rest
            .get(at + 1..at + 3)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        text.push(char::from(code?));
        rest = &rest[at + 3..];
    }
    text.push_str(rest);
    Some(text.replace('+', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(path: &str) -> Option<String> {
        let target = Target::of(path)?;
        let part = |part: Option<String>| part.unwrap_or_else(|| "-".to_owned());
        let (prefix, plural) = (target.collection.prefix, target.collection.plural);
        let (namespace, name) = (part(target.namespace), part(target.name));
        Some(format!(
            "{prefix} {plural} {namespace} {name} {}",
            part(target.subresource)
        ))
    }

    #[test]
    fn paths_of_every_shape() {
        for (path, expected) in [
            ("/api/v1/pods", "/api/v1 pods - - -"),
            ("/api/v1/namespaces/a", "/api/v1 namespaces - a -"),
            ("/api/v1/namespaces/a/status", "/api/v1 namespaces - a status"),
            ("/api/v1/namespaces/a/pods", "/api/v1 pods a - -"),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/status",
                "/apis/apps/v1 deployments a b status",
            ),
        ] {
            assert_eq!(parts(path).as_deref(), Some(expected), "{path}");
        }
        assert_eq!(parts("/api/v1"), None);
        assert_eq!(parts("/openapi/v3"), None);
    }

    #[test]
    fn queries_are_decoded() {
        assert_eq!(
            value("limit=5&labelSelector=a%2Fb%3Dc%2C%21d", "labelSelector").as_deref(),
            Some("a/b=c,!d")
        );
        assert_eq!(value("limit=5", "continue"), None);
    }
}
