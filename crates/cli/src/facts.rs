//! Options that describe a workload: one per fact of the guide, and a file of facts that they
//! override. `muster-spec` parses the values as if they were in a file, so that errors are the same
//! for both. What follows from a fact is decided in `muster-advise`.

use std::path::PathBuf;

use anyhow::Result;
use muster_model::advice::{Fact, Facts, Ruleset, Threshold, Thresholds};
use muster_report::style::shorten;
use muster_spec::{Diagnostics, FactsFile};

use crate::exit::Failure;
use crate::source;

/// Required fields of a site file, added when a single threshold is parsed as one.
const SMALLEST_SITE: &str = "fleet: {nodes: 1, gpus: 1}\npeople: {users: 1}\n";

/// Facts of one workload. Options override the file.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Facts of the workload (default: one node, all others false)")]
pub struct FactArgs {
    /// Value of the fact `nodes`.
    #[arg(long, value_name = "N", help = question(Fact::Nodes), allow_negative_numbers = true)]
    nodes: Option<String>,
    /// Value of the fact `tightly_coupled`.
    #[arg(long, value_name = "BOOL", help = question(Fact::TightlyCoupled), alias = "tightly_coupled",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    tightly_coupled: Option<String>,
    /// Value of the fact `bare_metal`.
    #[arg(long, value_name = "BOOL", help = question(Fact::BareMetal), alias = "bare_metal",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    bare_metal: Option<String>,
    /// Value of the fact `long_lived_services`.
    #[arg(long, value_name = "BOOL", help = question(Fact::LongLivedServices), alias = "long_lived_services",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    long_lived_services: Option<String>,
    /// Value of the fact `multi_tenant`.
    #[arg(long, value_name = "BOOL", help = question(Fact::MultiTenant), alias = "multi_tenant",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    multi_tenant: Option<String>,
    /// Value of the fact `python_native_pipeline`.
    #[arg(long, value_name = "BOOL", help = question(Fact::PythonNativePipeline),
          alias = "python_native_pipeline", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    python_native_pipeline: Option<String>,
    /// Value of the fact `edge_or_dev`.
    #[arg(long, value_name = "BOOL", help = question(Fact::EdgeOrDev), alias = "edge_or_dev",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    edge_or_dev: Option<String>,
    /// Read facts from a YAML file; - is stdin. Facts given as options override it
    #[arg(long, value_name = "FILE")]
    facts: Option<PathBuf>,
}

/// Rule set, and thresholds in it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Rules")]
pub struct RuleArgs {
    /// Set a threshold of the rules, such as multi-node=4; docs/advise.md lists them
    #[arg(long = "rule", value_name = "NAME=VALUE")]
    rules: Vec<String>,
    /// Rule set: Muster's, which corrects the guide in 12 of its 256 cases, or the guide's, exactly
    #[arg(long, value_enum, value_name = "SET", default_value_t = RulesetArg::Default, hide_default_value = true)]
    ruleset: RulesetArg,
}

/// Rule set, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RulesetArg {
    /// The guide's rules, corrected where they violate the guide's own invariant
    Default,
    /// The guide's rules as its labeller implements them
    Guide,
}

/// Workload as options and files describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Values of all facts, given or default.
    pub facts: Facts,
    /// Thresholds of the rules.
    pub thresholds: Thresholds,
    /// Facts that were given explicitly, in the order of [`Fact`].
    pub given: Vec<Fact>,
}

impl From<FactsFile> for Workload {
    fn from(file: FactsFile) -> Self {
        Self { facts: file.facts, thresholds: file.thresholds, given: file.given }
    }
}

impl Workload {
    /// Sets a fact and records that it was given explicitly.
    pub fn set_given(&mut self, fact: Fact, stored: u32) {
        self.facts.set(fact, stored);
        if let Err(place) = self.given.binary_search(&fact) {
            self.given.insert(place, fact);
        }
    }
}

impl FactArgs {
    /// Returns whether no fact is given, neither as an option nor in a file.
    pub fn is_empty(&self) -> bool {
        self.facts.is_none() && self.options().iter().all(|(_, text)| text.is_none())
    }

    /// Returns whether the file is stdin.
    pub fn reads_stdin(&self) -> bool {
        self.facts.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }

    /// Returns the workload: the facts of the file, overridden by the options.
    pub fn read(&self) -> Result<Workload> {
        let mut workload = match &self.facts {
            None => Workload::default(),
            Some(path) => {
                let text = source::read(path)?;
                muster_spec::parse_facts(&text.source, text.file.as_deref())
                    .map_err(Failure::from)?
                    .into()
            }
        };
        self.apply(&mut workload)?;
        Ok(workload)
    }

    /// Overrides facts of a workload with those given as options.
    pub fn apply(&self, workload: &mut Workload) -> Result<()> {
        for (fact, text) in self.options() {
            if let Some(text) = text {
                workload.set_given(fact, parse_value(fact, text)?);
            }
        }
        Ok(())
    }

    fn options(&self) -> [(Fact, Option<&str>); 7] {
        [
            (Fact::Nodes, self.nodes.as_deref()),
            (Fact::TightlyCoupled, self.tightly_coupled.as_deref()),
            (Fact::BareMetal, self.bare_metal.as_deref()),
            (Fact::LongLivedServices, self.long_lived_services.as_deref()),
            (Fact::MultiTenant, self.multi_tenant.as_deref()),
            (Fact::PythonNativePipeline, self.python_native_pipeline.as_deref()),
            (Fact::EdgeOrDev, self.edge_or_dev.as_deref()),
        ]
    }
}

impl RuleArgs {
    /// Returns the rule set.
    pub fn ruleset(&self) -> Ruleset {
        match self.ruleset {
            RulesetArg::Default => Ruleset::Corrected,
            RulesetArg::Guide => Ruleset::Guide,
        }
    }

    /// Sets the thresholds that `--rule` names, for advice on one workload.
    pub fn apply(&self, thresholds: &mut Thresholds) -> Result<()> {
        self.set(thresholds, |entry| Ok(muster_spec::parse_facts(entry, None)?.thresholds))
    }

    /// Sets the thresholds that `--rule` names, for advice on a site.
    pub fn apply_to_site(&self, thresholds: &mut Thresholds) -> Result<()> {
        let read = |entry: &str| muster_spec::parse_site(&format!("{SMALLEST_SITE}{entry}"), None);
        self.set(thresholds, |entry| Ok(read(entry)?.thresholds))
    }

    fn set(
        &self,
        thresholds: &mut Thresholds,
        read: impl Fn(&str) -> Result<Thresholds, Diagnostics>,
    ) -> Result<()> {
        let mut seen = Vec::new();
        for text in &self.rules {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            if !is_plain(name) || value.is_empty() {
                return Err(Failure::usage(format!(
                    "`--rule {}` is not NAME=VALUE",
                    shorten(text, 40)
                ))
                .hint("for example: --rule multi-node=4")
                .into());
            }
            let set = check_plain(name, value).and_then(|()| {
                read(&format!("rules:\n  {name}: {value}\n")).map_err(without_source)
            })?;
            let threshold = Threshold::find(&name.replace('_', "-"))
                .expect("spec refuses what is no threshold");
            if seen.contains(&threshold) {
                return Err(Failure::usage(format!("`--rule {name}` is given twice")).into());
            }
            seen.push(threshold);
            thresholds.set(threshold, set.get(threshold));
        }
        Ok(())
    }
}

/// Returns the question of a fact as a help text.
fn question(fact: Fact) -> String {
    let text = fact.question();
    let (first, rest) = text.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

/// Parses the value of a fact as typed, within the bounds of the fact.
pub fn parse_value(fact: Fact, text: &str) -> Result<u32, Failure> {
    check_plain(fact.name(), text)?;
    let file = muster_spec::parse_facts(&format!("{}: {text}\n", fact.name()), None)
        .map_err(without_source)?;
    Ok(file.facts.get(fact))
}

/// Rejects text that would be more than one scalar when written after `name:` in a file.
pub fn check_plain(name: &str, text: &str) -> Result<(), Failure> {
    if is_plain(text) {
        Ok(())
    } else {
        let shown = shorten(text, 40);
        Err(Failure::usage(format!("`{name}` is a number, `true` or `false`, not `{shown}`")))
    }
}

fn is_plain(text: &str) -> bool {
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-^,".contains(&byte);
    !text.is_empty() && text.bytes().all(may_stand)
}

/// Converts the first diagnostic about a value from the command line, without a source line.
pub fn without_source(complaints: Diagnostics) -> Failure {
    let first = complaints.iter().next().expect("a refusal holds a complaint");
    let failure = if first.label.is_empty() {
        Failure::usage(first.message.clone())
    } else {
        Failure::usage(format!("{}: {}", first.message, first.label))
    };
    match &first.hint {
        Some(hint) => failure.hint(hint.clone()),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_in_a_file() {
        let check = |fact: Fact, text: &str, expected: Result<u32, &str>| {
            let read = parse_value(fact, text).map_err(|failure| failure.message);
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        };
        let no_count =
            |why: &str| format!("`nodes` is not a whole number from 1 to 10000000: {why}");
        check(Fact::Nodes, "4", Ok(4));
        check(Fact::Nodes, "0", Err(&no_count("the smallest is 1")));
        check(Fact::Nodes, "-3", Err(&no_count("below 1")));
        check(Fact::Nodes, "1.5", Err(&no_count("not a fraction")));
        check(Fact::Nodes, "100000000000000000000", Err(&no_count("above 10000000")));
        check(Fact::Nodes, "four", Err(&no_count("expected digits only, such as `4`")));
        check(Fact::BareMetal, "true", Ok(1));
        check(Fact::BareMetal, "false", Ok(0));
        check(Fact::BareMetal, "yes", Err("`bare_metal` is not true or false: write `true`"));
    }

    #[test]
    fn a_value_cannot_smuggle_in_another() {
        for text in ["4\nbare_metal: true", "4 # four", "{a: 1}", "[4]", "'4'", "&a 4", "*a", ""] {
            let refused = parse_value(Fact::Nodes, text).unwrap_err().message;
            assert!(
                refused.starts_with("`nodes` is a number, `true` or `false`, not `"),
                "{refused}"
            );
        }
    }
}
