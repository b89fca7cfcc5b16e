//! Sums the `test result:` lines of cargo's own output, and keeps which tests failed and why, to be
//! said once more at the end of a long run. It counts what cargo says and nothing else.

use std::fmt;

/// Lines that are kept of what a failed test printed, and characters of each: the place of the
/// panic and its message come first.
const REASON: (usize, usize) = (6, 300);

/// Tests by result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
    failures: Vec<Failure>,
    /// The lines that follow are what the last failed test printed.
    is_in_failure: bool,
}

/// A test that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    name: String,
    reason: Vec<String>,
}

impl Totals {
    /// Adds one line of output.
    pub fn add_line(&mut self, line: &str) {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            self.failures.push(Failure { name: name.to_owned(), reason: Vec::new() });
            self.is_in_failure = true;
        } else if line == "failures:" {
            self.is_in_failure = false;
        } else if let Some(failure) = self.failures.last_mut().filter(|_| self.is_in_failure)
            && failure.reason.len() < REASON.0
            && !line.trim().is_empty()
        {
            failure.reason.push(line.chars().take(REASON.1).collect());
        }
        self.add_counts(line);
    }

    /// Adds the counts of a result line; other lines change nothing.
    fn add_counts(&mut self, line: &str) {
        let Some((_, counts)) =
            line.split_once("test result: ").and_then(|(_, rest)| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split(';') {
            let mut words = part.split_whitespace();
            let (Some(Ok(count)), Some(what)) = (words.next().map(str::parse::<u64>), words.next())
            else {
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
    /// Writes the failed tests, and the counts as the last line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Failure { name, reason } in &self.failures {
            writeln!(f, "failed test: {name}")?;
            for line in reason {
                writeln!(f, "    {line}")?;
            }
        }
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

    #[test]
    fn failed_tests_are_named_with_their_reason_before_the_counts() {
        check(
            &[
                "test a ... FAILED",
                "",
                "failures:",
                "",
                "---- a stdout ----",
                "",
                "thread 'a' panicked at src/lib.rs:1:2:",
                "what it should not be",
                "",
                "---- b::c stdout ----",
                "Error: \"no\"",
                "",
                "failures:",
                "    a",
                "    b::c",
                "",
                "test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
                "a line that is no part of it",
            ],
            "failed test: a\n    thread 'a' panicked at src/lib.rs:1:2:\n    what it should not be\n\
             failed test: b::c\n    Error: \"no\"\n0 passed, 2 failed",
        );
    }
}
