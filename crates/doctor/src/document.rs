//! docs/check.md and the explanation of a rule, made from the rules themselves, so that they cannot
//! say anything else than the program does.

use std::fmt::Write as _;

use crate::rules;

const INTRODUCTION: &str = "\
# Check: what is wrong with a cluster

Made by `muster __docs check` from the rules that `muster check slurm` itself asks; a test compares the two. Every id that an
answer shows is a heading here.

- A rule has three outcomes: it **passed**, it **failed**, or it was **not tested**, and then the answer says what would be needed. A file
  that nobody gave is unknown, and not a default.
- What the running cluster says goes before what files say. Defaults are those of the manual; where they depend on the version and
  nothing is set, the rule is not tested.
- A fingerprint names a finding by its rule and by what it is about, not by lines or wording. `--write-baseline` keeps those that are
  accepted; with `--baseline` they no longer count.
- With `--prove` probe jobs run where no configuration is proof: a job with one GPU sees one and can open no other; its GPU-seconds are in
  sacct; a gang that fits below one leaf switch lands there. They are small, end within seconds, and are given up when there is no room.

Severity: **high**, what the cluster promises does not hold; **medium**, jobs or people are treated wrongly now and then; **low**, something is
worse than it could be. The exit code is 1 when a finding at or above `--fail-on` (default: medium) is not in the baseline.
";

/// The whole document, as Markdown.
#[must_use]
pub fn document() -> String {
    let mut text = String::from(INTRODUCTION);
    let _ = writeln!(text, "\n## Rules for Slurm");
    for rule in rules::all() {
        let _ = writeln!(
            text,
            "\n### {}\n\n**{}**: {}\n\n- *means*: {}\n- *cure*: {}\n- *page*: [{}]({})",
            rule.id,
            rule.severity.name(),
            escaped(rule.title),
            escaped(rule.meaning),
            escaped(rule.cure),
            rule.page.name(),
            rule.page.url()
        );
    }
    text
}

/// What a line of Markdown would take for emphasis or a tag.
fn escaped(text: &str) -> String {
    text.replace('_', "\\_").replace('<', "\\<").replace('*', "\\*")
}

/// Ids of all rules with their severity and title, in their order.
pub fn ids() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    rules::all().map(|rule| (rule.id, rule.severity.name(), rule.title))
}

/// What a rule is about, for people; `None` where there is no such rule.
#[must_use]
pub fn explain(id: &str) -> Option<String> {
    let rule = rules::all().find(|rule| rule.id == id)?;
    Some(format!(
        "{} ({})\n  {}\n\n  means  {}\n  cure   {}\n  page   {}\n",
        rule.id,
        rule.severity.name(),
        rule.title,
        rule.meaning,
        rule.cure,
        rule.page.name()
    ))
}
