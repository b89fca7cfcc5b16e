//! Findings that are known and accepted, as text that people can read and keep beside their
//! configuration. It reads no file.

use std::collections::BTreeSet;

use muster_model::check::CheckReport;

/// A line for each finding: fingerprint, rule, what was seen.
#[must_use]
pub fn baseline(report: &CheckReport) -> String {
    let mut text = String::from(
        "# findings that are accepted; what stands behind the fingerprint is for people\n",
    );
    for finding in &report.findings {
        let says: String =
            finding.evidence.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text.push_str(&format!("{} {} {says}\n", finding.fingerprint, finding.rule));
    }
    text
}

/// Fingerprints in such a text; the number of the first line that has none.
///
/// # Errors
/// The number of a line that begins with no fingerprint.
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
