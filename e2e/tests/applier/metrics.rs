//! What the agents measure of their controllers.

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::agents::{self, HUB_AGENT};

use crate::site::on_own_site;

/// The value of a series.
fn value(text: &str, series: &str) -> Result<f64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no {series}"))?.parse()?)
}

#[test]
fn controllers_have_the_series_that_dashboards_know() {
    on_own_site(
        "metrics",
        |_| {},
        |site| async move {
            let hub = agents::metrics(site.ctx.fleet(), HUB_AGENT).await?;
            let member = site.metrics().await?;
            for (text, controller) in [
                (&hub, "cluster-resource-placement-controller-v1beta1"),
                (&hub, "resource-placement-controller"),
                (&hub, "member-cluster"),
                (&member, "work-applier"),
            ] {
                let of = |name: &str| format!("fleet_workload_{name}{{controller=\"{controller}\"}}");
                ensure!(value(text, &of("max_concurrent_reconciles"))? > 0.0, "{controller}");
                ensure!(value(text, &of("reconcile_errors_total"))? >= 0.0, "{controller}");
                ensure!(value(text, &of("active_workers"))? >= 0.0, "{controller}");
                for result in ["success", "error", "requeue", "requeue_after"] {
                    let total =
                        format!("fleet_workload_reconcile_total{{controller=\"{controller}\",result=\"{result}\"}}");
                    ensure!(value(text, &total)? >= 0.0, "{controller}");
                }
            }
            Ok(())
        },
    );
}
