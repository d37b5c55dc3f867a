//! The name of an object inside its kind.

use std::{fmt, sync::Arc};

use kube::Resource;

/// Namespace and name, as cheap to copy as two pointers: stores, indexes and queues hold many of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    namespace: Option<Arc<str>>,
    name: Arc<str>,
}

impl Key {
    /// A cluster-scoped object.
    pub fn cluster(name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: None,
            name: name.into(),
        }
    }

    /// A namespaced object.
    pub fn namespaced(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self {
            namespace: Some(namespace.into()),
            name: name.into(),
        }
    }

    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            namespace: meta
                .namespace
                .as_deref()
                .filter(|namespace| !namespace.is_empty())
                .map(Arc::from),
            name: meta.name.as_deref().unwrap_or_default().into(),
        }
    }

    /// The namespace; `None` for cluster-scoped objects.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}
