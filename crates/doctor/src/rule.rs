//! Structure of a rule, its three outcomes, and helpers to build them. The rules themselves are in
//! `rules`.

use muster_model::check::{CheckPlace, Severity};

use crate::evidence::{ConfSetting, Evidence, MissingInput};

/// Rule about the cluster. Its id never changes once published: baselines refer to it.
pub(crate) struct CheckRule {
    pub(crate) id: &'static str,
    pub(crate) severity: Severity,
    /// Problem that the rule reports, as a fragment.
    pub(crate) title: &'static str,
    /// Consequence of the problem.
    pub(crate) meaning: &'static str,
    /// Next step to remove the problem.
    pub(crate) cure: &'static str,
    pub(crate) page: DocPage,
    pub(crate) check: fn(&Evidence) -> RuleResult,
}

/// Page of Slurm's documentation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DocPage {
    /// Manual page of section 5, and the entry in it.
    Man(&'static str, &'static str),
    /// Guide on Slurm's site.
    Guide(&'static str),
}

impl DocPage {
    /// Returns the name of the page for display.
    pub(crate) fn name(self) -> String {
        match self {
            DocPage::Man(page, entry) => format!("{page}(5), {entry}"),
            DocPage::Guide(_) => self.url(),
        }
    }

    /// Returns the address of the page.
    pub(crate) fn url(self) -> String {
        let (DocPage::Man(page, _) | DocPage::Guide(page)) = self;
        format!("https://slurm.schedmd.com/{page}.html")
    }
}

/// Outcome of a rule; the error is the third outcome, not tested.
pub(crate) type RuleResult = Result<RuleVerdict, MissingInput>;

/// Outcome of a rule that could be judged.
pub(crate) enum RuleVerdict {
    /// No problem, with what was observed.
    Pass(String),
    /// Problems found, at least one.
    Fail(Vec<RuleFinding>),
}

/// One problem that a rule found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleFinding {
    /// Subject of the finding, such as a key or the name of a partition. Part of the fingerprint.
    pub(crate) key: String,
    /// Observation that shows the problem.
    pub(crate) says: String,
    pub(crate) place: Option<CheckPlace>,
}

/// Fails where there are findings, else passes.
pub(crate) fn fail_if_any(findings: Vec<RuleFinding>, pass: impl Into<String>) -> RuleResult {
    Ok(if findings.is_empty() {
        RuleVerdict::Pass(pass.into())
    } else {
        RuleVerdict::Fail(findings)
    })
}

/// Passes or fails with the setting itself as the observation.
pub(crate) fn judge_setting(said: &ConfSetting, is_right: bool) -> RuleResult {
    fail_if_any(if is_right { Vec::new() } else { vec![said.finding()] }, said.text())
}

impl ConfSetting {
    /// Formats the setting, such as `MaxTime=UNLIMITED`, or that it is not set.
    pub(crate) fn text(&self) -> String {
        match (&self.place, self.value.as_str()) {
            (_, "") => format!("{} is not set", self.key),
            (None, value) => format!("{} is not set; its default is {value}", self.key),
            (Some(_), value) => format!("{}={value}", self.key),
        }
    }

    /// Returns a finding about this setting.
    pub(crate) fn finding(&self) -> RuleFinding {
        RuleFinding {
            key: self.key.to_ascii_lowercase(),
            says: self.text(),
            place: self.place.clone(),
        }
    }

    /// Compares the value with a word, ignoring case.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.value.eq_ignore_ascii_case(word)
    }

    /// Returns whether the list contains the word, ignoring case.
    pub(crate) fn lists(&self, word: &str) -> bool {
        self.value.split(',').any(|own| own.trim().eq_ignore_ascii_case(word))
    }

    /// Returns the number at the beginning: `30 sec` is 30. `None` where there is none.
    pub(crate) fn number(&self) -> Option<u64> {
        let digits: String = self.value.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    /// Returns the value of `word=` in a list such as that of SchedulerParameters.
    pub(crate) fn option(&self, word: &str) -> Option<&str> {
        let of = |own: &'_ str| {
            own.split_once('=').is_some_and(|(key, _)| key.trim().eq_ignore_ascii_case(word))
        };
        self.value
            .split(',')
            .find(|own| of(own))
            .and_then(|own| own.split_once('='))
            .map(|(_, value)| value)
    }

    /// Returns whether the value means yes, in the words of cgroup.conf.
    pub(crate) fn is_yes(&self) -> bool {
        ["yes", "true", "1"].iter().any(|word| self.is(word))
    }
}

/// Parses a time limit of Slurm into minutes: `30`, `30:00`, `1:00:00`, `2-0`, `2-12:30:00`. `None`
/// for no limit, or where it is not understood, which Slurm treats as no limit.
#[must_use]
pub fn minutes(text: &str) -> Option<u64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(days.parse::<u64>().ok()?), clock),
        None => (None, text),
    };
    let parts: Vec<u64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (hours, minutes) = match (days, parts.as_slice()) {
        (Some(_), [hours]) => (*hours, 0),
        (Some(_), [hours, minutes] | [hours, minutes, _]) | (None, [hours, minutes, _]) => {
            (*hours, *minutes)
        }
        (None, [minutes] | [minutes, _]) => (0, *minutes),
        _ => return None,
    };
    days.unwrap_or(0)
        .checked_mul(24 * 60)?
        .checked_add(hours.checked_mul(60)?)?
        .checked_add(minutes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read_as_slurm_writes_them() {
        for (text, expected) in [
            ("30", Some(30)),
            ("90:00", Some(90)),
            ("48:00:00", Some(2880)),
            ("2-0", Some(2880)),
            ("1-02:30", Some(1590)),
            ("2-00:00:00", Some(2880)),
            ("UNLIMITED", None),
            ("INFINITE", None),
            ("", None),
            ("99999999999999999999-0", None),
        ] {
            assert_eq!(minutes(text), expected, "{text}");
        }
    }
}
