//! What a cluster costs per core and per gigabyte, from the prices of its nodes.

use std::collections::BTreeMap;

use fleet_api::conditions::properties::CostsCollectionSucceeded;
use jiff::{SignedDuration, Timestamp};

use super::requests::Amounts;

/// A price that upstream's table uses for "this SKU is known and has no price".
pub const MISSING_PRICE: f64 = 999.0;

/// When prices are too old to be trusted without a warning.
pub const STALE_AFTER: SignedDuration = SignedDuration::from_hours(24);

/// Hourly on-demand prices in US dollars by SKU, and when they were true.
#[derive(Debug, Clone, PartialEq)]
pub struct Prices {
    /// By SKU.
    pub hourly: BTreeMap<String, f64>,
    /// When they were last updated.
    pub updated: Timestamp,
}

/// What to report about costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// `kubernetes.azure.com/per-cpu-core-cost` and `kubernetes.azure.com/per-gb-memory-cost`; none if failed.
    pub values: Option<Values>,
    /// What to say about it.
    pub condition: CostsCollectionSucceeded,
    /// When the answer changes by time alone: the prices become stale.
    pub changes_at: Option<Timestamp>,
}

/// The two costs as they are reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Values {
    /// Per core and hour, three decimals.
    pub per_cpu_core: String,
    /// Per gigabyte (2^30 bytes) and hour, three decimals.
    pub per_gb_memory: String,
}

/// Costs of a cluster with these nodes by SKU and this total capacity. `prices` is none until there are any.
pub fn costs(skus: &BTreeMap<String, usize>, capacity: Amounts, prices: Option<&Prices>, now: Timestamp) -> Costs {
    let failed = |error: String| Costs {
        values: None,
        condition: CostsCollectionSucceeded::Failed { error },
        changes_at: None,
    };
    let Some(prices) = prices else {
        return failed("costs have not been calculated yet".into());
    };
    let stale_at = prices.updated.saturating_add(STALE_AFTER).unwrap_or(Timestamp::MAX);
    let condition = if now > stale_at {
        CostsCollectionSucceeded::Degraded {
            warnings: vec![format!(
                "the pricing data is stale (last updated at {}); the system might have issues connecting to the Azure \
                 Retail Prices API, or the current region is unsupported",
                prices.updated,
            )],
        }
    } else {
        CostsCollectionSucceeded::Calculated
    };
    let changes_at = (now <= stale_at).then_some(stale_at);
    if skus.is_empty() {
        let zero = || "0.000".to_owned();
        return Costs {
            values: Some(Values {
                per_cpu_core: zero(),
                per_gb_memory: zero(),
            }),
            condition: CostsCollectionSucceeded::Calculated,
            changes_at: None,
        };
    }
    match averages(skus, capacity, prices) {
        Ok(values) => Costs {
            values: Some(values),
            condition,
            changes_at,
        },
        Err(error) => failed(error),
    }
}

fn averages(skus: &BTreeMap<String, usize>, capacity: Amounts, prices: &Prices) -> Result<Values, String> {
    let price = |sku: &str| {
        prices
            .hourly
            .get(sku)
            .copied()
            .filter(|p| p.is_finite() && (p - MISSING_PRICE).abs() > f64::EPSILON)
    };
    #[allow(clippy::cast_precision_loss, reason = "no cluster has 2^52 nodes")]
    let total: f64 = skus
        .iter()
        .filter_map(|(sku, nodes)| Some(price(sku)? * *nodes as f64))
        .sum();
    // Go prints a list of strings as `[a b]`.
    let list = |names: Vec<&str>| format!("[{}]", names.join(" "));
    if total <= 0.0 {
        return Err(format!(
            "nodes are present, but no pricing data is available for any node SKUs ({})",
            list(skus.keys().map(String::as_str).collect()),
        ));
    }
    let missing: Vec<&str> = skus
        .keys()
        .map(String::as_str)
        .filter(|sku| price(sku).is_none())
        .collect();
    if !missing.is_empty() {
        return Err(format!(
            "no pricing data is available for one or more of the node SKUs ({}) in the cluster",
            list(missing),
        ));
    }
    let (cpu, memory) = (capacity.cpu.as_f64(), capacity.memory.as_f64());
    if cpu <= 0.001 {
        return Err(format!(
            "failed to calculate costs: cpu quantity is of an invalid value: {cpu}"
        ));
    }
    if memory <= 1.0 {
        return Err(format!(
            "failed to calculate costs: memory quantity is of an invalid value: {memory}"
        ));
    }
    let gigabytes = memory / f64::from(1 << 30);
    Ok(Values {
        per_cpu_core: format!("{:.3}", total / cpu),
        per_gb_memory: format!("{:.3}", total / gigabytes),
    })
}

#[cfg(test)]
mod tests {
    use fleet_api::conditions::Words as _;

    use super::*;

    fn prices() -> Prices {
        Prices {
            hourly: BTreeMap::from([
                ("D4".into(), 0.2),
                ("D8".into(), 0.4),
                ("gone".into(), 999.0),
                ("free".into(), 0.0),
            ]),
            updated: Timestamp::UNIX_EPOCH,
        }
    }

    fn judge(skus: &[(&str, usize)], cpu: &str, memory: &str, hours: i64) -> (Option<Values>, String) {
        let skus = skus.iter().map(|(sku, n)| ((*sku).to_owned(), *n)).collect();
        let capacity = Amounts {
            cpu: cpu.parse().expect(cpu),
            memory: memory.parse().expect(memory),
        };
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours);
        let costs = costs(&skus, capacity, Some(&prices()), now);
        (costs.values, costs.condition.message())
    }

    #[test]
    fn every_case_has_its_words() {
        let fine = "All cost properties have been collected successfully";
        let values = |cpu: &str, gb: &str| {
            Some(Values {
                per_cpu_core: cpu.into(),
                per_gb_memory: gb.into(),
            })
        };
        let failed = |why: &str| {
            (
                None,
                format!("An error has occurred when collecting cost properties: {why}"),
            )
        };
        assert_eq!(judge(&[], "0", "0", 99), (values("0.000", "0.000"), fine.into()));
        assert_eq!(
            judge(&[("D4", 2)], "8", "32Gi", 0),
            (values("0.050", "0.013"), fine.into())
        );
        assert_eq!(
            judge(&[("D4", 1), ("D8", 1)], "12", "48Gi", 24),
            (values("0.050", "0.013"), fine.into())
        );
        assert_eq!(
            judge(&[("undefined", 1), ("a", 1)], "1", "1Gi", 0),
            failed("nodes are present, but no pricing data is available for any node SKUs ([a undefined])"),
        );
        assert_eq!(
            judge(&[("D4", 1), ("gone", 1), ("b", 1)], "1", "1Gi", 0),
            failed("no pricing data is available for one or more of the node SKUs ([b gone]) in the cluster"),
        );
        assert_eq!(
            judge(&[("D4", 1)], "1m", "1Gi", 0),
            failed("failed to calculate costs: cpu quantity is of an invalid value: 0.001"),
        );
        assert_eq!(
            judge(&[("D4", 1)], "1", "1", 0),
            failed("failed to calculate costs: memory quantity is of an invalid value: 1"),
        );
        let (cost, message) = judge(&[("D4", 1)], "4", "16Gi", 25);
        assert_eq!(cost, values("0.050", "0.013"));
        assert!(
            message.contains("[the pricing data is stale (last updated at 1970-01-01T00:00:00Z);"),
            "{message}"
        );
    }

    #[test]
    fn staleness_is_known_in_advance() {
        let skus = BTreeMap::from([("D4".to_owned(), 1)]);
        let capacity = Amounts {
            cpu: "4".parse().expect("cpu"),
            memory: "1Gi".parse().expect("memory"),
        };
        let answer = costs(&skus, capacity, Some(&prices()), Timestamp::UNIX_EPOCH);
        assert_eq!(answer.changes_at, Some(Timestamp::UNIX_EPOCH + STALE_AFTER));
        let none = costs(&skus, capacity, None, Timestamp::UNIX_EPOCH);
        assert!(none.condition.message().ends_with("costs have not been calculated yet"));
    }
}
