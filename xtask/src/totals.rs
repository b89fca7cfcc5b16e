//! Sums the `test result:` lines of cargo's own output. It counts what cargo says and nothing else.

use std::fmt;

/// Tests by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Totals {
    /// Adds one line of output; lines that are not a result line change nothing.
    pub fn add_line(&mut self, line: &str) {
        let Some((_, counts)) = line.split_once("test result: ").and_then(|(_, rest)| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split(';') {
            let mut words = part.split_whitespace();
            let (Some(Ok(count)), Some(what)) = (words.next().map(str::parse::<u64>), words.next()) else {
                continue;
            };
            match what {
                "passed" => self.passed += count,
                "failed" => self.failed += count,
                "ignored" => self.skipped += count,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        match self.skipped {
            0 => Ok(()),
            skipped => write!(f, ", {skipped} skipped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &[&str], expected: &str) {
        let mut totals = Totals::default();
        for line in lines {
            totals.add_line(line);
        }
        assert_eq!(totals.to_string(), expected);
    }

    #[test]
    fn result_lines_are_summed_and_other_lines_are_not() {
        check(&[], "0 passed, 0 failed");
        check(
            &[
                "running 3 tests",
                "test a ... ok",
                "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
                "test result: FAILED. 4 passed; 2 failed; 1 ignored; 0 measured; 9 filtered out; finished in 1s",
                "5 passed; 5 failed",
            ],
            "7 passed, 2 failed, 1 skipped",
        );
    }
}
