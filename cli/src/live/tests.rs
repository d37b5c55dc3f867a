use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers},
};

use futures::{StreamExt as _, stream};

use super::{
    Action, News, Offer, Picture, Source,
    keys::{Effect, State},
    screen::{draw, drive},
};
use crate::{
    exit::Exit,
    hub::{Hub, Place},
    output::Style,
    problem::Problem,
    subject::Key,
    testing::shown::{hub, now, place},
};

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
        offers: vec![
            offer("csur/release", Action::Approve(Key::new("", "release-after-canary"))),
            offer("csur/release", Action::Stop(Key::new("", "release"))),
        ],
    }
}

fn offer(of: &str, action: Action) -> Offer {
    Offer { of: of.into(), action }
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
            offers: Vec::new(),
            ..picture()
        }),
        now(),
    );
    press(&mut state, 'a');
    assert_eq!(drawn(&state, 60)[7], "nothing waits for an approval");
}

#[test]
fn what_is_chosen_stays_chosen_and_is_seen() {
    let many = |names: &[&str]| {
        let lines: Vec<_> = names.iter().map(|name| format!("ok {name}  well")).collect();
        let lines = lines.join("\n") + "\n";
        Picture {
            body: Box::new(move |_| format!("a summary\n{lines}")),
            subjects: names.iter().map(|name| (*name).to_owned()).collect(),
            ..picture()
        }
    };
    let names: Vec<String> = (0..20).map(|number| format!("crp/p{number:02}")).collect();
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut state = State::default();
    state.hear(News::Fresh(many(&names)), now());
    for _ in 0..12 {
        press(&mut state, 'j');
    }
    let lines = drawn(&state, 40);
    assert!(lines.iter().any(|line| line.contains("crp/p12")), "{lines:?}");
    names.reverse();
    state.hear(News::Fresh(many(&names)), now());
    assert_eq!(state.subject(), Some("crp/p12"));
    // A line that only mentions it is not the one that is chosen.
    assert_eq!(press(&mut state, 'w'), Effect::Why("crp/p12".into()));
}

#[test]
fn an_approval_is_for_the_run_that_is_chosen() {
    let approval = |run: &str| offer(run, Action::Approve(Key::new("", &format!("{run}-x"))));
    let mut state = State::default();
    state.hear(
        News::Fresh(Picture {
            subjects: vec!["crp/web".into(), "csur/a".into(), "csur/b".into()],
            offers: vec![approval("csur/a"), approval("csur/b")],
            ..picture()
        }),
        now(),
    );
    press(&mut state, 'a');
    assert_eq!(state.message, "choose the run first: more than one waits");
    press(&mut state, 'j');
    press(&mut state, 'j');
    press(&mut state, 'a');
    assert_eq!(drawn(&state, 60)[7], "approve csur/b-x? y/n");
}

/// A hub that is read once and then says nothing any more.
struct Frozen {
    reads: usize,
}

impl Source for Frozen {
    async fn read(&mut self, _now: jiff::Timestamp) -> Result<Picture, Problem> {
        self.reads += 1;
        match self.reads {
            1 => Ok(picture()),
            _ => std::future::pending().await,
        }
    }

    async fn changed(&mut self) -> Result<(), Problem> {
        Ok(())
    }
}

fn key(code: char) -> Event {
    Event::Key(KeyEvent::new(KeyCode::Char(code), KeyModifiers::NONE))
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_answers_nothing_any_more_is_stale_and_the_time_ends_it_with_the_last_picture() {
    let server = hub();
    let mut feet = Vec::new();
    let end = async {
        tokio::time::sleep(std::time::Duration::from_mins(2)).await;
        Exit::TimedOut
    };
    let (exit, last) = drive(
        &mut Frozen { reads: 0 },
        &place(&server),
        &Style::default(),
        stream::pending(),
        end,
        &mut |state| {
            feet.extend(drawn(state, 60).pop());
            Ok(())
        },
    )
    .await
    .expect("nothing fails");
    assert_eq!(exit, Exit::TimedOut);
    assert!(last.contains("crp/web"), "{last}");
    let is_stale = |foot: &String| foot.ends_with("the hub has not answered for 10 s");
    assert!(feet.iter().any(is_stale), "{feet:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_work_while_the_hub_answers_nothing() {
    let server = hub();
    let place = Place {
        hub: Hub::new(fleet_testkit::frozen()),
        ..place(&server)
    };
    let later = stream::once(async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        key('w')
    });
    let keys = Box::pin(later.chain(stream::iter([key('q')])).chain(stream::pending()));
    let (exit, _) = drive(
        &mut Frozen { reads: 0 },
        &place,
        &Style::default(),
        keys,
        std::future::pending(),
        &mut |_| Ok(()),
    )
    .await
    .expect("nothing fails");
    assert_eq!(exit, Exit::Done, "q was heard while w was being answered");
}
