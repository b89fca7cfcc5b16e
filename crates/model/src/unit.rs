//! Units: time, spans, bytes, thousandths of a CPU and of a GPU. All are integers, so that replay
//! is exact.
//!
//! `spec` parses what users write (`12h`, `80GB`); this module only stores, adds and prints.

use std::fmt;
use std::ops::{Add, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub $inner);
    };
}

unit! {
    /// Instant in milliseconds since the Unix epoch, on the daemon's monotonic time line.
    Time(u64)
}
unit! {
    /// Length of time in milliseconds.
    Span(u64)
}
unit! {
    /// Memory or storage in bytes.
    Bytes(u64)
}
unit! {
    /// Number of CPUs in thousandths: 1000 is one CPU.
    CpuMilli(u32)
}
unit! {
    /// Number of GPUs in thousandths: 1000 is one whole device.
    GpuMilli(u32)
}

impl Time {
    /// Instant after every real one: the end of something without an end.
    pub const NEVER: Time = Time(u64::MAX);

    /// Returns the time since `earlier`; zero when `earlier` is later than `self`.
    #[must_use]
    pub fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, span: Span) -> Time {
        Time(self.0.saturating_sub(span.0))
    }
}

impl Span {
    /// Makes a span of whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Returns the whole seconds, rounded down.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Span {
    /// Prints at most two units: `450ms`, `12s`, `3m20s`, `2h05m`, `1d12h`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.as_secs();
        let text = match secs {
            0 if self.0 > 0 => format!("{}ms", self.0),
            0..60 => format!("{secs}s"),
            60..3600 if secs.is_multiple_of(60) => format!("{}m", secs / 60),
            60..3600 => format!("{}m{:02}s", secs / 60, secs % 60),
            3600..86_400 if secs % 3600 < 60 => format!("{}h", secs / 3600),
            3600..86_400 => format!("{}h{:02}m", secs / 3600, secs % 3600 / 60),
            _ if secs % 86_400 < 3600 => format!("{}d", secs / 86_400),
            _ => format!("{}d{:02}h", secs / 86_400, secs % 86_400 / 3600),
        };
        f.pad(&text)
    }
}

impl fmt::Display for Bytes {
    /// Prints binary units with at most one decimal: `96GiB`, `1.5TiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
        let mut unit = 0;
        let mut scale = 1u64;
        while unit + 1 < UNITS.len() && self.0 / scale >= 1024 {
            unit += 1;
            scale *= 1024;
        }
        let tenths = u128::from(self.0) * 10 / u128::from(scale);
        let text = match tenths % 10 {
            0 => format!("{}{}", tenths / 10, UNITS[unit]),
            tenth => format!("{}.{tenth}{}", tenths / 10, UNITS[unit]),
        };
        f.pad(&text)
    }
}

/// Prints thousandths as a decimal without trailing zeros: `2`, `0.5`, `1.25`.
fn write_milli(f: &mut fmt::Formatter<'_>, milli: u32) -> fmt::Result {
    let text = format!("{}.{:03}", milli / 1000, milli % 1000);
    f.pad(text.trim_end_matches('0').trim_end_matches('.'))
}

impl fmt::Display for GpuMilli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_milli(f, self.0)
    }
}

impl fmt::Display for CpuMilli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_milli(f, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_print_two_units_at_most() {
        for (ms, text) in [
            (0, "0s"),
            (450, "450ms"),
            (12_000, "12s"),
            (200_000, "3m20s"),
            (7_500_000, "2h05m"),
            (129_600_000, "1d12h"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(Span(ms).to_string(), text);
        }
    }

    #[test]
    fn sizes_and_thousandths_print_without_trailing_zeros() {
        assert_eq!(Bytes(96 << 30).to_string(), "96GiB");
        assert_eq!(Bytes(1536).to_string(), "1.5KiB");
        assert_eq!(GpuMilli(2000).to_string(), "2");
        assert_eq!(GpuMilli(500).to_string(), "0.5");
        assert_eq!(GpuMilli(10_000).to_string(), "10");
    }
}
