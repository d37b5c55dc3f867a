//! What a screen knows besides its picture, and what keys do to it. No terminal: tests press keys too.

use jiff::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Action, News, Picture};

/// A screen at one moment.
#[derive(Default)]
pub(super) struct State {
    pub(super) picture: Option<Picture>,
    /// Since when the picture is old, and why.
    pub(super) stale: Option<(Timestamp, String)>,
    /// An explanation that covers the picture.
    pub(super) panel: Option<String>,
    /// What a second key has to confirm.
    pub(super) asking: Option<Action>,
    /// What became of the last key.
    pub(super) message: String,
    pub(super) selected: usize,
    pub(super) scroll: u16,
}

/// What is to be done after a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    Quit,
    /// Explain this.
    Why(String),
    Do(Action),
}

impl State {
    pub(super) fn hear(&mut self, news: News, now: Timestamp) {
        match news {
            News::Fresh(picture) => {
                self.selected = self.selected.min(picture.subjects.len().saturating_sub(1));
                self.picture = Some(picture);
                self.stale = None;
            }
            News::Stale(why) => {
                let since = self.stale.as_ref().map_or(now, |(since, _)| *since);
                self.stale = Some((since, why));
            }
        }
    }

    pub(super) fn subject(&self) -> Option<&str> {
        let picture = self.picture.as_ref()?;
        picture.subjects.get(self.selected).map(String::as_str)
    }

    fn action(&self, is: impl Fn(&Action) -> bool) -> Option<Action> {
        self.picture.as_ref()?.actions.iter().find(|action| is(action)).cloned()
    }

    pub(super) fn press(&mut self, key: KeyEvent) -> Effect {
        self.message.clear();
        if let Some(action) = self.asking.take() {
            return match key.code {
                KeyCode::Char('y' | 'Y') => Effect::Do(action),
                _ => Effect::Nothing,
            };
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return Effect::Quit,
            KeyCode::Char('q') | KeyCode::Esc => {
                if self.panel.take().is_none() {
                    return Effect::Quit;
                }
                self.scroll = 0;
            }
            KeyCode::Char('w') | KeyCode::Enter => {
                if let Some(subject) = self.subject() {
                    return Effect::Why(subject.to_owned());
                }
            }
            KeyCode::Char('a') => self.ask(
                |action| matches!(action, Action::Approve(_)),
                "nothing waits for an approval",
            ),
            KeyCode::Char('s') => self.ask(|action| matches!(action, Action::Stop(_)), "there is no run to stop"),
            KeyCode::Up | KeyCode::Char('k') if self.panel.is_none() => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') if self.panel.is_none() => {
                let last = self
                    .picture
                    .as_ref()
                    .map_or(0, |picture| picture.subjects.len().saturating_sub(1));
                self.selected = (self.selected + 1).min(last);
            }
            KeyCode::Up | KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::PageDown => self.scroll = self.scroll.saturating_add(1),
            _ => {}
        }
        Effect::Nothing
    }

    fn ask(&mut self, is: impl Fn(&Action) -> bool, none: &str) {
        self.asking = self.action(is);
        if self.asking.is_none() {
            none.clone_into(&mut self.message);
        }
    }
}
