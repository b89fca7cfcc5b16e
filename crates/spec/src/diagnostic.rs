//! Diagnostics: problems of a text with their places. Readers and checks find and word them; this
//! module collects, orders and renders them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::source::{Place, Sources};

/// Most problems kept per text; more are only counted, since users do not read them.
const MAX_KEPT: usize = 20;

/// One problem of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Description of the problem, one lowercase fragment.
    pub message: String,
    /// Line in the file, from 1; 0 if the cause is not in the file (an option, or the file as a
    /// whole).
    pub line: u32,
    /// Column in characters, from 1; 0 if the cause is not in the file.
    pub column: u32,
    /// Number of characters covered on the line.
    pub length: u32,
    /// Text beside the carets: what was expected, or what there is.
    pub label: String,
    /// Next step; `None` if there is no obvious one.
    pub hint: Option<String>,
    problem: Problem,
}

impl Diagnostic {
    /// Returns the problem on one line, without the source text.
    #[must_use]
    pub fn one_line(&self) -> String {
        // With a second place, the label only distinguishes the places.
        if self.label.is_empty() || !self.problem.also.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", self.message, self.label)
        }
    }
}

/// All problems of one text, in the order of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    uncounted: usize,
    sources: Arc<Sources>,
}

/// Use of terminal colours in rendered text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Plain text without escapes.
    Never,
    /// Text with ANSI escapes.
    Always,
}

impl Diagnostics {
    /// Returns the problems, at most twenty.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Returns the number of problems, including those beyond the twenty that are kept.
    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len() + self.uncounted
    }

    /// Returns all problems as text, each with its source line, separated by empty lines.
    #[must_use]
    pub fn render(&self, colour: Colour) -> String {
        let mut parts: Vec<_> = self.list.iter().map(|one| self.render_one(one, colour)).collect();
        if self.uncounted > 0 {
            parts.push(format!("and {} more", self.uncounted));
        }
        parts.join("\n\n")
    }

    /// Returns one problem as text. It must come from this value.
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

/// A problem under construction: built by the check that finds it, then added to [`Problems`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    message: String,
    at: Option<(Place, String)>,
    also: Vec<(Place, String)>,
    hint: Option<String>,
}

impl Problem {
    /// Returns a problem of the text as a whole.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), at: None, also: Vec::new(), hint: None }
    }

    /// Sets the place of the cause.
    pub(crate) fn at(mut self, place: Place, label: impl Into<String>) -> Self {
        self.at = Some((place, label.into()));
        self
    }

    /// Adds a second place that contributes.
    pub(crate) fn also(mut self, place: Place, label: impl Into<String>) -> Self {
        self.also.push((place, label.into()));
        self
    }

    /// Sets the next step.
    pub(crate) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into();
        self
    }

    fn draw(&self, sources: &Sources, renderer: &Renderer) -> String {
        // 1. The places. A job given by options alone has an empty file, of which there is nothing
        //    to show.
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

/// Returns the lines of one source that contain marks. Only those lines are passed to the renderer,
/// so that a problem in a large file costs no more than one in a small file.
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

/// Collects problems, so that one run reports all of them.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    list: Vec<Problem>,
    dropped: usize,
}

impl Problems {
    /// Adds a problem. The same problem at the same place is kept once: an option is merged over
    /// every document, but its mistake is reported once.
    pub(crate) fn add(&mut self, problem: Problem) {
        if self.list.contains(&problem) {
            return;
        }
        match self.list.len() {
            0..MAX_KEPT => self.list.push(problem),
            _ => self.dropped += 1,
        }
    }

    /// Returns the number of problems so far.
    pub(crate) fn len(&self) -> usize {
        self.list.len() + self.dropped
    }

    /// Returns `value` if there are no problems.
    pub(crate) fn finish<T>(self, value: T, sources: &Arc<Sources>) -> Result<T, Diagnostics> {
        if self.list.is_empty() { Ok(value) } else { Err(self.into_diagnostics(sources)) }
    }

    /// Returns the problems, in the order of the text.
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

/// Returns user text for a message: quoted, at most 40 characters, control characters escaped.
pub(crate) fn show(text: &str) -> String {
    let mut shown: String = text.chars().take(40).flat_map(escape).collect();
    if text.chars().nth(40).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

fn escape(character: char) -> impl Iterator<Item = char> {
    let text = if character.is_control() {
        character.escape_default().to_string()
    } else {
        character.to_string()
    };
    text.chars().collect::<Vec<_>>().into_iter()
}
