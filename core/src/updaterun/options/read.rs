//! Reading settings off annotations. What cannot be read ends the initialization: a run that ignored a mistyped budget would
//! be less safe than its user believes.

use std::collections::BTreeMap;

use fleet_api::annotations::{REQUESTED, ROLLBACK, ROLLOUT};
use fleet_api::conditions::update_run::Abort;
use fleet_api::placement::UpdateRunOptions;

use super::super::world::Run;
use super::{duration, gates, instant, one_of, positive, share, unassigned};
use crate::window::Windows;

/// What an object's annotations may say.
type Annotations = BTreeMap<String, String>;

/// Where a setting may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Both,
    RunOnly,
}

/// One setting: its key without prefix, where it may stand, and how it is checked and recorded.
type Setting = (&'static str, On, fn(&mut UpdateRunOptions, &str) -> Result<(), String>);

/// Every setting.
const SETTINGS: &[Setting] = &[
    ("unassigned-clusters", On::Both, |options, text| {
        unassigned(text).map(|_| text.clone_into(&mut options.unassigned_clusters))
    }),
    ("unhealthy-clusters", On::Both, |options, text| {
        one_of(text, ["Wait", "Skip"]).map(|_| text.clone_into(&mut options.unhealthy_clusters))
    }),
    ("max-failures", On::Both, |options, text| {
        share(text).map(|_| text.clone_into(&mut options.max_failures))
    }),
    ("cluster-deadline", On::Both, |options, text| {
        positive(text).map(|_| text.clone_into(&mut options.cluster_deadline))
    }),
    ("min-success-time", On::Both, |options, text| {
        duration(text).map(|_| text.clone_into(&mut options.min_success_time))
    }),
    ("on-failure", On::Both, |options, text| {
        one_of(text, ["Halt", "Rollback"]).map(|_| text.clone_into(&mut options.on_failure))
    }),
    ("window", On::Both, |options, text| {
        Windows::parse(text).map(|_| text.clone_into(&mut options.window))
    }),
    ("not-before", On::Both, |options, text| {
        instant(text).map(|_| text.clone_into(&mut options.not_before))
    }),
    ("ignore-windows", On::RunOnly, |options, text| {
        options.ignore_windows = one_of(text, ["false", "true"])? == 1;
        Ok(())
    }),
    ("gates", On::Both, |options, text| {
        options.gates = gates::parse(text)?;
        Ok(())
    }),
    ("stuck-threshold", On::Both, |options, text| {
        positive(text).map(|_| text.clone_into(&mut options.stuck_threshold))
    }),
    ("retry-of", On::RunOnly, |options, text| {
        if text.is_empty() {
            return Err("it names no run".to_owned());
        }
        text.clone_into(&mut options.retry_of);
        Ok(())
    }),
    ("plan", On::RunOnly, |options, text| {
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        text.clone_into(&mut options.plan);
        Ok(())
    }),
    ("ttl", On::Both, |options, text| {
        duration(text).map(|_| text.clone_into(&mut options.ttl))
    }),
    // Read at any time; nothing is recorded.
    ("rollback", On::RunOnly, |_, text| {
        if text == REQUESTED {
            Ok(())
        } else {
            Err(format!("{text:?} is not {REQUESTED}"))
        }
    }),
];

/// Whose annotation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Source {
    Strategy,
    Run,
}

/// Where each setting was found, by its key without prefix.
pub(in super::super) type Sources = BTreeMap<&'static str, Source>;

/// The settings of a run; none if nothing is set. The run's own go before those of its strategy, whose name the run has, and
/// those before the `inherited` ones.
pub(in super::super) fn read(
    run: &Run<'_>,
    strategy: Option<&Annotations>,
    inherited: Option<UpdateRunOptions>,
) -> Result<Option<(UpdateRunOptions, Sources)>, Abort> {
    let mut any = inherited.is_some();
    let (mut options, mut sources) = (inherited.unwrap_or_default(), Sources::new());
    for (source, annotations) in [(Source::Strategy, strategy), (Source::Run, run.annotations)] {
        let settings = annotations.into_iter().flatten();
        for (key, text) in settings.filter(|(key, _)| key.starts_with(ROLLOUT)) {
            let name = key.trim_start_matches(ROLLOUT);
            let known = SETTINGS.iter().find(|(known, ..)| *known == name);
            let (name, on, record) = known.ok_or_else(|| source.invalid(run, key, unknown()))?;
            if *on == On::RunOnly && source == Source::Strategy {
                let why = "it belongs on an update run".to_owned();
                return Err(source.invalid(run, key, why));
            }
            record(&mut options, text).map_err(|why| source.invalid(run, key, why))?;
            sources.insert(*name, source);
            any |= key != ROLLBACK;
        }
    }
    check_times(&options).map_err(|why| {
        let source = sources.get("min-success-time").copied().unwrap_or(Source::Run);
        source.invalid(run, &format!("{ROLLOUT}min-success-time"), why)
    })?;
    Ok(any.then_some((options, sources)))
}

/// A cluster has to have worked for `min-success-time` by its deadline: one that can never have fails whatever it does.
fn check_times(options: &UpdateRunOptions) -> Result<(), String> {
    let (settles, deadline) = (&options.min_success_time, &options.cluster_deadline);
    if options.max_failures.is_empty() || settles.is_empty() || deadline.is_empty() {
        return Ok(());
    }
    if duration(settles)? < positive(deadline)? {
        return Ok(());
    }
    Err(format!(
        "{settles:?} is not less than cluster-deadline, {deadline:?}: every cluster would fail"
    ))
}

fn unknown() -> String {
    let names: Vec<_> = SETTINGS.iter().map(|(name, ..)| *name).collect();
    format!("there is no such setting; there are {}", names.join(", "))
}

impl Source {
    /// What to say of a setting that cannot be used.
    pub(in super::super) fn invalid(self, run: &Run<'_>, annotation: &str, why: String) -> Abort {
        let cluster_wide = run.namespace.is_empty();
        let (kind, name) = match self {
            Self::Strategy if cluster_wide => (
                "ClusterStagedUpdateStrategy",
                run.spec.staged_rollout_strategy_name.as_str(),
            ),
            Self::Strategy => ("StagedUpdateStrategy", run.spec.staged_rollout_strategy_name.as_str()),
            Self::Run if cluster_wide => ("ClusterStagedUpdateRun", run.name),
            Self::Run => ("StagedUpdateRun", run.name),
        };
        Abort::BadAnnotation {
            annotation: annotation.to_owned(),
            kind: kind.to_owned(),
            key: run.key(name),
            why,
        }
    }
}
