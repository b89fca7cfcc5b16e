//! What a scenario printed beside what it is to print: the differences for people, and the text
//! rewritten. It must not run anything.

use super::script::{MARK, Script};

/// A step that printed something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Line of the script, from 1.
    pub line: usize,
    /// As written.
    pub expected: Vec<String>,
    /// As printed.
    pub printed: Vec<String>,
}

impl Mismatch {
    /// The lines that differ, with `-` what is written and with `+` what was printed.
    #[must_use]
    pub fn show(&self, file: &str) -> String {
        let same = self.expected.iter().zip(&self.printed).take_while(|(a, b)| a == b).count();
        let mut text = format!("{file}:{}: printed otherwise than written\n", self.line);
        for line in &self.expected[..same] {
            text.push_str(&format!("    {line}\n"));
        }
        for line in &self.expected[same..] {
            text.push_str(&format!("  - {line}\n"));
        }
        for line in &self.printed[same..] {
            text.push_str(&format!("  + {line}\n"));
        }
        text
    }
}

/// The script with the transcripts that were printed, step by step.
pub(crate) fn blessed(text: &str, script: &Script, printed: &[Vec<String>]) -> String {
    let mut after = script.steps.iter().zip(printed).peekable();
    let mut blessed = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with('>') {
            continue;
        }
        blessed.push_str(line.trim_end());
        blessed.push('\n');
        if let Some((_, told)) = after.next_if(|(step, _)| step.ends_at == number) {
            for line in told {
                blessed.push_str(format!("{MARK} {line}").trim_end());
                blessed.push('\n');
            }
        }
    }
    blessed
}
