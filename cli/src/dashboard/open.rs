//! Opens the user's browser.

use std::{
    io::Write as _,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::{Command, Stdio},
};

use tempfile::NamedTempFile;

use crate::terminal;

/// Opens a link without anybody else seeing it: the arguments of a program are public on its machine, so the browser opens a
/// file that only its user may read, and that leads to the link. Nothing if there is no browser; the link is printed anyway.
pub(super) fn browser(link: &str) -> Option<NamedTempFile> {
    let opened = write(link).and_then(|file| start(&file).map(|()| file));
    match opened {
        Ok(file) => Some(file),
        Err(error) => {
            terminal::note(&format!("no browser could be started ({error}): open the link by hand"));
            None
        }
    }
}

fn write(link: &str) -> std::io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("flotilla-").suffix(".html");
    let builder = builder.permissions(std::fs::Permissions::from_mode(0o600));
    let mut file = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) => builder.tempfile_in(dir).or_else(|_| builder.tempfile())?,
        None => builder.tempfile()?,
    };
    // The link has only characters that stand for themselves.
    write!(
        file,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url={link}\"><a href=\"{link}\">Flotilla</a>"
    )?;
    file.flush()?;
    Ok(file)
}

fn start(file: &NamedTempFile) -> std::io::Result<()> {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(file.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // In a group of its own: what ends the dashboard in the terminal does not end the browser.
    let mut child = command.process_group(0).spawn()?;
    std::thread::spawn(move || {
        if let Ok(status) = child.wait()
            && !status.success()
        {
            terminal::note("no browser could be started: open the link by hand");
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_leads_to_the_link_is_the_users_alone() {
        let link = "http://127.0.0.1:1234/login?token=abc";
        let file = write(link).unwrap();
        let mode = file.path().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(std::fs::read_to_string(file.path()).unwrap().contains(link));
    }
}
