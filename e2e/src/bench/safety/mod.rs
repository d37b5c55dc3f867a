//! Evictions and draining on a few simulated members, and what admission costs those who write.

mod admission;
mod evictions;

use anyhow::Result;

use super::Part;
use super::figures::Row;
use super::hub::Hub;
use super::simulated::Members;
use crate::agents;

/// Two in each stage.
const MEMBERS: usize = 6;

/// All of it. Admission is measured without the webhooks first.
pub async fn measure(hub: &Hub) -> Result<Vec<Row>> {
    let members = Members::new(hub).await?;
    members.join(MEMBERS).await?;
    let mut rows = Box::pin(evictions::measure(hub)).await?;
    let without = admission::creates(hub).await?;
    let story = async || {
        rows.extend(Box::pin(admission::measure(hub, &without)).await?);
        rows.push(Box::pin(evictions::restart(hub)).await?);
        Ok(())
    };
    agents::with_webhooks(&hub.fleet, story).await?;
    Ok(rows)
}

fn row(what: impl Into<String>, value: f64, unit: &str) -> Row {
    Row::new(Part::Safety, what, value, unit)
}
