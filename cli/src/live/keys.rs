//! What a screen knows besides its picture, and what keys do to it. No terminal: tests press keys too.

use jiff::Timestamp;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Action, News, Offer, Picture};

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
    /// Whether the hub is being asked what a key wants of it.
    pub(super) busy: bool,
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
                // What is chosen stays chosen where lines change their places.
                let last = picture.subjects.len().saturating_sub(1);
                let chosen = self.subject();
                let place = chosen.and_then(|chosen| picture.subjects.iter().position(|it| it == chosen));
                self.selected = place.unwrap_or_else(|| self.selected.min(last));
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

    /// What can be done to the subject that is chosen; to the only one that anything can be done to, if it is another.
    fn action(&self, is: impl Fn(&Action) -> bool) -> Result<Action, Option<&'static str>> {
        let offers = self.picture.iter().flat_map(|picture| &picture.offers);
        let fitting: Vec<&Offer> = offers.filter(|offer| is(&offer.action)).collect();
        let own = fitting.iter().find(|offer| Some(offer.of.as_str()) == self.subject());
        match (own, fitting.as_slice()) {
            (Some(own), _) => Ok(own.action.clone()),
            (None, [only]) => Ok(only.action.clone()),
            (None, []) => Err(None),
            (None, _) => Err(Some("choose the run first: more than one waits")),
        }
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
            KeyCode::Char('w' | 'a' | 's') | KeyCode::Enter if self.busy => {}
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
        match self.action(is) {
            Ok(action) => self.asking = Some(action),
            Err(why) => why.unwrap_or(none).clone_into(&mut self.message),
        }
    }
}
