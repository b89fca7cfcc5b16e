//! Where the output of a job goes when its user names a file: patterns with the marks that `sbatch
//! --output` has, read and expanded. Pure text; the task itself opens the file, as its user
//! (`muster logs` does so for the user who asks).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{JobId, Rank};

/// The marks that can stand behind `%`, and what each stands for; for messages and documentation.
pub const MARKS: &str =
    "%j (job), %A and %a (array and index), %t (rank), %x (name), %u (user), %% (a percent sign)";

/// Widest number that a mark can be padded to, as in `%4t` (sbatch(1), filename pattern).
const WIDEST: u32 = 10;

/// Longest pattern: a path has at most 4095 bytes, and marks get longer.
const MOST_BYTES: usize = 2048;

/// Files that a job's user names for its output, as patterns; without them Muster keeps the output
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OutputFiles {
    /// Standard output, and standard error too where `error` names no other file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// Standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl OutputFiles {
    /// Returns true when no file is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.output.is_none() && self.error.is_none()
    }

    /// Returns the same files with each pattern changed.
    #[must_use]
    pub fn map(&self, change: impl Fn(&str) -> String) -> Self {
        Self {
            output: self.output.as_deref().map(&change),
            error: self.error.as_deref().map(&change),
        }
    }
}

/// A piece of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text as it stands.
    Text(String),
    /// A mark, padded with zeros to this width where it is a number; 0 is as it is.
    Mark(Mark, u32),
}

/// What a mark stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `%j`: the job; of an array, the element.
    Job,
    /// `%A`: the job, of an array the whole array.
    Array,
    /// `%a`: the index in the array; 0 where there is none.
    Index,
    /// `%t`: the rank.
    Rank,
    /// `%x`: the name of the job.
    Name,
    /// `%u`: the user.
    User,
}

/// Reads a pattern.
///
/// # Errors
/// Why the text cannot be one, as a fragment for a message.
pub fn parts(pattern: &str) -> Result<Vec<Part>, String> {
    match pattern {
        "" => return Err("this is empty".to_owned()),
        _ if pattern.len() > MOST_BYTES => return Err(format!("longer than {MOST_BYTES} bytes")),
        _ if pattern.starts_with('~') => {
            return Err("`~` is not expanded here; write the whole path".to_owned());
        }
        _ if pattern.ends_with('/') => return Err("this names a folder, not a file".to_owned()),
        _ if pattern.chars().any(char::is_control) => {
            return Err("a path holds no control characters".to_owned());
        }
        _ => {}
    }
    let (mut parts, mut text) = (Vec::new(), String::new());
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
            Some('j' | 'J') => Mark::Job,
            Some('A') => Mark::Array,
            Some('a') => Mark::Index,
            Some('t') => Mark::Rank,
            Some('x') => Mark::Name,
            Some('u') => Mark::User,
            Some(other) => {
                return Err(format!("`%{digits}{other}` is not filled in here; there are {MARKS}"));
            }
            None => return Err(format!("a `%` at the end; there are {MARKS}")),
        };
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        parts.push(Part::Mark(mark, width));
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(parts)
}

/// Returns true when each rank has a file of its own by this pattern.
#[must_use]
pub fn is_per_rank(pattern: &str) -> bool {
    parts(pattern)
        .is_ok_and(|parts| parts.iter().any(|part| matches!(part, Part::Mark(Mark::Rank, _))))
}

/// The task whose file is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputPlace<'a> {
    /// Its job.
    pub job: JobId,
    /// Its index in an array, or its replica of a service.
    pub index: Option<u32>,
    /// Its rank.
    pub rank: Rank,
    /// Name of the job.
    pub name: &'a str,
    /// Its user.
    pub user: &'a str,
}

/// Fills the marks of a pattern in, on this machine; a pattern that cannot be read stands for
/// itself.
#[must_use]
pub fn expand(pattern: &str, place: &OutputPlace<'_>) -> String {
    let Ok(parts) = parts(pattern) else { return pattern.to_owned() };
    let number = |number: u64, width: u32| format!("{number:0width$}", width = width as usize);
    let index = place.index.map(u64::from);
    parts
        .into_iter()
        .map(|part| match part {
            Part::Text(text) => text,
            // An element has no number of its own here: `%j` still tells elements apart, as it does
            // on Slurm.
            Part::Mark(Mark::Job, width) => match index {
                Some(index) => format!("{}_{index}", number(place.job.0, width)),
                None => number(place.job.0, width),
            },
            Part::Mark(Mark::Array, width) => number(place.job.0, width),
            Part::Mark(Mark::Index, width) => number(index.unwrap_or(0), width),
            Part::Mark(Mark::Rank, width) => number(u64::from(place.rank.0), width),
            Part::Mark(Mark::Name, _) => place.name.to_owned(),
            Part::Mark(Mark::User, _) => place.user.replace('/', "_"),
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
            ("a%N", "`%N` is not filled in"),
            ("a%4%", "`%4%` is not filled in"),
            ("a%", "at the end"),
            ("a\nb", "control"),
        ] {
            let error = parts(pattern).expect_err("no pattern");
            assert!(error.contains(why), "{pattern}: {error}");
        }
        assert!(parts(&"x".repeat(MOST_BYTES + 1)).is_err());
        assert!(is_per_rank("a%t") && !is_per_rank("a%j"));
    }
}
