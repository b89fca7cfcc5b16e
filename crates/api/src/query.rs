//! Query strings of API version 1, as types. The OpenAPI document takes its parameters from their
//! schemas, the daemon parses into them, and the client serialises them. Fields may be added, never
//! renamed or removed.

use muster_model::unit::{Span, Time};
use muster_model::view::UsageKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Filter for jobs. Without any field: the jobs that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct JobFilter {
    /// True to include ended jobs, as far back as the daemon stores them.
    #[serde(skip_serializing_if = "is_false")]
    pub all: bool,
    /// Job numbers, comma-separated, whether ended or not: `3,7,12`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ids: Option<String>,
    /// Login name of the jobs' user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Leaf queue of the jobs, or a queue whose subtree contains it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// State of the jobs (`pending`, `running`, …). A final state implies `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Highest number of ended jobs, newest first; 1000 when absent, at most 10000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Pattern of the name; `*` matches any characters, `?` matches one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Highest number of rows: active jobs before pending ones, and those before the newest ended
    /// ones. The response then has the number of matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<u32>,
}

impl JobFilter {
    /// Returns true when the filter accepts the name of a job.
    #[must_use]
    pub fn names(&self, name: &str) -> bool {
        self.name.as_ref().is_none_or(|pattern| matches_pattern(pattern, name))
    }

    /// Returns the only name that the filter accepts; `None` if it accepts several.
    #[must_use]
    pub fn only_name(&self) -> Option<&str> {
        self.name.as_deref().filter(|pattern| !pattern.contains(['*', '?']))
    }
}

/// Returns true when a name matches a pattern in which `*` matches any characters and `?` matches
/// one. Takes time at most proportional to the product of both lengths.
#[must_use]
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    let mut at = 0;
    let mut from = 0;
    // Position of the last `*` in the pattern, and the end of what it matches so far.
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

/// Element of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ElementQuery {
    /// Array index; absent means the first pending element, or the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

/// Output of a task, and the part of it to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LogQuery {
    /// Array index; absent means the only element, or the first one that has started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Rank of the task; absent means 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Number of the attempt, from 1; absent means the current or last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// True to continue until the task has ended (and to wait for its start).
    #[serde(skip_serializing_if = "is_false")]
    pub follow: bool,
    /// Lines before the end at which to begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail: Option<u32>,
    /// Instant at which to begin: what was written earlier is left out, to about a second and in whole lines. Together
    /// with `tail`, the later of the two counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Byte of the task's output at which to begin, counting deleted bytes. Takes precedence over
    /// `tail` and `since`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// Task to open a terminal session on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AttachQuery {
    /// Array index; absent means the only element, or the first one that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Rank of the task; absent means 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
}

/// Period of the timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TimelineQuery {
    /// Start of the period; absent means one hour ago. At most 20000 bars are returned, the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// Period of a report of usage, and what it is summed by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UsageQuery {
    /// Start of the period; absent means 30 days before its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// End of the period; absent, or later than now, means now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// `user`, `queue` and `job`, separated by commas; empty for one sum of all.
    pub by: String,
}

/// Length of a period that names no start.
const USAGE_PERIOD: Span = Span::from_secs(30 * 86_400);

impl UsageQuery {
    /// Returns start and end of the period.
    #[must_use]
    pub fn period(&self, now: Time) -> (Time, Time) {
        let until = self.until.map_or(now, |until| until.min(now));
        (self.since.unwrap_or(until - USAGE_PERIOD), until)
    }

    /// Returns what is summed by.
    ///
    /// # Errors
    /// Returns why a word is none of these.
    pub fn keys(&self) -> Result<Vec<UsageKey>, String> {
        self.by.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::parse).collect()
    }
}

/// Content of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SnapshotQuery {
    /// Seconds before now from which submissions are included; absent means 30 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub past_secs: Option<u64>,
    /// True to include the original name behind each number.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub names: bool,
}

/// State of a long poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ChangesQuery {
    /// Revision that the client has: the response is sent when it differs; absent means at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Seconds after which the response is sent in any case; 30 when absent, at most 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_secs: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::{JobFilter, matches_pattern};

    #[test]
    fn a_filter_accepts_one_name_unless_it_has_a_pattern() {
        let filter = |name: Option<&str>| JobFilter {
            name: name.map(str::to_owned),
            ..JobFilter::default()
        };
        assert_eq!(filter(Some("train")).only_name(), Some("train"));
        for several in [None, Some("train-*"), Some("train-?")] {
            assert_eq!(filter(several).only_name(), None);
        }
    }

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
