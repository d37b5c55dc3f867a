//! What `make generate` writes below `deploy/` is up to date.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fleet_api::crds;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// All in one text, as charts render to, within the bounds that the parser sets by itself.
#[test]
fn the_files_say_what_the_types_say() {
    let (texts, types) = (crds::files(), crds::all());
    let text: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
    let read: Vec<CustomResourceDefinition> = serde_saphyr::from_multiple(&text.join("---\n")).expect("it is YAML");
    assert_eq!(read, types);
}

#[test]
fn the_checked_in_crds_are_up_to_date() {
    for (name, belongs) in crds::FOLDERS {
        let folder = deploy().join(name);
        let mut present: BTreeSet<String> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("deploy/{name}: {error}"))
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "yaml"))
            .collect();
        for (file, content) in crds::files().into_iter().filter(|(file, _)| belongs(file)) {
            assert!(
                present.remove(&file),
                "deploy/{name}/{file} is missing: run make generate"
            );
            let found = fs::read(folder.join(&file)).unwrap();
            assert!(
                found == content.as_bytes(),
                "deploy/{name}/{file} is stale: run make generate"
            );
        }
        assert!(
            present.is_empty(),
            "deploy/{name} has files that do not belong there: {present:?}: run make generate"
        );
    }
}

/// Packages drop symbolic links, and with them what a chart needs.
#[test]
fn the_charts_have_files_of_their_own_and_their_defaults_beside_them() {
    for chart in ["hub-agent", "member-agent"] {
        let chart = deploy().join("charts").join(chart);
        let mut folders = vec![chart.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let entry = entry.unwrap();
                let kind = entry.file_type().unwrap();
                assert!(!kind.is_symlink(), "{} is a symbolic link", entry.path().display());
                if kind.is_dir() {
                    folders.push(entry.path());
                }
            }
        }
        let read = |file: &str| fs::read_to_string(chart.join(file)).unwrap();
        assert!(
            read("values.yaml") == read("files/values.yaml"),
            "{}/files/values.yaml is stale: run make generate",
            chart.display()
        );
    }
}
