//! The text of a scenario: what it says of itself, its lines, and what each is to print. The one
//! place that knows how comments, lines, mappings below them and transcripts are told apart. It
//! must not know verbs, nor run anything.

use super::command::Command;
use super::mistake::Mistake;
use super::read::{self, Written};

/// A scenario as written.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it shows, one sentence.
    pub title: String,
    /// The mistake of an engine that it would notice.
    pub catches: String,
    /// Whose situation it re-expresses, when it is somebody's.
    pub from: Option<String>,
    /// In order.
    pub(crate) steps: Vec<Step>,
}

/// Lines that happen at one instant, and what they are to print.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// With their line numbers; more than one when joined by `and`.
    pub(crate) commands: Vec<(usize, Command)>,
    /// What it is to print.
    pub(crate) golden: Vec<String>,
    /// The line of the script after which that stands, from 1.
    pub(crate) ends_at: usize,
}

/// What marks a line of a transcript, in the form in which it is written.
pub(crate) const MARK: &str = "  >";

impl Script {
    /// Reads a scenario. `file` is what it is called in messages.
    ///
    /// # Errors
    /// The first line that says nothing.
    pub fn parse(text: &str, file: &str) -> Result<Self, Mistake> {
        let header = Header::read(text)?;
        let mut steps: Vec<Step> = Vec::new();
        for paragraph in paragraphs(text)? {
            let head = paragraph.body.lines().next().unwrap_or_default();
            let joined = head.strip_prefix("and ");
            let indent = if joined.is_some() { "and ".len() } else { 0 };
            let body = &paragraph.body[indent..];
            let command =
                read::command(&Written { file, line: paragraph.line, indent, text: body })?;
            let step = match (joined, steps.last_mut()) {
                (None, _) => {
                    steps.push(Step { commands: Vec::new(), golden: Vec::new(), ends_at: 0 });
                    steps.last_mut()
                }
                (Some(_), step) => step,
            };
            let step = step.ok_or_else(|| Mistake::at(paragraph.line, "`and` joins nothing"))?;
            joinable(step, &command, paragraph.line)?;
            step.commands.push((paragraph.line, command));
            step.golden = paragraph.golden;
            step.ends_at = paragraph.ends_at;
        }
        let Header { title, catches, from } = header;
        Ok(Self { title, catches, from, steps })
    }
}

/// Only what happens can happen together with something else, and its transcript stands behind the
/// last line.
fn joinable(step: &Step, command: &Command, line: usize) -> Result<(), Mistake> {
    let Some((_, before)) = step.commands.last() else { return Ok(()) };
    if !step.golden.is_empty() {
        let message = "what joined lines print stands behind the last of them";
        return Err(Mistake::at(step.ends_at + 1, message));
    }
    match (before, command) {
        (Command::Happens(_), Command::Happens(_)) => Ok(()),
        _ => Err(Mistake::at(
            line,
            "`and` joins what happens at one instant, not time and questions",
        )),
    }
}

struct Header {
    title: String,
    catches: String,
    from: Option<String>,
}

impl Header {
    /// The comments before the first line.
    fn read(text: &str) -> Result<Self, Mistake> {
        const WORDS: [&str; 2] = ["catches:", "from:"];
        let mut parts = [const { String::new() }; 1 + WORDS.len()];
        let mut at = 0;
        for line in text.lines().take_while(|line| line.starts_with('#')) {
            let mut words = line.trim_start_matches('#').trim();
            for (place, word) in (1..).zip(WORDS) {
                if let Some(rest) = words.strip_prefix(word) {
                    (at, words) = (place, rest.trim());
                }
            }
            parts[at].push_str(if parts[at].is_empty() { "" } else { " " });
            parts[at].push_str(words);
        }
        let [title, catches, from] = parts;
        if title.is_empty() {
            return Err(Mistake::at(1, "the first line does not say what the scenario shows")
                .hint("begin with `# A later job starts early only if it delays nobody.`"));
        }
        if catches.is_empty() {
            return Err(Mistake::at(1, "nothing says which mistake the scenario would notice")
                .hint("add `# catches: backfill that ignores the grace period`"));
        }
        Ok(Self { title, catches, from: (!from.is_empty()).then_some(from) })
    }
}

/// A line with the mapping below it, and its transcript.
struct Paragraph {
    line: usize,
    body: String,
    golden: Vec<String>,
    /// Last line that is not transcript.
    ends_at: usize,
}

fn paragraphs(text: &str) -> Result<Vec<Paragraph>, Mistake> {
    let mut found: Vec<Paragraph> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let inside = line.trim_start();
        if inside.is_empty() || inside.starts_with('#') {
            continue;
        }
        if !line.starts_with(char::is_whitespace) && !inside.starts_with('>') {
            let body = line.trim_end().to_owned();
            found.push(Paragraph { line: number, body, golden: Vec::new(), ends_at: number });
            continue;
        }
        let Some(last) = found.last_mut() else {
            return Err(Mistake::at(
                number,
                "an indented line belongs to the one above, and there is none",
            ));
        };
        match inside.strip_prefix('>') {
            Some(told) => {
                last.golden.push(told.strip_prefix(' ').unwrap_or(told).trim_end().to_owned())
            }
            None if !last.golden.is_empty() => {
                return Err(Mistake::at(number, "a mapping goes on behind its transcript"));
            }
            None => {
                // Lines left out in between keep their place.
                let skipped = number - last.line - last.body.matches('\n').count();
                last.body.push_str(&"\n".repeat(skipped));
                last.body.push_str(line.trim_end());
                last.ends_at = number;
            }
        }
    }
    Ok(found)
}
