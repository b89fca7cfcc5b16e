//! Facts about a script, and what a rule is: data with a function from facts to what it found. It
//! never guesses, and reports nothing that is uncertain. The rules are in `rules`.

use muster_model::check::Severity;
use muster_model::imported::{ImportedOption, LaunchMode};

use super::draft::DraftGroup;
use super::geometry::Geometry;
use super::launch::LaunchCommand;
use super::read::BatchScript;
use super::shell::ShellCommand;
use super::sizes::RequestedSizes;
use super::variables::ShellVariables;

/// Facts about a script that rules examine.
pub(super) struct ScriptFacts<'a> {
    pub(super) script: &'a BatchScript<'a>,
    /// Sizes of the first component.
    pub(super) sizes: &'a RequestedSizes,
    pub(super) commands: &'a [ShellCommand],
    /// Results for all options.
    pub(super) options: &'a [ImportedOption],
    /// Resources of the job's groups.
    pub(super) groups: &'a [DraftGroup],
    /// Mode in which the job's tasks run the script.
    pub(super) how: LaunchMode,
    pub(super) steps: &'a [(LaunchCommand, Geometry)],
    /// Variables at the end of the script.
    pub(super) variables: &'a ShellVariables,
}

impl ScriptFacts<'_> {
    /// Converts a line of the body to a line of the script.
    pub(super) fn line(&self, of_body: u32) -> u32 {
        u32::try_from(self.script.body).unwrap_or(u32::MAX).saturating_add(of_body)
    }

    /// Returns whether it certainly has more than one node.
    pub(super) fn is_multi_node(&self) -> bool {
        self.sizes.nodes.is_some_and(|(fewest, _)| fewest > 1) && self.sizes.task_count() != Some(1)
            || self.sizes.node_count().is_some_and(|nodes| nodes > 1)
    }

    /// Returns every variable that the script sets, with its value as written and its line.
    pub(super) fn settings(&self) -> impl Iterator<Item = (String, super::shell::ShellWord, u32)> {
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

/// Match of a rule: a line, and the evidence there.
pub(super) type RuleHit = (Option<u32>, String);

/// Rule about a script.
pub(super) struct ImportRule {
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// Problem in general terms.
    pub(super) title: &'static str,
    /// Next step for the user.
    pub(super) cure: &'static str,
    pub(super) find: fn(&ScriptFacts<'_>) -> Vec<RuleHit>,
}
