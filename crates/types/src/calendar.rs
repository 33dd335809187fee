//! The Gregorian calendar, as days since 1970-01-01. The one place where dates are computed: date
//! functions of queries, the advisor and the command line use it. Two others exist because libraries
//! bring them along: `httpdate` reads and writes the dates of HTTP headers, and `time` is what the
//! library for certificates takes.

/// Days from 0000-03-01, with which a cycle of 400 years begins, to 1970-01-01.
const EPOCH: i64 = 719_468;
/// Days of 400 years.
const CYCLE: i64 = 146_097;

/// Days since 1970 of a date. Years before 1 count on as 0, -1, ….
pub fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // A year that begins in March has its leap day at the end.
    let year = if month <= 2 { year - 1 } else { year };
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = year_of_cycle / 4 - year_of_cycle / 100;
    cycle * CYCLE + year_of_cycle * 365 + leap_days + day_of_year - EPOCH
}

/// Year, month and day of a day since 1970.
pub fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    let cycle = days.div_euclid(CYCLE);
    let day_of_cycle = days.rem_euclid(CYCLE);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_cycle + cycle * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// How many days a month has.
pub fn days_in_month(year: i64, month: i64) -> i64 {
    let next = if month == 12 { days_of(year + 1, 1, 1) } else { days_of(year, month + 1, 1) };
    next - days_of(year, month, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_days_agree_over_the_whole_calendar() {
        for days in (days_of(1, 1, 1)..days_of(10_000, 1, 1)).step_by(13) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year, month, day), days);
            assert!((1..=days_in_month(year, month)).contains(&day));
        }
    }

    #[test]
    fn known_days_are_where_they_should_be() {
        let check = |date: (i64, i64, i64), days: i64| {
            assert_eq!((days_of(date.0, date.1, date.2), date_of(days)), (days, date));
        };
        check((1970, 1, 1), 0);
        check((1969, 12, 31), -1);
        check((2000, 2, 29), 11_016);
        check((2024, 12, 31), 20_088);
        let months = |year| (1..=12).map(|month| days_in_month(year, month)).collect::<Vec<_>>();
        assert_eq!(months(2023), [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]);
        assert_eq!([1900, 2000, 2024].map(|year| days_in_month(year, 2)), [28, 29, 29]);
    }
}
