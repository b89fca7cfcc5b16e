//! Findings: what is wrong with a script, by a closed list of rules. A rule is data with a function
//! that says what it saw; it never guesses, and is silent where something is not certain.

use muster_model::check::Severity;
use muster_model::imported::{ImportFinding, ImportedOption, LaunchMode};

use super::draft::Group;
use super::geometry::Geometry;
use super::known::Variables;
use super::launch::Step;
use super::read::Script;
use super::rules::{asking, launching, meeting, moving, shape};
use super::shell::Command;
use super::sizes::Sizes;

/// What rules look at.
pub(super) struct Facts<'a> {
    pub(super) script: &'a Script<'a>,
    /// Of the first component.
    pub(super) sizes: &'a Sizes,
    pub(super) commands: &'a [Command],
    /// What became of every option.
    pub(super) options: &'a [ImportedOption],
    /// What the job asks for.
    pub(super) groups: &'a [Group],
    /// How the job's tasks come to run the script.
    pub(super) how: LaunchMode,
    pub(super) steps: &'a [(Step, Geometry)],
    /// At the end of the script.
    pub(super) variables: &'a Variables,
}

impl Facts<'_> {
    /// The line of the script for a line of its body.
    pub(super) fn line(&self, of_body: u32) -> u32 {
        u32::try_from(self.script.body).unwrap_or(u32::MAX).saturating_add(of_body)
    }

    /// More than one node, for certain.
    pub(super) fn is_multi_node(&self) -> bool {
        self.sizes.nodes.is_some_and(|(fewest, _)| fewest > 1) && self.sizes.task_count() != Some(1)
            || self.sizes.node_count().is_some_and(|nodes| nodes > 1)
    }

    /// Every variable that the script sets, with its value as written and its line.
    pub(super) fn settings(&self) -> impl Iterator<Item = (String, super::shell::Word, u32)> {
        self.commands.iter().flat_map(move |command| {
            let words = match command.program().as_deref() {
                None => &command.words[..],
                Some("export" | "declare") => &command.words[1..],
                Some(_) => &[],
            };
            let line = self.line(command.line);
            words
                .iter()
                .filter_map(super::shell::assignment)
                .map(move |(name, value)| (name, value, line))
        })
    }
}

/// What a rule saw: a line, and what stands there.
pub(super) type Seen = (Option<u32>, String);

/// One rule.
pub(super) struct Rule {
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// What is wrong in general.
    pub(super) title: &'static str,
    /// What to do.
    pub(super) cure: &'static str,
    pub(super) find: fn(&Facts<'_>) -> Vec<Seen>,
}

fn rules() -> impl Iterator<Item = &'static Rule> {
    asking::RULES
        .iter()
        .chain(launching::RULES)
        .chain(meeting::RULES)
        .chain(shape::RULES)
        .chain(moving::RULES)
}

/// Every rule: id, severity, title.
pub fn ids() -> impl Iterator<Item = (&'static str, Severity, &'static str)> {
    rules().map(|rule| (rule.id, rule.severity, rule.title))
}

/// Everything that is wrong, the most severe first, then by line.
pub(super) fn findings(facts: &Facts<'_>) -> Vec<ImportFinding> {
    let mut findings: Vec<ImportFinding> = rules()
        .flat_map(|rule| {
            (rule.find)(facts).into_iter().map(|(line, evidence)| ImportFinding {
                rule: rule.id,
                severity: rule.severity,
                title: rule.title,
                line,
                evidence,
                cure: rule.cure,
            })
        })
        .collect();
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.line));
    findings
}
