//! Conditions that a member reports about the collection of its properties: on the InternalMemberCluster, and copied to
//! the MemberCluster.

states! {
    /// Whether the configured property provider runs. Absent without a provider.
    pub enum ProviderStarted = "ClusterPropertyProviderStarted" {
        Started => True "Started" "The property provider has started successfully";
        Failed { error: String } => False "FailedToStart" "Failed to start the property provider: {error}";
        TimedOut => False "TimedOut" "The property provider does not start up in time";
    }
}

states! {
    /// Whether the properties are up to date.
    pub enum CollectionSucceeded = "ClusterPropertyCollectionSucceeded" {
        Collected => True "PropertiesCollected" "The property provider has returned the latest cluster properties";
        TimedOut => False "TimedOut" "The property provider does not respond in time";
        TooManyCalls => False "TooManyCalls"
            "There are too many on-going calls to the property provider; will retry if some calls return";
    }
}

states! {
    /// Whether the costs are up to date. Only from the azure provider.
    pub enum CostsCollectionSucceeded = "AKSClusterCostPropertiesCollectionSucceeded" {
        Calculated => True "CostsCalculated" "All cost properties have been collected successfully";
        Degraded { warnings: Vec<String> } => True "CostsCalculationDegraded" {
            format!(
                "Cost properties are collected in a degraded mode with the following warning(s): [{}]",
                warnings.join(" "),
            )
        };
        Failed { error: String } => False "CostsCalculationFailed"
            "An error has occurred when collecting cost properties: {error}";
    }
}

states! {
    /// Whether all namespaces are reported. Its presence alone makes the scheduler look at the namespaces.
    pub enum NamespaceCollectionSucceeded = "NamespaceCollectionSucceeded" {
        Succeeded => True "Succeeded" "All namespaces have been collected successfully";
        Degraded => False "Degraded"
            "Namespaces are collected in a degraded mode since the number of namespaces reaches the track limit";
    }
}

/// The types that a member may report about its cluster; all others it sends are refused.
pub const REPORTED_BY_MEMBERS: [&str; 4] = [
    ProviderStarted::TYPE,
    CollectionSucceeded::TYPE,
    CostsCollectionSucceeded::TYPE,
    NamespaceCollectionSucceeded::TYPE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn words() {
        assert_rows(&[
            (
                &ProviderStarted::Started,
                "ClusterPropertyProviderStarted=True Started: The property provider has started successfully",
            ),
            (
                &ProviderStarted::Failed {
                    error: "no nodes".into(),
                },
                "ClusterPropertyProviderStarted=False FailedToStart: Failed to start the property provider: no nodes",
            ),
            (
                &ProviderStarted::TimedOut,
                "ClusterPropertyProviderStarted=False TimedOut: The property provider does not start up in time",
            ),
            (
                &CollectionSucceeded::Collected,
                "ClusterPropertyCollectionSucceeded=True PropertiesCollected: \
                 The property provider has returned the latest cluster properties",
            ),
            (
                &CollectionSucceeded::TimedOut,
                "ClusterPropertyCollectionSucceeded=False TimedOut: The property provider does not respond in time",
            ),
            (
                &CollectionSucceeded::TooManyCalls,
                "ClusterPropertyCollectionSucceeded=False TooManyCalls: There are too many on-going calls to the \
                 property provider; will retry if some calls return",
            ),
            (
                &CostsCollectionSucceeded::Calculated,
                "AKSClusterCostPropertiesCollectionSucceeded=True CostsCalculated: \
                 All cost properties have been collected successfully",
            ),
            (
                &CostsCollectionSucceeded::Degraded {
                    warnings: vec!["a".into(), "b".into()],
                },
                "AKSClusterCostPropertiesCollectionSucceeded=True CostsCalculationDegraded: \
                 Cost properties are collected in a degraded mode with the following warning(s): [a b]",
            ),
            (
                &CostsCollectionSucceeded::Failed { error: "e".into() },
                "AKSClusterCostPropertiesCollectionSucceeded=False CostsCalculationFailed: \
                 An error has occurred when collecting cost properties: e",
            ),
            (
                &NamespaceCollectionSucceeded::Succeeded,
                "NamespaceCollectionSucceeded=True Succeeded: All namespaces have been collected successfully",
            ),
            (
                &NamespaceCollectionSucceeded::Degraded,
                "NamespaceCollectionSucceeded=False Degraded: Namespaces are collected in a degraded mode since the \
                 number of namespaces reaches the track limit",
            ),
        ]);
    }
}
