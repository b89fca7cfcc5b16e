//! Mistakes in YAML that the parser reports at another place: non-ASCII spaces, tabs, and unclosed
//! quotes. Valid YAML is never refused here; text in quotes, blocks and comments may have any of
//! these characters.

use granit_parser::{ErrorKind, ScanError};

use crate::diagnostic::Problem;
use crate::source::{Place, Sources};

/// Returns a problem for the first non-ASCII space where a space is meant: in the indentation, or
/// after `key:` and `-`. YAML would take it for part of a name or of a value.
pub(super) fn false_space(text: &str) -> Option<Problem> {
    let mut block: Option<usize> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let is_blank = line.trim().is_empty();
        // A block of text continues while its lines are indented further.
        block = block.filter(|outer| is_blank || indent > *outer);
        if block.is_none() && !is_blank {
            if let Some(at) = in_line(line) {
                let character = line[at..].chars().next().unwrap_or(' ');
                return Some(complaint(start + at, character, column(line, at)));
            }
            block = begins_block(line).then_some(indent);
        }
        start += line.len();
    }
    None
}

/// Returns the offset of a non-ASCII space in a line.
fn in_line(line: &str) -> Option<usize> {
    let content = line.trim_start();
    let lead = line.len() - content.len();
    if content.starts_with('#') {
        return None;
    }
    if let Some((at, _)) = line[..lead].char_indices().find(|(_, c)| is_false_space(*c)) {
        return Some(at);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name = content.find(|c: char| !is_name(c)).unwrap_or(content.len());
    let behind = match content[name..].strip_prefix(':') {
        Some(_) if name > 0 => lead + name + 1,
        _ if content.starts_with('-') => lead + 1,
        _ => return None,
    };
    let rest = &line[behind..];
    let spaces = rest.len() - rest.trim_start().len();
    rest[..spaces].char_indices().find(|(_, c)| is_false_space(*c)).map(|(at, _)| behind + at)
}

fn is_false_space(c: char) -> bool {
    c.is_whitespace() && !c.is_ascii()
}

/// Returns true for a line that begins a block: `run: |`, `- >-`.
fn begins_block(line: &str) -> bool {
    let line = line.split(" #").next().unwrap_or(line).trim_end();
    let head = line.trim_end_matches(|c: char| matches!(c, '+' | '-') || c.is_ascii_digit());
    head.ends_with(['|', '>']) && head[..head.len() - 1].trim_end().ends_with([':', '-'])
}

fn complaint(at: usize, character: char, column: usize) -> Problem {
    let name = match character {
        '\u{a0}' | '\u{202f}' => "a no-break space",
        '\u{3000}' => "an ideographic space",
        _ => "a non-ASCII space",
    };
    let place = Place { source: Sources::FILE, start: at, end: at + character.len_utf8() };
    Problem::new(format!("{name} (U+{:04X}) in column {column}", character as u32))
        .at(place, "YAML takes only plain spaces here")
        .hint("it is often copied from a web page: type the space again".to_owned())
}

/// Returns a more precise problem than the parser's error, at the place where it began.
pub(super) fn explained(text: &str, error: &ScanError) -> Option<Problem> {
    let seen = error.marker().byte_offset()?.min(text.len());
    match error.kind() {
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::DocumentIndicatorInQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::InvalidTrailingSingleQuotedScalar
        | ErrorKind::InvalidTrailingDoubleQuotedScalar => unclosed(text, seen),
        _ => tab(text, seen),
    }
}

/// Returns a problem for the quote that was open where the parser failed, if it is on an earlier
/// line or is never closed.
fn unclosed(text: &str, seen: usize) -> Option<Problem> {
    let seen = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= seen).last()?;
    let end = text[seen..].chars().next().map_or(seen, |c| seen + c.len_utf8());
    let opens = |at: usize| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| c.is_whitespace() || matches!(c, '[' | '{' | ',' | ':'))
    };
    let mut quotes =
        text[..end].char_indices().filter(|(at, c)| matches!(c, '"' | '\'') && opens(*at));
    let (open, quote) = quotes.next_back()?;
    let line = &text[open..];
    let line = line.split('\n').next().unwrap_or(line);
    // Closed on its own line: the mistake is another one.
    if line.matches(quote).count() > 1 {
        return None;
    }
    let place = Place { source: Sources::FILE, start: open, end: open + 1 };
    Some(
        Problem::new("a quote is not closed")
            .at(place, format!("opened here; no {quote} closes it on this line"))
            .hint("text over several lines is written as a block, `run: |`".to_owned()),
    )
}

/// Returns a problem for a tab in the indentation of the line where the parser failed, of the one
/// before it or of the one after it.
fn tab(text: &str, seen: usize) -> Option<Problem> {
    let ends = text.match_indices('\n').map(|(at, _)| at + 1);
    let starts: Vec<usize> = std::iter::once(0).chain(ends).collect();
    let line = starts.partition_point(|start| *start <= seen).saturating_sub(1);
    let near = &starts[line.saturating_sub(1)..(line + 2).min(starts.len())];
    near.iter().find_map(|start| {
        let line = text[*start..].split('\n').next()?;
        let content = line.trim_start();
        let at = line[..line.len() - content.len()].find('\t').filter(|_| !content.is_empty())?;
        let place = Place { source: Sources::FILE, start: start + at, end: start + at + 1 };
        Some(
            Problem::new(format!("a tab (U+0009) in column {}", column(line, at)))
                .at(place, "YAML is indented with spaces, never with tabs")
                .hint(
                    "most editors can write spaces for the tab key, and replace the tabs of a file"
                        .to_owned(),
                ),
        )
    })
}

/// Returns the column of a byte of a line, from 1.
fn column(line: &str, at: usize) -> usize {
    line[..at].chars().count() + 1
}
