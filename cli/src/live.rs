//! Live screens: something is read, shown, and read again once it has changed. Where stdout is no terminal, a line is printed
//! for each change instead.
//!
//! An API server that goes away, or that answers nothing any more, ends nothing: what was read last stays, with the time since
//! when it is stale, until it is back.

mod keys;
mod screen;
#[cfg(test)]
mod tests;

use std::{io::IsTerminal as _, time::Duration};

use anyhow::Result;
use jiff::Timestamp;
use tokio::sync::mpsc;

use crate::{
    exit::Exit,
    hub::Place,
    output::{self, Style},
    problem::Problem,
    subject::Key,
    terminal,
};

/// Before an API server that does not answer is asked again.
const RETRY: Duration = Duration::from_secs(1);
/// An API server that has not answered for so long is said to be away, and waited for.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Nobody waits longer for one answer: it is asked again.
const READ_MAX: Duration = Duration::from_mins(1);

/// What a screen shows at one moment.
pub(crate) struct Picture {
    /// All of it in one line, for those who read no screen.
    pub(crate) line: String,
    /// The screen, for a terminal of this kind.
    pub(crate) body: Box<dyn Fn(&Style) -> String>,
    /// How the command ends, once there is nothing more to wait for.
    pub(crate) ended: Option<Exit>,
    /// What `why` can be asked about, as it is called on the screen.
    pub(crate) subjects: Vec<String>,
    /// What the keys do.
    pub(crate) offers: Vec<Offer>,
}

/// Something that a key does, and the subject that it is done to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) of: String,
    pub(crate) action: Action,
}

/// Something that a key does on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Approves the request.
    Approve(Key),
    /// Stops the update run.
    Stop(Key),
}

/// Where pictures come from.
pub(crate) trait Source {
    /// How it is now.
    async fn read(&mut self, now: Timestamp) -> Result<Picture, Problem>;

    /// Waits until it may have changed, but not without end: an API server that is frozen says nothing of changes.
    async fn changed(&mut self) -> Result<(), Problem>;
}

/// What is known of the hub.
pub(crate) enum News {
    Fresh(Picture),
    /// The API server does not answer.
    Stale(String),
}

/// Shows a source until it has ended, somebody has seen enough, or the time is up.
pub(crate) async fn show(source: &mut impl Source, place: &Place, timeout: Option<Duration>) -> Result<Exit> {
    let is_terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    let time_is_up = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let exit = if is_terminal {
        Box::pin(screen::run(source, place, time_is_up)).await?
    } else {
        tokio::select! {
            ended = lines(source, &|line| output::write(line)) => ended?,
            () = time_is_up => Exit::TimedOut,
        }
    };
    if exit == Exit::TimedOut {
        terminal::note("the time is up: see --timeout");
    }
    Ok(exit)
}

/// A line for each change.
pub(crate) async fn lines(source: &mut impl Source, print: &dyn Fn(&str) -> Result<()>) -> Result<Exit> {
    let (sender, mut news) = mpsc::channel(1);
    let feeding = feed(source, sender);
    tokio::pin!(feeding);
    let (mut last, mut is_stale) = (String::new(), false);
    loop {
        let heard = tokio::select! {
            failed = &mut feeding => return Err(failed.into()),
            Some(heard) = news.recv() => heard,
        };
        match heard {
            News::Fresh(picture) => {
                if is_stale {
                    terminal::note("the hub answers again");
                }
                is_stale = false;
                if picture.line != last {
                    print(&Style::default().finish(&format!("{}\n", picture.line)))?;
                    last.clone_from(&picture.line);
                }
                if let Some(exit) = picture.ended {
                    return Ok(exit);
                }
            }
            News::Stale(why) if !is_stale => {
                is_stale = true;
                terminal::note(&format!("stale: {why}"));
                terminal::note("next: kubectl cluster-info");
            }
            News::Stale(_) => {}
        }
    }
}

/// Reads again and again. Ends only with a problem that does not pass.
async fn feed(source: &mut impl Source, news: mpsc::Sender<News>) -> Problem {
    loop {
        let Some(read) = read_in_time(source, &news).await else {
            continue;
        };
        let done = match read {
            Ok(picture) => {
                // Whoever has seen enough drops both ends.
                _ = news.send(News::Fresh(picture)).await;
                source.changed().await
            }
            Err(problem) => Err(problem),
        };
        match done {
            Ok(()) => {}
            Err(problem) if problem.is_passing() => {
                _ = news.send(News::Stale(problem.to_string())).await;
                tokio::time::sleep(RETRY).await;
            }
            Err(problem) => return problem,
        }
    }
}

/// One picture; none if it is to be asked for again. An answer that is late is said to be, and waited for all the same: a large
/// fleet takes its time.
async fn read_in_time(source: &mut impl Source, news: &mpsc::Sender<News>) -> Option<Result<Picture, Problem>> {
    let reading = tokio::time::timeout(READ_MAX, source.read(terminal::now()));
    tokio::pin!(reading);
    let read = tokio::select! {
        read = &mut reading => read,
        () = tokio::time::sleep(ANSWER_MAX) => {
            let late = format!("the hub has not answered for {} s", ANSWER_MAX.as_secs());
            _ = news.send(News::Stale(late)).await;
            reading.await
        }
    };
    read.ok()
}
