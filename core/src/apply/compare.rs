//! Comparing a manifest with the live object.

use fleet_api::placement::ComparisonOption;
use serde_json::Value;

use super::clean::{ReservedKeys, clean};
use super::diff::{Differences, differences};

/// What the API server said to the manifest as a forced server-side apply in dry-run mode.
#[derive(Debug, Clone, PartialEq)]
pub enum DryRun {
    /// The object that would result.
    Object(Value),
    /// The manifest is invalid (HTTP 422).
    Invalid,
    /// It could not be asked, or refused for another reason.
    Failed(String),
}

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparison {
    /// A dry run has to be made first.
    NeedsDryRun,
    /// There is no difference.
    Same,
    /// There are some.
    Different(Differences),
    /// They could not be compared.
    Failed(String),
}

/// Compares by `option`. Partial comparison looks only at what the manifest would change, which the API server knows:
/// it needs its answer to a dry run.
pub fn compare(
    manifest: &Value,
    live: &Value,
    option: &ComparisonOption,
    dry_run: Option<&DryRun>,
    reserved: ReservedKeys,
) -> Comparison {
    let (hub, degraded) = match (option, dry_run) {
        (ComparisonOption::FullComparison, _) => (manifest, false),
        (_, None) => return Comparison::NeedsDryRun,
        (_, Some(DryRun::Object(result))) => (result, false),
        (_, Some(DryRun::Invalid)) => (manifest, true),
        (_, Some(DryRun::Failed(error))) => {
            return Comparison::Failed(format!(
                "failed to apply the manifest in dry-run mode: failed to apply the manifest object: an error is \
                 returned by the API server: {error}"
            ));
        }
    };
    let found = differences(&clean(hub, reserved), &clean(live, reserved));
    if found.total == 0 {
        Comparison::Same
    } else {
        Comparison::Different(Differences { degraded, ..found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config(data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
    }

    fn run(option: &ComparisonOption, dry_run: Option<&DryRun>, live: &Value) -> Comparison {
        compare(&config(&json!({"a": "1"})), live, option, dry_run, ReservedKeys::Hidden)
    }

    #[test]
    fn full_comparison_sees_extra_fields_and_partial_does_not() {
        let live = config(&json!({"a": "1", "extra": "2"}));
        assert!(
            matches!(run(&ComparisonOption::FullComparison, None, &live), Comparison::Different(d) if d.total == 1)
        );
        assert_eq!(
            run(&ComparisonOption::PartialComparison, None, &live),
            Comparison::NeedsDryRun
        );
        let dry_run = DryRun::Object(live.clone());
        assert_eq!(
            run(&ComparisonOption::PartialComparison, Some(&dry_run), &live),
            Comparison::Same
        );
    }

    #[test]
    fn an_invalid_manifest_degrades_and_any_other_refusal_fails() {
        let live = config(&json!({"a": "2"}));
        let found = run(&ComparisonOption::PartialComparison, Some(&DryRun::Invalid), &live);
        assert!(matches!(found, Comparison::Different(d) if d.degraded && d.details[0].path == "/data/a"));
        let failed = run(
            &ComparisonOption::PartialComparison,
            Some(&DryRun::Failed("forbidden".into())),
            &live,
        );
        let text = "failed to apply the manifest in dry-run mode: failed to apply the manifest object: an error is \
                    returned by the API server: forbidden";
        assert_eq!(failed, Comparison::Failed(text.into()));
    }
}
