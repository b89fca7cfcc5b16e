//! Query strings of API version 1, as types. The OpenAPI document takes its parameters from their
//! schemas, the daemon parses into them, and the client writes from them: one definition. Fields
//! may be added, never renamed or removed.

use muster_model::unit::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which jobs to list. Without any field: the jobs that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct JobFilter {
    /// Also jobs that have ended, as far back as the daemon keeps them.
    #[serde(skip_serializing_if = "is_false")]
    pub all: bool,
    /// Just these job numbers, comma-separated, ended or not: `3,7,12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<String>,
    /// Of this user only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Of this leaf queue, or of this queue's subtree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// In this state (`pending`, `running`, …). A final state implies `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// At most this many ended jobs, newest first; 1000 when absent, at most 10000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// With this name; `*` stands for any characters, `?` for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// At most this many rows: active jobs before waiting ones, and those before the newest that
    /// have ended. The answer then says how many match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
}

impl JobFilter {
    /// Returns whether the name of a job is one that the filter asks for.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.name.as_ref().is_none_or(|pattern| matches_pattern(pattern, name))
    }
}

/// Returns whether a name matches a pattern in which `*` stands for any characters and `?` for one.
/// Linear in the product of both lengths, whatever the pattern.
#[must_use]
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from) = (0, 0);
    // The last `*`, and how much of the name it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match (pattern.get(at), star) {
            (Some('*'), _) => {
                star = Some((at, from));
                at += 1;
            }
            (Some(c), _) if *c == '?' || *c == name[from] => {
                at += 1;
                from += 1;
            }
            (_, Some((star_at, until))) => {
                star = Some((star_at, until + 1));
                at = star_at + 1;
                from = until + 1;
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

/// Which element of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ElementQuery {
    /// Array index; absent: the first element that waits, or the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// Which log, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LogQuery {
    /// Array index; absent: the only element, or the first one that has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Rank; absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Attempt; absent: the current or last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Keep sending until the task has ended (and wait for it to start).
    #[serde(skip_serializing_if = "is_false")]
    pub follow: bool,
    /// Begin this many lines before the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
    /// Begin at this byte of what the task has written, deleted bytes included. Wins over `tail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// Which task to open a terminal session on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttachQuery {
    /// Array index; absent: the only element, or the first one that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Rank; absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// A stretch of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TimelineQuery {
    /// Bars that reach past this instant; absent: the last hour. At most 20000 bars, newest first
    /// to be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// How much of the past goes into a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SnapshotQuery {
    /// What was submitted so many seconds ago, and since; absent: 30 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past_secs: Option<u64>,
    /// Say too what each number stands for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub names: bool,
}

/// Where a long poll stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChangesQuery {
    /// Answer when the revision differs from this one; absent: at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Answer after this long in any case; 30 when absent, at most 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::matches_pattern;

    #[test]
    fn patterns_are_those_of_a_shell_without_brackets() {
        for (pattern, name, expected) in [
            ("sweep-*", "sweep-12", true),
            ("sweep-*", "sweep-", true),
            ("sweep-*", "my-sweep-1", false),
            ("*-1*3", "a-1-1-3", true),
            ("*-1*3", "a-1-1-4", false),
            ("sweep-?", "sweep-é", true),
            ("sweep-?", "sweep-12", false),
            ("", "", true),
            ("", "x", false),
            ("*", "", true),
            ("a[1]", "a[1]", true),
            ("a*b*c*d*e*f*g*h*", &"a".repeat(2000), false),
        ] {
            assert_eq!(matches_pattern(pattern, name), expected, "{pattern} {name}");
        }
    }
}
