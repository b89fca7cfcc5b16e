//! Source places: ranges of the file, or of a command-line option, that diagnostics point at.
//! Nothing here reads a file; texts are arguments.

/// A byte range of one of the [`Sources`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Index into [`Sources`]; [`Sources::FILE`] is the file.
    pub(crate) source: u32,
    /// Offset of the first byte.
    pub(crate) start: usize,
    /// Offset after the last byte.
    pub(crate) end: usize,
}

/// All texts that values of one submission come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sources {
    name: String,
    texts: Vec<String>,
}

/// Line and column of a place, both from 1, and its length in characters on that line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourcePosition {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) length: u32,
}

impl Sources {
    /// Index of the file; every other source is an option.
    pub(crate) const FILE: u32 = 0;

    /// Returns the sources with a file's text. Without a name it is called `<input>`.
    pub(crate) fn new(text: &str, name: Option<&str>) -> Self {
        // A file name may contain control characters, which must not reach a terminal.
        let shown = |c: char| if c.is_control() { '?' } else { c };
        let name = name.unwrap_or("<input>").chars().map(shown).collect();
        Self { name, texts: vec![text.to_owned()] }
    }

    /// Adds the text of an option, as it would be typed, and returns the place of its value.
    pub(crate) fn add_option(&mut self, prefix: &str, value: &str) -> Place {
        let source = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(format!("{prefix}{value}"));
        Place { source, start: prefix.len(), end: prefix.len() + value.len() }
    }

    /// Returns the name of the file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text of a source; empty if there is no such source.
    pub(crate) fn text(&self, source: u32) -> &str {
        self.texts.get(source as usize).map_or("", String::as_str)
    }

    /// Returns the place cut to its first line, on character boundaries and within the text.
    pub(crate) fn first_line(&self, place: Place) -> Place {
        let text = self.text(place.source);
        let start = floor_boundary(text, place.start.min(text.len()));
        let end = floor_boundary(text, place.end.clamp(start, text.len()));
        let line_end = text[start..].find(['\n', '\r']).map_or(text.len(), |at| start + at);
        Place { source: place.source, start, end: end.min(line_end) }
    }

    /// Returns line, column and length of a place, in characters.
    pub(crate) fn position(&self, place: Place) -> SourcePosition {
        let text = self.text(place.source);
        let place = self.first_line(place);
        let line_start = text[..place.start].rfind('\n').map_or(0, |at| at + 1);
        let count = |part: &str| u32::try_from(part.chars().count()).unwrap_or(u32::MAX);
        SourcePosition {
            line: u32::try_from(text[..place.start].matches('\n').count() + 1).unwrap_or(u32::MAX),
            column: count(&text[line_start..place.start]).saturating_add(1),
            length: count(&text[place.start..place.end]),
        }
    }
}

/// Returns the largest character boundary not above `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|index| text.is_char_boundary(*index)).unwrap_or(0)
}
