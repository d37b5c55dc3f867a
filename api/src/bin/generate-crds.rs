//! Writes the CRDs below the folder `deploy`, one file each, and removes files there that belong to no kind any more.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use fleet_api::crds;

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let (Some(deploy), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: generate-crds DEPLOY");
        return ExitCode::from(2);
    };
    for (folder, belongs) in crds::FOLDERS {
        let folder = Path::new(&deploy).join(folder);
        match generate(&folder, belongs) {
            Ok(count) => eprintln!("{count} CRDs in {}", folder.display()),
            Err(error) => {
                eprintln!("could not write the CRDs to {}: {error}", folder.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn generate(folder: &Path, belongs: fn(&str) -> bool) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let files: BTreeMap<_, _> = crds::files().into_iter().filter(|(name, _)| belongs(name)).collect();
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
