//! Every reason that `api/src/conditions` declares has a meaning. The sources are read, so that a new reason without one
//! fails here, wherever it is declared.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::*;

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("tests.rs" | "states.rs") => {}
            _ if path.is_dir() => sources(&path, into),
            _ => into.push(path),
        }
    }
}

/// The words right after `=> True`, `=> False` and `=> Unknown`, and those that `reason()` of a failure gives.
fn declared() -> BTreeSet<String> {
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("../api/src/conditions"),
        &mut files,
    );
    let mut reasons = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for status in ["True", "False", "Unknown"] {
            let mark = format!("=> {status} \"");
            let states = text.split(&mark).skip(1);
            reasons.extend(states.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
        let failures = text.split("pub const fn reason(&self)").nth(1).unwrap_or_default();
        let failures = failures.split("\n    }").next().unwrap_or_default();
        let words = failures.split("=> \"").skip(1);
        reasons.extend(words.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    reasons
}

#[test]
fn every_reason_of_the_api_has_a_meaning() {
    let declared = declared();
    // Were the sources written otherwise, the test would find nothing and say nothing.
    assert!(declared.len() > 100, "{declared:?}");
    for known in ["SyncWorkFailed", "FoundDrifts", "UpdateRunStuck", "ManifestApplyFailed"] {
        assert!(declared.contains(known), "{known}");
    }
    let missing: Vec<_> = declared.iter().filter(|reason| meaning(reason).is_none()).collect();
    assert!(missing.is_empty(), "reasons without a meaning: {missing:?}");
}

#[test]
fn every_meaning_is_that_of_one_reason_that_exists() {
    let declared = declared();
    let mut seen = BTreeSet::new();
    for (reason, _) in TABLES.iter().flat_map(|table| table.iter()) {
        assert!(declared.contains(*reason), "{reason} is not a reason of the API");
        assert!(seen.insert(reason), "{reason} has two meanings");
    }
}

#[test]
fn whatever_is_not_done_has_a_next_command() {
    let names = Names {
        placement: "web",
        cluster: "east",
        run: "release",
        object: "deployment.apps/web".into(),
        message: "…",
        ..Names::default()
    };
    for (reason, meaning) in TABLES.iter().flat_map(|table| table.iter()) {
        let next = names.fill(meaning.next);
        if meaning.verdict == Verdict::Done {
            assert_eq!(next, "", "{reason}");
        } else {
            super::super::tests::assert_command(&next);
        }
        let text = names.fill(meaning.text);
        assert!(
            !text.is_empty() && !text.contains('{') && !text.ends_with('.'),
            "{reason}: {text}"
        );
    }
}

#[test]
fn a_reason_of_a_newer_hub_is_shown_as_it_is() {
    let condition = Condition {
        type_: "Applied".into(),
        status: "False".into(),
        reason: "Haunted".into(),
        message: "a ghost".into(),
        observed_generation: None,
        last_transition_time: fleet_api::conditions::to_condition(
            &fleet_api::conditions::work::Applied::AllApplied,
            1,
            jiff::Timestamp::UNIX_EPOCH,
        )
        .last_transition_time,
    };
    let step = step("Applied", &condition, &Names::default());
    assert_eq!(step.verdict, Verdict::Failed);
    assert_eq!(step.cause.unwrap().text, "Haunted: a ghost");
}
