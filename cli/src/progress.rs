//! That something is still going on, for people who watch a terminal.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};

/// What most commands do for long, if they do anything for long.
pub(crate) const READING: &str = "reading the hub";
/// What takes less is not worth a line.
const AFTER: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);

/// Waits for something, and says so once it takes longer than a second. Nothing is shown where nobody watches.
pub(crate) async fn shown<T>(what: &str, doing: impl Future<Output = T>) -> T {
    tokio::pin!(doing);
    if !std::io::stderr().is_terminal() {
        return doing.await;
    }
    tokio::select! {
        done = &mut doing => return done,
        () = tokio::time::sleep(AFTER) => {}
    }
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(TICK);
    let done = doing.await;
    bar.finish_and_clear();
    done
}
