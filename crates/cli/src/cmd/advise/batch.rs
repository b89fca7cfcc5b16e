//! `--batch`: reads facts as lines of JSON from stdin and writes one line per answer to stdout, in
//! the same order. A line that cannot be parsed gets an error as its answer; the others are not
//! affected.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;

use anyhow::Result;
use muster_model::advice::Ruleset;
use muster_spec::{LineError, parse_facts_line};
use serde::Serialize;

use super::answer::{AdviceAnswer, AnswerField, SelectedFields};
use crate::facts::{RuleArgs, Workload};
use crate::source::{self, without_byte_order_mark};

/// Longest line in bytes that is read; facts take less than a hundredth of it.
const MAX_LINE: u64 = 64 << 10;

/// Answer to a line that cannot be parsed.
#[derive(Debug, Serialize)]
struct RefusedLine {
    error: Complaint,
}

#[derive(Debug, Serialize)]
struct Complaint {
    line: usize,
    /// Column in characters, from 1; absent if the error is about the whole line.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Settings for the answers of a batch.
pub struct AdviseBatch<'a> {
    rules: &'a RuleArgs,
    ruleset: Ruleset,
    /// Fields of the answers; `None` is all.
    fields: Option<&'a [AnswerField]>,
}

/// Counts of a finished batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchCounts {
    /// Number of lines read.
    pub lines: usize,
    /// Number of lines that could not be parsed.
    pub refused: usize,
}

impl<'a> AdviseBatch<'a> {
    /// Returns a batch whose answers have these fields.
    pub fn new(rules: &'a RuleArgs, fields: Option<&'a [AnswerField]>) -> Self {
        Self { rules, ruleset: rules.ruleset(), fields }
    }

    /// Answers every line of stdin on stdout. All lines read so far are answered before the next
    /// blocking read.
    pub fn print(&self) -> Result<BatchCounts> {
        let mut stdout = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        self.each(|answer, waits| {
            stdout.write_all(answer.as_bytes())?;
            stdout.write_all(b"\n")?;
            if waits {
                stdout.flush()?;
            }
            Ok(())
        })
    }

    /// Calls `see` with the answer to every line of stdin, and whether reading the next line may
    /// block.
    pub fn each(&self, mut see: impl FnMut(&str, bool) -> Result<()>) -> Result<BatchCounts> {
        let mut stdin = BufReader::with_capacity(1 << 16, io::stdin().lock());
        let mut count = BatchCounts::default();
        let unreadable = |error: io::Error| source::unreadable(Path::new("stdin"), &error);
        while let Some(line) = next_line(&mut stdin).map_err(unreadable)? {
            count.lines += 1;
            let (answer, good) = self.answer(count.lines, line)?;
            count.refused += usize::from(!good);
            see(&answer, stdin.buffer().is_empty())?;
        }
        Ok(count)
    }

    /// Returns the answer to a line, and false if it is an error.
    fn answer(&self, number: usize, line: Result<String, &'static str>) -> Result<(String, bool)> {
        let whole =
            |message: &str| LineError { message: message.to_owned(), hint: None, column: 0 };
        let read = line.map_err(whole).and_then(|line| {
            // A byte order mark is only one at the start of the input.
            parse_facts_line(
                without_byte_order_mark(&line).filter(|_| number == 1).unwrap_or(&line),
            )
        });
        let mut workload: Workload = match read {
            Ok(file) => file.into(),
            Err(LineError { message, hint, column }) => {
                let column = (column > 0).then_some(column);
                let error = Complaint { line: number, column, message, hint };
                return Ok((serde_json::to_string(&RefusedLine { error })?, false));
            }
        };
        self.rules.apply(&mut workload.thresholds)?;
        Ok((self.answer_to(&workload)?, true))
    }

    fn answer_to(&self, workload: &Workload) -> Result<String> {
        let facts = &workload.facts;
        let thresholds = &workload.thresholds;
        match self.fields {
            // Computing the label alone is much faster than the whole advice.
            Some(fields) if fields.iter().all(|field| field.is_of_label()) => {
                let label = muster_advise::label(facts, thresholds, self.ruleset);
                Ok(serde_json::to_string(&SelectedFields::of_label(&label, fields))?)
            }
            fields => {
                let advice = muster_advise::advise(facts, thresholds, self.ruleset);
                let answer = AdviceAnswer::Workload(Box::new(advice));
                Ok(match fields {
                    Some(fields) => serde_json::to_string(&SelectedFields::of(&answer, fields))?,
                    None => serde_json::to_string(&answer)?,
                })
            }
        }
    }
}

/// Returns the next line without its newline, or why it cannot be used; `None` at the end of the
/// input.
fn next_line(input: &mut impl BufRead) -> io::Result<Option<Result<String, &'static str>>> {
    let mut bytes = Vec::new();
    input.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    } else if bytes.len() as u64 == MAX_LINE {
        skip_line(input)?;
        return Ok(Some(Err("the line is longer than 64 KiB")));
    }
    Ok(Some(String::from_utf8(bytes).map_err(|_| "the line is not UTF-8 text")))
}

/// Skips the rest of a line.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => {
                input.consume(at + 1);
                return Ok(());
            }
            None if buffer.is_empty() => return Ok(()),
            None => {
                let read = buffer.len();
                input.consume(read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_too_long_is_one_line() {
        let long = "x".repeat(200_000);
        let mut input = io::BufReader::new(io::Cursor::new(format!("a\n{long}\nb")));
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut input).unwrap() {
            lines.push(line);
        }
        let too_long = Err("the line is longer than 64 KiB");
        assert_eq!(lines, [Ok("a".to_owned()), too_long, Ok("b".to_owned())]);
    }

    #[test]
    fn the_end_of_a_line_is_no_part_of_it_and_an_empty_line_is_one() {
        let mut input = &b"a\n\n\xff\n"[..];
        assert_eq!(next_line(&mut input).unwrap(), Some(Ok("a".to_owned())));
        assert_eq!(next_line(&mut input).unwrap(), Some(Ok(String::new())));
        assert_eq!(next_line(&mut input).unwrap(), Some(Err("the line is not UTF-8 text")));
        assert_eq!(next_line(&mut input).unwrap(), None);
    }
}
