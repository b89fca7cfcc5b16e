//! What is wrong with a text and where, and how people are told. Wording belongs to the readers and
//! checks; this file only collects, orders and draws. It never decides that something is wrong.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::source::{Place, Sources};

/// Complaints kept per text; more are only counted. Nobody reads the twenty-first.
const MAX_KEPT: usize = 20;

/// One complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, one lowercase fragment.
    pub message: String,
    /// Line in the file, from 1; 0 when the cause is not in the file (an option, or the file as a
    /// whole).
    pub line: u32,
    /// Column in characters, from 1; 0 likewise.
    pub column: u32,
    /// Characters it covers on its line.
    pub length: u32,
    /// What stands beside the carets: what was expected, or what there is.
    pub label: String,
    /// The next step.
    pub hint: Option<String>,
    problem: Problem,
}

impl Diagnostic {
    /// What is wrong on one line, without the text around it.
    pub(crate) fn one_line(&self) -> String {
        // Beside a second place the label only numbers the places.
        match self.label.is_empty() || !self.problem.also.is_empty() {
            true => self.message.clone(),
            false => format!("{}: {}", self.message, self.label),
        }
    }
}

/// Everything that is wrong with one text, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    uncounted: usize,
    sources: Arc<Sources>,
}

/// Whether rendered text carries terminal colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text.
    Never,
    /// ANSI escapes.
    Always,
}

impl Diagnostics {
    /// The complaints, at most twenty.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// How many complaints there are, those beyond the twenty that are kept included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len() + self.uncounted
    }

    /// All complaints as text, each with its source line, an empty line between them.
    #[must_use]
    pub fn render(&self, colour: Colour) -> String {
        let mut parts: Vec<_> = self.list.iter().map(|one| self.render_one(one, colour)).collect();
        if self.uncounted > 0 {
            parts.push(format!("and {} more", self.uncounted));
        }
        parts.join("\n\n")
    }

    /// One complaint as text. It must come from this value.
    #[must_use]
    pub fn render_one(&self, one: &Diagnostic, colour: Colour) -> String {
        let renderer = match colour {
            Colour::Never => Renderer::plain(),
            Colour::Always => Renderer::styled(),
        };
        one.problem.draw(&self.sources, &renderer)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Colour::Never))
    }
}

impl std::error::Error for Diagnostics {}

/// A complaint while it is being made: built by whoever finds it, added to [`Problems`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    message: String,
    at: Option<(Place, String)>,
    also: Vec<(Place, String)>,
    hint: Option<String>,
}

impl Problem {
    /// A complaint about the text as a whole.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None, also: Vec::new(), hint: None }
    }

    /// Points at the cause.
    pub(crate) fn at(mut self, place: Place, label: impl Into<String>) -> Self {
        self.at = Some((place, label.into()));
        self
    }

    /// Points at a second place that contributes.
    pub(crate) fn also(mut self, place: Place, label: impl Into<String>) -> Self {
        self.also.push((place, label.into()));
        self
    }

    /// Offers the next step.
    pub(crate) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }

    fn draw(&self, sources: &Sources, renderer: &Renderer) -> String {
        // 1. What to point at. A job given by options alone has an empty file: there is nothing to
        //    show of it.
        let mut marks: Vec<(Place, &str, AnnotationKind)> = Vec::new();
        marks.extend(
            self.at.iter().map(|(at, label)| (*at, label.as_str(), AnnotationKind::Primary)),
        );
        marks.extend(
            self.also.iter().map(|(at, label)| (*at, label.as_str(), AnnotationKind::Context)),
        );
        marks.retain(|(place, ..)| !sources.text(place.source).trim().is_empty());
        // 2. One snippet per source.
        let mut group = Group::with_title(Level::ERROR.primary_title(self.message.as_str()));
        let alone = marks.is_empty();
        while let Some((first, ..)) = marks.first() {
            let source = first.source;
            let (here, elsewhere): (Vec<_>, Vec<_>) =
                marks.into_iter().partition(|(place, ..)| place.source == source);
            group = group.element(snippet(sources, source, &here));
            marks = elsewhere;
        }
        // 3. The hint. Without a snippet the renderer would still draw a gutter before it, so it
        //    goes separately.
        let hint = self.hint.as_deref();
        let hint =
            hint.map(|hint| Group::with_title(Level::HELP.with_name("hint").secondary_title(hint)));
        let text = match (hint, alone) {
            (Some(hint), true) => {
                format!("{}\n{}", renderer.render(&[group]), renderer.render(&[hint]))
            }
            (hint, _) => renderer.render(&std::iter::once(group).chain(hint).collect::<Vec<_>>()),
        };
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

/// The lines of one source that marks stand in. Only those lines are handed to the renderer, so
/// that a complaint about a large file costs no more than one about a small file.
fn snippet<'a>(
    sources: &'a Sources,
    source: u32,
    marks: &[(Place, &'a str, AnnotationKind)],
) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
    let text = sources.text(source);
    let places: Vec<Place> = marks.iter().map(|(place, ..)| sources.first_line(*place)).collect();
    let first = places.iter().map(|place| place.start).min().unwrap_or(0);
    let last = places.iter().map(|place| place.end).max().unwrap_or(0);
    let from = text[..first].rfind('\n').map_or(0, |at| at + 1);
    let to = text[last..].find('\n').map_or(text.len(), |at| last + at);
    let within = |place: &Place| -> Range<usize> { place.start - from..place.end - from };
    let mut snippet =
        Snippet::source(&text[from..to]).line_start(text[..from].matches('\n').count() + 1);
    if source == Sources::FILE {
        snippet = snippet.path(sources.name());
    } else {
        snippet = snippet.line_numbering(false);
    }
    for ((_, label, kind), place) in marks.iter().zip(&places) {
        snippet = snippet.annotation(kind.span(within(place)).label(*label));
    }
    snippet
}

/// Collects complaints, so that one run tells all of them.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    dropped: usize,
}

impl Problems {
    /// Adds a complaint. The same complaint about the same place is kept once: an option is merged
    /// over every document, and its mistake is still one.
    pub(crate) fn add(&mut self, problem: Problem) {
        if self.list.contains(&problem) {
            return;
        }
        match self.list.len() {
            0..MAX_KEPT => self.list.push(problem),
            _ => self.dropped += 1,
        }
    }

    /// How many there are so far.
    pub(crate) fn len(&self) -> usize {
        self.list.len() + self.dropped
    }

    /// `value` when nothing was wrong.
    pub(crate) fn finish<T>(self, value: T, sources: &Arc<Sources>) -> Result<T, Diagnostics> {
        match self.list.is_empty() {
            true => Ok(value),
            false => Err(self.into_diagnostics(sources)),
        }
    }

    /// The complaints, in the order of the text.
    pub(crate) fn into_diagnostics(mut self, sources: &Arc<Sources>) -> Diagnostics {
        self.list.sort_by_key(|problem| problem.at.as_ref().map(|(place, _)| *place));
        let list = self.list.into_iter().map(|problem| public(problem, sources)).collect();
        Diagnostics { list, uncounted: self.dropped, sources: Arc::clone(sources) }
    }
}

fn public(problem: Problem, sources: &Sources) -> Diagnostic {
    let is_shown = |place: &Place| {
        place.source == Sources::FILE && !sources.text(Sources::FILE).trim().is_empty()
    };
    let in_file = problem.at.as_ref().filter(|(place, _)| is_shown(place));
    let position = in_file.map(|(place, _)| sources.position(*place));
    Diagnostic {
        message: problem.message.clone(),
        line: position.map_or(0, |position| position.line),
        column: position.map_or(0, |position| position.column),
        length: position.map_or(0, |position| position.length),
        label: problem.at.as_ref().map(|(_, label)| label.clone()).unwrap_or_default(),
        hint: problem.hint.clone(),
        problem,
    }
}

/// A piece of user text for a message: quoted, at most 40 characters, control characters escaped.
pub(crate) fn show(text: &str) -> String {
    let mut shown: String = text.chars().take(40).flat_map(escape).collect();
    if text.chars().nth(40).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

fn escape(character: char) -> impl Iterator<Item = char> {
    let text = match character.is_control() {
        true => character.escape_default().to_string(),
        false => character.to_string(),
    };
    text.chars().collect::<Vec<_>>().into_iter()
}
