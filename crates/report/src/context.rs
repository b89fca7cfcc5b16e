//! Properties of the output and the present time, which all texts depend on: passed by value to
//! every function that returns text.

use jiff::tz::TimeZone;
use muster_model::Time;

use crate::style::Ink;
use crate::words::Words;

/// The time zone of tests and files.
static UTC: TimeZone = TimeZone::UTC;

/// Clock and terminal of the reader. Built once per command.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext<'a> {
    /// The present time: that of the data shown, so that a text needs no clock of its own.
    pub now: Time,
    /// Time zone of times of day.
    pub zone: &'static TimeZone,
    /// Columns of the terminal; `None` if it is not a terminal, and then no text is ever
    /// shortened.
    pub width: Option<usize>,
    /// True if escape sequences for colour may be written.
    pub colour: bool,
    /// Words for jobs and their parts.
    pub words: Words<'a>,
}

impl<'a> RenderContext<'a> {
    /// Returns the context of tests and files: no terminal, no colour, UTC, at time zero.
    #[must_use]
    pub fn plain() -> Self {
        Self { now: Time(0), zone: &UTC, width: None, colour: false, words: Words::Jobs }
    }

    /// Returns the same context at another present time.
    #[must_use]
    pub fn at(self, now: Time) -> Self {
        Self { now, ..self }
    }

    /// Returns the same context in other words.
    #[must_use]
    pub fn in_words(self, words: Words<'a>) -> Self {
        Self { words, ..self }
    }

    /// Returns the same context on a terminal of this width.
    #[must_use]
    pub fn with_width(self, width: usize) -> Self {
        Self { width: Some(width), ..self }
    }

    /// Returns the text in an ink; the text alone if there is no colour.
    #[must_use]
    pub fn paint(self, ink: Ink, text: &str) -> String {
        match ink.code() {
            Some(code) if self.colour && !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}
