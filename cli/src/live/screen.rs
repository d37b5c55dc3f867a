//! The screen itself: the picture or an explanation, and a last line with what is wrong, what is asked, or the keys.
//!
//! However it ends, the terminal is as it was. Keys work while the hub is asked something: a hub that answers nothing must not
//! take the keyboard away.

use std::{pin::Pin, time::Duration};

use anyhow::{Context as _, Result};
use fleet_api::placement::{ClusterStagedUpdateRun, StagedUpdateRun};
use futures::{Stream, StreamExt as _, future::OptionFuture, stream};
use jiff::Timestamp;
use kube::api::DynamicObject;
use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyEventKind},
    layout::{Constraint, Layout},
    style::{Color, Modifier, Style as Look},
    text::{Line, Text},
    widgets::Paragraph,
};
use tokio::sync::mpsc;

use super::{
    Action, Source, feed,
    keys::{Effect, State},
};
use crate::{
    approve, chain,
    exit::Exit,
    hub::{Hub, Named, Part, Place},
    output::{self, Format, Style, is_mark},
    subject::Key,
    terminal, why,
};

/// What stands before an entry of a tree.
const TREE: [char; 8] = [' ', '├', '└', '│', '─', '|', '`', '-'];
/// Ages are shown in seconds.
const REDRAW: Duration = Duration::from_secs(1);

/// How long a key may take.
const EFFECT_MAX: Duration = Duration::from_secs(10);

/// The terminal as a screen, and as it was once this is dropped.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

pub(super) async fn run(source: &mut impl Source, place: &Place, time_is_up: impl Future<Output = ()>) -> Result<Exit> {
    let style = Style::of_stdout(false);
    // From here on a signal ends the screen, and not the process before the terminal is as it was.
    let told_to_end = told_to_end();
    let mut screen = Screen(ratatui::try_init().context("cannot use the terminal")?);
    let end = async {
        tokio::select! {
            () = time_is_up => Exit::TimedOut,
            () = told_to_end => Exit::Error,
        }
    };
    let shown = drive(source, place, &style, keyboard(), end, &mut |state| {
        let now = terminal::now();
        screen.0.draw(|frame| draw(frame, state, &style, now))?;
        Ok(())
    })
    .await;
    drop(screen);
    let (exit, last) = shown?;
    output::write(&style.finish(&last))?;
    Ok(exit)
}

/// Somebody ends this process from elsewhere, from now on.
fn told_to_end() -> impl Future<Output = ()> {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::hangup()));
    async move {
        let (Ok(mut ended), Ok(mut hung_up)) = signals else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = ended.recv() => {}
            _ = hung_up.recv() => {}
        }
    }
}

/// What became of a key.
enum Came {
    /// An explanation.
    Panel(String),
    Message(String),
}

type Doing<'a> = Pin<Box<dyn Future<Output = Came> + 'a>>;

/// Reads keys and news until there is nothing more to see. The last picture stays on the terminal.
pub(super) async fn drive(
    source: &mut impl Source,
    place: &Place,
    style: &Style,
    mut keys: impl Stream<Item = Event> + Unpin,
    end: impl Future<Output = Exit>,
    draw: &mut dyn FnMut(&State) -> Result<()>,
) -> Result<(Exit, String)> {
    let (sender, mut news) = mpsc::channel(1);
    let feeding = feed(source, sender);
    tokio::pin!(feeding);
    tokio::pin!(end);
    let mut redraw = tokio::time::interval(REDRAW);
    let mut state = State::default();
    let mut doing: OptionFuture<Doing<'_>> = None.into();
    loop {
        draw(&state)?;
        tokio::select! {
            failed = &mut feeding => return Err(failed.into()),
            exit = &mut end => return Ok((exit, last(&state, style))),
            Some(heard) = news.recv() => state.hear(heard, terminal::now()),
            Some(came) = &mut doing => {
                doing = None.into();
                state.busy = false;
                match came {
                    Came::Panel(text) => state.panel = Some(text),
                    Came::Message(text) => state.message = text,
                }
            }
            Some(event) = keys.next() => {
                let Event::Key(key) = event else { continue };
                match state.press(key) {
                    Effect::Nothing => {}
                    Effect::Quit => return Ok((Exit::Done, last(&state, style))),
                    effect => {
                        state.busy = true;
                        let made: Doing<'_> = Box::pin(carried_out(place, effect, *style));
                        doing = Some(made).into();
                    }
                }
            }
            _ = redraw.tick() => {}
        }
        if let Some(exit) = state.picture.as_ref().and_then(|picture| picture.ended) {
            return Ok((exit, last(&state, style)));
        }
    }
}

fn last(state: &State, style: &Style) -> String {
    state
        .picture
        .as_ref()
        .map(|picture| (picture.body)(style))
        .unwrap_or_default()
}

/// Keys come from a thread: nothing else can wait for them.
fn keyboard() -> impl Stream<Item = Event> + Unpin {
    let (sender, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let is_release = matches!(&event, Event::Key(key) if key.kind == KeyEventKind::Release);
            if !is_release && sender.send(event).is_err() {
                break;
            }
        }
    });
    Box::pin(stream::unfold(keys, |mut keys| async move {
        Some((keys.recv().await?, keys))
    }))
}

/// Does what a key means. An answer that never comes is no reason to wait for ever.
async fn carried_out(place: &Place, effect: Effect, style: Style) -> Came {
    let doing = async {
        match effect {
            Effect::Why(subject) => Came::Panel(explained(place, &subject, &style).await),
            Effect::Do(action) => Came::Message(done(&place.hub, &action).await),
            Effect::Nothing | Effect::Quit => Came::Message(String::new()),
        }
    };
    let late = || Came::Message(format!("the hub has not answered for {} s", EFFECT_MAX.as_secs()));
    tokio::time::timeout(EFFECT_MAX, doing).await.unwrap_or_else(|_| late())
}

async fn explained(place: &Place, subject: &str, style: &Style) -> String {
    // As it would be typed: crp/web, or rp/api -n shop.
    let (words, namespace) = subject.split_once(" -n ").unwrap_or((subject, &place.namespace));
    let place = Place {
        hub: place.hub.clone(),
        namespace: namespace.to_owned(),
    };
    let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
    match why::ask(&place, &words, None, terminal::now()).await {
        Ok(answer) => output::rendered(&answer, Format::Table, &Style { color: false, ..*style }).unwrap_or_default(),
        Err(error) => format!("{error:#}\n"),
    }
}

async fn done(hub: &Hub, action: &Action) -> String {
    let done = match action {
        Action::Approve(key) => approve::give(hub, key).await.map(|()| format!("approved {}", key.name)),
        Action::Stop(key) => stop(hub, key).await.map(|()| format!("asked {} to stop", key.name)),
    };
    done.unwrap_or_else(|error| format!("{error:#}"))
}

/// Asks a run to stop: clusters that are being updated are finished first.
async fn stop(hub: &Hub, key: &Key) -> Result<()> {
    let named = Named {
        namespace: Some(key.namespace.as_str()).filter(|namespace| !namespace.is_empty()),
        name: &key.name,
    };
    let change = |run: &mut DynamicObject| {
        let spec = run.data.get_mut("spec").context("the run has no spec")?;
        let is_new = spec["state"] != "Stop";
        spec["state"] = "Stop".into();
        Ok(is_new)
    };
    let changed = match named.namespace {
        None => hub.change::<ClusterStagedUpdateRun>(named, Part::Object, change).await,
        Some(_) => hub.change::<StagedUpdateRun>(named, Part::Object, change).await,
    };
    changed.map(drop).map_err(Into::into)
}

/// Draws a state.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State, style: &Style, now: Timestamp) {
    let [body, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(frame.area());
    let with_colors = style.color;
    let style = Style {
        width: Some(usize::from(body.width).max(20)),
        color: false,
        ..*style
    };
    let text = match (&state.panel, &state.picture) {
        (Some(panel), _) => panel.clone(),
        (None, Some(picture)) => (picture.body)(&style),
        (None, None) => "reading …".to_owned(),
    };
    let selected = state.subject().filter(|_| state.panel.is_none());
    let text = style.finish(&text);
    let lines: Vec<_> = text.lines().collect();
    let chosen = selected.and_then(|subject| lines.iter().position(|line| is_of(line, subject)));
    let top = match chosen {
        _ if state.panel.is_some() => state.scroll,
        // What is chosen is seen, with the line below it.
        Some(line) => u16::try_from((line + 2).saturating_sub(usize::from(body.height))).unwrap_or(u16::MAX),
        None => 0,
    };
    let lines = lines.into_iter().enumerate();
    let lines = lines.map(|(place, line)| colored(line, chosen == Some(place), with_colors));
    frame.render_widget(Paragraph::new(lines.collect::<Text<'_>>()).scroll((top, 0)), body);
    let (words, look) = last_line(state, now);
    let words = style.finish(&words);
    frame.render_widget(Paragraph::new(Line::styled(words, look)), foot);
}

/// Whether a line is about a subject: its first word says so, after marks and the lines of a tree.
fn is_of(line: &str, subject: &str) -> bool {
    let mut words = line.trim_start_matches(TREE).split_whitespace();
    let first = words.by_ref().find(|word| !is_mark(word)).unwrap_or_default();
    let (name, namespace) = subject.split_once(" -n ").unwrap_or((subject, ""));
    let is_named = first.trim_end_matches(':') == name || name.strip_prefix("membercluster/") == Some(first);
    // A narrow terminal may have cut the namespace off.
    let is_in = |word: &str| word.trim_end_matches(':') == namespace;
    is_named && (namespace.is_empty() || words.next() != Some("-n") || words.next().is_none_or(is_in))
}

fn colored(line: &str, is_chosen: bool, with_colors: bool) -> Line<'_> {
    let is_first = |mark| line.trim_start_matches(TREE).starts_with(mark);
    let mut colors = [
        ("✓", Color::Green),
        ("✗", Color::Red),
        ("…", Color::Yellow),
        ("FAILED", Color::Red),
    ]
    .into_iter();
    let color = colors
        .find(|(mark, _)| with_colors && is_first(*mark))
        .map(|(_, color)| color);
    let look = color.map_or_else(Look::default, |color| Look::default().fg(color));
    if is_chosen {
        Line::styled(line, look.add_modifier(Modifier::REVERSED))
    } else {
        Line::styled(line, look)
    }
}

fn last_line(state: &State, now: Timestamp) -> (String, Look) {
    if let Some(action) = &state.asking {
        let what = match action {
            Action::Approve(key) => format!("approve {}?", key.name),
            Action::Stop(key) => format!("stop {}?", key.name),
        };
        return (format!("{what} y/n"), Look::default().add_modifier(Modifier::BOLD));
    }
    if state.busy {
        return ("asking the hub …  q quit".to_owned(), Look::default());
    }
    if let Some((since, why)) = &state.stale {
        let text = format!("stale since {}: {why}", chain::ago(*since, now));
        return (text, Look::default().add_modifier(Modifier::REVERSED));
    }
    if !state.message.is_empty() {
        return (state.message.clone(), Look::default());
    }
    let has = |is: fn(&Action) -> bool| {
        state
            .picture
            .as_ref()
            .is_some_and(|picture| picture.offers.iter().any(|offer| is(&offer.action)))
    };
    let mut keys = vec!["q quit", "w why"];
    if has(|action| matches!(action, Action::Approve(_))) {
        keys.push("a approve");
    }
    if has(|action| matches!(action, Action::Stop(_))) {
        keys.push("s stop");
    }
    (keys.join("  "), Look::default().add_modifier(Modifier::DIM))
}
