//! The metric of an element, read from what it writes: lines of JSON in its report file, or lines of its output
//! that match a pattern. Anything else in between is ignored.

use muster_model::sweep::{Metric, MetricReport};
use regex::bytes::{Captures, Regex, RegexBuilder};
use serde_json::Value;

/// Longest line that is looked at, in bytes; the rest of a longer one is skipped.
const MAX_LINE_BYTES: usize = 64 << 10;
/// Largest compiled pattern in bytes: the pattern is a user's, and each supervisor compiles it.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A pattern that is no regular expression, or has no group for the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPattern(String);

/// Reader of one element's reports.
#[derive(Debug)]
pub struct MetricReader {
    metric: Metric,
    pattern: Option<Regex>,
    /// Begin of a line that is not complete.
    line: Vec<u8>,
    /// Reports so far: the step of the next one that names none is one higher.
    count: u64,
    /// True if the newest report named no step.
    is_counted: bool,
    /// True if a line of JSON may stand behind other text of its line.
    is_mixed: bool,
}

impl MetricReader {
    /// Makes a reader of a metric.
    ///
    /// # Errors
    /// The pattern is no regular expression, or has no group.
    pub fn new(metric: Metric) -> Result<Self, BadPattern> {
        let pattern = metric.pattern.as_deref().map(compile).transpose()?;
        Ok(Self { metric, pattern, line: Vec::new(), count: 0, is_counted: false, is_mixed: false })
    }

    /// Reads lines of JSON from the output of the element, where other lines may be incomplete when one begins.
    #[must_use]
    pub fn of_output(self) -> Self {
        Self { is_mixed: true, ..self }
    }

    /// Returns true if the newest report named no step, so that its step is its number among the reports read.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Returns true if the reports are in the output of the element, not in its report file.
    #[must_use]
    pub fn reads_output(&self) -> bool {
        self.pattern.is_some()
    }

    /// Reads the next bytes; returns the reports in the lines that they complete, in order.
    pub fn read(&mut self, mut bytes: &[u8]) -> Vec<MetricReport> {
        let mut found = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.add(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            found.extend(self.report(&line));
            self.line = line;
            self.line.clear();
        }
        self.add(bytes);
        found
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = MAX_LINE_BYTES - self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Returns the report in a line.
    fn report(&mut self, line: &[u8]) -> Option<MetricReport> {
        let (step, value) = match &self.pattern {
            Some(pattern) => {
                let found = pattern.captures(line)?;
                let value = number(found.name("value").or_else(|| found.get(1))?.as_bytes())?;
                (step(&found), value)
            }
            None => {
                let fields = self.fields(line)?;
                let value = fields.get(&*self.metric.name)?.as_f64()?;
                (fields.get(&*self.metric.step).and_then(whole), value)
            }
        };
        if !value.is_finite() {
            return None;
        }
        self.is_counted = step.is_none();
        self.count = step.unwrap_or_else(|| self.count.saturating_add(1));
        Some(MetricReport { step: self.count, value })
    }

    /// Returns the object in a line, or at its end in mixed output.
    fn fields(&self, line: &[u8]) -> Option<Value> {
        let whole = serde_json::from_slice(line).ok();
        let at_end = || {
            let begins = (0..line.len()).filter(|at| line[*at] == b'{');
            begins.into_iter().find_map(|at| serde_json::from_slice(&line[at..]).ok())
        };
        whole.or_else(|| self.is_mixed.then(at_end)?)
    }
}

fn compile(pattern: &str) -> Result<Regex, BadPattern> {
    let built = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build();
    let pattern = built.map_err(|error| BadPattern(last_line(&error.to_string())))?;
    if pattern.captures_len() < 2 {
        return Err(BadPattern("it has no group: put the number in parentheses".to_owned()));
    }
    Ok(pattern)
}

/// Returns the last line of an error, which is the reason; the lines before draw the pattern.
fn last_line(error: &str) -> String {
    let line = error.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

fn step(found: &Captures<'_>) -> Option<u64> {
    let text = found.name("step")?;
    std::str::from_utf8(text.as_bytes()).ok()?.parse().ok()
}

fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// Returns a step that is written as a whole number, perhaps with a point as in `3.0`.
fn whole(value: &Value) -> Option<u64> {
    let float = || value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0);
    value.as_u64().or_else(|| float().map(|number| number as u64))
}

#[cfg(test)]
mod tests {
    use muster_model::sweep::Goal;

    use super::*;

    fn reader(pattern: Option<&str>) -> MetricReader {
        let metric = Metric {
            name: "loss".into(),
            goal: Goal::Min,
            pattern: pattern.map(Into::into),
            step: "step".into(),
        };
        MetricReader::new(metric).unwrap()
    }

    fn pairs(reports: Vec<MetricReport>) -> Vec<(u64, f64)> {
        reports.into_iter().map(|report| (report.step, report.value)).collect()
    }

    #[test]
    fn reports_are_lines_of_json() {
        let text = b"{\"step\": 10, \"loss\": 0.5}\nnoise\n{\"loss\": 0.25}\n{\"acc\": 1}\n{\"step\": 3.0, \"loss\": 2}\n{\"loss\":";
        assert_eq!(pairs(reader(None).read(text)), [(10, 0.5), (11, 0.25), (3, 2.0)]);
    }

    /// A program that buffers its output, or draws a progress bar, leaves lines incomplete.
    #[test]
    fn reports_of_mixed_output_may_follow_other_text() {
        let text = b"epoch {1} lo{\"step\": 2, \"loss\": 0.5}\n\r 10% |#  {\"loss\": 0.25}\n{\"loss\": 1} behind\n";
        assert_eq!(pairs(reader(None).read(text)), []);
        let mut mixed = reader(None).of_output();
        assert_eq!(pairs(mixed.read(text)), [(2, 0.5), (3, 0.25)]);
        assert!(mixed.is_counted());
        mixed.read(b"{\"step\": 9, \"loss\": 1}\n");
        assert!(!mixed.is_counted());
    }

    #[test]
    fn lines_are_whole_however_they_are_cut() {
        let text = b"{\"loss\": 0.5}\n{\"loss\": 0.25}\n";
        for cut in 0..text.len() {
            let mut reader = reader(None);
            let mut found = reader.read(&text[..cut]);
            found.extend(reader.read(&text[cut..]));
            assert_eq!(pairs(found), [(1, 0.5), (2, 0.25)], "cut at {cut}");
        }
    }

    #[test]
    fn patterns_find_the_value_and_the_step() {
        let text = b"epoch 3: loss=0.125 ok\nloss=nan\nnothing\nloss=1e-3\n";
        assert_eq!(pairs(reader(Some(r"loss=(\S+)")).read(text)), [(1, 0.125), (2, 0.001)]);
        let named = r"epoch (?<step>\d+): loss=(?<value>[0-9.]+)";
        assert_eq!(pairs(reader(Some(named)).read(text)), [(3, 0.125)]);
    }

    #[test]
    fn long_lines_cost_no_more_than_a_bound() {
        let mut reader = reader(None);
        for _ in 0..100 {
            assert_eq!(reader.read(&[b'x'; 10_000]), []);
        }
        assert!(reader.line.len() <= MAX_LINE_BYTES);
        assert_eq!(pairs(reader.read(b"\n{\"loss\": 1}\n")), [(1, 1.0)]);
    }

    #[test]
    fn patterns_that_cannot_be_are_refused_with_the_reason() {
        let refused = |pattern: &str| {
            let metric = Metric { pattern: Some(pattern.into()), ..reader(None).metric };
            MetricReader::new(metric).unwrap_err().to_string()
        };
        assert_eq!(refused("loss=("), "unclosed group");
        assert_eq!(refused("loss"), "it has no group: put the number in parentheses");
        assert!(
            refused("(x{1000}){1000}").contains("size limit"),
            "{}",
            refused("(x{1000}){1000}")
        );
    }
}
