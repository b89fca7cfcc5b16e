//! Mutants (deliberate bugs) as data: the defect, the file, the text to replace, and the expected
//! detection. Parses tables and applies mutants to a text; it builds and runs nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result, bail};

/// A deliberate bug in the sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mutant {
    /// Name, also used in notes of scenarios.
    pub name: String,
    /// Description of the defect.
    pub breaks: String,
    /// Path of the changed file, relative to the root.
    pub file: String,
    /// Expected detection of the mutant.
    pub expected: ExpectedDetection,
    /// Text that occurs exactly once, ignoring whitespace: an expression, or whole statements.
    pub before: String,
    /// Replacement of that text.
    pub after: String,
}

/// Expected detection of a mutant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExpectedDetection {
    /// Simulation detects it within this number of seeds from 0.
    Within(u64),
    /// Scenarios detect it; simulation need not.
    #[default]
    Scenarios,
    /// Neither detects it, for this reason.
    Missed(String),
}

impl Mutant {
    /// Returns the range of its text in the text of its file.
    ///
    /// # Errors
    /// The text does not occur exactly once, or is a `let`: inside an `if`, that would not bind a
    /// name for the following statements.
    pub fn locate(&self, text: &str) -> Result<Range<usize>> {
        if self.before.starts_with("let ") {
            bail!("mutant {}: its text is a `let`; use the expression after it", self.name);
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

/// A mutant with its number.
type NumberedMutant<'m> = (usize, &'m Mutant);
/// Range of a text with the mutants that change it: several may change the same text, and one may
/// change a part of the text of another.
type MutantPlace<'m> = (Range<usize>, Vec<NumberedMutant<'m>>);

/// Returns a part of a text with every mutant in it, each behind a switch on its number.
/// Expressions are put in brackets. `places` are in order of their starts, longer ones first.
fn with_switches(text: &str, part: Range<usize>, places: &[MutantPlace]) -> String {
    let mut changed = String::new();
    let mut at = part.start;
    let mut rest = places;
    while let [(range, mutants), after @ ..] = rest {
        let within = after.partition_point(|(next, _)| next.start < range.end);
        changed.push_str(&text[at..range.start]);
        let is_expression = !text[range.clone()].ends_with([';', '}']);
        changed.push_str(if is_expression { "(" } else { "" });
        for (number, mutant) in mutants {
            let Mutant { name, after, .. } = mutant;
            changed.push_str(&format!(
                "if ::muster_model::mutant::is({number} /* {name} */) {{ {after} }} else "
            ));
        }
        let original = with_switches(text, range.clone(), &after[..within]);
        changed.push_str(&format!("{{ {original} }}{}", if is_expression { ")" } else { "" }));
        at = range.end;
        rest = &after[within..];
    }
    changed + &text[at..part.end]
}

/// Returns all ranges at which a text occurs within another, ignoring whitespace. A part of a name
/// is no occurrence.
fn find(text: &str, wanted: &str) -> Vec<Range<usize>> {
    let solid = |text: &str| -> (Vec<u8>, Vec<usize>) {
        text.bytes().zip(0..).filter(|(byte, _)| !byte.is_ascii_whitespace()).unzip()
    };
    let whole = text.as_bytes();
    let ((text, places), (wanted, _)) = (solid(text), solid(wanted));
    if wanted.is_empty() {
        return Vec::new();
    }
    let starts = text.windows(wanted.len()).zip(0..).filter(|(window, _)| *window == wanted);
    let ranges = starts.map(|(_, at)| places[at]..places[at + wanted.len() - 1] + 1);
    ranges
        .filter(|range| !splits_name(whole, range.start) && !splits_name(whole, range.end))
        .collect()
}

/// Returns true if the bytes before and after a place belong to one name.
fn splits_name(text: &[u8], at: usize) -> bool {
    let is_of_name =
        |at: usize| text.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    at > 0 && is_of_name(at - 1) && is_of_name(at)
}

/// Returns the text of a file with all its mutants, each behind a switch on its number.
///
/// # Errors
/// The text of a mutant does not occur exactly once, or the texts of two overlap and neither is a
/// part of the other.
pub fn apply(text: &str, mutants: &[NumberedMutant]) -> Result<String> {
    let mut places: BTreeMap<(usize, Reverse<usize>), Vec<NumberedMutant>> = BTreeMap::new();
    for (number, mutant) in mutants {
        let place = mutant.locate(text)?;
        places.entry((place.start, Reverse(place.end))).or_default().push((*number, mutant));
    }
    let places: Vec<MutantPlace> =
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
    Ok(with_switches(text, 0..text.len(), &places))
}

/// Parses a table; `xtask/mutants/README.md` describes the format.
///
/// # Errors
/// The first invalid line.
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
                    mutant.expected = ExpectedDetection::Within(seeds);
                }
                ("missed", rest) => mutant.expected = ExpectedDetection::Missed(rest.to_owned()),
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
                         - left <\n-   right\n+ left <= right\n\n[user-not-notified]\nbreaks: a user waits\nfile: a.rs\n\
                         missed: no test checks it\n- tell(user);\n";

    #[test]
    fn a_table_is_read_and_applied_behind_switches() {
        let mutants = parse(TABLE).unwrap();
        assert_eq!(mutants[0].expected, ExpectedDetection::Within(7));
        assert_eq!(mutants[1].expected, ExpectedDetection::Missed("no test checks it".to_owned()));
        let both: Vec<_> = (1..).zip(&mutants).collect();
        let text = "fn f() {\n    tell(user);\n    left\n        < right\n}\n";
        let changed = apply(text, &both).unwrap();
        assert_eq!(
            changed,
            "fn f() {\n    if ::muster_model::mutant::is(2 /* user-not-notified */) {  } else { tell(user); }\n    \
             (if ::muster_model::mutant::is(1 /* off-by-one */) { left <= right\n } else { left\n        < right })\n}\n"
        );
    }

    #[test]
    fn a_missing_or_repeated_text_is_an_error() {
        let mutants = parse(TABLE).unwrap();
        let error = |text: &str| apply(text, &[(1, &mutants[0])]).unwrap_err().to_string();
        assert!(error("fn f() {}").starts_with("mutant off-by-one: a.rs no longer has the text"));
        assert!(error("left<right; left < right").contains("has the text 2 times"));
        assert!(error("a_left < right; left < rights").contains("no longer has the text"));
    }

    #[test]
    fn a_let_is_rejected() {
        let mutants =
            parse("[a]\nbreaks: x\nfile: a.rs\n- let one = two;\n+ let one = 2;\n").unwrap();
        let error = apply("let one = two;", &[(1, &mutants[0])]).unwrap_err().to_string();
        assert!(error.contains("use the expression after it"), "{error}");
    }

    #[test]
    fn two_mutants_may_change_the_same_text() {
        let twins =
            "[a]\nbreaks: x\nfile: a.rs\n- one\n+ 1\n[b]\nbreaks: x\nfile: a.rs\n- one\n+ 2\n";
        let mutants = parse(twins).unwrap();
        let both: Vec<_> = (1..).zip(&mutants).collect();
        let changed = apply("one", &both).unwrap().replace('\n', "");
        let is = "if ::muster_model::mutant::is";
        assert_eq!(
            changed,
            format!("({is}(1 /* a */) {{ 1 }} else {is}(2 /* b */) {{ 2 }} else {{ one }})")
        );
    }

    #[test]
    fn a_mutant_may_change_a_part_of_another_s_text() {
        let nested = "[a]\nbreaks: x\nfile: a.rs\n- one && two\n+ 1\n[b]\nbreaks: x\nfile: a.rs\n- two\n+ 2\n";
        let mutants = parse(nested).unwrap();
        let both: Vec<_> = (1..).zip(&mutants).collect();
        let changed = apply("one && two;", &both).unwrap().replace('\n', "");
        let is = "if ::muster_model::mutant::is";
        assert_eq!(
            changed,
            format!(
                "({is}(1 /* a */) {{ 1 }} else {{ one && ({is}(2 /* b */) {{ 2 }} else {{ two }}) }});"
            )
        );
    }

    #[test]
    fn overlapping_mutants_are_an_error() {
        let meet = "[a]\nbreaks: x\nfile: a.rs\n- one two\n+ 1\n[b]\nbreaks: x\nfile: a.rs\n- two three\n+ 2\n";
        let mutants = parse(meet).unwrap();
        let both: Vec<_> = (1..).zip(&mutants).collect();
        assert_eq!(
            apply("one two three", &both).unwrap_err().to_string(),
            "mutants a and b change a part of the same text"
        );
    }

    #[test]
    fn errors_name_the_line() {
        for (text, expected) in [
            ("breaks: x\n", "line 1: breaks: x: before the first name"),
            ("[a]\nwithin: soon\n", "line 2: within: soon: not a number"),
            ("[a]\nfoo: x\n", "line 2: foo: x: the keys are"),
            ("[a]\nbreaks: x\nfile: a.rs\n", "mutant a lacks"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
