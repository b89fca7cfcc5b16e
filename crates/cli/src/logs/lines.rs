//! Lines of several tasks on one stdout: filtered, and each prefixed with its task.

use std::collections::BTreeMap;

use anyhow::Result;
use muster_report::Ink;
use regex::bytes::Regex;

use crate::app::App;

/// Bytes after which a line without an end is shown all the same: a progress bar is one line, as long as the output.
const LONGEST_LINE: usize = 64 << 10;

/// Element and rank of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskKey {
    /// Index of the element; 0 for a job of one element.
    pub index: u32,
    /// Rank in the element.
    pub rank: u32,
}

/// Parts of a prefix, with their widths in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefix {
    /// Width of the index; `None` leaves it out.
    pub index: Option<usize>,
    /// Width of the rank; `None` leaves it out.
    pub rank: Option<usize>,
}

impl Prefix {
    /// Returns the prefix of a task's lines: `[7] 3: `.
    fn of(self, task: TaskKey) -> String {
        let index = self.index.map(|width| format!("{:width$} ", format!("[{}]", task.index)));
        let rank = self.rank.map(|width| format!("{:>width$}: ", task.rank));
        [index, rank].into_iter().flatten().collect()
    }
}

/// Writer of whole lines.
pub struct LinePrinter<'a> {
    app: &'a App,
    filter: Option<&'a Regex>,
    prefix: Prefix,
    /// Begins of lines that are not complete.
    begun: BTreeMap<TaskKey, Vec<u8>>,
}

impl<'a> LinePrinter<'a> {
    /// Makes a writer of the lines that match the filter, or of all.
    pub fn new(app: &'a App, filter: Option<&'a Regex>, prefix: Prefix) -> Self {
        Self { app, filter, prefix, begun: BTreeMap::new() }
    }

    /// Adds bytes of a task's output, and writes the lines that they complete.
    pub fn add(&mut self, task: TaskKey, bytes: &[u8]) -> Result<()> {
        let mut begun = self.begun.remove(&task).unwrap_or_default();
        begun.extend_from_slice(bytes);
        let newline = begun.iter().rposition(|byte| *byte == b'\n');
        let whole = newline.map_or(0, |at| at + 1);
        self.write(task, &begun[..whole])?;
        begun.drain(..whole);
        if begun.len() > LONGEST_LINE {
            begun.push(b'\n');
            self.write(task, &std::mem::take(&mut begun))?;
        }
        if !begun.is_empty() {
            self.begun.insert(task, begun);
        }
        Ok(())
    }

    /// Writes an incomplete last line of a task whose output has ended.
    pub fn end(&mut self, task: TaskKey) -> Result<()> {
        let Some(mut line) = self.begun.remove(&task) else { return Ok(()) };
        line.push(b'\n');
        self.write(task, &line)
    }

    fn write(&self, task: TaskKey, lines: &[u8]) -> Result<()> {
        let prefix = self.prefix.of(task);
        let ink = Ink::Job(task.index as usize + task.rank as usize);
        let prefix = self.app.ui.context().paint(ink, &prefix);
        let mut text = Vec::with_capacity(lines.len());
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let content = line.strip_suffix(b"\n").unwrap_or(line);
            if self.filter.is_none_or(|filter| filter.is_match(content)) {
                text.extend_from_slice(prefix.as_bytes());
                text.extend_from_slice(line);
            }
        }
        Ok(self.app.ui.bytes(&text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_as_wide_as_the_widest() {
        let task = TaskKey { index: 7, rank: 3 };
        for (index, rank, text) in [
            (None, None, ""),
            (None, Some(2), " 3: "),
            (Some(4), None, "[7]  "),
            (Some(3), Some(1), "[7] 3: "),
        ] {
            assert_eq!(Prefix { index, rank }.of(task), text);
        }
    }
}
