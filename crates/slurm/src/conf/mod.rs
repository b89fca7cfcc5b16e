//! Syntax of Slurm's configuration files: pairs of key and value on lines, comments, continuation.
//! Interprets no key but `Include`; [`evidence`] does, and [`grammar`] has the keys.

pub mod evidence;
pub mod grammar;
pub mod source;

use muster_model::check::CheckPlace;

/// Key with its value, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfPair {
    /// Name of the setting, in the case of the file.
    pub key: String,
    /// Text after the `=`; quotes around it are removed.
    pub value: String,
}

/// Line with its continuation lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfLine {
    /// Pairs of the line, at least one.
    pub pairs: Vec<ConfPair>,
    /// File, and number of the first line.
    pub place: CheckPlace,
}

impl ConfLine {
    /// Returns the value of a key; keys are not case-sensitive.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs
            .iter()
            .find(|pair| pair.key.eq_ignore_ascii_case(key))
            .map(|pair| pair.value.as_str())
    }
}

/// Content of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Lines with pairs, in their order.
    pub lines: Vec<ConfLine>,
    /// Included files, each with the number of lines before it, where its lines are inserted.
    pub includes: Vec<(usize, String)>,
    /// Text that is not a pair, on which Slurm's own parser fails.
    pub not_understood: Vec<(CheckPlace, String)>,
}

/// Parses the text of a file. Text that is not a pair is collected separately.
#[must_use]
pub fn parse(name: &str, text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    for (number, logical) in logical_lines(text) {
        if let Some(file) = included(&logical) {
            parsed.includes.push((parsed.lines.len(), file.to_owned()));
            continue;
        }
        let (pairs, odd) = pairs_and_rest(&logical);
        let place = CheckPlace { source: name.to_owned(), line: Some(number) };
        parsed.not_understood.extend(odd.map(|odd| (place.clone(), odd)));
        if !pairs.is_empty() {
            parsed.lines.push(ConfLine { pairs, place });
        }
    }
    parsed
}

/// Returns the file name after `Include`.
fn included(line: &str) -> Option<&str> {
    let (word, file) = line.trim().split_once(char::is_whitespace)?;
    (word.eq_ignore_ascii_case("include") && !file.trim_start().starts_with('='))
        .then(|| file.trim())
}

/// Returns the files that a text includes, as written there.
#[must_use]
pub fn includes(text: &str) -> Vec<String> {
    parse("", text).includes.into_iter().map(|(_, file)| file).collect()
}

/// Returns lines without comments, joined where they end in a backslash, with the number of their
/// first line.
fn logical_lines(text: &str) -> Vec<(u32, String)> {
    let mut lines: Vec<(u32, String)> = Vec::new();
    let mut continued = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line);
        let (line, continues) = match line.trim_end().strip_suffix('\\') {
            Some(before) => (before, true),
            None => (line, false),
        };
        match lines.last_mut() {
            Some((_, last)) if continued => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push((number, line.to_owned())),
        }
        continued = continues;
    }
    lines
}

/// Removes a comment, which begins at a `#` without a backslash before it.
fn without_comment(line: &str) -> &str {
    let bytes = line.as_bytes();
    let comment =
        (0..bytes.len()).find(|&at| bytes[at] == b'#' && (at == 0 || bytes[at - 1] != b'\\'));
    comment.map_or(line, |at| &line[..at])
}

/// Returns the pairs of a line, and its first syntax error: `A=1 B="two words"`. Blanks around the
/// `=` are allowed in the first pair only, as in Slurm.
fn pairs_and_rest(line: &str) -> (Vec<ConfPair>, Option<String>) {
    let mut pairs = Vec::new();
    let mut odd = (line.matches('"').count() % 2 == 1).then(|| "a quote is not closed".to_owned());
    for word in words(line) {
        let split = word.split_once('=').filter(|(key, _)| {
            !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_[]".contains(c))
        });
        match split {
            Some((key, value)) => {
                pairs.push(ConfPair { key: key.to_owned(), value: value.to_owned() })
            }
            None => odd = odd.or(Some(format!("`{word}` is not a setting"))),
        }
    }
    (pairs, odd)
}

/// Returns the pairs of a line that Slurm printed: no blanks around the `=`, and values may contain
/// anything, even `#`.
#[must_use]
pub fn printed_pairs(line: &str) -> Vec<ConfPair> {
    let split =
        |word: &str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    line.split_whitespace().filter_map(split).map(|(key, value)| ConfPair { key, value }).collect()
}

/// Splits at blanks outside quotes; the quotes are removed.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    // `Key = value` is one word, too: blanks around the `=` are removed first.
    let joined = line.split('=').map(str::trim).collect::<Vec<_>>().join("=");
    for c in joined.chars() {
        match c {
            '"' => quoted = !quoted,
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(u32, &str)]) {
        let lines: Vec<(u32, String)> = parse("f", text)
            .lines
            .into_iter()
            .map(|line| {
                let pairs: Vec<String> =
                    line.pairs.iter().map(|pair| format!("{}={}", pair.key, pair.value)).collect();
                (line.place.line.unwrap(), pairs.join(";"))
            })
            .collect();
        let expected: Vec<(u32, String)> =
            expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
        assert_eq!(lines, expected, "{text}");
    }

    #[test]
    fn lines_are_pairs() {
        check("A=1\n\n# B=2\nC=3 # D=4\n", &[(1, "A=1"), (4, "C=3")]);
        check(
            "NodeName=a \\\n  Gres=gpu:8 \\\n  State=UP\nB=1",
            &[(1, "NodeName=a;Gres=gpu:8;State=UP"), (4, "B=1")],
        );
        check("Weights=\"CPU=1.0,GRES/gpu=2\" X=y", &[(1, "Weights=CPU=1.0,GRES/gpu=2;X=y")]);
        check("A = 1\nB =two", &[(1, "A=1"), (2, "B=two")]);
        check("some words\n=x\n", &[]);
        check("A=1\r\nB=2\r\n", &[(1, "A=1"), (2, "B=2")]);
    }

    #[test]
    fn an_include_is_named_where_it_stands() {
        let parsed = parse("f", "A=1\nInclude /etc/slurm/nodes.conf\ninclude=no\n");
        assert_eq!(parsed.includes, [(1, "/etc/slurm/nodes.conf".to_owned())]);
        assert_eq!(includes("Include a # b\n"), ["a"]);
    }
}
