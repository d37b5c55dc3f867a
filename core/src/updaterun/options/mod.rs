//! The settings of a run: read from annotations once, when the run is initialized, and recorded in its status.

mod gates;
mod read;

use fleet_api::conditions::update_run::Abort;
use fleet_api::placement::UpdateRunOptions;
use jiff::{SignedDuration, Timestamp};

pub(super) use gates::{are_sound as are_sound_gates, place as place_gates};
pub(super) use read::{Source, Sources, read};

use super::number;
use crate::window::Windows;

/// Less than this is how long a cluster that works may look broken.
const BROKEN_MIN: SignedDuration = SignedDuration::from_secs(30);

/// The settings of a run, as decisions take them. Without annotations nothing is other than upstream's.
#[derive(Debug, Clone, Default)]
pub(super) struct Options {
    pub(super) unassigned: Unassigned,
    pub(super) skip_unhealthy: bool,
    /// None: no cluster ever fails.
    pub(super) max_failures: Option<Share>,
    pub(super) cluster_deadline: Option<SignedDuration>,
    pub(super) min_success_time: SignedDuration,
    pub(super) rollback: bool,
    pub(super) windows: Option<Windows>,
    pub(super) not_before: Option<Timestamp>,
    pub(super) ignore_windows: bool,
    pub(super) stuck_threshold: Option<SignedDuration>,
}

/// What becomes of clusters that are in no stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Unassigned {
    #[default]
    Fail,
    /// They are left out; more than these may not be.
    Ignore(Option<Share>),
    /// They are a stage of their own, the last.
    Last,
}

/// A number of clusters, or a part of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    Number(usize),
    Percent(usize),
}

impl Share {
    /// Rounded down.
    pub(super) fn of(self, clusters: usize) -> usize {
        match self {
            Self::Number(number) => number,
            Self::Percent(percent) => clusters * percent / 100,
        }
    }
}

impl Options {
    /// What a run has recorded. It was checked before, so that only a status that was edited by hand cannot be read.
    pub(super) fn of(recorded: Option<&UpdateRunOptions>) -> Result<Self, Abort> {
        let Some(recorded) = recorded else {
            return Ok(Self::default());
        };
        Self::parse(recorded).map_err(|_| Abort::StatusLost { field: "options" })
    }

    fn parse(recorded: &UpdateRunOptions) -> Result<Self, String> {
        Ok(Self {
            unassigned: given(&recorded.unassigned_clusters, unassigned)?.unwrap_or_default(),
            skip_unhealthy: given(&recorded.unhealthy_clusters, |text| one_of(text, ["Wait", "Skip"]))? == Some(1),
            max_failures: given(&recorded.max_failures, share)?,
            cluster_deadline: given(&recorded.cluster_deadline, positive)?,
            min_success_time: given(&recorded.min_success_time, duration)?.unwrap_or_default(),
            rollback: given(&recorded.on_failure, |text| one_of(text, ["Halt", "Rollback"]))? == Some(1),
            windows: given(&recorded.window, Windows::parse)?,
            not_before: given(&recorded.not_before, instant)?,
            ignore_windows: recorded.ignore_windows,
            stuck_threshold: given(&recorded.stuck_threshold, positive)?,
        })
    }

    /// How long a cluster that had succeeded may be unavailable before it has failed.
    pub(super) fn broken_after(&self) -> SignedDuration {
        self.min_success_time.max(BROKEN_MIN)
    }
}

/// What a text says, if there is one.
fn given<T>(text: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    (!text.is_empty()).then(|| read(text)).transpose()
}

/// The place of a word in a list of two.
fn one_of(text: &str, words: [&str; 2]) -> Result<usize, String> {
    let place = words.iter().position(|word| *word == text);
    place.ok_or_else(|| format!("{text:?} is neither {} nor {}", words[0], words[1]))
}

fn unassigned(text: &str) -> Result<Unassigned, String> {
    match text.split_once('=') {
        None if text == "Fail" => Ok(Unassigned::Fail),
        None if text == "Ignore" => Ok(Unassigned::Ignore(None)),
        None if text == "Last" => Ok(Unassigned::Last),
        Some(("Ignore", most)) => Ok(Unassigned::Ignore(Some(share(most)?))),
        _ => Err(format!(
            "{text:?} is none of Fail, Ignore, Ignore=<number or percentage>, Last"
        )),
    }
}

fn share(text: &str) -> Result<Share, String> {
    let wrong = || format!("{text:?} is neither a number such as 2 nor a percentage such as 10%");
    let digits = text.strip_suffix('%').unwrap_or(text);
    if digits.is_empty() || digits.len() > 6 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    let number: usize = digits.parse().map_err(|_| wrong())?;
    match (text.ends_with('%'), number) {
        (false, number) => Ok(Share::Number(number)),
        (true, percent @ ..=100) => Ok(Share::Percent(percent)),
        (true, _) => Err(wrong()),
    }
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    number::duration(text).ok_or_else(|| format!("{text:?} is no duration such as 30s, 10m or 1h30m"))
}

fn positive(text: &str) -> Result<SignedDuration, String> {
    let duration = duration(text)?;
    if duration.is_zero() {
        return Err(format!("{text:?} is no time at all"));
    }
    Ok(duration)
}

fn instant(text: &str) -> Result<Timestamp, String> {
    let read = text.parse();
    read.map_err(|_| format!("{text:?} is no instant such as 2026-11-18T22:00:00Z"))
}
