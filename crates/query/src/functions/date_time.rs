//! Dates and times as text, ticks (100 ns since 1970) and milliseconds. All of it is UTC and the
//! proleptic Gregorian calendar from year 1 to 9999; a moment is one `i64` of ticks.

use std::fmt::Write as _;

use orrery_types::Value;
use orrery_types::calendar::{date_of, days_in_month, days_of};

use super::{Function, Host, integer, text};
use crate::functions::number;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("AGO", 2, |a, host| shifted(host.now_ticks, a, -1)).of_the_moment(),
    Function::new("DateTimeAdd", 3, add),
    Function::new("DateTimeBin", 2, bin).up_to(4),
    Function::new("DateTimeDiff", 3, difference),
    Function::new("DateTimeFormat", 2, |a, _| format_with(moment(a, 0)?, text(a, 1)?)),
    Function::new("DateTimeFromParts", 3, from_parts).up_to(7),
    Function::new("DateTimePart", 2, |a, _| Some(part_of(part(a, 0)?, moment(a, 1)?).into())),
    Function::new("DateTimeToTicks", 1, |a, _| Some(moment(a, 0)?.into())),
    Function::new("DateTimeToTimestamp", 1, |a, _| Some(moment(a, 0)?.div_euclid(MS).into())),
    Function::new("DAY", 1, |a, _| Some(part_of(Part::Day, moment(a, 0)?).into())),
    Function::new("GetCurrentDateTime", 0, |_, h| text_of(h.now_ticks)).of_the_moment(),
    Function::new("GetCurrentDateTimeStatic", 0, |_, h| text_of(h.now_ticks)).of_the_moment(),
    Function::new("GetCurrentTicks", 0, |_, h| Some(h.now_ticks.into())).of_the_moment(),
    Function::new("GetCurrentTicksStatic", 0, |_, h| Some(h.now_ticks.into())).of_the_moment(),
    Function::new("GetCurrentTimestamp", 0, now_ms).of_the_moment(),
    Function::new("GetCurrentTimestampStatic", 0, now_ms).of_the_moment(),
    Function::new("MONTH", 1, |a, _| Some(part_of(Part::Month, moment(a, 0)?).into())),
    Function::new("NOW", 0, now).up_to(2).of_the_moment(),
    Function::new("TicksToDateTime", 1, |a, _| text_of(integer(a, 0)?)),
    Function::new("TimestampToDateTime", 1, |a, _| text_of(integer(a, 0)?.checked_mul(MS)?)),
    Function::new("YEAR", 1, |a, _| Some(part_of(Part::Year, moment(a, 0)?).into())),
];

const MS: i64 = 10_000;
const SECOND: i64 = 1000 * MS;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// 1601-01-01, the earliest origin of a bin.
const ORIGIN_MIN: i64 = -116_444_736_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl Part {
    fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "year" | "yyyy" | "yy" => Self::Year,
            "month" | "mm" | "m" => Self::Month,
            "day" | "dd" | "d" => Self::Day,
            "hour" | "hh" => Self::Hour,
            "minute" | "mi" | "n" => Self::Minute,
            "second" | "ss" | "s" => Self::Second,
            "millisecond" | "ms" => Self::Millisecond,
            "microsecond" | "mcs" => Self::Microsecond,
            "nanosecond" | "ns" => Self::Nanosecond,
            _ => return None,
        })
    }

    /// Nanoseconds in one; years and months have no fixed length.
    fn nanoseconds(self) -> Option<i128> {
        Some(match self {
            Self::Year | Self::Month => return None,
            Self::Day => i128::from(DAY) * 100,
            Self::Hour => i128::from(HOUR) * 100,
            Self::Minute => i128::from(MINUTE) * 100,
            Self::Second => i128::from(SECOND) * 100,
            Self::Millisecond => 1_000_000,
            Self::Microsecond => 1000,
            Self::Nanosecond => 1,
        })
    }
}

fn part(arguments: &[Value], at: usize) -> Option<Part> {
    Part::parse(text(arguments, at)?)
}

fn moment(arguments: &[Value], at: usize) -> Option<i64> {
    parse(text(arguments, at)?)
}

/// Ticks of a date and time, if there is such a one.
fn ticks_of(date: [i64; 3], time: [i64; 4]) -> Option<i64> {
    let [year, month, day] = date;
    let [hour, minute, second, fraction] = time;
    let valid = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..60).contains(&second)
        && (0..SECOND).contains(&fraction);
    valid.then(|| {
        days_of(year, month, day) * DAY + hour * HOUR + minute * MINUTE + second * SECOND + fraction
    })
}

/// Reads `YYYY-MM-DD`, or that with `T` or a space, `hh:mm:ss` and up to seven digits of a
/// fraction; each may end in `Z`. Nothing else is a date.
pub(super) fn parse(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| -> Option<i64> {
        let part = bytes.get(from..to)?;
        part.iter()
            .all(u8::is_ascii_digit)
            .then(|| part.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    };
    let is = |at: usize, allowed: &[u8]| bytes.get(at).is_some_and(|b| allowed.contains(b));
    let date = [digits(0, 4)?, digits(5, 7)?, digits(8, 10)?];
    if !is(4, b"-") || !is(7, b"-") {
        return None;
    }
    if bytes.len() == 10 {
        return ticks_of(date, [0; 4]);
    }
    if !is(10, b"T ") || !is(13, b":") || !is(16, b":") {
        return None;
    }
    let time = [digits(11, 13)?, digits(14, 16)?, digits(17, 19)?];
    let fraction = match bytes.len() {
        19 => 0,
        length @ 21..=27 if is(19, b".") => {
            let zeros = u32::try_from(27 - length).ok()?;
            digits(20, length)? * 10_i64.pow(zeros)
        }
        _ => return None,
    };
    ticks_of(date, [time[0], time[1], time[2], fraction])
}

/// The canonical text of 28 characters.
fn text_of(ticks: i64) -> Option<Value> {
    if !(days_of(1, 1, 1) * DAY..days_of(10_000, 1, 1) * DAY).contains(&ticks) {
        return None;
    }
    let (year, month, day) = date_of(ticks.div_euclid(DAY));
    let rest = ticks.rem_euclid(DAY);
    let (hour, minute) = (rest / HOUR, rest / MINUTE % 60);
    let (second, fraction) = (rest / SECOND % 60, rest % SECOND);
    let text =
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z");
    Some(text.into())
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of a function's answer")]
fn now_ms(_: &[Value], host: &Host) -> Option<Value> {
    Some(host.now_ticks.div_euclid(MS).into())
}

fn now(arguments: &[Value], host: &Host) -> Option<Value> {
    match arguments.len() {
        0 => text_of(host.now_ticks),
        2 => shifted(host.now_ticks, arguments, 1),
        _ => None,
    }
}

/// A moment moved by `arguments[1]` times `sign` of the part `arguments[0]`.
fn shifted(ticks: i64, arguments: &[Value], sign: i64) -> Option<Value> {
    text_of(moved(ticks, part(arguments, 0)?, integer(arguments, 1)?.checked_mul(sign)?)?)
}

fn add(arguments: &[Value], _: &Host) -> Option<Value> {
    shifted(moment(arguments, 2)?, arguments, 1)
}

/// Months and years keep the day where they can and else take the last one of the month.
fn moved(ticks: i64, part: Part, by: i64) -> Option<i64> {
    if let Some(nanoseconds) = part.nanoseconds() {
        let change = nanoseconds.checked_mul(i128::from(by))?.div_euclid(100);
        return i64::try_from(i128::from(ticks) + change).ok();
    }
    let months = if part == Part::Year { by.checked_mul(12)? } else { by };
    let (year, month, day) = date_of(ticks.div_euclid(DAY));
    let total = (year * 12 + month - 1).checked_add(months)?;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
    if !(1..=9999).contains(&year) {
        return None;
    }
    let day = day.min(days_in_month(year, month));
    Some(days_of(year, month, day) * DAY + ticks.rem_euclid(DAY))
}

fn bin(arguments: &[Value], _: &Host) -> Option<Value> {
    let (ticks, part) = (moment(arguments, 0)?, part(arguments, 1)?);
    let size = if arguments.len() > 2 { integer(arguments, 2)? } else { 1 };
    let origin = if arguments.len() > 3 { moment(arguments, 3)? } else { 0 };
    if size <= 0 || origin < ORIGIN_MIN {
        return None;
    }
    let width = part.nanoseconds()?.checked_mul(i128::from(size))?;
    let since = (i128::from(ticks) - i128::from(origin)) * 100;
    let start = since.div_euclid(width) * width / 100 + i128::from(origin);
    text_of(i64::try_from(start).ok()?)
}

/// Boundaries of the part between two moments, not the time between them.
fn difference(arguments: &[Value], _: &Host) -> Option<Value> {
    let part = part(arguments, 0)?;
    let number = |ticks: i64| -> i128 {
        let (year, month, _) = date_of(ticks.div_euclid(DAY));
        match part.nanoseconds() {
            Some(nanoseconds) => (i128::from(ticks) * 100).div_euclid(nanoseconds),
            None if part == Part::Year => i128::from(year),
            None => i128::from(year * 12 + month),
        }
    };
    let boundaries = number(moment(arguments, 2)?) - number(moment(arguments, 1)?);
    i64::try_from(boundaries).ok().map(Value::from)
}

fn part_of(part: Part, ticks: i64) -> i64 {
    let (year, month, day) = date_of(ticks.div_euclid(DAY));
    let rest = ticks.rem_euclid(DAY);
    match part {
        Part::Year => year,
        Part::Month => month,
        Part::Day => day,
        Part::Hour => rest / HOUR,
        Part::Minute => rest / MINUTE % 60,
        Part::Second => rest / SECOND % 60,
        Part::Millisecond => rest % SECOND / MS,
        Part::Microsecond => rest % SECOND / 10,
        Part::Nanosecond => rest % SECOND * 100,
    }
}

fn from_parts(arguments: &[Value], _: &Host) -> Option<Value> {
    let mut parts = [0; 7];
    for (at, part) in parts.iter_mut().enumerate().take(arguments.len()) {
        // Numbers with a fraction name no part.
        number(arguments, at)?;
        *part = integer(arguments, at)?;
    }
    let [year, month, day, hour, minute, second, fraction] = parts;
    text_of(ticks_of([year, month, day], [hour, minute, second, fraction])?)
}

/// The specifiers `y M d H h m s f F t` in runs, `\` before a literal character, text in quotes.
/// A run that is no specifier gives undefined rather than a guess.
fn format_with(ticks: i64, format: &str) -> Option<Value> {
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next()?),
            quote @ ('\'' | '"') => loop {
                match chars.next()? {
                    c if c == quote => break,
                    c => out.push(c),
                }
            },
            c if c.is_ascii_alphabetic() => {
                let mut run = 1;
                while chars.next_if_eq(&c).is_some() {
                    run += 1;
                }
                push_specifier(&mut out, c, run, ticks)?;
            }
            c => out.push(c),
        }
    }
    Some(out.into())
}

fn push_specifier(out: &mut String, letter: char, run: usize, ticks: i64) -> Option<()> {
    let hour = part_of(Part::Hour, ticks);
    let number = match (letter, run) {
        ('y', 1 | 2) => part_of(Part::Year, ticks) % 100,
        ('y', 3..=5) => part_of(Part::Year, ticks),
        ('M', 1 | 2) => part_of(Part::Month, ticks),
        ('d', 1 | 2) => part_of(Part::Day, ticks),
        ('H', 1 | 2) => hour,
        ('h', 1 | 2) => (hour + 11) % 12 + 1,
        ('m', 1 | 2) => part_of(Part::Minute, ticks),
        ('s', 1 | 2) => part_of(Part::Second, ticks),
        ('t', 1 | 2) => {
            let half = if hour < 12 { "AM" } else { "PM" };
            out.push_str(&half[..run]);
            return Some(());
        }
        ('f' | 'F', 1..=7) => {
            let digits = format!("{:07}", ticks.rem_euclid(SECOND));
            let shown = &digits[..run];
            out.push_str(if letter == 'F' { shown.trim_end_matches('0') } else { shown });
            return Some(());
        }
        ('y' | 'M' | 'd' | 'H' | 'h' | 'm' | 's' | 't' | 'f' | 'F', _) => return None,
        // A letter that means nothing stands for itself, as in `yyyy-MM-ddTHH:mm:ssZ`.
        (letter, run) => {
            out.extend(std::iter::repeat_n(letter, run));
            return Some(());
        }
    };
    let _ = write!(out, "{number:0run$}");
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binning_begins_with_the_year_1601() {
        assert_eq!(days_of(1601, 1, 1) * DAY, ORIGIN_MIN);
    }

    #[test]
    fn letters_that_mean_nothing_stand_for_themselves() {
        let ticks = parse("2024-02-29T13:04:05.6700000Z").expect("a date");
        let check = |format: &str, expected: Option<&str>| {
            assert_eq!(format_with(ticks, format), expected.map(Into::into), "{format}");
        };
        check("yyyy-MM-ddTHH:mm:ssZ", Some("2024-02-29T13:04:05Z"));
        check("Week yyy", Some("Week 2024"));
        check("QQxx", Some("QQxx"));
        check("MMM", None);
        check("ffffffff", None);
    }

    #[test]
    fn only_the_documented_forms_are_dates() {
        let check = |text: &str, ok: bool| assert_eq!(parse(text).is_some(), ok, "{text}");
        for text in ["2024-02-29", "2024-02-29Z", "2024-01-01 00:00:00", "2024-01-01T00:00:00.1Z"] {
            check(text, true);
        }
        for text in [
            "2023-02-29",
            "2024-12-12T20Z",
            "2024-12-12 20:21:25.",
            "12/12/2024",
            "2024-01-01T00:00:00.12345678",
            "2024-01-01T00:00:00+01:00",
            "2024-01-01T24:00:00",
            "",
            "2024-1é-01",
        ] {
            check(text, false);
        }
    }

    #[test]
    fn formats_follow_their_runs_and_escapes() {
        let ticks = parse("2023-07-04T15:05:06.1200000Z").unwrap();
        let check = |format: &str, expected: Option<&str>| {
            let got = format_with(ticks, format);
            assert_eq!(got.as_ref().and_then(Value::as_str), expected, "{format}");
        };
        check("yyyy/M/d H:m", Some("2023/7/4 15:5"));
        check("hh:mm tt 'o''clock' \\h", Some("03:05 PM oclock h"));
        check("ss.FFF", Some("06.12"));
        check("MMMM", None);
    }
}
