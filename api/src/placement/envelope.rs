//! Envelopes: objects that should exist on members but do nothing on the hub.

use std::collections::BTreeMap;

use crate::kind::{Crd, kind};
use crate::raw::RawJson;
use crate::schema;

kind! {
    /// Carries cluster-scoped objects to member clusters without creating them on the hub, where they might do harm, such
    /// as webhook configurations.
    ClusterResourceEnvelope in super::GROUP, Cluster {
        /// The objects, each under a name of your choice.
        #[schemars(with = "BTreeMap<String, schema::AnyObject>", extend("minProperties" = 1, "maxProperties" = 50))]
        pub data: BTreeMap<String, RawJson>,
    }
    Crd::new("clusterresourceenvelopes");
}

kind! {
    /// Carries objects of its namespace to member clusters without creating them on the hub, where they might do harm, such
    /// as resource quotas.
    ResourceEnvelope in super::GROUP, Namespaced {
        /// The objects, each under a name of your choice. All must be in the envelope's namespace.
        #[schemars(with = "BTreeMap<String, schema::AnyObject>", extend("minProperties" = 1, "maxProperties" = 50))]
        pub data: BTreeMap<String, RawJson>,
    }
    Crd::new("resourceenvelopes");
}
