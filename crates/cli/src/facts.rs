//! What a workload is, as options: one per fact of the guide, read with the bounds of the table of facts, and a file of
//! facts under them. Verbs that decide from facts take these. Nothing here knows what follows from a fact.

use anyhow::Result;
use muster_model::advice::{Fact, Facts, Kind, Ruleset, Threshold, Thresholds};

use crate::exit::Failure;

/// Facts of one workload. What is given here wins over the file.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Facts of the workload (not given: one node, and no)")]
pub struct FactArgs {
    /// Of `nodes`.
    #[arg(long, value_name = "N", help = question(Fact::Nodes), allow_negative_numbers = true)]
    nodes: Option<String>,
    /// Of `tightly_coupled`.
    #[arg(long, value_name = "BOOL", help = question(Fact::TightlyCoupled), alias = "tightly_coupled",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    tightly_coupled: Option<String>,
    /// Of `bare_metal`.
    #[arg(long, value_name = "BOOL", help = question(Fact::BareMetal), alias = "bare_metal",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    bare_metal: Option<String>,
    /// Of `long_lived_services`.
    #[arg(long, value_name = "BOOL", help = question(Fact::LongLivedServices), alias = "long_lived_services",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    long_lived_services: Option<String>,
    /// Of `multi_tenant`.
    #[arg(long, value_name = "BOOL", help = question(Fact::MultiTenant), alias = "multi_tenant",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    multi_tenant: Option<String>,
    /// Of `python_native_pipeline`.
    #[arg(long, value_name = "BOOL", help = question(Fact::PythonNativePipeline),
          alias = "python_native_pipeline", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    python_native_pipeline: Option<String>,
    /// Of `edge_or_dev`.
    #[arg(long, value_name = "BOOL", help = question(Fact::EdgeOrDev), alias = "edge_or_dev",
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    edge_or_dev: Option<String>,
}

/// Which rules decide, and with which numbers.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Rules")]
pub struct RuleArgs {
    /// Set a number in the rules, such as multi-node=4; docs/advise.md lists them
    #[arg(long = "rule", value_name = "NAME=VALUE")]
    rules: Vec<String>,
    /// Whose labels: Muster's, which correct the guide in 12 of its 256 cases, or the guide's exactly
    #[arg(long, value_enum, value_name = "SET", default_value_t = RulesetArg::Default, hide_default_value = true)]
    ruleset: RulesetArg,
}

/// A set of rules, by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RulesetArg {
    /// Corrected where the guide breaks its own invariant
    Default,
    /// As the guide's labeller answers
    Guide,
}

/// A workload as options and files describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Its facts.
    pub facts: Facts,
    /// Numbers in the rules.
    pub thresholds: Thresholds,
    /// Facts that somebody gave, in the order of facts.
    pub given: Vec<Fact>,
}

impl Workload {
    /// Sets a fact that somebody gave.
    pub fn give(&mut self, fact: Fact, stored: u32) {
        self.facts.set(fact, stored);
        if let Err(place) = self.given.binary_search(&fact) {
            self.given.insert(place, fact);
        }
    }
}

impl FactArgs {
    /// Whether no option and no file says anything.
    pub fn is_empty(&self) -> bool {
        self.options().iter().all(|(_, text)| text.is_none())
    }

    /// The workload that they describe.
    pub fn read(&self) -> Result<Workload> {
        let mut workload = Workload::default();
        self.apply(&mut workload)?;
        Ok(workload)
    }

    /// Sets what the options say over what is known already.
    pub fn apply(&self, workload: &mut Workload) -> Result<()> {
        for (fact, text) in self.options() {
            if let Some(text) = text {
                workload.give(fact, stored(fact, fact.name(), text)?);
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
    /// The set that decides.
    pub fn ruleset(&self) -> Ruleset {
        match self.ruleset {
            RulesetArg::Default => Ruleset::Corrected,
            RulesetArg::Guide => Ruleset::Guide,
        }
    }

    /// Sets the numbers that `--rule` names.
    pub fn apply(&self, thresholds: &mut Thresholds) -> Result<()> {
        let mut seen = Vec::new();
        for text in &self.rules {
            let Some((name, value)) = text.split_once('=') else {
                return Err(Failure::usage(format!("`--rule {text}` gives no value"))
                    .hint("such as --rule multi-node=4")
                    .into());
            };
            let Some(threshold) = Threshold::find(name) else {
                let names: Vec<&str> = Threshold::ALL.iter().map(|threshold| threshold.name()).collect();
                return Err(Failure::usage(format!("no rule has a number called `{name}`"))
                    .hint(format!("there are {}", names.join(", ")))
                    .into());
            };
            if seen.contains(&threshold) {
                return Err(Failure::usage(format!("`--rule {name}` is given twice")).into());
            }
            seen.push(threshold);
            thresholds.set(threshold, stored(threshold.fact(), name, value)?);
        }
        Ok(())
    }
}

/// A fact's question as help.
fn question(fact: Fact) -> String {
    let text = fact.question();
    let (first, rest) = text.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

/// Reads a value with the bounds of a fact; `name` is what the user wrote it for.
pub fn stored(fact: Fact, name: &str, text: &str) -> Result<u32, Failure> {
    let refused = |why: String| Err(Failure::usage(format!("`{name}` {why}")));
    let shown = muster_report::style::shorten(text, 40);
    match fact.kind() {
        Kind::Flag => match text {
            "true" => Ok(1),
            "false" => Ok(0),
            _ => refused(format!("is true or false, not `{shown}`")),
        },
        Kind::Count { min, max, .. } => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return refused(format!("is a whole number, such as {}, not `{shown}`", min.max(4)));
            }
            match text.parse::<u32>() {
                Ok(value) if (min..=max).contains(&value) => Ok(value),
                _ if text.starts_with('-') || text.parse() == Ok(0u32) => {
                    refused(format!("is at least {min}, not {shown}"))
                }
                _ => refused(format!("is at most {max}, not {shown}")),
            }
        }
        Kind::Hundredths { max } => {
            let hundredths = hundredths(text).filter(|value| *value <= max);
            hundredths.map_or_else(
                || {
                    let most = fact.value(max);
                    refused(format!("is a number from 0 to {most} with at most two decimals, not `{shown}`"))
                },
                Ok,
            )
        }
    }
}

/// `0.25` as 25; `None` for anything but digits with up to two decimals.
fn hundredths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(part) || part.len() > 2 {
        return None;
    }
    let part = part.parse::<u32>().ok()? * if part.len() == 1 { 10 } else { 1 };
    whole.parse::<u32>().ok()?.checked_mul(100)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_within_the_bounds_of_their_fact() {
        let check = |fact: Fact, text: &str, expected: Result<u32, &str>| {
            let read = stored(fact, fact.name(), text).map_err(|failure| failure.message);
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        };
        check(Fact::Nodes, "4", Ok(4));
        check(Fact::Nodes, "0", Err("`nodes` is at least 1, not 0"));
        check(Fact::Nodes, "-3", Err("`nodes` is at least 1, not -3"));
        check(Fact::Nodes, "-0", Err("`nodes` is at least 1, not -0"));
        check(Fact::Nodes, "1.5", Err("`nodes` is a whole number, such as 4, not `1.5`"));
        check(Fact::Nodes, "+4", Err("`nodes` is a whole number, such as 4, not `+4`"));
        check(Fact::Nodes, "", Err("`nodes` is a whole number, such as 4, not ``"));
        check(Fact::Nodes, "four", Err("`nodes` is a whole number, such as 4, not `four`"));
        check(
            Fact::Nodes,
            "100000000000000000000",
            Err("`nodes` is at most 10000000, not 100000000000000000000"),
        );
        check(Fact::BareMetal, "true", Ok(1));
        check(Fact::BareMetal, "false", Ok(0));
        check(Fact::BareMetal, "yes", Err("`bare_metal` is true or false, not `yes`"));
        check(Fact::PlatformFte, "0.25", Ok(25));
        check(Fact::PlatformFte, "1.5", Ok(150));
        check(Fact::PlatformFte, "2", Ok(200));
        for text in ["0.255", "-1", "1e3", "1001", ".5", "1."] {
            assert!(stored(Fact::PlatformFte, "platform-fte", text).is_err(), "{text}");
        }
    }
}
