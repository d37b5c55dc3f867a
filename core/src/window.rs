//! When clusters may be changed: weekly windows, read off the clock that hangs on the wall in a zone.
//!
//! A window is open while that clock shows a time in it. So an hour that the clock shows twice in autumn is open twice, and
//! one that it leaves out in spring is not open at all. Zones come with the program: the answer is the same everywhere.

use std::fmt;

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Span, Timestamp};

/// More windows than this are a mistake.
const WINDOWS_MAX: usize = 32;
/// A longer text is a mistake.
const TEXT_MAX: usize = 2048;
/// A window opens every week; in one week of the year the clock may leave its time out.
const DAYS_AHEAD: i32 = 16;
/// How often several windows are asked in turn for a time that suits all. Each turn goes on to another opening.
const TURNS_MAX: usize = 256;
/// What does not meet in so many days does not, before some clock is set forward or back.
const DAYS_ALIKE: SignedDuration = SignedDuration::from_hours(8 * 24);
/// Within so many days every clock that is set forward and back has been.
const DAYS_MAX: SignedDuration = SignedDuration::from_hours(400 * 24);
const MINUTES_OF_A_DAY: i32 = 24 * 60;
const EXAMPLE: &str = "write it as `Mon-Fri 22:00-04:00 Europe/Zurich`, several separated by `;`";

/// Windows, of which one has to be open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows(Vec<Window>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Window {
    /// From Monday on: the days on which it begins.
    days: [bool; 7],
    /// In minutes of the day.
    start: i32,
    /// In minutes of the day. Not after the start: on the next day.
    end: i32,
    zone: TimeZone,
}

impl Windows {
    /// Reads `<days> <hh:mm>-<hh:mm> <IANA zone>`, several separated by `;`; or says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("it is longer than {TEXT_MAX} characters"));
        }
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        let windows = parts.map(Window::parse).collect::<Result<Vec<_>, _>>()?;
        match windows.len() {
            0 => Err(format!("it is empty; {EXAMPLE}")),
            count if count > WINDOWS_MAX => Err(format!("it has more than {WINDOWS_MAX} windows")),
            _ => Ok(Self(windows)),
        }
    }

    /// Whether one of them is open.
    pub fn is_open(&self, at: Timestamp) -> bool {
        self.0.iter().any(|window| window.is_open(at))
    }

    /// The first instant from `at` on at which one is open; none if there is none in the next two weeks.
    pub fn next_open(&self, at: Timestamp) -> Option<Timestamp> {
        self.0.iter().filter_map(|window| window.next_open(at)).min()
    }

    /// When the first of their clocks is set forward or back after `at`.
    fn next_step(&self, at: Timestamp) -> Option<Timestamp> {
        let steps = self.0.iter().filter_map(|window| window.zone.following(at).next());
        steps.map(|step| step.timestamp()).min()
    }
}

/// The first instant from `at` on at which all of these are open; none if there is none for more than a year.
pub fn next_open<'a>(all: impl IntoIterator<Item = &'a Windows>, at: Timestamp) -> Option<Timestamp> {
    let all: Vec<_> = all.into_iter().collect();
    let end = at.saturating_add(DAYS_MAX).unwrap_or(Timestamp::MAX);
    let (mut instant, mut alike_since) = (at, at);
    for _ in 0..TURNS_MAX {
        let mut later = instant;
        for windows in &all {
            later = later.max(windows.next_open(instant)?);
        }
        if later == instant {
            return Some(instant);
        }
        instant = later;
        if instant.duration_since(alike_since) > DAYS_ALIKE {
            alike_since = all.iter().filter_map(|windows| windows.next_step(alike_since)).min()?;
            instant = instant.max(alike_since);
        }
        if instant > end {
            return None;
        }
    }
    None
}

impl Window {
    fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split_whitespace().collect();
        let [days, hours, zone] = words[..] else {
            return Err(format!("{text:?} has not three parts; {EXAMPLE}"));
        };
        let (start, end) = hours
            .split_once('-')
            .ok_or_else(|| format!("{hours:?} is no span of hours; {EXAMPLE}"))?;
        let start = minutes(start)?;
        if start == MINUTES_OF_A_DAY {
            return Err(format!("{hours:?} begins at the end of a day; {EXAMPLE}"));
        }
        let zone = TimeZoneDatabase::bundled()
            .get(zone)
            .map_err(|_| format!("{zone:?} is no time zone such as Europe/Zurich or UTC"))?;
        Ok(Self {
            days: days_of(days)?,
            start,
            end: minutes(end)?,
            zone,
        })
    }

    fn is_open(&self, at: Timestamp) -> bool {
        let shown = self.zone.to_datetime(at);
        let minute = i32::from(shown.hour()) * 60 + i32::from(shown.minute());
        let today = usize::from(shown.weekday().to_monday_zero_offset().unsigned_abs());
        let (begins_today, began_yesterday) = (self.days[today], self.days[(today + 6) % 7]);
        if self.end > self.start {
            begins_today && (self.start..self.end).contains(&minute)
        } else {
            begins_today && minute >= self.start || began_yesterday && minute < self.end
        }
    }

    /// A window opens when the clock comes to its start, or when the clock is set forward or back into it.
    fn next_open(&self, at: Timestamp) -> Option<Timestamp> {
        if self.is_open(at) {
            return Some(at);
        }
        let today = self.zone.to_datetime(at).date();
        let days = (-1..DAYS_AHEAD).filter_map(|days| today.checked_add(Span::new().days(days)).ok());
        let days: Vec<Date> = days.collect();
        let end = days.last().and_then(|day| day.to_zoned(self.zone.clone()).ok());
        let end = end.map_or(Timestamp::MAX, |end| end.timestamp());
        let starts = days.iter().flat_map(|day| {
            let shown = DateTime::from_parts(*day, clock(self.start));
            let instants = [
                self.zone.to_ambiguous_zoned(shown).earlier(),
                self.zone.to_ambiguous_zoned(shown).later(),
            ];
            instants.into_iter().flatten().map(|instant| instant.timestamp())
        });
        let steps = self.zone.following(at).map(|step| step.timestamp());
        let candidates = starts.chain(steps.take_while(|step| *step <= end));
        candidates
            .filter(|instant| *instant > at && self.is_open(*instant))
            .min()
    }
}

fn clock(minutes: i32) -> Time {
    let part = |number: i32| i8::try_from(number).unwrap_or_default();
    Time::constant(part(minutes / 60), part(minutes % 60), 0, 0)
}

/// `hh:mm` in minutes; `24:00` is the end of the day.
fn minutes(text: &str) -> Result<i32, String> {
    let wrong = || format!("{text:?} is no time of day such as 22:00");
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let number = |digits: &str| {
        let plain = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_digit());
        plain.then(|| digits.parse::<i32>().ok()).flatten().ok_or_else(wrong)
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    let sum = hour * 60 + minute;
    if minute < 60 && sum <= MINUTES_OF_A_DAY {
        Ok(sum)
    } else {
        Err(wrong())
    }
}

/// `Mon-Fri`, `Sat,Sun`, `Fri-Mon`.
fn days_of(text: &str) -> Result<[bool; 7], String> {
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        let count = (last + 7 - first) % 7;
        for offset in 0..=count {
            days[(first + offset) % 7] = true;
        }
    }
    Ok(days)
}

fn day(text: &str) -> Result<usize, String> {
    const NAMES: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let found = NAMES.iter().position(|name| name.eq_ignore_ascii_case(text));
    found.ok_or_else(|| format!("{text:?} is no day: they are {}", NAMES.join(", ")))
}

impl fmt::Display for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, window) in self.0.iter().enumerate() {
            let end = if place + 1 < self.0.len() { "; " } else { "" };
            let days = (0..7_i8).filter(|day| window.days[usize::from(day.unsigned_abs())]);
            let days: Vec<_> = days
                .filter_map(|day| Weekday::from_monday_zero_offset(day).ok())
                .map(|day| format!("{day:?}")[..3].to_owned())
                .collect();
            write!(
                f,
                "{} {:02}:{:02}-{:02}:{:02} {}{end}",
                days.join(","),
                window.start / 60,
                window.start % 60,
                window.end / 60,
                window.end % 60,
                window.zone.iana_name().unwrap_or("UTC"),
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn windows(text: &str) -> Windows {
        Windows::parse(text).unwrap()
    }

    #[test]
    fn a_night_belongs_to_the_day_on_which_it_begins() {
        let nights = windows("Mon-Fri 22:00-04:00 Europe/Zurich");
        for (instant, open) in [
            // A Wednesday in winter: Zurich is an hour ahead.
            ("2026-11-18T20:59:59Z", false),
            ("2026-11-18T21:00:00Z", true),
            ("2026-11-19T02:59:59Z", true),
            ("2026-11-19T03:00:00Z", false),
            // Friday's night ends on Saturday; Sunday's is none, though Monday is a day.
            ("2026-11-21T02:00:00Z", true),
            ("2026-11-21T22:00:00Z", false),
            ("2026-11-23T02:00:00Z", false),
        ] {
            assert_eq!(nights.is_open(at(instant)), open, "{instant}");
        }
        assert_eq!(
            nights.next_open(at("2026-11-21T12:00:00Z")),
            Some(at("2026-11-23T21:00:00Z"))
        );
    }

    #[test]
    fn summer_time_moves_the_instant_and_not_the_clock() {
        let nights = windows("Mon-Sun 22:00-23:00 Europe/Zurich");
        assert_eq!(
            nights.next_open(at("2026-03-28T22:30:00Z")),
            Some(at("2026-03-29T20:00:00Z")),
            "an hour less lies between the two"
        );
        assert_eq!(
            nights.next_open(at("2026-10-24T21:30:00Z")),
            Some(at("2026-10-25T21:00:00Z")),
            "an hour more"
        );
    }

    #[test]
    fn an_hour_that_is_left_out_is_not_open_and_one_that_comes_twice_is_twice() {
        let early = windows("Sun 02:10-02:40 Europe/Zurich");
        assert_eq!(
            early.next_open(at("2026-03-28T12:00:00Z")),
            Some(at("2026-04-05T00:10:00Z")),
            "on 29 March the clock goes from 02:00 to 03:00"
        );
        let half = windows("Sun 02:30-03:30 Europe/Zurich");
        assert_eq!(
            half.next_open(at("2026-03-28T12:00:00Z")),
            Some(at("2026-03-29T01:00:00Z")),
            "it opens when the clock is set into it"
        );
        let open = |instant: &str| early.is_open(at(instant));
        assert!(open("2026-10-25T00:15:00Z") && !open("2026-10-25T00:45:00Z") && open("2026-10-25T01:15:00Z"));
        assert_eq!(
            early.next_open(at("2026-10-25T00:45:00Z")),
            Some(at("2026-10-25T01:10:00Z"))
        );
    }

    #[test]
    fn all_must_be_open() {
        let (zurich, tokyo) = (
            windows("Mon-Fri 08:00-18:00 Europe/Zurich"),
            windows("Mon-Fri 15:00-24:00 Asia/Tokyo"),
        );
        assert_eq!(
            next_open([&zurich, &tokyo], at("2026-11-21T00:00:00Z")),
            Some(at("2026-11-23T07:00:00Z"))
        );
        let never = windows("Mon 00:00-06:00 UTC");
        assert_eq!(next_open([&zurich, &never], at("2026-11-21T00:00:00Z")), None);
        assert_eq!(
            next_open([], at("2026-11-21T00:00:00Z")),
            Some(at("2026-11-21T00:00:00Z"))
        );
    }

    #[test]
    fn windows_that_meet_only_in_summer_are_waited_for_until_summer() {
        let (morning, zurich) = (
            windows("Mon-Sun 06:00-07:00 UTC"),
            windows("Mon-Sun 08:00-09:00 Europe/Zurich"),
        );
        assert_eq!(
            next_open([&morning, &zurich], at("2026-11-18T12:00:00Z")),
            Some(at("2027-03-28T06:00:00Z"))
        );
        // In the weeks in between New York is an hour nearer.
        let york = windows("Mon-Sun 03:30-04:00 America/New_York");
        assert_eq!(
            next_open([&york, &zurich], at("2026-11-18T12:00:00Z")),
            Some(at("2027-03-14T07:30:00Z"))
        );
        // One after the other, for ever.
        let next = windows("Mon-Sun 09:00-10:00 Europe/Zurich");
        assert_eq!(next_open([&next, &zurich], at("2026-11-18T12:00:00Z")), None);
        let (utc, also) = (windows("Mon-Sun 06:00-07:00 UTC"), windows("Mon 05:00-06:00 UTC"));
        assert_eq!(next_open([&utc, &also], at("2026-11-18T12:00:00Z")), None);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (text, why) in [
            ("", "it is empty"),
            ("Mon 22:00-04:00", "has not three parts"),
            ("Mon-Fri 22-04 UTC", "\"22\" is no time of day"),
            ("Mon 22:00 UTC", "\"22:00\" is no span of hours"),
            ("Mon 24:00-04:00 UTC", "begins at the end of a day"),
            ("Mon 23:60-24:00 UTC", "\"23:60\" is no time of day"),
            ("Mon 23:00-24:01 UTC", "\"24:01\" is no time of day"),
            ("Foo 22:00-04:00 UTC", "\"Foo\" is no day"),
            ("Mon-Bar 22:00-04:00 UTC", "\"Bar\" is no day"),
            ("Mon 22:00-04:00 Europe/Nowhere", "\"Europe/Nowhere\" is no time zone"),
        ] {
            let error = Windows::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(Windows::parse(&"Mon 22:00-04:00 UTC;".repeat(33)).is_err());
        assert!(Windows::parse(&"x".repeat(3000)).is_err());
        let shown = windows("fri-mon 22:00-04:00 Europe/Zurich;Wed 00:00-24:00 UTC").to_string();
        assert_eq!(shown, "Mon,Fri,Sat,Sun 22:00-04:00 Europe/Zurich; Wed 00:00-24:00 UTC");
        assert_eq!(windows(&shown).to_string(), shown);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        /// The next opening is the first open minute, whatever the zone does in between.
        #[test]
        fn nothing_is_open_before_the_next_opening(
            day in 0..365 * 2i64,
            minute in 0..MINUTES_OF_A_DAY,
            start in 0..MINUTES_OF_A_DAY,
            end in 0..=MINUTES_OF_A_DAY,
            weekday in 0..7usize,
            zone in prop::sample::select(vec!["Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]),
        ) {
            let name = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"][weekday];
            let text = format!("{name} {:02}:{:02}-{:02}:{:02} {zone}", start / 60, start % 60, end / 60, end % 60);
            let one = windows(&text);
            let begin = at("2026-01-01T00:00:00Z").as_second() + day * 86400 + i64::from(minute) * 60;
            let instant = |second| Timestamp::from_second(second).unwrap();
            let minutes = (0..15 * 24 * 60).map(|minute| begin + minute * 60);
            let first = minutes.map(instant).find(|instant| one.is_open(*instant));
            prop_assert_eq!(one.next_open(instant(begin)), first, "{}", text);
        }
    }
}
