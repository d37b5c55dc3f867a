//! deploy/crds is what the types say.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn the_checked_in_crds_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/crds");
    let mut present: BTreeSet<String> = fs::read_dir(&folder)
        .expect("deploy/crds exists")
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    for (name, content) in fleet_api::crds::files() {
        assert!(
            present.remove(&name),
            "deploy/crds/{name} is missing: run make generate"
        );
        let found = fs::read(folder.join(&name)).unwrap();
        assert!(
            found == content.as_bytes(),
            "deploy/crds/{name} is stale: run make generate"
        );
    }
    assert!(
        present.is_empty(),
        "deploy/crds has files of no kind: {present:?}: run make generate"
    );
}
