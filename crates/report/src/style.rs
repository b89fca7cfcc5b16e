//! Emphasis, and text cut to columns and made safe for a terminal.

use std::borrow::Cow;

use muster_model::check::Severity;
use muster_model::view::JobState;

/// Emphasis of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ink {
    /// The terminal's default colour.
    #[default]
    Plain,
    /// Bold text, for headings.
    Strong,
    /// Dim, for less important text.
    Faint,
    /// Green text, for success.
    Good,
    /// Cyan, for work in progress.
    Active,
    /// Yellow, for waiting jobs.
    Waiting,
    /// Red text, for failures.
    Bad,
    /// Colour of the job at this position of a timeline; neighbours differ.
    Job(usize),
}

impl Ink {
    /// Returns the ink of a state.
    #[must_use]
    pub fn of(state: JobState) -> Self {
        match state {
            JobState::Done => Ink::Good,
            JobState::Failed | JobState::Preempted | JobState::Unknown => Ink::Bad,
            JobState::Starting | JobState::Running | JobState::Stopping => Ink::Active,
            JobState::Pending | JobState::Held | JobState::Suspended => Ink::Waiting,
            JobState::Cancelled => Ink::Faint,
        }
    }

    /// Returns the ink of a severity.
    #[must_use]
    pub fn of_severity(severity: Severity) -> Self {
        match severity {
            Severity::High => Ink::Bad,
            Severity::Medium => Ink::Waiting,
            Severity::Low => Ink::Faint,
        }
    }

    /// Returns the parameters of the escape sequence; `None` for plain text.
    pub(crate) fn code(self) -> Option<&'static str> {
        /// Foregrounds that can be read on dark and on light backgrounds.
        const JOBS: [&str; 6] = ["34", "32", "35", "36", "33", "31"];
        match self {
            Ink::Plain => None,
            Ink::Strong => Some("1"),
            Ink::Faint => Some("2"),
            Ink::Good => Some("32"),
            Ink::Active => Some("36"),
            Ink::Waiting => Some("33"),
            Ink::Bad => Some("31"),
            Ink::Job(place) => Some(JOBS[place % JOBS.len()]),
        }
    }
}

/// Returns text of users or machines made safe for a terminal: control characters and characters
/// that reorder or hide text become `?`.
#[must_use]
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.contains(is_unsafe) {
        Cow::Owned(text.chars().map(|c| if is_unsafe(c) { '?' } else { c }).collect())
    } else {
        Cow::Borrowed(text)
    }
}

/// Returns whether a character changes how other text is shown: control characters, line and
/// paragraph separators, the bidirectional controls of Unicode (UAX #9), and characters without
/// width, with which two names look alike.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns text that is about to be written to a terminal without the characters that [`clean`]
/// defuses, except for line ends and the escape sequences of this crate: a last check of text in
/// which text of users is already clean.
#[must_use]
pub fn guarded(text: &str) -> Cow<'_, str> {
    let stays = |c: char| !is_unsafe(c) || matches!(c, '\n' | '\r' | '\t' | '\x1b');
    if text.chars().all(stays) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(|c| if stays(c) { c } else { '?' }).collect())
    }
}

/// Returns text for a terminal whose locale has no UTF-8: each sign that this crate draws with
/// becomes one ASCII character, so that columns stay where they are. Text of users is left as it
/// is.
#[must_use]
pub fn ascii(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let sign = |c: char| match c {
        '\u{a0}' => ' ',
        '…' | '±' => '~',
        '·' | '▁' => '.',
        '▂' | '▎' | '▍' => ':',
        '▃' | '─' | '–' => '-',
        '▄' => '=',
        '▅' => '+',
        '▆' => '*',
        '▇' => '%',
        '█' | '▉' | '▊' | '▋' | '▌' => '#',
        '│' | '▏' | '▕' => '|',
        '└' => '`',
        '►' | '▸' | '→' => '>',
        '×' => 'x',
        '÷' => '/',
        other => other,
    };
    Cow::Owned(text.chars().map(sign).collect())
}

/// Returns the number of terminal columns of the text, one for each character.
#[must_use]
pub(crate) fn columns(text: &str) -> usize {
    let columns = text.chars().count();
    #[cfg(test)]
    crate::linear::measured(columns);
    columns
}

/// Returns the text in at most `width` characters, its end replaced by `…` if it is longer.
#[must_use]
pub fn shorten(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    if width > 0 {
        short.push('…');
    }
    short
}

/// Breaks text at blanks into lines of at most `width` characters; a longer word gets a line of its
/// own.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut used: usize = 0;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if used + 1 + columns(word) <= width => {
                used += 1 + columns(word);
                line.push(' ');
                line.push_str(word);
            }
            _ => {
                used = columns(word);
                lines.push(word.to_owned());
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RenderContext;

    #[test]
    fn colour_appears_only_when_asked_for() {
        assert_eq!(RenderContext::plain().paint(Ink::Bad, "failed"), "failed");
        let colour = RenderContext { colour: true, ..RenderContext::plain() };
        assert_eq!(colour.paint(Ink::Bad, "failed"), "\x1b[31mfailed\x1b[0m");
        assert_eq!(colour.paint(Ink::Bad, ""), "");
    }

    #[test]
    fn escape_sequences_in_names_are_defused() {
        assert_eq!(clean("a\x1b[31mb\n"), "a?[31mb?");
        // As a terminal that knows UAX #9 shows it, the first is `report-exe.pdf`.
        assert_eq!(clean("report-\u{202e}fdp.exe"), "report-?fdp.exe");
        assert_eq!(clean("tr\u{200b}ain\u{2066}\u{feff}"), "tr?ain??");
        assert_eq!(clean("naïve 漢字 ✓"), "naïve 漢字 ✓");
        assert_eq!(guarded("\x1b[1mbold\x1b[0m\n\u{202e}\u{9b}\u{7}"), "\x1b[1mbold\x1b[0m\n???");
        assert_eq!(clean("plain"), "plain");
    }

    #[test]
    fn without_utf8_what_is_drawn_is_ascii_and_as_wide() {
        let drawn = "gpu 5 │···▁▂▃▄▅▆▇█▉▌▎▏▕ 3 × 2 → 1 ± 0 ÷ 2 – a… ▸ ► └─\u{a0}x";
        let text = ascii(drawn);
        assert!(text.is_ascii(), "{text}");
        assert_eq!(text.chars().count(), drawn.chars().count());
        assert_eq!(ascii("naïve"), "naïve", "names of users are theirs");
    }

    #[test]
    fn text_is_shortened_and_wrapped_by_characters() {
        for (text, width, expected) in [
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("a bcd", 3, "a…"),
            ("äöüß", 3, "äö…"),
            ("ab", 0, ""),
        ] {
            assert_eq!(shorten(text, width), expected);
        }
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("incomprehensible", 4), ["incomprehensible"]);
    }
}
