//! Host lists as Slurm and cluster files write them: `node[01-03,07]` for four names. Folding and
//! expanding keep the order, so that together they give back the same list.

use crate::names::{MAX_NODES, NodePattern};
use crate::quantity::Malformed;

/// Most digits of a number in brackets; names with longer numbers are not folded.
const MAX_DIGITS: usize = 9;

/// Folds neighbours that differ in one number only: `n1, n2, n4` becomes `n[1-2,4]`. Other names
/// are unchanged.
#[must_use]
pub fn fold_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
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

/// Expands a list such as `node[01-03],login1` to names, in order.
///
/// # Errors
/// The text is no such list, or stands for more than 100,000 names.
pub fn expand_names(list: &str) -> Result<Vec<String>, Malformed> {
    let mut names = Vec::new();
    for part in split_outside_brackets(list) {
        let pattern = NodePattern::parse(part.trim())?;
        if names.len() + pattern.count() > MAX_NODES {
            return Err(Malformed { label: format!("more than {MAX_NODES} nodes"), hint: None });
        }
        names.extend(pattern.names());
    }
    Ok(names)
}

fn split_outside_brackets(list: &str) -> Vec<&str> {
    let mut depth = 0u32;
    let mut start = 0;
    let mut parts = Vec::new();
    for (at, letter) in list.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

/// Names that fold together so far.
struct FoldedNames<'a> {
    first: &'a str,
    /// Text before and after the number, known once a second name shows which number varies.
    around: Option<(&'a str, &'a str)>,
    ranges: Vec<Range<'a>>,
}

/// Consecutive numbers, padded like the first.
struct Range<'a> {
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
            let Some(range) = within(self.first, before, after).and_then(Range::new) else {
                return false;
            };
            self.ranges.push(range);
        }
        let Some(range) = within(name, before, after).and_then(Range::new) else {
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
        let ranges: Vec<String> = self.ranges.iter().map(Range::text).collect();
        format!("{before}[{}]{after}", ranges.join(","))
    }
}

impl<'a> Range<'a> {
    fn new(digits: &'a str) -> Option<Self> {
        let sound = (1..=MAX_DIGITS).contains(&digits.len())
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
        // Expanding accepts no longer number, so none is written.
        if text.len() > MAX_DIGITS { String::new() } else { text }
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
        let text = fold_names(names.iter().copied());
        assert_eq!(text.join(" "), folded);
        assert_eq!(expand_names(&text.join(",")).unwrap(), names);
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
    fn lists_are_split_outside_of_brackets_only() {
        assert_eq!(expand_names("a[1,3],b").unwrap(), ["a1", "a3", "b"]);
        for wrong in ["", "a,", "a[1", "a[x]", "a[1-200000]", "a[1-90000],b[1-90000]"] {
            assert!(expand_names(wrong).is_err(), "{wrong}");
        }
    }
}
