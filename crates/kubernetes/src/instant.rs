//! Instants in RFC 3339: as the API server prints them, and as users write them.

use jiff::Timestamp;
use muster_model::Time;

/// Parses `2026-11-25T10:00:05Z`, also with a fraction of a second, which is dropped; `None` for other
/// text.
#[must_use]
pub fn parse(text: &str) -> Option<Time> {
    let instant: Timestamp = text.parse().ok().filter(|_| text.ends_with('Z'))?;
    Some(Time(u64::try_from(instant.as_second()).ok()? * 1000))
}

/// Parses an instant as users write it: to the millisecond, with any offset from UTC; `None` for other
/// text. Instants before 1970 count as 1970.
#[must_use]
pub fn of_user(text: &str) -> Option<Time> {
    let instant: Timestamp = text.parse().ok()?;
    Some(Time(u64::try_from(instant.as_millisecond()).unwrap_or(0)))
}

/// Returns an instant as text that [`of_user`] reads.
#[must_use]
pub fn text(at: Time) -> String {
    let millis = i64::try_from(at.0).ok();
    let instant = millis.and_then(|millis| Timestamp::from_millisecond(millis).ok());
    instant.unwrap_or(Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_of_users_keep_milliseconds_and_offsets() {
        for (text, millis) in [
            ("2026-11-20T12:00:00Z", Some(1_795_176_000_000)),
            ("2026-11-20T12:00:00.25Z", Some(1_795_176_000_250)),
            ("2026-11-20T13:00:00+01:00", Some(1_795_176_000_000)),
            ("1960-01-01T00:00:00Z", Some(0)),
            ("2026-11-20", None),
            ("tomorrow", None),
        ] {
            assert_eq!(of_user(text), millis.map(Time), "{text}");
        }
        for at in [Time(0), Time(1_795_176_000_250)] {
            assert_eq!(of_user(&text(at)), Some(at));
        }
        assert_eq!(text(Time(1_795_176_000_000)), "2026-11-20T12:00:00Z");
        assert_eq!(
            of_user(&text(Time::NEVER)).map(|at| at > Time(u64::from(u32::MAX))),
            Some(true)
        );
    }

    #[test]
    fn instants_are_read_or_refused() {
        for (text, secs) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-11-20T12:00:00Z", Some(1_795_176_000)),
            ("2026-11-20T12:00:00.123456Z", Some(1_795_176_000)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800)),
            ("2024-03-01T00:00:00Z", Some(1_709_251_200)),
            ("2000-12-31T23:59:59Z", Some(978_307_199)),
            ("2026-11-20T12:00:00+01:00", None),
            ("2026-13-20T12:00:00Z", None),
            ("2026-00-20T12:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("2026-11-20T24:00:00Z", None),
            ("2026-11-20", None),
            ("", None),
        ] {
            assert_eq!(parse(text), secs.map(|secs: u64| Time(secs * 1000)), "{text}");
        }
    }
}
