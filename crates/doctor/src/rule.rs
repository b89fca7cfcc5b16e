//! Structure of a rule, its three outcomes, and helpers to build them. The rules themselves are in
//! `rules`.

use muster_model::check::{CheckPlace, Severity};

use muster_slurm::conf::evidence::{ConfSetting, Evidence, MissingInput};

/// Rule about a cluster, with the function `F` that judges it. Its id never changes once published:
/// baselines refer to it.
pub(crate) struct CheckRule<F = fn(&Evidence) -> RuleResult> {
    pub(crate) id: &'static str,
    pub(crate) severity: Severity,
    /// Problem that the rule reports, as a fragment.
    pub(crate) title: &'static str,
    /// Consequence of the problem.
    pub(crate) meaning: &'static str,
    /// Next step to remove the problem.
    pub(crate) cure: &'static str,
    pub(crate) page: DocPage,
    pub(crate) check: F,
}

impl<F> CheckRule<F> {
    /// Returns the texts of the rule.
    pub(crate) fn text(&self) -> RuleText {
        let Self { id, severity, title, meaning, cure, page, .. } = *self;
        RuleText { id, severity, title, meaning, cure, page: page.name(), url: page.url() }
    }
}

/// Texts of a rule of any kind, as documents, explanations and reports show them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleText {
    /// Id of the rule.
    pub id: &'static str,
    /// Severity of its findings.
    pub severity: Severity,
    /// Problem that the rule reports, as a fragment.
    pub title: &'static str,
    /// Consequence of the problem; empty if the title says it.
    pub meaning: &'static str,
    /// Next step to remove the problem.
    pub cure: &'static str,
    /// Title of the page that the rule is based on; empty if there is none.
    pub page: String,
    /// URL of that page.
    pub url: String,
}

/// Page of the documentation of the checked system.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DocPage {
    /// Manual page of section 5, and the entry in it.
    Man(&'static str, &'static str),
    /// Guide on Slurm's site.
    Guide(&'static str),
    /// Page anywhere, by its address.
    Web(&'static str),
}

impl DocPage {
    /// Returns the name of the page for display.
    pub(crate) fn name(self) -> String {
        match self {
            DocPage::Man(page, entry) => format!("{page}(5), {entry}"),
            DocPage::Guide(_) | DocPage::Web(_) => self.url(),
        }
    }

    /// Returns the address of the page.
    pub(crate) fn url(self) -> String {
        match self {
            DocPage::Man(page, _) | DocPage::Guide(page) => {
                format!("https://slurm.schedmd.com/{page}.html")
            }
            DocPage::Web(url) => url.to_owned(),
        }
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

/// Fails where there are findings; without any, it is not tested if an input is missing, else passes.
pub(crate) fn judge(
    findings: Vec<RuleFinding>,
    missing: Option<MissingInput>,
    pass: impl Into<String>,
) -> RuleResult {
    match missing {
        Some(missing) if findings.is_empty() => Err(missing),
        _ => fail_if_any(findings, pass),
    }
}

/// Passes or fails with the setting itself as the observation.
pub(crate) fn check_setting(said: &ConfSetting, is_right: bool) -> RuleResult {
    fail_if_any(if is_right { Vec::new() } else { vec![RuleFinding::of(said)] }, said.text())
}

impl RuleFinding {
    /// Makes a finding about a subject that is in no file.
    pub(crate) fn about(key: impl Into<String>, says: impl Into<String>) -> Self {
        Self { key: key.into(), says: says.into(), place: None }
    }

    /// Makes a finding about a setting.
    pub(crate) fn of(said: &ConfSetting) -> Self {
        Self { key: said.key.to_ascii_lowercase(), says: said.text(), place: said.place.clone() }
    }
}
