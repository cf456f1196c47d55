//! The time in UTC, written as C's `strftime` writes it.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Seconds since the beginning of 1970.
pub(super) fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}

struct Date {
    year: i64,
    /// From 0.
    month: usize,
    /// From 1.
    day: i64,
    /// From 0.
    day_of_year: i64,
    /// From Sunday, 0.
    weekday: usize,
    second_of_day: i64,
}

/// Writes `seconds` since 1970 as `pattern` says; a directive that is not known stays as it is.
pub(super) fn format(pattern: &str, seconds: i64) -> String {
    let date = date(seconds);
    let mut text = String::new();
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let mut directive = rest.next();
        let padded = directive != Some('-');
        if !padded {
            directive = rest.next();
        }
        match directive {
            Some(directive) => write_directive(&mut text, &date, directive, padded),
            None => text.push('%'),
        }
    }
    text
}

fn write_directive(text: &mut String, date: &Date, directive: char, padded: bool) {
    let number = |text: &mut String, value: i64, width: usize| {
        let width = if padded { width } else { 0 };
        // Writing to a string cannot fail.
        let _ = write!(text, "{value:0width$}");
    };
    let (hour, minute, second) =
        (date.second_of_day / 3600, date.second_of_day / 60 % 60, date.second_of_day % 60);
    let half_day_hour = if hour % 12 == 0 { 12 } else { hour % 12 };
    match directive {
        'Y' => number(text, date.year, 4),
        'y' => number(text, date.year.rem_euclid(100), 2),
        'm' => number(text, date.month as i64 + 1, 2),
        'd' => number(text, date.day, 2),
        'e' => text.push_str(&format!("{:2}", date.day)),
        'j' => number(text, date.day_of_year + 1, 3),
        'H' => number(text, hour, 2),
        'I' => number(text, half_day_hour, 2),
        'M' => number(text, minute, 2),
        'S' => number(text, second, 2),
        'f' => text.push_str("000000"),
        'p' => text.push_str(if hour < 12 { "AM" } else { "PM" }),
        'B' => text.push_str(MONTHS[date.month]),
        'b' | 'h' => text.push_str(&MONTHS[date.month][..3]),
        'A' => text.push_str(WEEKDAYS[date.weekday]),
        'a' => text.push_str(&WEEKDAYS[date.weekday][..3]),
        'w' => number(text, date.weekday as i64, 0),
        'u' => number(text, if date.weekday == 0 { 7 } else { date.weekday as i64 }, 0),
        'z' => text.push_str("+0000"),
        'Z' => text.push_str("UTC"),
        'n' => text.push('\n'),
        't' => text.push('\t'),
        '%' => text.push('%'),
        'F' | 'T' | 'D' | 'R' | 'c' | 'x' | 'X' => {
            let parts = match directive {
                'F' => "Y-m-d",
                'T' | 'X' => "H:M:S",
                'D' | 'x' => "m/d/y",
                'R' => "H:M",
                _ => "a b e H:M:S Y",
            };
            for part in parts.chars() {
                if part.is_ascii_alphabetic() {
                    write_directive(text, date, part, true)
                } else {
                    text.push(part)
                }
            }
        }
        other => text.extend(['%', other]),
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The Gregorian calendar, forwards and backwards without end.
fn date(seconds: i64) -> Date {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let days = seconds.div_euclid(86_400);
    let mut year = 1970 + 400 * days.div_euclid(DAYS_OF_400_YEARS);
    let mut day_of_year = days.rem_euclid(DAYS_OF_400_YEARS);
    let length = |year: i64| if is_leap(year) { 366 } else { 365 };
    while day_of_year >= length(year) {
        day_of_year -= length(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut day = day_of_year;
    let mut month = 0;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    // The first day of 1970 was a Thursday.
    let weekday = (days + 4).rem_euclid(7) as usize;
    Date { year, month, day: day + 1, day_of_year, weekday, second_of_day: seconds.rem_euclid(86_400) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_dates() {
        for (seconds, pattern, expected) in [
            (0, "%Y-%m-%d %H:%M:%S %A %j", "1970-01-01 00:00:00 Thursday 001"),
            (951_826_395, "%d %b %Y, %I:%M %p", "29 Feb 2000, 12:13 PM"),
            (1_735_689_599, "%F %T %a %-d/%-m %y", "2024-12-31 23:59:59 Tue 31/12 24"),
            (4_107_542_400, "%B %-d, %Y %j", "March 1, 2100 060"),
            (-1, "%c", "Wed Dec 31 23:59:59 1969"),
            (1_700_000_000, "100%% %Q %u%", "100% %Q 2%"),
        ] {
            assert_eq!(format(pattern, seconds), expected);
        }
    }
}
