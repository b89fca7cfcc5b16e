//! Text of a scenario: its header, its lines, and the expected transcript of each. Only this module
//! knows how comments, lines, mappings below them and transcripts are distinguished. It knows no
//! verbs and runs nothing.

use super::command::ScriptCommand;
use super::read::{self, ScriptLine};
use super::script_error::ScriptError;

/// A scenario after parsing.
#[derive(Clone, Debug)]
pub struct ScenarioScript {
    /// One sentence about what it shows.
    pub title: String,
    /// Engine defect that it would detect.
    pub catches: String,
    /// Source of the situation, if there is one.
    pub from: Option<String>,
    pub(crate) steps: Vec<ScriptStep>,
}

/// Script lines that are executed at one instant, with their expected transcript.
#[derive(Clone, Debug)]
pub(crate) struct ScriptStep {
    /// Commands with their line numbers; more than one when joined by `and`.
    pub(crate) commands: Vec<(usize, ScriptCommand)>,
    pub(crate) golden: Vec<String>,
    /// Line of the script before the transcript, from 1.
    pub(crate) ends_at: usize,
}

/// Prefix of a transcript line.
pub(crate) const MARK: &str = "  >";

impl ScenarioScript {
    /// Parses a scenario. `file` is its name in messages.
    ///
    /// # Errors
    /// The first line with an error.
    pub fn parse(text: &str, file: &str) -> Result<Self, ScriptError> {
        let header = ScriptHeader::read(text)?;
        let mut steps: Vec<ScriptStep> = Vec::new();
        for paragraph in paragraphs(text)? {
            let head = paragraph.body.lines().next().unwrap_or_default();
            let joined = head.strip_prefix("and ");
            let indent = if joined.is_some() { "and ".len() } else { 0 };
            let body = &paragraph.body[indent..];
            let command =
                read::command(&ScriptLine { file, line: paragraph.line, indent, text: body })?;
            let step = match (joined, steps.last_mut()) {
                (None, _) => {
                    steps.push(ScriptStep { commands: Vec::new(), golden: Vec::new(), ends_at: 0 });
                    steps.last_mut()
                }
                (Some(_), step) => step,
            };
            let step =
                step.ok_or_else(|| ScriptError::at(paragraph.line, "`and` joins nothing"))?;
            joinable(step, &command, paragraph.line)?;
            step.commands.push((paragraph.line, command));
            step.golden = paragraph.golden;
            step.ends_at = paragraph.ends_at;
        }
        let ScriptHeader { title, catches, from } = header;
        Ok(Self { title, catches, from, steps })
    }
}

/// Checks that a command can be joined with `and`: only events can be, and their transcript follows
/// the last line.
fn joinable(step: &ScriptStep, command: &ScriptCommand, line: usize) -> Result<(), ScriptError> {
    let Some((_, before)) = step.commands.last() else { return Ok(()) };
    if !step.golden.is_empty() {
        let message = "the transcript of lines joined by `and` belongs after the last of them";
        return Err(ScriptError::at(step.ends_at + 1, message));
    }
    match (before, command) {
        (ScriptCommand::Happens(_), ScriptCommand::Happens(_)) => Ok(()),
        _ => Err(ScriptError::at(
            line,
            "`and` joins only events; commands that pass time or query stand alone",
        )),
    }
}

struct ScriptHeader {
    title: String,
    catches: String,
    from: Option<String>,
}

impl ScriptHeader {
    /// Parses the comments before the first line.
    fn read(text: &str) -> Result<Self, ScriptError> {
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
            return Err(ScriptError::at(1, "the first line does not say what the scenario shows")
                .hint("begin with `# A later job starts early only if it delays no other.`"));
        }
        if catches.is_empty() {
            return Err(ScriptError::at(1, "the scenario does not say which defect it detects")
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
    /// Last line before the transcript.
    ends_at: usize,
}

fn paragraphs(text: &str) -> Result<Vec<Paragraph>, ScriptError> {
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
            return Err(ScriptError::at(
                number,
                "an indented line belongs to the one above, and there is none",
            ));
        };
        match inside.strip_prefix('>') {
            Some(reported) => last
                .golden
                .push(reported.strip_prefix(' ').unwrap_or(reported).trim_end().to_owned()),
            None if !last.golden.is_empty() => {
                return Err(ScriptError::at(number, "a mapping must end before its transcript"));
            }
            None => {
                // Blank lines in between keep their place.
                let skipped = number - last.line - last.body.matches('\n').count();
                last.body.push_str(&"\n".repeat(skipped));
                last.body.push_str(line.trim_end());
                last.ends_at = number;
            }
        }
    }
    Ok(found)
}
