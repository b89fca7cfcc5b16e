//! Baselines: accepted findings as text, to be kept beside the configuration. Reads no file.

use std::collections::BTreeSet;

use muster_model::check::CheckReport;

/// Formats one line per finding: fingerprint, rule, observation.
#[must_use]
pub fn baseline(report: &CheckReport) -> String {
    let mut text = String::from(
        "# accepted findings; only the fingerprint counts, the rest of the line is a comment\n",
    );
    for finding in &report.findings {
        let says: String =
            finding.evidence.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text.push_str(&format!("{} {} {says}\n", finding.fingerprint, finding.rule));
    }
    text
}

/// Reads the fingerprints in a baseline.
///
/// # Errors
///
/// The number of the first line that begins with no fingerprint.
pub fn known_in(text: &str) -> Result<BTreeSet<String>, usize> {
    let mut known = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let word = line.split_whitespace().next().unwrap_or_default();
        if word.len() != 16 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(number);
        }
        known.insert(word.to_ascii_lowercase());
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_read_and_anything_else_is_refused() {
        let known = known_in("# x\n\naf63bd4c8601b7df rule says\n").unwrap();
        assert_eq!(known.into_iter().collect::<Vec<_>>(), ["af63bd4c8601b7df"]);
        assert_eq!(known_in("# x\nrule\n"), Err(2));
    }
}
