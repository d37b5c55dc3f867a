//! Every kind has an example in docs/examples that is complete: it says what the API server would fill in.

use std::fs;
use std::path::Path;

use fleet_api::Kind;
use serde_json::Value;

fn example(plural: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../docs/examples/{plural}.yaml"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(
        text.starts_with("# "),
        "{plural}.yaml does not begin with a comment that says what it is"
    );
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn check<K: Kind>() {
    let plural = K::CRD.plural;
    let written = example(plural);
    let decoded: K = serde_json::from_value(written.clone()).unwrap_or_else(|error| panic!("{plural}: {error}"));
    assert_eq!(
        serde_json::to_value(&decoded).expect("it encodes"),
        written,
        "{plural} from a value"
    );
    let text: K = serde_json::from_str(&written.to_string()).unwrap_or_else(|error| panic!("{plural}: {error}"));
    assert_eq!(text, decoded, "{plural} from text");
}

#[test]
fn every_example_says_what_its_type_says() {
    macro_rules! check_all {
        ($($kind:ty,)+) => { $(check::<$kind>();)+ };
    }
    fleet_api::for_each_kind!(check_all);
}

#[test]
fn there_are_no_other_examples() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples");
    let known: Vec<_> = fleet_api::crds::all()
        .into_iter()
        .map(|crd| crd.spec.names.plural)
        .collect();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
            assert!(known.contains(&stem), "{} is the example of no kind", path.display());
        }
    }
}
