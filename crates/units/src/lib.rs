//! Numbers as people write and read them: `2M` records, `1KiB` values, `1.95 GiB` on disk.
//!
//! A crate of its own, because the command line of the store and the harness of the benchmarks,
//! neither of which depends on the other, show sizes alike.

#![forbid(unsafe_code)]

/// A count or a size: digits, then `k`, `M`, `G` (thousands) or `Ki`, `Mi`, `Gi` (1024s), then an
/// optional `B`; case does not matter, underscores in the digits are ignored.
pub fn parse(text: &str) -> Result<u64, String> {
    let malformed = || format!("\"{text}\" is not a number such as 2000, 2M, 100B or 1GiB");
    let lower = text.trim().to_ascii_lowercase().replace('_', "");
    let end = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(end);
    let scale = match unit.trim_start().trim_end_matches('b') {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "ki" => 1 << 10,
        "mi" => 1 << 20,
        "gi" => 1 << 30,
        _ => return Err(malformed()),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(scale).ok_or_else(malformed);
    }
    let number: f64 = digits.parse().map_err(|_| malformed())?;
    let scaled = (number * scale as f64).round();
    if scaled < u64::MAX as f64 { Ok(scaled as u64) } else { Err(malformed()) }
}

/// Bytes with a binary unit and three significant digits.
pub fn bytes(bytes: u64) -> String {
    let mut number = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if number < 1000.0 {
            return format!("{} {unit}", significant(number, unit == "B"));
        }
        number /= 1024.0;
    }
    format!("{} TiB", significant(number, false))
}

/// A whole number with its thousands apart: 211,034.
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A time in seconds since 1970, as a date of the Gregorian calendar: 2026-11-26 15:25:41 UTC.
pub fn date(seconds: u64) -> String {
    let (mut days, within) = (seconds / 86_400, seconds % 86_400);
    let divides = |part: u64, year: u64| year.is_multiple_of(part);
    let is_leap = |year| divides(4, year) && !divides(100, year) || divides(400, year);
    // 400 years have the same number of days, whatever the first one is.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    for len in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < len {
            break;
        }
        days -= len;
        month += 1;
    }
    let (hour, minute, second) = (within / 3600, within / 60 % 60, within % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}:{second:02} UTC", days + 1)
}

/// Three significant digits, as a person would write them: 0.12, 1.23, 12.3, 1,234.
pub fn short(number: f64) -> String {
    if number < 1000.0 { significant(number, false) } else { thousands(number) }
}

fn significant(number: f64, whole: bool) -> String {
    match number {
        _ if whole => format!("{number:.0}"),
        n if n < 10.0 => format!("{n:.2}"),
        n if n < 100.0 => format!("{n:.1}"),
        n => format!("{n:.0}"),
    }
}

/// A number of things in words: `1 key`, `2,500 keys`, `3 entries`. `one` is the word for one.
pub fn counted(number: u64, one: &str) -> String {
    let many = match one.strip_suffix("ry") {
        _ if number == 1 => one.to_owned(),
        Some(stem) => format!("{stem}ries"),
        None => format!("{one}s"),
    };
    format!("{} {many}", thousands(number as f64))
}

#[cfg(test)]
mod tests {
    use super::{bytes, counted, date, parse, short, thousands};

    #[test]
    fn one_thing_is_not_many() {
        assert_eq!(counted(1, "key"), "1 key");
        assert_eq!(counted(0, "copied file"), "0 copied files");
        assert_eq!(counted(2500, "dead entry"), "2,500 dead entries");
    }

    #[test]
    fn seconds_are_dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (951_868_800, "2000-03-01 00:00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59:59 UTC"),
            (1_795_706_741, "2026-11-26 15:25:41 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (13_574_563_200, "2400-02-29 00:00:00 UTC"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }

    #[test]
    fn people_write_numbers_in_many_ways() {
        for (text, number) in [
            ("2000000", 2_000_000),
            ("2_000_000", 2_000_000),
            ("2M", 2_000_000),
            ("10k", 10_000),
            ("100B", 100),
            ("1KiB", 1024),
            ("1.5GiB", 3 << 29),
            ("1gib", 1 << 30),
        ] {
            assert_eq!(parse(text), Ok(number), "{text}");
        }
        let too_large = ["99999999999G", "99999999999.5G", "18446744073709551616"];
        for text in ["", "x", "1 Pib", "-1", "1.2.3"].into_iter().chain(too_large) {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn people_read_numbers_in_few() {
        assert_eq!(bytes(100), "100 B");
        assert_eq!(bytes(2_096_000_000), "1.95 GiB");
        assert_eq!(thousands(211_034.4), "211,034");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(
            (short(0.125), short(12.34), short(1234.0)),
            ("0.12".into(), "12.3".into(), "1,234".into())
        );
    }
}
