//! Moments as the protocol writes them: RFC 3339, to milliseconds since 1970 and back. Reads no clock.

const DAY_MS: i64 = 86_400_000;

/// Reads a timestamp. What lies before 1970 becomes 0: it is over either way. A leap second counts
/// as the first moment of the next minute.
pub fn parse(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if !text.is_ascii() || bytes.len() < 20 || bytes[4] != b'-' || bytes[7] != b'-' {
        return None;
    }
    if !matches!(bytes[10], b'T' | b't' | b' ') || bytes[13] != b':' || bytes[16] != b':' {
        return None;
    }
    let (year, month, day) = (digits(&text[..4])?, digits(&text[5..7])?, digits(&text[8..10])?);
    let (hour, minute, second) = (digits(&text[11..13])?, digits(&text[14..16])?, digits(&text[17..19])?);
    let leap_day = i64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    let month_days = [31, 28 + leap_day, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let last_day = *month_days.get(usize::try_from(month.checked_sub(1)?).ok()?)?;
    if !(1..=last_day).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (millis, zone) = fraction(&text[19..])?;
    let seconds = hour * 3600 + minute * 60 + second - offset_seconds(zone)?;
    let total = days_from_civil(year, month, day) * DAY_MS + seconds * 1000 + millis;
    Some(u64::try_from(total).unwrap_or(0))
}

fn digits(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Milliseconds of an optional fraction, and what follows it.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else { return Some((0, text)) };
    let end = rest.bytes().position(|b| !b.is_ascii_digit())?;
    if end == 0 {
        return None;
    }
    let millis = rest[..end].bytes().chain(*b"000").take(3).fold(0, |n, b| n * 10 + i64::from(b - b'0'));
    Some((millis, &rest[end..]))
}

fn offset_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    if hours.len() != 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (digits(hours)?, digits(minutes)?);
    (hours <= 23 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Days since 1970 of a date in the proleptic Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Writes a timestamp in UTC, with milliseconds.
pub fn format(ms: u64) -> String {
    // Beyond the year 9999 there is no way to write it.
    let ms = i64::try_from(ms).unwrap_or(i64::MAX).min(253_402_300_799_999);
    let (days, rest) = (ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS));
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, millis) = (rest / 1000 % 60, rest % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_moments() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2024-10-09T00:00:00Z", 1_728_432_000_000),
            ("2000-02-29T12:30:45.123Z", 951_827_445_123),
            ("2026-12-01T14:00:00+02:00", 1_796_126_400_000),
            ("2026-12-01t14:00:00.5-00:30", 1_796_135_400_500),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("1969-12-31T23:59:59Z", 0),
        ] {
            assert_eq!(parse(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment() {
        for text in [
            "",
            "not-a-timestamp",
            "2026-12-01",
            "2026-12-01T14:00:00",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-12-01T24:00:00Z",
            "2026-12-01T14:00:00.Z",
            "2026-12-01T14:00:00+2:00",
            "2026-12-01T14:00:00Zx",
            "20260-12-01T14:00:00Z",
            "2026-12-01T14:00:61Z",
            "+026-12-01T14:00:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(ms in 0u64..253_402_300_799_999) {
            prop_assert_eq!(parse(&format(ms)), Some(ms));
        }

        #[test]
        fn never_panics(text: String) {
            let _ = parse(&text);
        }
    }
}
