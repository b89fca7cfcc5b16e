//! Host lists, in the notation of Slurm and of cluster files: `node[01-03,07],login1` for five names.
//! Folding and expanding keep the order, so that together they give back the same list. Checks no
//! names: device files are written in the same notation.

/// Most digits of a number in brackets.
const MAX_DIGITS: usize = 18;

/// Most digits of a number that is folded.
const MAX_FOLDED_DIGITS: usize = 9;

/// Most names that one list may stand for: more than the largest clusters have nodes.
pub const MAX_NAMES: usize = 100_000;

/// Reason why a text is not a host list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostListError {
    /// A bracket is not closed, not opened, or inside another.
    #[error("expected a name such as `node07`, or a range such as `node[01-04]`")]
    Brackets,
    /// Other text than numbers and ranges is in brackets.
    #[error("expected numbers such as `01-04` or `1,3,5` in the brackets")]
    Numbers,
    /// The first number of a range is larger than the last.
    #[error("this range runs backwards; write `{last}-{first}`")]
    Backwards {
        /// First number as written.
        first: String,
        /// Last number as written.
        last: String,
    },
    /// The list stands for more than [`MAX_NAMES`] names.
    #[error("more than {MAX_NAMES} nodes")]
    TooMany,
}

/// Expands a list to all names, in order. Empty parts are left out, as in Slurm.
///
/// # Errors
/// See [`HostListError`].
pub fn expand(list: &str) -> Result<Vec<String>, HostListError> {
    let mut names = Vec::new();
    for part in split(list)?.into_iter().filter(|part| !part.is_empty()) {
        let pattern = HostPattern::parse(part)?;
        if names.len() + pattern.count() > MAX_NAMES {
            return Err(HostListError::TooMany);
        }
        names.extend(pattern.names());
    }
    Ok(names)
}

/// Splits a list at commas outside brackets, and trims the parts.
///
/// # Errors
/// A bracket is not closed, not opened, or inside another.
pub fn split(list: &str) -> Result<Vec<&str>, HostListError> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut is_inside = false;
    for (at, letter) in list.char_indices() {
        match letter {
            '[' | ']' if is_inside == (letter == '[') => return Err(HostListError::Brackets),
            '[' | ']' => is_inside = letter == '[',
            ',' if !is_inside => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    if is_inside { Err(HostListError::Brackets) } else { Ok(parts) }
}

/// One part of a list: `node07`, or `node[01-04,7]`, in which several brackets multiply. Kept
/// unexpanded, since a short text can stand for very many names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
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

impl HostPattern {
    /// Parses a pattern of at most [`MAX_NAMES`] names.
    ///
    /// # Errors
    /// See [`HostListError`].
    pub fn parse(text: &str) -> Result<Self, HostListError> {
        let mut pattern = Self { parts: Vec::new(), tail: String::new() };
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('[') {
            let (list, after) = after.split_once(']').ok_or(HostListError::Brackets)?;
            let numbers: Result<Vec<_>, _> =
                list.split(',').map(|part| NumberRange::parse(part.trim())).collect();
            pattern.parts.push((before.to_owned(), numbers?));
            rest = after;
        }
        pattern.tail = rest.to_owned();
        if pattern.count() > MAX_NAMES { Err(HostListError::TooMany) } else { Ok(pattern) }
    }

    /// Returns the number of names it stands for.
    #[must_use]
    pub fn count(&self) -> usize {
        let choices = |numbers: &[NumberRange]| {
            numbers
                .iter()
                .fold(0usize, |sum, range| sum.saturating_add(range.last - range.first + 1))
        };
        self.parts.iter().fold(1usize, |count, (_, numbers)| count.saturating_mul(choices(numbers)))
    }

    /// Returns the longest of the names. All differ only in digits, so a check of this one checks
    /// all.
    #[must_use]
    pub fn longest(&self) -> String {
        let longest = self.parts.iter().fold(String::new(), |name, (before, numbers)| {
            let digits = numbers.iter().map(|range| range.text(range.last)).max_by_key(String::len);
            name + before + &digits.unwrap_or_default()
        });
        longest + &self.tail
    }

    /// Returns the names, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
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
    fn parse(part: &str) -> Result<Self, HostListError> {
        let number = |text: &str| -> Result<usize, HostListError> {
            let digits = (1..=MAX_DIGITS).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten().ok_or(HostListError::Numbers)
        };
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let first = number(low)?;
        let last = number(high)?;
        let width = if low.starts_with('0') { low.len() } else { 0 };
        if first <= last {
            Ok(Self { first, last, width })
        } else {
            Err(HostListError::Backwards { first: low.to_owned(), last: high.to_owned() })
        }
    }

    fn text(self, number: usize) -> String {
        format!("{number:0width$}", width = self.width)
    }
}

/// Folds neighbours that differ in one number only: `n1, n2, n4` becomes `n[1-2,4]`. Other names
/// are unchanged.
#[must_use]
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut folded = Vec::new();
    let mut open: Option<FoldedNames<'a>> = None;
    for name in names {
        if open.as_mut().is_some_and(|run| run.take(name)) {
            continue;
        }
        folded.extend(open.replace(FoldedNames::new(name)).map(|run| run.text()));
    }
    folded.extend(open.map(|run| run.text()));
    folded
}

/// Folds names to one list: `n[1-2,4],login`.
#[must_use]
pub fn folded<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    fold(names).join(",")
}

/// Names that fold together so far.
struct FoldedNames<'a> {
    first: &'a str,
    /// Text before and after the number, known once a second name shows which number varies.
    around: Option<(&'a str, &'a str)>,
    ranges: Vec<FoldedRange<'a>>,
}

/// Consecutive numbers, padded like the first.
struct FoldedRange<'a> {
    first: &'a str,
    last: u64,
}

impl<'a> FoldedNames<'a> {
    fn new(first: &'a str) -> Self {
        Self { first, around: None, ranges: Vec::new() }
    }

    /// Adds the name if it folds with those before it; returns whether it does.
    fn take(&mut self, name: &'a str) -> bool {
        let Some((before, after)) = self.around.or_else(|| around(self.first, name)) else {
            return false;
        };
        if self.around.is_none() {
            let Some(range) = within(self.first, before, after).and_then(FoldedRange::new) else {
                return false;
            };
            self.ranges.push(range);
        }
        let Some(range) = within(name, before, after).and_then(FoldedRange::new) else {
            if self.around.is_none() {
                self.ranges.clear();
            }
            return false;
        };
        self.around = Some((before, after));
        match self.ranges.last_mut() {
            Some(last) if last.next() == range.first => last.last = range.last,
            _ => self.ranges.push(range),
        }
        true
    }

    fn text(&self) -> String {
        let Some((before, after)) = self.around else { return self.first.to_owned() };
        let ranges: Vec<String> = self.ranges.iter().map(FoldedRange::text).collect();
        format!("{before}[{}]{after}", ranges.join(","))
    }
}

impl<'a> FoldedRange<'a> {
    fn new(digits: &'a str) -> Option<Self> {
        let sound = (1..=MAX_FOLDED_DIGITS).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        sound.then(|| digits.parse().ok()).flatten().map(|last| Self { first: digits, last })
    }

    /// Returns the number after the last, as expanding the range would write it.
    fn next(&self) -> String {
        self.padded(self.last + 1)
    }

    fn padded(&self, number: u64) -> String {
        let width = if self.first.starts_with('0') { self.first.len() } else { 0 };
        let text = format!("{number:0width$}");
        if text.len() > MAX_FOLDED_DIGITS { String::new() } else { text }
    }

    fn text(&self) -> String {
        let last = self.padded(self.last);
        if last == self.first { last } else { format!("{}-{last}", self.first) }
    }
}

/// Returns the common text of two names before and after the one number in which they differ.
fn around<'a>(a: &'a str, b: &str) -> Option<(&'a str, &'a str)> {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let before = a.get(..same)?.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let rest = &a[before.len()..];
    let other = b.get(before.len()..)?;
    let same = rest.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
    let after =
        rest.get(rest.len() - same..)?.trim_start_matches(|letter: char| letter.is_ascii_digit());
    Some((before, after))
}

fn within<'a>(name: &'a str, before: &str, after: &str) -> Option<&'a str> {
    name.strip_prefix(before)?.strip_suffix(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &str, folded: &str) {
        let names: Vec<&str> = names.split_whitespace().collect();
        let text = fold(names.iter().copied());
        assert_eq!(text.join(" "), folded);
        assert_eq!(expand(&text.join(",")).expect("what was folded is a list"), names);
    }

    #[test]
    fn neighbours_fold_and_unfold() {
        check("node01 node02 node03 node04", "node[01-04]");
        check("n1 n2 n4", "n[1-2,4]");
        check("n8 n9 n10 n11", "n[8-11]");
        check("n08 n09 n10", "n[08-10]");
        check("n98 n99 n100", "n[98-100]");
        check("n099 n100 n0101", "n[099-100,0101]");
        check("n3 n2 n1", "n[3,2,1]");
        check("r1-n1 r1-n2 r2-n1 r2-n2", "r1-n[1-2] r2-n[1-2]");
        check("a.rack1 a.rack2", "a.rack[1-2]");
        check("gpu1.site gpu2.site cpu1.site", "gpu[1-2].site cpu1.site");
        check("login", "login");
        check("a1b1 a2b2", "a1b1 a2b2");
        check("n1 n11 n12", "n[1,11-12]");
        check("1 2 3", "[1-3]");
        check("n999999999 n1000000000", "n999999999 n1000000000");
        check("n12345678901 n12345678902", "n12345678901 n12345678902");
        check("n0 n1 n00 n01", "n[0-1,00-01]");
    }

    #[test]
    fn lists_are_names() {
        for (list, names) in [
            ("a", "a"),
            ("a[1,3],b", "a1 a3 b"),
            ("n[1-3]", "n1 n2 n3"),
            ("n[08-10],x", "n08 n09 n10 x"),
            ("n[1, 3-4] ,m", "n1 n3 n4 m"),
            ("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2"),
            ("/dev/nvidia[0-1]", "/dev/nvidia0 /dev/nvidia1"),
            ("a,", "a"),
            ("", ""),
        ] {
            assert_eq!(expand(list).expect("a list").join(" "), names, "{list}");
        }
        let backwards = HostListError::Backwards { first: "3".to_owned(), last: "1".to_owned() };
        for (list, error) in [
            ("n[1-", HostListError::Brackets),
            ("n[1", HostListError::Brackets),
            ("n1]", HostListError::Brackets),
            ("n[[1]]", HostListError::Brackets),
            ("n[3-1]", backwards),
            ("n[a-b]", HostListError::Numbers),
            ("n[x]", HostListError::Numbers),
            ("n[]", HostListError::Numbers),
            ("n[1-200000]", HostListError::TooMany),
            ("n[1-90000],m[1-90000]", HostListError::TooMany),
            ("a[0-9999]b[0-9999]", HostListError::TooMany),
        ] {
            assert_eq!(expand(list), Err(error), "{list}");
        }
    }
}
