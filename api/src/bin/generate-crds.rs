//! Writes the CRDs into a folder, one file each, and removes files there that belong to no kind any more.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let (Some(folder), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: generate-crds FOLDER");
        return ExitCode::from(2);
    };
    match generate(Path::new(&folder)) {
        Ok(count) => {
            eprintln!("{count} CRDs in {}", folder.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("could not write the CRDs to {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

fn generate(folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let files: BTreeMap<_, _> = fleet_api::crds::files().into_iter().collect();
    for (name, content) in &files {
        fs::write(folder.join(name), content)?;
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let known = path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| files.contains_key(name));
        if !known && path.extension().is_some_and(|extension| extension == "yaml") {
            fs::remove_file(path)?;
        }
    }
    Ok(files.len())
}
