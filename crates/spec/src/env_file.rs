//! Files of environment variables, as `env-file` names them: lines of `NAME=VALUE`. Messages never show a line,
//! since its value may be a secret.

use std::collections::BTreeMap;

use crate::job::fields::MAX_ARGUMENT_BYTES;

/// Mistake in a file of environment variables.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct EnvFileError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Description of the mistake.
    pub what: &'static str,
}

/// Reads variables. A later line overrides an earlier one of the same name.
///
/// A line is `NAME=VALUE`, with `export ` before it or not; empty lines and lines that start with `#` are skipped.
/// A plain value ends before ` #`, and `$` is an ordinary character everywhere. Within `'…'` all characters count as
/// they are; within `"…"` there are `\n`, `\r`, `\t`, `\"`, `\\` and `\$`. Quoted values may have several lines.
///
/// # Errors
/// The first line that is none of these.
pub fn read_env_file(text: &str) -> Result<BTreeMap<String, String>, EnvFileError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut rest = text;
    let mut variables = BTreeMap::new();
    while !rest.is_empty() {
        let line = 1 + text[..text.len() - rest.len()].matches('\n').count();
        let mistake = |what| EnvFileError { line, what };
        let (first, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let content = first.trim();
        if content.is_empty() || content.starts_with('#') {
            rest = after;
            continue;
        }
        let (name, _) = content
            .split_once('=')
            .ok_or_else(|| mistake("expected NAME=VALUE, with `#` before a comment"))?;
        let name = name.strip_prefix("export ").unwrap_or(name).trim();
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.starts_with(|c: char| !c.is_ascii_digit());
        if !is_name {
            return Err(mistake("the name before `=` must be letters, digits and `_`"));
        }
        let start = rest.find('=').map_or(rest.len(), |equals| equals + 1);
        let (value, left) =
            value(rest[start..].trim_start_matches([' ', '\t'])).map_err(mistake)?;
        if value.contains('\0') || name.len() + value.len() + 1 > MAX_ARGUMENT_BYTES {
            return Err(mistake(
                "no variable can hold this: it has a zero byte, or 128 KiB or more",
            ));
        }
        variables.insert(name.to_owned(), value);
        rest = left;
    }
    Ok(variables)
}

/// Returns the value at the start of a text, and the text after its line.
fn value(text: &str) -> Result<(String, &str), &'static str> {
    let quoted = match text.chars().next() {
        Some('\'') => {
            let (value, rest) = text[1..].split_once('\'').ok_or("`'` is not closed")?;
            Some((value.to_owned(), rest))
        }
        Some('"') => Some(in_double_quotes(&text[1..])?),
        Some(_) | None => None,
    };
    let Some((value, rest)) = quoted else {
        let (line, after) = text.split_once('\n').unwrap_or((text, ""));
        let comment = [" #", "\t#"].iter().filter_map(|mark| line.find(mark)).min();
        let comment = if line.starts_with('#') { Some(0) } else { comment };
        return Ok((line[..comment.unwrap_or(line.len())].trim().to_owned(), after));
    };
    let (tail, after) = rest.split_once('\n').unwrap_or((rest, ""));
    match tail.trim() {
        "" => Ok((value, after)),
        tail if tail.starts_with('#') => Ok((value, after)),
        _ => Err("text after the closing quote"),
    }
}

fn in_double_quotes(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, 't')) => value.push('\t'),
                Some((_, c @ ('"' | '\\' | '$'))) => value.push(c),
                Some((_, c)) => value.extend(['\\', c]),
                None => {}
            },
            c => value.push(c),
        }
    }
    Err("`\"` is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_written() {
        let check = |text: &str, expected: &str| {
            let found = read_env_file(text).unwrap();
            assert_eq!(found.get("A").map(String::as_str), Some(expected), "{text:?}");
        };
        check("A=1", "1");
        check("\u{feff}A=1\r\n", "1");
        check("# c\n\n  export A = b c # d\n", "b c");
        check("A=x#y", "x#y");
        check("A=", "");
        check("A= # nothing", "");
        check("A=$HOME/${B}", "$HOME/${B}");
        check("A='$x \"y\" \\n'", "$x \"y\" \\n");
        check(r#"A="a\tb\"c\" \$d \q" # e"#, "a\tb\"c\" $d \\q");
        check("A='one\ntwo'\nB=2", "one\ntwo");
        check("A=1\nA=2", "2");
        check("A=a=b", "a=b");
        assert_eq!(read_env_file("A='1\n2'\nB=2").unwrap().len(), 2);
        assert!(read_env_file("# nothing\n").unwrap().is_empty());
    }

    #[test]
    fn mistakes_have_their_line_and_no_value() {
        let check = |text: &str, line: usize, part: &str| {
            let error = read_env_file(text).unwrap_err();
            assert_eq!(error.line, line, "{text:?}");
            assert!(error.what.contains(part), "{error}");
        };
        check("A=1\nhunter2", 2, "NAME=VALUE");
        check("A='1\n2'\n\n2B=x", 4, "name before");
        check("A-B=x", 1, "name before");
        check("A=1\nB='x", 2, "not closed");
        check("A=\"x\ny", 1, "not closed");
        check("A='x' y", 1, "after the closing quote");
        check("A=a\0b", 1, "zero byte");
    }
}
