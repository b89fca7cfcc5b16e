//! Which formats there are, by the names that users give, and which of them a text looks like. It must not read rows.

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Standard Workload Format 2.2 of the Parallel Workloads Archive.
    Swf,
}

impl TraceFormat {
    /// Every format, by the name that users give.
    pub const ALL: [(&str, TraceFormat); 1] = [("swf", TraceFormat::Swf)];

    /// The format that the first lines of a text are in; `None` when they are in none of them. A row of eighteen numbers, or
    /// a comment behind `;`, is SWF.
    #[must_use]
    pub fn detect(head: &[&str]) -> Option<Self> {
        let first = head.iter().map(|line| line.trim()).find(|line| !line.is_empty())?;
        let words: Vec<&str> = first.split_ascii_whitespace().collect();
        let numbers = words.iter().take(18).filter(|word| word.parse::<f64>().is_ok()).count();
        (first.starts_with(';') || numbers == 18).then_some(Self::Swf)
    }

    /// The name that users give.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, format)| *format == self).map_or("?", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines_tell_the_format() {
        let check = |head: &str, expected| {
            let head: Vec<&str> = head.lines().collect();
            assert_eq!(TraceFormat::detect(&head), expected, "{head:?}");
        };
        check("; Version: 2.2\n", Some(TraceFormat::Swf));
        check("\n 1 0 0 1 1 -1 -1 1 1 -1 1 1 1 -1 1 -1 -1 -1 {7} q", Some(TraceFormat::Swf));
        check("1 2 3", None);
        check("", None);
    }
}
