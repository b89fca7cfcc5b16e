//! Points in the past on the command line: `10m` ago, the last `09:30`, or an instant with a date.

use std::str::FromStr;

use anyhow::{Context, Result};
use jiff::Zoned;
use jiff::civil;
use muster_model::{Span, Time};
use muster_spec::quantity::{parse_instant, parse_span};

/// Point in the past as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// Duration that has passed since.
    Ago(Span),
    /// Latest occurrence of a local time of day.
    TimeOfDay(civil::Time),
    /// Begin of a local day.
    Day(civil::Date),
    /// Instant with date and offset.
    Instant(Time),
}

impl FromStr for Past {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let is_time_of_day = text.len() <= 8 && text.contains(':');
        if let Some(time) = text.parse().ok().filter(|_| is_time_of_day) {
            return Ok(Self::TimeOfDay(time));
        }
        if let Some(day) = text.parse().ok().filter(|_| text.len() == "2026-08-01".len()) {
            return Ok(Self::Day(day));
        }
        let span = parse_span(text).map(Self::Ago);
        span.or_else(|_| parse_instant(text).map(Self::Instant)).map_err(|_| {
            "expected a time before now, such as 10m, 2h or 30d, or an instant: 09:30, 2026-08-01, 2026-08-01T06:00:00Z"
                .to_owned()
        })
    }
}

impl Past {
    /// Returns the instant, in the time zone of `now`.
    ///
    /// # Errors
    /// The instant is before 1970.
    pub fn instant(self, now: &Zoned) -> Result<Time> {
        let zone = now.time_zone();
        let at = match self {
            Self::Instant(time) => return Ok(time),
            Self::Ago(span) => {
                let now = u64::try_from(now.timestamp().as_millisecond()).context("the clock")?;
                return Ok(Time(now.saturating_sub(span.0)));
            }
            Self::Day(day) => day.to_zoned(zone.clone())?,
            Self::TimeOfDay(time) => {
                let today = now.date().to_datetime(time).to_zoned(zone.clone())?;
                let yesterday = now.date().yesterday()?.to_datetime(time);
                if today <= *now { today } else { yesterday.to_zoned(zone.clone())? }
            }
        };
        let millis = u64::try_from(at.timestamp().as_millisecond());
        Ok(Time(millis.context("before 1970")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_last_one() {
        let now: Zoned = "2026-11-20T12:00:00+01:00[+01:00]".parse().unwrap();
        for (text, expected) in [
            ("10m", "2026-11-20T11:50:00+01:00"),
            ("1h30m", "2026-11-20T10:30:00+01:00"),
            ("09:30", "2026-11-20T09:30:00+01:00"),
            ("12:00", "2026-11-20T12:00:00+01:00"),
            ("12:00:01", "2026-11-19T12:00:01+01:00"),
            ("2026-11-19", "2026-11-19T00:00:00+01:00"),
            ("2026-11-19T06:00:00Z", "2026-11-19T06:00:00Z"),
        ] {
            let expected: jiff::Timestamp = expected.parse().unwrap();
            let found = text.parse::<Past>().unwrap().instant(&now).unwrap();
            assert_eq!(found, Time(expected.as_millisecond().unsigned_abs()), "{text}");
        }
        for wrong in ["", "ten", "25:00", "2026-13-01"] {
            assert!(wrong.parse::<Past>().unwrap_err().contains("such as 10m"), "{wrong}");
        }
    }
}
