//! Moments as people write them: a position of the log, a time, or how long ago.
//!
//! Invariant: a time without a zone is one of UTC, the zone in which every output tells its times, so that what
//! was copied from an output names the same moment on every machine.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// A moment as it is asked for.
#[derive(Debug, Clone)]
pub enum Moment {
    /// A position of the log.
    Position(i64),
    /// A time: RFC 3339, or without a zone.
    Time(Timestamp),
    /// So long before now.
    Ago(Span),
}

/// What no moment looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a moment is a position (1234), a time (2026-12-01T14:00:00Z, 2026-12-01 14:00, UTC) or a span (2h ago)"
)]
pub struct NoMoment;

impl FromStr for Moment {
    type Err = NoMoment;

    fn from_str(text: &str) -> Result<Self, NoMoment> {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self::Position).map_err(|_| NoMoment);
        }
        if let Ok(time) = text.parse::<Timestamp>() {
            return Ok(Self::Time(time));
        }
        if let Ok(time) = text.parse::<DateTime>() {
            return TimeZone::UTC.to_timestamp(time).map(Self::Time).map_err(|_| NoMoment);
        }
        // Nothing has happened in the future: `2h`, `-2h` and `2h ago` mean the same.
        let span = text.parse::<Span>().map_err(|_| NoMoment)?;
        Ok(Self::Ago(span.abs()))
    }
}

impl Moment {
    /// The time it means, seen from `now`; none for a position, and for what lies beyond all times.
    #[must_use]
    pub fn time(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Position(_) => None,
            Self::Time(time) => Some(*time),
            Self::Ago(span) => {
                now.to_zoned(TimeZone::UTC).checked_sub(*span).ok().map(|then| then.timestamp())
            }
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Position(position) => position.fmt(f),
            Self::Time(time) => time.fmt(f),
            Self::Ago(span) => span.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    #[test]
    fn a_moment_is_a_position_a_time_or_a_span_before_now() {
        let now = at("2026-12-01T14:00:00Z");
        let time = |text: &str| text.parse::<Moment>().expect(text).time(now);
        assert!(matches!("1234".parse(), Ok(Moment::Position(1234))));
        assert_eq!(time("1234"), None);
        assert_eq!(time("2026-11-30T10:00:00+02:00"), Some(at("2026-11-30T08:00:00Z")));
        assert_eq!(time("2026-11-30 10:00"), Some(at("2026-11-30T10:00:00Z")));
        assert_eq!(time("2026-11-30"), Some(at("2026-11-30T00:00:00Z")));
        for two_hours_ago in ["-2h", "2h ago", "2h", "2 hours ago", "1h 60m ago", "-PT2H"] {
            assert_eq!(time(two_hours_ago), Some(at("2026-12-01T12:00:00Z")), "{two_hours_ago}");
        }
        assert_eq!(time("1 month ago"), Some(at("2026-11-01T14:00:00Z")));
        for none in ["", " ", "yesterday", "-5", "12x", "99999999999999999999", "2026-13-01"] {
            assert_eq!(none.parse::<Moment>().expect_err(none), NoMoment);
        }
    }

    #[test]
    fn a_time_without_a_zone_is_one_of_utc_wherever_it_is_said() {
        let said = "2026-11-30 10:00".parse::<Moment>().expect("a moment");
        assert_eq!(said.to_string(), "2026-11-30T10:00:00Z");
        // Said on, it means the same.
        for text in ["1234", "2026-11-30T08:00:00Z", "2h ago"] {
            let moment: Moment = text.parse().expect(text);
            let again: Moment = moment.to_string().parse().expect(text);
            assert_eq!(again.time(Timestamp::UNIX_EPOCH), moment.time(Timestamp::UNIX_EPOCH), "{text}");
        }
    }
}
