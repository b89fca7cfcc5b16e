//! Names of jobs, groups, queues and nodes, and ranges of node names. A name never has a path
//! separator, so that it is safe as part of a file name.

use crate::quantity::Malformed;

/// Longest name of a job, group or queue.
pub(crate) const MAX_NAME: usize = 64;
/// Longest node name; host names are no longer (hostname(7)).
const MAX_NODE_NAME: usize = 253;
/// Most node names that one range may stand for.
pub(crate) const MAX_NODES: usize = 100_000;

/// Checks a name: at most 64 letters, digits, `.`, `_` and `-`, starting with neither `-` nor `.`.
///
/// # Errors
/// The text is no such name.
pub fn check_name(text: &str) -> Result<String, Malformed> {
    checked(text, MAX_NAME)
}

fn checked(text: &str, longest: usize) -> Result<String, Malformed> {
    if text.is_empty() {
        return Err(malformed("this is empty"));
    }
    if text.contains(['/', '\\']) {
        return Err(malformed("a name has no path separators"));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(other) = text.chars().find(|c| !allowed(*c)) {
        let other = crate::diagnostic::show(&other.to_string());
        return Err(malformed(format!(
            "{other} is not allowed; letters, digits, `.`, `_` and `-` are"
        )));
    }
    if text.starts_with(['-', '.']) {
        return Err(malformed("a name starts with a letter, a digit or `_`"));
    }
    if text.len() > longest {
        return Err(malformed(format!("{} characters; at most {longest}", text.len())));
    }
    Ok(text.to_owned())
}

/// Makes a name from any text, for jobs without one; `None` if no usable character is left.
pub(crate) fn name_from(text: &str) -> Option<String> {
    let allowed =
        |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' };
    let name: String = text.chars().map(allowed).collect();
    let name: String = name.trim_start_matches(['-', '.']).chars().take(MAX_NAME).collect();
    let name = name.trim_end_matches(['-', '.']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// Node names as written: `node07`, or `node[01-04,7]`, in which several brackets multiply. Kept
/// unexpanded, since a short text can stand for very many names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodePattern {
    /// Text before a bracket, and the numbers in it.
    parts: Vec<(String, Vec<NumberRange>)>,
    /// Text after the last bracket.
    tail: String,
}

/// A range such as `01-04`, padded to the width of the first number if that begins with a zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NumberRange {
    first: usize,
    last: usize,
    width: usize,
}

impl NodePattern {
    /// Parses a pattern of valid node names, at most [`MAX_NODES`] of them.
    pub(crate) fn parse(text: &str) -> Result<Self, Malformed> {
        let expected =
            || malformed("expected a name such as `node07`, or a range such as `node[01-04]`");
        let mut pattern = Self { parts: Vec::new(), tail: String::new() };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('[') {
            let (list, after) = after.split_once(']').ok_or_else(expected)?;
            let numbers: Result<Vec<_>, _> =
                list.split(',').map(|part| NumberRange::parse(part.trim())).collect();
            pattern.parts.push((before.to_owned(), numbers?));
            rest = after;
        }
        pattern.tail = rest.to_owned();
        if pattern.count() > MAX_NODES {
            return Err(malformed(format!("more than {MAX_NODES} nodes")));
        }
        // All names differ only in digits, so checking the longest one checks all.
        let longest = pattern.parts.iter().fold(String::new(), |name, (before, numbers)| {
            let digits = numbers.iter().map(|range| range.text(range.last)).max_by_key(String::len);
            name + before + &digits.unwrap_or_default()
        });
        checked(&(longest + &pattern.tail), MAX_NODE_NAME)?;
        Ok(pattern)
    }

    /// Returns the number of names it stands for.
    pub(crate) fn count(&self) -> usize {
        let choices = |numbers: &[NumberRange]| {
            numbers
                .iter()
                .fold(0usize, |sum, range| sum.saturating_add(range.last - range.first + 1))
        };
        self.parts.iter().fold(1usize, |count, (_, numbers)| count.saturating_mul(choices(numbers)))
    }

    /// Returns the names, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = vec![String::new()];
        for (before, numbers) in &self.parts {
            let texts: Vec<String> = numbers
                .iter()
                .flat_map(|range| (range.first..=range.last).map(|n| range.text(n)))
                .collect();
            names = names
                .iter()
                .flat_map(|name| texts.iter().map(move |text| format!("{name}{before}{text}")))
                .collect();
        }
        names.iter().map(|name| format!("{name}{}", self.tail)).collect()
    }
}

impl NumberRange {
    fn parse(part: &str) -> Result<Self, Malformed> {
        let expected = || malformed("expected numbers such as `01-04` or `1,3,5` in the brackets");
        let number = |text: &str| -> Result<usize, Malformed> {
            let digits =
                (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten().ok_or_else(expected)
        };
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let first = number(low)?;
        let last = number(high)?;
        let width = if low.starts_with('0') { low.len() } else { 0 };
        if first <= last {
            Ok(Self { first, last, width })
        } else {
            Err(malformed(format!("this range runs backwards; write `{high}-{low}`")))
        }
    }

    fn text(self, number: usize) -> String {
        format!("{number:0width$}", width = self.width)
    }
}

fn malformed(label: impl Into<String>) -> Malformed {
    Malformed { label: label.into(), hint: None }
}
