//! `kubectl fleet dashboard` in a real browser (Chromium without a screen), against a real hub. Members are played, so each
//! scenario has its own. They need a fleet with agents (`fleet-local agents`), and `chromium` and `chromedriver` on the PATH.

mod acts;
mod attacks;
mod axe;
mod browser;
mod looks;
mod seen;
