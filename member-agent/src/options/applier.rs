//! Flags of the work applier.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

use clap::{ArgAction, Args};
use fleet_core::apply::{clean::ReservedKeys, requeue::Delays};
use fleet_runtime::options::go_bool;

/// How Works are applied, and how patiently.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct ApplierArgs {
    /// Minutes to wait for the deletion of what a Work placed before helping it along.
    #[arg(long, env = "FLEET_DELETION_WAIT_TIME", default_value = "5", value_parser = within(1..=60))]
    pub deletion_wait_time: i32,

    /// Whether recent changes go before old ones.
    #[arg(long, env = "FLEET_ENABLE_WORK_APPLIER_PRIORITY_QUEUE", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub enable_work_applier_priority_queue: bool,

    /// Priority lost per minute of age.
    #[arg(long, env = "FLEET_WORK_APPLIER_PRIORITY_LINEAR_EQUATION_COEFF_A", default_value = "-3",
          value_parser = within(-100..=-1), allow_negative_numbers = true)]
    pub work_applier_priority_linear_equation_coeff_a: i32,

    /// Priority of a Work that has just been created.
    #[arg(long, env = "FLEET_WORK_APPLIER_PRIORITY_LINEAR_EQUATION_COEFF_B", default_value = "100",
          value_parser = within(1..=1000))]
    pub work_applier_priority_linear_equation_coeff_b: i32,

    /// How often the fixed delay is used before delays grow.
    #[arg(long, env = "FLEET_WORK_APPLIER_REQUEUE_RATE_LIMITER_ATTEMPTS_WITH_FIXED_DELAY", default_value = "1",
          value_parser = within(1..=40))]
    pub work_applier_requeue_rate_limiter_attempts_with_fixed_delay: i32,

    /// The fixed delay, in seconds.
    #[arg(long, env = "FLEET_WORK_APPLIER_REQUEUE_RATE_LIMITER_FIXED_DELAY_SECONDS", default_value = "5",
          value_parser = within(2.0..=300.0))]
    pub work_applier_requeue_rate_limiter_fixed_delay_seconds: f64,

    /// How delays grow at first.
    #[arg(long, env = "FLEET_WORK_APPLIER_REQUEUE_RATE_LIMITER_EXPONENTIAL_BASE_FOR_SLOW_BACKOFF", default_value = "1.2",
          value_parser = within(1.05..=2.0))]
    pub work_applier_requeue_rate_limiter_exponential_base_for_slow_backoff: f64,

    /// The first growing delay, in seconds.
    #[arg(long, env = "FLEET_WORK_APPLIER_REQUEUE_RATE_LIMITER_INITIAL_SLOW_BACKOFF_DELAY_SECONDS",
          default_value = "2", value_parser = within(2.0..=f64::MAX))]
    pub work_applier_requeue_rate_limiter_initial_slow_backoff_delay_seconds: f64,

    /// Where slow growth ends, in seconds.
    #[arg(long, env = "FLEET_WORK_APPLIER_REQUEUE_RATE_LIMITER_MAX_SLOW_BACKOFF_DELAY_SECONDS", default_value = "15",
          value_parser = within(2.0..=f64::MAX))]
    pub work_applier_requeue_rate_limiter_max_slow_backoff_delay_seconds: f64,

    /// How delays grow afterwards.
    #[arg(long, env = "FLEET_WORK_APPLIER_REQUEUE_RATE_LIMITER_EXPONENTIAL_BASE_FOR_FAST_BACKOFF", default_value = "1.5",
          value_parser = within(1.0 + f64::EPSILON..=2.0))]
    pub work_applier_requeue_rate_limiter_exponential_base_for_fast_backoff: f64,

    /// The longest delay, in seconds.
    #[arg(long, env = "FLEET_WORK_APPLIER_REQUEUE_RATE_LIMITER_MAX_FAST_BACKOFF_DELAY_SECONDS", default_value = "900",
          value_parser = within(1.0..=3600.0))]
    pub work_applier_requeue_rate_limiter_max_fast_backoff_delay_seconds: f64,

    /// Whether delays of Works that are available grow fast at once.
    #[arg(long,
          env = "FLEET_WORK_APPLIER_REQUEUE_RATE_LIMITER_SKIP_TO_FAST_BACKOFF_FOR_AVAILABLE_OR_DIFF_REPORTED_WORK_OBJS",
          action = ArgAction::Set, value_parser = go_bool, default_value = "true", num_args = 0..=1,
          require_equals = true, default_missing_value = "true", value_name = "BOOL")]
    pub work_applier_requeue_rate_limiter_skip_to_fast_backoff_for_available_or_diff_reported_work_objs: bool,

    /// Whether a difference that could only be found in degraded mode counts as reported for the whole Work.
    #[arg(long, env = "FLEET_WORK_APPLIER_COUNT_DEGRADED_DIFF_AS_REPORTED", action = ArgAction::Set,
          value_parser = go_bool, default_value = "false", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "BOOL")]
    pub work_applier_count_degraded_diff_as_reported: bool,

    /// Whether drift and differences in labels and annotations of Kubernetes' own domains, such as
    /// app.kubernetes.io/version, are seen. Otherwise nothing whose key contains kubernetes.io/ or k8s.io/ is compared.
    #[arg(long, env = "FLEET_WORK_APPLIER_COMPARE_RESERVED_KEYS", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub work_applier_compare_reserved_keys: bool,

    /// Whether objects get the finalizers that their manifests have. Where nobody acts on one, such an object can never be
    /// deleted.
    #[arg(long, env = "FLEET_WORK_APPLIER_KEEP_FINALIZERS", action = ArgAction::Set, value_parser = go_bool,
          default_value = "false", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          value_name = "BOOL")]
    pub work_applier_keep_finalizers: bool,
}

impl ApplierArgs {
    /// When to look at a Work again although nothing happened.
    pub fn delays(&self) -> Delays {
        let attempts = self.work_applier_requeue_rate_limiter_attempts_with_fixed_delay;
        Delays {
            fixed_attempts: u32::try_from(attempts).unwrap_or(1),
            fixed_secs: self.work_applier_requeue_rate_limiter_fixed_delay_seconds,
            slow_initial_secs: self.work_applier_requeue_rate_limiter_initial_slow_backoff_delay_seconds,
            slow_base: self.work_applier_requeue_rate_limiter_exponential_base_for_slow_backoff,
            slow_max_secs: self.work_applier_requeue_rate_limiter_max_slow_backoff_delay_seconds,
            fast_base: self.work_applier_requeue_rate_limiter_exponential_base_for_fast_backoff,
            fast_max_secs: self.work_applier_requeue_rate_limiter_max_fast_backoff_delay_seconds,
            skip_to_fast: self
                .work_applier_requeue_rate_limiter_skip_to_fast_backoff_for_available_or_diff_reported_work_objs,
        }
        .valid()
    }

    /// Which labels and annotations comparisons leave out.
    pub fn reserved_keys(&self) -> ReservedKeys {
        if self.work_applier_compare_reserved_keys {
            ReservedKeys::Compared
        } else {
            ReservedKeys::Hidden
        }
    }

    /// The line by which the priority of an update falls with the age of its Work, if priorities are asked for.
    pub fn priorities(&self) -> Option<(i64, i64)> {
        let line = (
            self.work_applier_priority_linear_equation_coeff_a.into(),
            self.work_applier_priority_linear_equation_coeff_b.into(),
        );
        self.enable_work_applier_priority_queue.then_some(line)
    }

    /// Checks what one flag cannot say about itself.
    pub(super) fn validate(&self) -> Result<(), String> {
        let initial_slow = self.work_applier_requeue_rate_limiter_initial_slow_backoff_delay_seconds;
        let max_slow = self.work_applier_requeue_rate_limiter_max_slow_backoff_delay_seconds;
        let max_fast = self.work_applier_requeue_rate_limiter_max_fast_backoff_delay_seconds;
        let slow_base = self.work_applier_requeue_rate_limiter_exponential_base_for_slow_backoff;
        let fast_base = self.work_applier_requeue_rate_limiter_exponential_base_for_fast_backoff;
        let checks = [
            (
                initial_slow <= max_slow,
                "The initial delay for the slow backoff stage must not exceed the maximum delay for the slow backoff stage",
            ),
            (
                max_slow <= max_fast,
                "The maximum delay for the slow backoff stage must not exceed the maximum delay for the fast backoff stage",
            ),
            (
                fast_base >= slow_base,
                "The exponential base for the fast backoff stage must be greater than or equal to the exponential base for the slow backoff stage",
            ),
        ];
        match checks.iter().find(|(holds, _)| !holds) {
            Some((_, text)) => Err((*text).to_owned()),
            None => Ok(()),
        }
    }
}

/// A parser for a number in a range.
fn within<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync,
{
    move |text| {
        let number: T = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(format!("must be in the range [{}, {}]", range.start(), range.end()))
        }
    }
}
