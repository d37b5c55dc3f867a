//! The screen itself: the picture or an explanation, and a last line with what is wrong, what is asked, or the keys.

use std::time::Duration;

use anyhow::{Context as _, Result};
use fleet_api::placement::{ClusterStagedUpdateRun, StagedUpdateRun};
use jiff::Timestamp;
use kube::api::DynamicObject;
use ratatui::{
    Frame,
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
    output::{self, Format, Style},
    subject::Key,
    terminal, why,
};

/// Ages are shown in seconds.
const REDRAW: Duration = Duration::from_secs(1);

pub(super) async fn run(source: &mut impl Source, place: &Place) -> Result<Exit> {
    let style = Style::of_stdout(false);
    let mut screen = ratatui::try_init().context("cannot use the terminal")?;
    let shown = drive(source, place, &style, &mut |state| {
        let now = terminal::now();
        screen.draw(|frame| draw(frame, state, &style, now))?;
        Ok(())
    })
    .await;
    ratatui::restore();
    let (exit, last) = shown?;
    output::write(&style.finish(&last))?;
    Ok(exit)
}

/// Reads keys and news until there is nothing more to see. The last picture stays on the terminal.
async fn drive(
    source: &mut impl Source,
    place: &Place,
    style: &Style,
    draw: &mut dyn FnMut(&State) -> Result<()>,
) -> Result<(Exit, String)> {
    let mut keys = keyboard();
    let (sender, mut news) = mpsc::channel(1);
    let feeding = feed(source, sender);
    tokio::pin!(feeding);
    let mut redraw = tokio::time::interval(REDRAW);
    let mut state = State::default();
    loop {
        draw(&state)?;
        tokio::select! {
            failed = &mut feeding => return Err(failed.into()),
            Some(heard) = news.recv() => state.hear(heard, terminal::now()),
            Some(event) = keys.recv() => {
                let Event::Key(key) = event else { continue };
                match state.press(key) {
                    Effect::Nothing => {}
                    Effect::Quit => return Ok((Exit::Done, last(&state, style))),
                    Effect::Why(subject) => state.panel = Some(explained(place, &subject, style).await),
                    Effect::Do(action) => state.message = carried_out(&place.hub, &action).await,
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
fn keyboard() -> mpsc::UnboundedReceiver<Event> {
    let (sender, keys) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            let is_release = matches!(&event, Event::Key(key) if key.kind == KeyEventKind::Release);
            if !is_release && sender.send(event).is_err() {
                break;
            }
        }
    });
    keys
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

async fn carried_out(hub: &Hub, action: &Action) -> String {
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
    let lines = style.finish(&text);
    let lines = lines.lines().map(|line| colored(line, selected, with_colors));
    let top = if state.panel.is_some() { state.scroll } else { 0 };
    frame.render_widget(Paragraph::new(lines.collect::<Text<'_>>()).scroll((top, 0)), body);
    let (words, look) = last_line(state, now);
    let words = style.finish(&words);
    frame.render_widget(Paragraph::new(Line::styled(words, look)), foot);
}

fn colored<'a>(line: &'a str, selected: Option<&str>, with_colors: bool) -> Line<'a> {
    let is_selected = selected.is_some_and(|subject| {
        line.split_whitespace().any(|word| {
            let name = subject.split_once(" -n ").map_or(subject, |(name, _)| name);
            word.trim_end_matches(':') == name || name.strip_prefix("membercluster/") == Some(word)
        })
    });
    let is_first = |mark| {
        line.trim_start_matches([' ', '├', '└', '│', '─', '|', '`', '-'])
            .starts_with(mark)
    };
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
    if is_selected {
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
            .is_some_and(|picture| picture.actions.iter().any(is))
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
