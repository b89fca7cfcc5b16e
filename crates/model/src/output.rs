//! File patterns for a job's output, with the marks that `sbatch --output` has: parsing and
//! expansion. Pure text; the task itself opens the file as its user (`muster logs` does so for the
//! user that calls it).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{JobId, Rank};

/// Marks that are valid after `%`, with their meaning; for messages and documentation.
pub const MARKS: &str =
    "%j (job), %A and %a (array and index), %t (rank), %x (name), %u (user), %% (a percent sign)";

/// Largest width that a number can be padded to, as in `%4t` (sbatch(1), filename pattern).
const WIDEST: u32 = 10;

/// Longest pattern in bytes: a path has at most 4095 bytes, and expanded marks may be longer than
/// their text.
const MOST_BYTES: usize = 2048;

/// Output files of a job as the user names them, as patterns. Without them Muster stores the output
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputFiles {
    /// Pattern of the file for standard output, and for standard error too unless `error` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Pattern of the file for standard error; `None` means the same file as standard output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl OutputFiles {
    /// Returns true when no file is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.output.is_none() && self.error.is_none()
    }

    /// Returns the same files with `change` applied to each pattern.
    #[must_use]
    pub fn map(&self, change: impl Fn(&str) -> String) -> Self {
        Self {
            output: self.output.as_deref().map(&change),
            error: self.error.as_deref().map(&change),
        }
    }
}

/// Piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternPart {
    /// Literal text of the pattern.
    Text(String),
    /// Mark, and the width to which a number is padded with zeros; 0 means no padding.
    Mark(OutputMark, u32),
}

/// Value that a mark is replaced with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMark {
    /// `%j`: job number; of an array, with the index of the element.
    Job,
    /// `%A`: job number, of an array too.
    Array,
    /// `%a`: index in the array; 0 when the job is not an array.
    Index,
    /// `%t`: rank of the task.
    Rank,
    /// `%x`: name of the job.
    Name,
    /// `%u`: login name of the user.
    User,
}

/// Parses a pattern.
///
/// # Errors
/// Returns why the text is not a pattern, as a fragment for a message.
pub fn parts(pattern: &str) -> Result<Vec<PatternPart>, String> {
    match pattern {
        "" => return Err("this is empty".to_owned()),
        _ if pattern.len() > MOST_BYTES => return Err(format!("longer than {MOST_BYTES} bytes")),
        _ if pattern.starts_with('~') => {
            return Err("`~` is not expanded here; write the whole path".to_owned());
        }
        _ if pattern.ends_with('/') => return Err("this names a folder, not a file".to_owned()),
        _ if pattern.chars().any(char::is_control) => {
            return Err("a path cannot contain control characters".to_owned());
        }
        _ => {}
    }
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let mut digits = String::new();
        while let Some(digit) = letters.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let width =
            if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u32::MAX).min(WIDEST) };
        let mark = match letters.next() {
            Some('%') if digits.is_empty() => {
                text.push('%');
                continue;
            }
            Some('j' | 'J') => OutputMark::Job,
            Some('A') => OutputMark::Array,
            Some('a') => OutputMark::Index,
            Some('t') => OutputMark::Rank,
            Some('x') => OutputMark::Name,
            Some('u') => OutputMark::User,
            Some(other) => {
                return Err(format!(
                    "`%{digits}{other}` is not a known mark; the marks are {MARKS}"
                ));
            }
            None => return Err(format!("a `%` at the end; the marks are {MARKS}")),
        };
        if !text.is_empty() {
            parts.push(PatternPart::Text(std::mem::take(&mut text)));
        }
        parts.push(PatternPart::Mark(mark, width));
    }
    if !text.is_empty() {
        parts.push(PatternPart::Text(text));
    }
    Ok(parts)
}

/// Returns true when the pattern gives each rank its own file.
#[must_use]
pub fn is_per_rank(pattern: &str) -> bool {
    has_mark(pattern, |mark| mark == OutputMark::Rank)
}

/// Returns true when the pattern gives each element of an array or service its own files.
#[must_use]
pub fn is_per_element(pattern: &str) -> bool {
    has_mark(pattern, |mark| matches!(mark, OutputMark::Job | OutputMark::Index))
}

fn has_mark(pattern: &str, is_it: impl Fn(OutputMark) -> bool) -> bool {
    let is_wanted = |part: &PatternPart| matches!(part, PatternPart::Mark(mark, _) if is_it(*mark));
    parts(pattern).is_ok_and(|parts| parts.iter().any(is_wanted))
}

/// Task whose output file is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputPlace<'a> {
    /// Job of the task.
    pub job: JobId,
    /// Index in the array, or replica of the service; `None` for other jobs.
    pub index: Option<u32>,
    /// Rank of the task.
    pub rank: Rank,
    /// Name of the job.
    pub name: &'a str,
    /// Login name of the user.
    pub user: &'a str,
}

/// Expands the marks of a pattern; returns an invalid pattern unchanged.
#[must_use]
pub fn expand(pattern: &str, place: &OutputPlace<'_>) -> String {
    let Ok(parts) = parts(pattern) else { return pattern.to_owned() };
    let number = |number: u64, width: u32| format!("{number:0width$}", width = width as usize);
    let index = place.index.map(u64::from);
    parts
        .into_iter()
        .map(|part| match part {
            PatternPart::Text(text) => text,
            // `%j` must tell the elements of an array apart, as on Slurm, where each has a job
            // number of its own.
            PatternPart::Mark(OutputMark::Job, width) => match index {
                Some(index) => format!("{}_{index}", number(place.job.0, width)),
                None => number(place.job.0, width),
            },
            PatternPart::Mark(OutputMark::Array, width) => number(place.job.0, width),
            PatternPart::Mark(OutputMark::Index, width) => number(index.unwrap_or(0), width),
            PatternPart::Mark(OutputMark::Rank, width) => number(u64::from(place.rank.0), width),
            PatternPart::Mark(OutputMark::Name, _) => place.name.to_owned(),
            PatternPart::Mark(OutputMark::User, _) => place.user.replace('/', "_"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_filled_in() {
        let one = OutputPlace {
            job: JobId(12),
            index: None,
            rank: Rank(3),
            name: "train",
            user: "alice",
        };
        let element = OutputPlace { index: Some(7), ..one };
        for (pattern, alone, of_array) in [
            ("out.txt", "out.txt", "out.txt"),
            ("/a/%x-%j.log", "/a/train-12.log", "/a/train-12_7.log"),
            ("%A_%a", "12_0", "12_7"),
            ("%4j-%3t-%2a", "0012-003-00", "0012_7-003-07"),
            ("%u/100%%", "alice/100%", "alice/100%"),
            ("%99t", "0000000003", "0000000003"),
        ] {
            assert_eq!(expand(pattern, &one), alone, "{pattern}");
            assert_eq!(expand(pattern, &element), of_array, "{pattern}");
        }
    }

    #[test]
    fn what_is_no_pattern_says_why() {
        for (pattern, why) in [
            ("", "empty"),
            ("~/x", "not expanded"),
            ("a/", "folder"),
            ("a%N", "`%N` is not a known mark"),
            ("a%4%", "`%4%` is not a known mark"),
            ("a%", "at the end"),
            ("a\nb", "control"),
        ] {
            let error = parts(pattern).expect_err("no pattern");
            assert!(error.contains(why), "{pattern}: {error}");
        }
        assert!(parts(&"x".repeat(MOST_BYTES + 1)).is_err());
        assert!(is_per_rank("a%t") && !is_per_rank("a%j"));
        assert!(is_per_element("a%j") && is_per_element("%4a") && !is_per_element("%A-%t"));
    }
}
