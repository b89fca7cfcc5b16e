//! Times at which a task's output was written, for `muster logs --since`. The file `output.times` beside the output has
//! lines of a time (milliseconds since the Unix epoch) and the position of the byte written next.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_model::Time;

/// Name of the file.
pub(crate) const TIMES: &str = "output.times";

/// Shortest time between two lines at first.
const INTERVAL: Duration = Duration::from_secs(1);

/// Lines after which the time between two doubles: 2^15 lines are 9 hours of output without a pause. A month of
/// it takes 7 times as many, which is 5 MiB.
const LINES_PER_INTERVAL: u32 = 1 << 15;

/// Most bytes that are read of the file.
const MAX_BYTES: u64 = 64 << 20;

/// Returns the shortest time between line `number`, counted from 0, and the next one.
fn interval(number: u32) -> Duration {
    // 16 doublings are 18 hours, and never reached.
    INTERVAL * (1 << (number / LINES_PER_INTERVAL).min(16))
}

/// Writer of the file.
#[derive(Debug)]
pub(crate) struct OutputTimes {
    file: File,
    lines: u32,
    /// Earliest time of the next line, as time since boot.
    next: Duration,
}

impl OutputTimes {
    /// Writes to a new file.
    pub(crate) fn new(file: File) -> Self {
        Self { file, lines: 0, next: Duration::ZERO }
    }

    /// Writes a line for the byte at this position, unless the last line is too recent. `now` is the time since boot,
    /// which never goes back; `unix_ms` returns milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// The line cannot be written.
    pub(crate) fn mark(
        &mut self,
        position: u64,
        now: Duration,
        unix_ms: impl FnOnce() -> u64,
    ) -> io::Result<()> {
        if now < self.next {
            return Ok(());
        }
        let line = format!("{} {position}\n", unix_ms());
        // One write: a line is there whole or, on a full disk, cut and ignored.
        self.file.write_all(line.as_bytes())?;
        self.next = now + interval(self.lines);
        self.lines = self.lines.saturating_add(1);
        Ok(())
    }
}

/// Returns the path of the file, for the first file of an output.
#[must_use]
pub fn path_of(first: &Path) -> PathBuf {
    first.with_file_name(TIMES)
}

/// Reads the position of the first byte that was written at a time or later, or up to the time between two lines before
/// it: a second, after 9 hours of output without a pause 2, and so on. `None` where nothing was written since.
///
/// # Errors
/// The file cannot be read.
pub fn position(file: impl Read, since: Time) -> io::Result<Option<u64>> {
    let mut lines = BufReader::new(file.take(MAX_BYTES));
    let mut line = String::new();
    for number in 0.. {
        line.clear();
        // A line that is cut has no end.
        if lines.read_line(&mut line)? == 0 || !line.ends_with('\n') {
            break;
        }
        let Some((at, position)) = parse(&line) else { continue };
        // What follows a line was written until the next one could be.
        if at.saturating_add(interval(number).as_millis() as u64) > since.0 {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

fn parse(line: &str) -> Option<(u64, u64)> {
    let (at, position) = line.trim_end().split_once(' ')?;
    Some((at.parse().ok()?, position.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_position() {
        let text = "10000 0\n11500 40\n60000 90\n61";
        for (since, position) in [
            (0, Some(0)),
            (10_999, Some(0)),
            (11_000, Some(40)),
            (12_499, Some(40)),
            (12_500, Some(90)),
            (60_999, Some(90)),
            (61_000, None),
        ] {
            assert_eq!(super::position(text.as_bytes(), Time(since)).unwrap(), position, "{since}");
        }
        assert_eq!(super::position(&b""[..], Time(0)).unwrap(), None);
    }

    #[test]
    fn lines_are_a_second_apart_and_later_more() {
        assert_eq!([0, 32_767, 32_768, 65_536].map(|line| interval(line).as_secs()), [1, 1, 2, 4]);
        let dir = tempfile::tempdir().unwrap();
        let path = path_of(&dir.path().join("output.log"));
        let mut times = OutputTimes::new(File::create(&path).unwrap());
        for (position, at_ms) in [(0, 0), (5, 999), (9, 1000), (12, 1999)] {
            times.mark(position, Duration::from_millis(at_ms), || 70_000 + at_ms).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let positions: Vec<&str> =
            text.lines().map(|line| line.rsplit_once(' ').unwrap().1).collect();
        assert_eq!(positions, ["0", "9"]);
        let at = |since| position(File::open(&path).unwrap(), Time(since)).unwrap();
        assert_eq!((at(60_000), at(71_500), at(72_000)), (Some(0), Some(9), None));
    }
}
