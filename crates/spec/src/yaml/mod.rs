//! YAML text to a tree of located values; the only module that uses the YAML parser. Scalars keep
//! their text: whether `0.5` is a share or `1-12:00:00` a time is decided by the reader of the
//! field. One tree type serves all documents. The limits below bound the cost of hostile input.

mod builder;
mod faults;

use granit_parser::{Options, Parser};

use crate::diagnostic::{Problem, Problems};
use crate::source::{Place, Sources};
use crate::yaml::builder::Builder;

/// Largest text that is read.
const MAX_SOURCE_BYTES: usize = 1 << 20;
/// Largest nesting of lists and mappings. The deepest document, a queue tree, needs two levels per
/// queue.
const MAX_DEPTH: usize = 64;

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) value: Value,
    /// True for a scalar in quotes or in a block, which is text whatever it looks like. Most fields
    /// ignore it.
    pub(crate) quoted: bool,
}

/// A value of YAML, without a schema.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// An empty value, `~` or `null`.
    Null,
    /// Any other scalar, as text.
    Scalar(String),
    /// A list of values.
    List(Vec<Node>),
    /// A mapping, in order, keys distinct.
    Map(Vec<YamlEntry>),
}

/// One key of a mapping with its value.
#[derive(Clone, Debug)]
pub(crate) struct YamlEntry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

/// Reads every document that is not empty. Problems are added to `problems`; the first one about
/// syntax ends the reading, since later ones would mostly be consequences of it.
pub(crate) fn read(text: &str, problems: &mut Problems) -> Vec<Node> {
    if let Err(problem) = admit(text) {
        problems.add(problem);
        return Vec::new();
    }
    let mut options = Options::default();
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    options.set_emit_comments(false);
    let mut builder = Builder::new(problems);
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => builder.take(event, place(&span)),
            Err(error) => Err(faults::explained(text, &error).unwrap_or_else(|| syntax(&error))),
        };
        if let Err(problem) = step {
            builder.complain(problem);
            break;
        }
    }
    builder.into_documents()
}

/// Reads a file that must have exactly one document, or adds a problem. `smallest` is an example
/// for the message.
pub(crate) fn read_one(
    sources: &Sources,
    what: &str,
    smallest: &str,
    problems: &mut Problems,
) -> Option<Node> {
    let before = problems.len();
    let mut nodes = read(sources.text(Sources::FILE), problems);
    if problems.len() > before {
        return None;
    }
    match nodes.get(1) {
        Some(second) => {
            problems.add(
                Problem::new(format!("more than one document of {what}"))
                    .at(second.place, "the second"),
            );
            None
        }
        None if nodes.is_empty() => {
            let problem = Problem::new(format!("{} holds no {what}", sources.name()));
            problems.add(problem.hint(format!("the smallest is `{smallest}`")));
            None
        }
        None => nodes.pop(),
    }
}

/// Checks size and characters, before any parsing.
fn admit(text: &str) -> Result<(), Problem> {
    if text.len() > MAX_SOURCE_BYTES {
        let bytes = muster_model::Bytes(text.len() as u64);
        return Err(Problem::new(format!("the text is too large: {bytes}, at most 1MiB"))
            .hint("many similar jobs are one job with an `array`".to_owned()));
    }
    let forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    if let Some((start, character)) = text.char_indices().find(|(_, c)| forbidden(*c)) {
        let place = Place { source: Sources::FILE, start, end: start + character.len_utf8() };
        return Err(match character {
            '\0' => {
                Problem::new("the text holds a NUL byte").at(place, "here; is this a binary file?")
            }
            _ => Problem::new("the text holds a control character").at(
                place,
                format!("U+{:04X}; write an escape inside double quotes", character as u32),
            ),
        });
    }
    faults::false_space(text).map_or(Ok(()), Err)
}

fn place(span: &granit_parser::Span) -> Place {
    let start = span.start.byte_offset().unwrap_or(0);
    Place { source: Sources::FILE, start, end: span.end.byte_offset().unwrap_or(start) }
}

fn syntax(error: &granit_parser::ScanError) -> Problem {
    use granit_parser::ErrorKind;
    let start = error.marker().byte_offset().unwrap_or(0);
    let here = Place { source: Sources::FILE, start, end: start + 1 };
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(here),
        _ => Problem::new("this is not valid YAML").at(here, error.info()),
    }
}

fn too_deep(place: Place) -> Problem {
    Problem::new("the text nests too deep").at(place, format!("more than {MAX_DEPTH} levels"))
}
