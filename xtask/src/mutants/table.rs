//! Deliberate bugs as data: what each breaks, in which file, which text becomes which, and what
//! finds it. Reads text and finds places; it must not build or run anything.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, bail};

/// A deliberate bug.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutant {
    /// What it is called: by scenarios too.
    pub name: String,
    /// What goes wrong, for whom.
    pub breaks: String,
    /// File, relative to the root.
    pub file: String,
    /// What finds it.
    pub found: Found,
    /// Text that is there exactly once, blanks aside: an expression, or whole statements.
    pub before: String,
    /// What stands there instead.
    pub after: String,
}

/// What is promised of a mutant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Found {
    /// Stories find it within so many seeds from 0.
    Within(u64),
    /// Stories do not, and why; scenarios do.
    #[default]
    Scenarios,
    /// Nothing here finds it, and why.
    Missed(String),
}

impl Mutant {
    /// Where its text stands in the text of its file.
    ///
    /// # Errors
    /// It is not there exactly once, or is a `let`: behind an `if`, that names nothing for what
    /// follows.
    pub fn place(&self, text: &str) -> Result<Range<usize>> {
        if self.before.starts_with("let ") {
            bail!("mutant {}: its text is a `let`; take the expression after it", self.name);
        }
        let places = find(text, &self.before);
        match &places[..] {
            [one] => Ok(one.clone()),
            [] => {
                bail!("mutant {}: {} no longer has the text\n{}", self.name, self.file, self.before)
            }
            many => bail!("mutant {}: {} has the text {} times", self.name, self.file, many.len()),
        }
    }
}

/// A mutant and its number.
type Numbered<'m> = (usize, &'m Mutant);
/// A text that mutants change, and those: several may change the same text, and one a part of what
/// another changes.
type Place<'m> = (Range<usize>, Vec<Numbered<'m>>);

/// A part of a text with every mutant in it, of which the number that is on chooses one. An
/// expression stands in brackets. Places are in order of their beginnings, the longer first.
fn choices(text: &str, part: Range<usize>, places: &[Place]) -> String {
    let (mut changed, mut at, mut rest) = (String::new(), part.start, places);
    while let [(range, mutants), after @ ..] = rest {
        let within = after.partition_point(|(next, _)| next.start < range.end);
        changed.push_str(&text[at..range.start]);
        let is_expression = !text[range.clone()].ends_with([';', '}']);
        changed.push_str(if is_expression { "(" } else { "" });
        for (number, mutant) in mutants {
            let branch =
                format!("if ::muster_model::mutant::is({number}) {{ {} }} else ", mutant.after);
            changed.push_str(&branch);
        }
        let original = choices(text, range.clone(), &after[..within]);
        changed.push_str(&format!("{{ {original} }}{}", if is_expression { ")" } else { "" }));
        (at, rest) = (range.end, &after[within..]);
    }
    changed + &text[at..part.end]
}

/// Every place of a text within another, blanks aside.
fn find(text: &str, wanted: &str) -> Vec<Range<usize>> {
    let solid = |text: &str| -> (Vec<u8>, Vec<usize>) {
        text.bytes().zip(0..).filter(|(byte, _)| !byte.is_ascii_whitespace()).unzip()
    };
    let ((text, places), (wanted, _)) = (solid(text), solid(wanted));
    if wanted.is_empty() {
        return Vec::new();
    }
    let starts = text.windows(wanted.len()).zip(0..).filter(|(window, _)| *window == wanted);
    starts.map(|(_, at)| places[at]..places[at + wanted.len() - 1] + 1).collect()
}

/// The text of a file with every mutant of it, each behind its number.
///
/// # Errors
/// A mutant whose text is not there exactly once, or two whose texts overlap and neither is a part
/// of the other.
pub fn apply(text: &str, mutants: &[Numbered]) -> Result<String> {
    let mut places: BTreeMap<(usize, Reverse<usize>), Vec<Numbered>> = BTreeMap::new();
    for (number, mutant) in mutants {
        let place = mutant.place(text)?;
        places.entry((place.start, Reverse(place.end))).or_default().push((*number, mutant));
    }
    let places: Vec<Place> =
        places.into_iter().map(|((start, Reverse(end)), mutants)| (start..end, mutants)).collect();
    for (at, (one, mutants)) in places.iter().enumerate() {
        let overlaps = |other: &Range<usize>| other.start < one.end && other.end > one.end;
        if let Some((_, others)) = places[at..].iter().find(|(other, _)| overlaps(other)) {
            bail!(
                "mutants {} and {} change a part of the same text",
                mutants[0].1.name,
                others[0].1.name
            );
        }
    }
    Ok(choices(text, 0..text.len(), &places))
}

/// Reads a table: see `xtask/mutants/README.md` for the form.
///
/// # Errors
/// The line that cannot be read.
pub fn parse(text: &str) -> Result<Vec<Mutant>> {
    let mut mutants: Vec<Mutant> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let at = || format!("line {number}: {line}");
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            mutants.push(Mutant { name: name.to_owned(), ..Mutant::default() });
            continue;
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mutant =
            mutants.last_mut().with_context(|| format!("{}: before the first name", at()))?;
        let add = |to: &mut String, line: &str| {
            to.push_str(line);
            to.push('\n');
        };
        match line.split_at_checked(2) {
            Some(("- ", rest)) => add(&mut mutant.before, rest),
            Some(("+ ", rest)) => add(&mut mutant.after, rest),
            _ => match line
                .split_once(": ")
                .with_context(|| format!("{}: not `key: value`", at()))?
            {
                ("breaks", rest) => mutant.breaks = rest.to_owned(),
                ("file", rest) => mutant.file = rest.to_owned(),
                ("within", rest) => {
                    let seeds = rest.parse().with_context(|| format!("{}: not a number", at()))?;
                    mutant.found = Found::Within(seeds);
                }
                ("missed", rest) => mutant.found = Found::Missed(rest.to_owned()),
                _ => bail!("{}: the keys are breaks, file, within, missed", at()),
            },
        }
    }
    for mutant in &mutants {
        if [&mutant.breaks, &mutant.file, &mutant.before].iter().any(|text| text.is_empty()) {
            bail!("mutant {} lacks what it breaks, its file, or the text before", mutant.name);
        }
    }
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# two\n[off-by-one]\nbreaks: the last of a queue waits for ever\nfile: a.rs\nwithin: 7\n\
                         - left <\n-   right\n+ left <= right\n\n[nobody-is-told]\nbreaks: a user waits\nfile: a.rs\n\
                         missed: nobody looks\n- tell(user);\n";

    #[test]
    fn a_table_is_read_and_applied_behind_switches() {
        let mutants = parse(TABLE).unwrap();
        assert_eq!(mutants[0].found, Found::Within(7));
        assert_eq!(mutants[1].found, Found::Missed("nobody looks".to_owned()));
        let both: Vec<_> = (1..).zip(&mutants).collect();
        let text = "fn f() {\n    tell(user);\n    left\n        < right\n}\n";
        let changed = apply(text, &both).unwrap();
        assert_eq!(
            changed,
            "fn f() {\n    if ::muster_model::mutant::is(2) {  } else { tell(user); }\n    \
             (if ::muster_model::mutant::is(1) { left <= right\n } else { left\n        < right })\n}\n"
        );
    }

    #[test]
    fn a_text_that_is_gone_or_there_twice_is_told() {
        let mutants = parse(TABLE).unwrap();
        let told = |text: &str| apply(text, &[(1, &mutants[0])]).unwrap_err().to_string();
        assert!(
            told("fn f() {}").starts_with("mutant off-by-one: a.rs no longer has the text"),
            "it is gone"
        );
        assert!(
            told("left<right; left < right").contains("has the text 2 times"),
            "it is there twice"
        );
    }

    #[test]
    fn a_let_is_refused_since_it_would_name_nothing_behind_a_switch() {
        let mutants =
            parse("[a]\nbreaks: x\nfile: a.rs\n- let one = two;\n+ let one = 2;\n").unwrap();
        let told = apply("let one = two;", &[(1, &mutants[0])]).unwrap_err().to_string();
        assert!(told.contains("take the expression after it"), "{told}");
    }

    #[test]
    fn two_may_change_the_same_text() {
        let twins =
            "[a]\nbreaks: x\nfile: a.rs\n- one\n+ 1\n[b]\nbreaks: x\nfile: a.rs\n- one\n+ 2\n";
        let mutants = parse(twins).unwrap();
        let both: Vec<_> = (1..).zip(&mutants).collect();
        let changed = apply("one", &both).unwrap().replace('\n', "");
        let is = "if ::muster_model::mutant::is";
        assert_eq!(changed, format!("({is}(1) {{ 1 }} else {is}(2) {{ 2 }} else {{ one }})"));
    }

    #[test]
    fn one_may_change_a_part_of_what_another_changes() {
        let nested = "[a]\nbreaks: x\nfile: a.rs\n- one && two\n+ 1\n[b]\nbreaks: x\nfile: a.rs\n- two\n+ 2\n";
        let mutants = parse(nested).unwrap();
        let both: Vec<_> = (1..).zip(&mutants).collect();
        let changed = apply("one && two;", &both).unwrap().replace('\n', "");
        let is = "if ::muster_model::mutant::is";
        assert_eq!(
            changed,
            format!("({is}(1) {{ 1 }} else {{ one && ({is}(2) {{ 2 }} else {{ two }}) }});")
        );
    }

    #[test]
    fn two_that_meet_are_told() {
        let meet = "[a]\nbreaks: x\nfile: a.rs\n- one two\n+ 1\n[b]\nbreaks: x\nfile: a.rs\n- two three\n+ 2\n";
        let mutants = parse(meet).unwrap();
        let both: Vec<_> = (1..).zip(&mutants).collect();
        assert_eq!(
            apply("one two three", &both).unwrap_err().to_string(),
            "mutants a and b change a part of the same text"
        );
    }

    #[test]
    fn what_is_no_table_is_told_with_its_line() {
        for (text, expected) in [
            ("breaks: x\n", "line 1: breaks: x: before the first name"),
            ("[a]\nwithin: soon\n", "line 2: within: soon: not a number"),
            ("[a]\nfoo: x\n", "line 2: foo: x: the keys are"),
            ("[a]\nbreaks: x\nfile: a.rs\n", "mutant a lacks"),
        ] {
            let told = parse(text).unwrap_err().to_string();
            assert!(told.starts_with(expected), "{told}");
        }
    }
}
