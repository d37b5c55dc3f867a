use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};

use super::{
    Action, News, Picture,
    keys::{Effect, State},
    screen::draw,
};
use crate::{output::Style, subject::Key, testing::shown::now};

fn picture() -> Picture {
    Picture {
        line: "a line".into(),
        body: Box::new(|style| {
            format!(
                "✓ crp/web  {}\n✗ crp/pay  behind\n",
                style.wrapped(&"word ".repeat(12), 11, 2)
            )
        }),
        ended: None,
        subjects: vec!["crp/web".into(), "crp/pay".into()],
        actions: vec![
            Action::Approve(Key::new("", "release-after-canary")),
            Action::Stop(Key::new("", "release")),
        ],
    }
}

fn press(state: &mut State, key: char) -> Effect {
    state.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE))
}

/// The screen as text.
fn drawn(state: &State, width: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, 8)).expect("a terminal");
    let style = Style {
        unicode: true,
        ..Style::default()
    };
    terminal
        .draw(|frame| draw(frame, state, &style, now()))
        .expect("it can be drawn");
    let cells = terminal.backend().buffer().content.chunks(usize::from(width));
    let line = |cells: &[ratatui::buffer::Cell]| {
        cells
            .iter()
            .map(ratatui::buffer::Cell::symbol)
            .collect::<String>()
            .trim_end()
            .to_owned()
    };
    cells.map(line).collect()
}

#[test]
fn the_screen_works_with_forty_columns() {
    let mut state = State::default();
    assert_eq!(drawn(&state, 40)[0], "reading …");
    state.hear(News::Fresh(picture()), now());
    let lines = drawn(&state, 40);
    assert_eq!(lines[0], "✓ crp/web  word word word word word word");
    assert!(
        lines[1].starts_with("  word") && lines.contains(&"✗ crp/pay  behind".to_owned()),
        "{lines:?}"
    );
    assert_eq!(lines[7], "q quit  w why  a approve  s stop");
}

#[test]
fn what_is_stale_says_since_when_and_recovers() {
    let mut state = State::default();
    state.hear(News::Fresh(picture()), now());
    let before = now() - jiff::SignedDuration::from_secs(30);
    state.hear(News::Stale("connection refused".into()), before);
    state.hear(News::Stale("connection refused".into()), now());
    let lines = drawn(&state, 60);
    assert_eq!(lines[7], "stale since 30s: connection refused");
    assert!(lines[0].starts_with("✓ crp/web"), "what was read last stays: {lines:?}");
    state.hear(News::Fresh(picture()), now());
    assert!(drawn(&state, 60)[7].starts_with("q quit"));
}

#[test]
fn keys_ask_before_they_do_something_and_why_is_about_what_is_chosen() {
    let mut state = State::default();
    assert_eq!(press(&mut state, 'w'), Effect::Nothing);
    state.hear(News::Fresh(picture()), now());
    assert_eq!(press(&mut state, 'w'), Effect::Why("crp/web".into()));
    assert_eq!(press(&mut state, 'j'), Effect::Nothing);
    assert_eq!(press(&mut state, 'w'), Effect::Why("crp/pay".into()));
    assert_eq!(press(&mut state, 'a'), Effect::Nothing);
    assert_eq!(drawn(&state, 60)[7], "approve release-after-canary? y/n");
    assert_eq!(press(&mut state, 'n'), Effect::Nothing);
    press(&mut state, 's');
    assert_eq!(
        press(&mut state, 'y'),
        Effect::Do(Action::Stop(Key::new("", "release")))
    );
    state.panel = Some("why\n".into());
    assert_eq!(press(&mut state, 'q'), Effect::Nothing);
    assert_eq!(press(&mut state, 'q'), Effect::Quit);
}

#[test]
fn a_key_without_a_meaning_says_so() {
    let mut state = State::default();
    state.hear(
        News::Fresh(Picture {
            actions: Vec::new(),
            ..picture()
        }),
        now(),
    );
    press(&mut state, 'a');
    assert_eq!(drawn(&state, 60)[7], "nothing waits for an approval");
}
