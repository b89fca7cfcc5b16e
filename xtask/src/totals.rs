//! Sums the `test result:` lines of cargo's output, and collects failed tests with their messages and
//! the times of all tests, to repeat what matters at the end of a long run.

use std::fmt;
use std::time::Duration;

/// Number of lines kept of a failed test's output, and of characters of each: position and message
/// of the panic come first.
const REASON: (usize, usize) = (6, 300);

/// Number of tests that are listed as the slowest.
const SLOWEST: usize = 10;

/// Number of tests by result, the failures, and the times of tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
    failures: Vec<TestFailure>,
    /// True while the lines are output of the last failed test.
    is_in_failure: bool,
    times: Vec<(Duration, String)>,
}

/// A failed test and the start of its output.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestFailure {
    name: String,
    reason: Vec<String>,
}

impl Totals {
    /// Adds one line of output.
    pub fn add_line(&mut self, line: &str) {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            self.failures.push(TestFailure { name: name.to_owned(), reason: Vec::new() });
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

    /// Adds the time of one test.
    pub fn add_time(&mut self, name: &str, time: Duration) {
        self.times.push((time, name.to_owned()));
    }

    /// Adds results that were collected separately.
    pub fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.times.extend(other.times);
        self.is_in_failure = false;
    }

    /// Returns the slowest tests with their seconds, one a line.
    pub fn slowest(&self) -> String {
        let mut times = self.times.clone();
        times.sort_by(|a, b| b.cmp(a));
        let line =
            |(time, name): &(Duration, String)| format!("{:7.1}  {name}\n", time.as_secs_f32());
        times.iter().take(SLOWEST).map(line).collect()
    }

    /// Adds the counts of a result line; ignores other lines.
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
        for TestFailure { name, reason } in &self.failures {
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
    fn results_of_several_processes_are_added_and_the_slowest_tests_named() {
        let of = |seconds: u64, names: &[&str]| {
            let mut totals = Totals::default();
            totals.add_line("test result: FAILED. 4 passed; 2 failed; 1 ignored");
            totals.add_line("---- a stdout ----");
            for name in names {
                totals.add_time(name, Duration::from_secs(seconds));
            }
            totals
        };
        let mut sum = of(1, &["a"; SLOWEST]);
        sum.merge(of(20, &["slow"]));
        sum.add_line("no reason of the failure before");
        let slowest = sum.slowest();
        assert_eq!(slowest.lines().next(), Some("   20.0  slow"));
        assert_eq!(slowest.lines().count(), SLOWEST);
        assert_eq!(
            sum.to_string(),
            "failed test: a\nfailed test: a\n8 passed, 4 failed, 2 skipped"
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
