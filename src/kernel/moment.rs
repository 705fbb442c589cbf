//! A moment as people and programs write it.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// Longest text that is read as a moment, bytes: no way of writing one is longer.
const LONGEST: usize = 64;

/// A text that is no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is neither a time (2026-05-01T12:00:00Z), nor a day (2026-05-01), nor how long ago (2h, 3 days ago)"
)]
pub struct NoMoment;

/// Reads an RFC 3339 time, a day or a time without an offset (both UTC), or how long before `now`
/// (`90m`, `2h30m`, `3 days ago`).
///
/// # Errors
/// [`NoMoment`]: also for what lies before or after all time that can be written.
pub fn parse(text: &str, now: Timestamp) -> Result<Timestamp, NoMoment> {
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST {
        return Err(NoMoment);
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    // A day alone is its beginning.
    if let Ok(civil) = text.parse::<DateTime>() {
        return civil.to_zoned(TimeZone::UTC).map(|zoned| zoned.timestamp()).map_err(|_| NoMoment);
    }
    let span: Span = text.parse().map_err(|_| NoMoment)?;
    let ago = now.to_zoned(TimeZone::UTC).checked_sub(span.abs()).map_err(|_| NoMoment)?;
    Ok(ago.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_time_a_day_or_how_long_ago() {
        let now: Timestamp = "2026-05-03T12:00:00Z".parse().expect("a time");
        for (text, at) in [
            ("2026-05-01T12:00:00.5+02:00", "2026-05-01T10:00:00.5Z"),
            ("2026-05-01", "2026-05-01T00:00:00Z"),
            (" 2026-05-01 12:30 ", "2026-05-01T12:30:00Z"),
            ("2h", "2026-05-03T10:00:00Z"),
            ("2h 30m ago", "2026-05-03T09:30:00Z"),
            ("3 days ago", "2026-04-30T12:00:00Z"),
            ("1 month", "2026-04-03T12:00:00Z"),
        ] {
            assert_eq!(parse(text, now), Ok(at.parse().expect("a time")), "{text}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        let now: Timestamp = "2026-05-03T12:00:00Z".parse().expect("a time");
        let long = "9".repeat(LONGEST + 1);
        for text in
            ["", "soon", "7", "2026-13-01", "'; drop table", "9000000 years", "20 000 years ago", &long]
        {
            assert_eq!(parse(text, now), Err(NoMoment), "{text}");
        }
    }
}
