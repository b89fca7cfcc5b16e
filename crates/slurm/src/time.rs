//! Lengths of time as Slurm writes them: `90` minutes, `30:00`, `12:00:00`, `1-12`, `1-12:30:00`.

use muster_model::Span;

/// Parses a length of time to whole seconds. `None` where the text is no such length, which
/// includes the words for no limit.
#[must_use]
pub fn span(text: &str) -> Option<Span> {
    let (days, clock) = match text.trim().split_once('-') {
        Some((days, clock)) => (Some(days.parse::<u64>().ok()?), clock),
        None => (None, text.trim()),
    };
    let parts: Vec<u64> = clock.split(':').map(str::parse).collect::<Result<_, _>>().ok()?;
    let of = |hours: u64, minutes: u64, seconds: u64| {
        hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?.checked_add(seconds)
    };
    let seconds = match (days, parts.as_slice()) {
        (None, [minutes]) => of(0, *minutes, 0),
        (None, [minutes, seconds]) => of(0, *minutes, *seconds),
        (Some(_), [hours]) => of(*hours, 0, 0),
        (Some(_), [hours, minutes]) => of(*hours, *minutes, 0),
        (_, [hours, minutes, seconds]) => of(*hours, *minutes, *seconds),
        _ => None,
    };
    let seconds = days.unwrap_or_default().checked_mul(86_400)?.checked_add(seconds?)?;
    seconds.checked_mul(1000).map(Span)
}

/// Parses a time limit to whole minutes; seconds are cut. `None` for no limit, or where it is not
/// understood, which Slurm treats as no limit.
#[must_use]
pub fn minutes(text: &str) -> Option<u64> {
    span(text).map(|span| span.0 / 60_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_slurm_writes_them() {
        for (text, expected) in [
            ("30", Some(30)),
            ("90:00", Some(90)),
            ("48:00:00", Some(2880)),
            ("2-0", Some(2880)),
            ("1-02:30", Some(1590)),
            ("2-00:00:00", Some(2880)),
            ("UNLIMITED", None),
            ("INFINITE", None),
            ("", None),
            ("99999999999999999999-0", None),
        ] {
            assert_eq!(minutes(text), expected, "{text}");
        }
    }
}
