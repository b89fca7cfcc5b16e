//! Comparison of printed and expected transcripts: the differences for people, and the rewritten
//! script. It runs nothing.

use super::script::{MARK, ScenarioScript};

/// A step that printed something unexpected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Line of the script, from 1.
    pub line: usize,
    /// Transcript in the script.
    pub expected: Vec<String>,
    /// Transcript of the run.
    pub printed: Vec<String>,
}

impl Mismatch {
    /// Formats the lines that differ, with `-` for expected and `+` for printed ones.
    #[must_use]
    pub fn show(&self, file: &str) -> String {
        let same = self.expected.iter().zip(&self.printed).take_while(|(a, b)| a == b).count();
        let mut text =
            format!("{file}:{}: the output differs from the expected transcript\n", self.line);
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

/// Returns the script with the printed transcripts.
pub(crate) fn with_transcripts(
    text: &str,
    script: &ScenarioScript,
    printed: &[Vec<String>],
) -> String {
    let mut after = script.steps.iter().zip(printed).peekable();
    let mut blessed = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with('>') {
            continue;
        }
        blessed.push_str(line.trim_end());
        blessed.push('\n');
        if let Some((_, reported)) = after.next_if(|(step, _)| step.ends_at == number) {
            for line in reported {
                blessed.push_str(format!("{MARK} {line}").trim_end());
                blessed.push('\n');
            }
        }
    }
    blessed
}
