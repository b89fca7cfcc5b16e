//! Instants as the API server prints them: RFC 3339 in UTC.

use jiff::Timestamp;
use muster_model::Time;

/// Parses `2026-11-25T10:00:05Z`, also with a fraction of a second, which is dropped; `None` for other
/// text.
#[must_use]
pub fn parse(text: &str) -> Option<Time> {
    let instant: Timestamp = text.parse().ok().filter(|_| text.ends_with('Z'))?;
    Some(Time(u64::try_from(instant.as_second()).ok()? * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

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
