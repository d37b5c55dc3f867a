//! How things get to the clusters.

use fleet_api::placement::{ApplyStrategyType, RollingUpdate, RolloutStrategy, RolloutStrategyType};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Errors, show};

/// What is wrong with a strategy.
pub fn strategy(strategy: &RolloutStrategy) -> Errors {
    let mut errors = Errors::none();
    match (strategy.type_, &strategy.rolling_update) {
        (RolloutStrategyType::External, Some(_)) => {
            errors.push("rollingUpdateConifg is not valid for ExternalRollout strategy type");
        }
        (RolloutStrategyType::RollingUpdate, Some(update)) => errors.append(rolling_update(update)),
        (_, None) => {}
    }
    if let Some(apply) = &strategy.apply_strategy
        && apply.server_side_apply_config.is_some()
        && apply.type_ != ApplyStrategyType::ServerSideApply
    {
        errors.push("serverSideApplyConfig is only valid for ServerSideApply strategy type");
    }
    errors
}

fn rolling_update(update: &RollingUpdate) -> Errors {
    let mut errors = Errors::none();
    let period = update.unavailable_period_seconds;
    if period < 0 {
        errors.push(format!(
            "unavailablePeriodSeconds must be greater than or equal to 0, got {period}"
        ));
    }
    for (field, value) in [
        ("maxUnavailable", &update.max_unavailable),
        ("maxSurge", &update.max_surge),
    ] {
        let shown = show::amount(value);
        match scaled(value) {
            Err(why) => errors.push(format!("{field} `{shown}` is invalid: {why}")),
            Ok(scaled) if scaled < 0 => {
                errors.push(format!("{field} must be greater than or equal to 0, got `{shown}`"));
            }
            Ok(_) => {}
        }
    }
    errors
}

/// How many of ten.
fn scaled(value: &IntOrString) -> Result<i64, String> {
    match value {
        IntOrString::Int(number) => Ok(i64::from(*number)),
        IntOrString::String(text) => {
            let Some(percent) = text.strip_suffix('%') else {
                return Err("invalid value for IntOrString: invalid type: string is not a percentage".into());
            };
            let percent: i32 = percent.parse().map_err(|_| {
                format!("invalid value for IntOrString: invalid value {text:?}: strconv.Atoi: parsing {percent:?}: invalid syntax")
            })?;
            // Only the sign matters, and a negative share is rounded up by cutting it off.
            Ok(i64::from(percent) * 10 / 100)
        }
    }
}
