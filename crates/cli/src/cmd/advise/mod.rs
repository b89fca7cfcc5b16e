//! `muster advise`: facts in, the control plane that fits out. Decided in `muster-advise`, written
//! in `muster-report`.

mod answer;
mod ask;
mod batch;
mod expect;
mod next;
mod prove;
mod questions;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_model::QueueTree;
use muster_model::advice::{Facts, SiteAdvice, SiteProfile};
use muster_report::advise::Depth;
use serde_json::json;

use self::answer::{Answer, Field, Picked};
use self::batch::{Batch, Count};
use self::prove::ProveArgs;
use crate::app::App;
use crate::args::Format;
use crate::exit::{Failure, INTERRUPTED, USAGE};
use crate::facts::{FactArgs, RuleArgs, Workload};
use crate::source;

/// What help ends with.
const EXAMPLES: &str = "\
Examples:
  muster advise                                              asks, one question at a time
  muster advise --nodes 4 --tightly-coupled --bare-metal
  muster advise --facts facts.yaml --multi-tenant=false      options win over the file
  muster advise --job train.yaml --bare-metal                what the job does not tell
  muster advise --site site.yaml --details
  muster advise --site site.yaml --prove --gpu-hour-price 2.5
  muster advise --batch --fields primary,addon,hybrid < facts.jsonl
  muster advise --facts facts.yaml --json > decision.json    commit both; then, in CI:
  muster advise --facts facts.yaml --expect decision.json

A facts file has the names of the facts, `nodes: 4`, and may set numbers of rules under `rules:`. \
`muster schema` describes what goes in and out: facts, site, advice, site-advice. Every [id] is \
explained in docs/advise.md.

Exit codes: 1 when the answer is not what --expect names, 2 when facts are wrong (in a batch, those of any line).";

/// Say which control plane fits a workload or a site, why, and what would change the answer
///
/// Slurm, Kubernetes, k3s, Ray on one of them, or, for a site, none. Facts that are not given are
/// false, and one node. The same facts always get the same answer; no daemon is needed. Without any
/// facts, on a terminal, they are asked for.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    facts: FactArgs,

    /// Read what a Muster job file tells of its job, nodes and coupling; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "facts", help_heading = "Other inputs")]
    job: Option<PathBuf>,
    /// Advise a site, described in a YAML file: fleet, people, needs and mix of work; - is stdin
    #[arg(long, value_name = "FILE", group = "input", conflicts_with_all = ["facts", "job"], help_heading = "Other inputs")]
    site: Option<PathBuf>,
    /// Read facts as lines of JSON from stdin and answer each with a line of JSON
    #[arg(long, group = "input", conflicts_with_all = ["facts", "job"], help_heading = "Other inputs")]
    batch: bool,
    /// Ask for the facts that are not given, as far as they can still change the answer
    #[arg(long, group = "input", help_heading = "Other inputs")]
    ask: bool,

    #[command(flatten)]
    rules: RuleArgs,

    #[command(flatten)]
    prove: ProveArgs,

    /// Show everything: sources, how failures show and what cures them, what each page says where
    /// they disagree
    #[arg(long, conflicts_with = "form", conflicts_with = "batch", help_heading = "Output")]
    details: bool,
    /// Write JSON, as docs/schema/advice.schema.json describes it
    #[arg(long, group = "form", help_heading = "Output")]
    json: bool,
    /// Write in this format
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    output: Option<Format>,
    /// Write only these keys, as one line of JSON, in the order of the answer: primary, addon,
    /// hybrid, rules, warnings, composition, flips, disputes; of a site also workloads, sharing,
    /// notebooks, operations
    #[arg(
        long,
        value_enum,
        value_name = "KEY,...",
        value_delimiter = ',',
        group = "form",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    fields: Option<Vec<Field>>,
    /// Draw what rides on what as a mermaid flow chart
    #[arg(long, conflicts_with_all = ["form", "output", "batch", "expect"], help_heading = "Output")]
    mermaid: bool,
    /// Compare with an answer that --json or --fields printed (in a batch, with such lines); exit 1
    /// with what differs
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    expect: Option<PathBuf>,

    /// Words that belong to no option.
    #[arg(hide = true, value_name = "WORD")]
    stray: Vec<String>,
}

/// Runs the verb.
pub async fn run(app: &App, args: &Args) -> Result<u8> {
    if let Some(word) = args.stray.first() {
        return Err(stray(word).into());
    }
    if args.prove.prove {
        return proved(app, args).await;
    }
    if args.expect.as_ref().is_some_and(|path| path.as_os_str() == "-") && args.reads_stdin() {
        return Err(Failure::usage("stdin cannot hold the facts and what is expected, too")
            .hint("--expect takes a file")
            .into());
    }
    if args.batch {
        return batch(app, args);
    }
    let Some(answer) = answer(app, args)? else { return Ok(INTERRUPTED) };
    match &args.expect {
        Some(path) => compare(app, args, &answer, path),
        None => {
            print(app, args, &answer)?;
            Ok(0)
        }
    }
}

/// Advice on a site, and what a simulation shows beside it.
async fn proved(app: &App, args: &Args) -> Result<u8> {
    let Some(path) = &args.site else {
        return Err(Failure::usage(
            "`--prove` takes a site: one workload says nothing of a fleet or of its load",
        )
        .hint("`muster advise --site site.yaml --prove`; docs/site.md has what stands in it")
        .into());
    };
    if path.as_os_str() == "-" && args.prove.reads_stdin() {
        return Err(Failure::usage("stdin cannot hold the site and the trace, too").into());
    }
    let (profile, mut advice) = site(args, path)?;
    let is_whole = prove::run(app, &args.prove, &profile, &mut advice).await?;
    print(app, args, &Answer::Site(Box::new(advice)))?;
    Ok(if is_whole { 0 } else { INTERRUPTED })
}

impl Args {
    /// Whether facts come from stdin.
    fn reads_stdin(&self) -> bool {
        let is_stdin =
            |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str() == "-");
        self.batch
            || self.ask
            || self.facts.reads_stdin()
            || is_stdin(&self.job)
            || is_stdin(&self.site)
    }
}

/// A word that belongs to no option, and what it may have been meant for.
fn stray(word: &str) -> Failure {
    let failure = Failure::usage(format!("`{word}` belongs to no option"));
    let is_flag = |word: &str| ["true", "false", "yes", "no", "on", "off"].contains(&word);
    let is_file = |word: &str| Path::new(word).extension().is_some() || Path::new(word).exists();
    match word {
        word if is_flag(&word.to_lowercase()) => {
            failure.hint("a flag takes its value after `=`: --bare-metal=false")
        }
        word if word.parse::<f64>().is_ok() => {
            failure.hint(format!("how many nodes a job spans is --nodes {word}"))
        }
        word if is_file(word) => failure.hint("a file comes after --facts, --site or --job"),
        _ => failure
            .hint("facts are options, such as --bare-metal; `muster advise --help` lists them"),
    }
}

/// The answer to whatever was given; `None` when somebody left the interview.
fn answer(app: &App, args: &Args) -> Result<Option<Answer>> {
    if let Some(path) = &args.site {
        let (_, advice) = site(args, path)?;
        return Ok(Some(Answer::Site(Box::new(advice))));
    }
    let nothing = args.facts.is_empty() && args.job.is_none();
    let (mut workload, ask) = match nothing && !args.ask {
        false => (workload(app, args)?, args.ask),
        true if io::stdin().is_terminal() && app.ui.status_is_terminal() => {
            (Workload::default(), true)
        }
        true => {
            return Err(Failure::usage("nothing is known of the workload")
                .hint("such as `muster advise --nodes 4 --tightly-coupled`; `muster advise --help` has every fact")
                .hint("`muster advise --ask` asks for them")
                .into());
        }
    };
    args.rules.apply(&mut workload.thresholds)?;
    if ask {
        let end = ask::interview(app, &mut workload, &args.rules)?;
        let again = ask::as_options(&workload, args.rules.ruleset());
        match end {
            ask::End::Answered => {
                app.ui.status(&format!("the same without questions: muster advise {again}\n"))
            }
            ask::End::Left => {
                app.ui.status("\nleft; nothing was advised");
                app.ui.hint(&format!("`muster advise {again}` takes what is not given as no"));
                return Ok(None);
            }
        }
    }
    let advice = muster_advise::advise(&workload.facts, &workload.thresholds, args.rules.ruleset());
    Ok(Some(Answer::Workload(Box::new(advice))))
}

fn site(args: &Args, path: &Path) -> Result<(SiteProfile, SiteAdvice)> {
    if !args.facts.is_empty() {
        return Err(Failure::usage("facts of a workload say nothing of a site")
            .hint("write them under `mix:` in the site file")
            .into());
    }
    let text = source::read(path)?;
    let mut site =
        muster_spec::parse_site(&text.source, text.file.as_deref()).map_err(Failure::from)?;
    args.rules.apply_to_site(&mut site.thresholds)?;
    let advice = muster_advise::advise_site(&site, args.rules.ruleset());
    Ok((site, advice))
}

/// The facts from files and options.
fn workload(app: &App, args: &Args) -> Result<Workload> {
    let Some(path) = &args.job else { return args.facts.read() };
    let mut workload = Workload::default();
    for (fact, why) in job_facts(path, &mut workload.facts)? {
        workload.give(fact, workload.facts.get(fact));
        let value = workload.facts.value(fact);
        app.ui.status(&format!("{}: {fact} {value}: {why}", path.display()));
    }
    args.facts.apply(&mut workload)?;
    let open = muster_advise::UNSEEN.iter().filter(|fact| !workload.given.contains(fact));
    let open: Vec<&str> = open.map(|fact| fact.name()).collect();
    if !open.is_empty() && !args.ask {
        app.ui.status(&format!("a job does not tell, so no unless given: {}", open.join(", ")));
    }
    Ok(workload)
}

/// Sets the facts of the one job in a file, and answers which it tells and why.
fn job_facts(
    path: &Path,
    facts: &mut Facts,
) -> Result<Vec<(muster_model::advice::Fact, &'static str)>> {
    let text = source::read(path)?;
    // Which queues there are is the daemon's to know, and tells nothing of the job's shape.
    let queues = QueueTree::single();
    let queue = json!({ "queue": queues.default_queue.0 });
    let overrides = queue.as_object().cloned().unwrap_or_default();
    let documents = muster_spec::parse(&text.source, text.file.as_deref(), &overrides)
        .map_err(Failure::from)?;
    let site = muster_spec::Site::new("advise".into(), [], &queues);
    let checked = muster_spec::check_all(&documents, &site).map_err(Failure::from)?;
    let [job] = checked.as_slice() else {
        return Err(Failure::usage(format!(
            "{} holds {} jobs, and advice is on one",
            path.display(),
            checked.len()
        ))
        .hint("one job per file, or one line of facts per job with --batch")
        .into());
    };
    let (read, told) = muster_advise::facts_of(&job.spec);
    *facts = read;
    Ok(told)
}

fn print(app: &App, args: &Args, answer: &Answer) -> Result<()> {
    if let Some(fields) = &args.fields {
        return Ok(app
            .ui
            .bytes((serde_json::to_string(&Picked::of(answer, fields))? + "\n").as_bytes())?);
    }
    if args.json || args.output == Some(Format::Json) {
        return app.ui.json(answer);
    }
    if args.mermaid {
        return Ok(app.ui.data(&muster_report::advise::mermaid(&answer.advice().composition))?);
    }
    let is_site = matches!(answer, Answer::Site(_));
    let next = next::steps(answer.advice(), is_site, args.details);
    let depth = Depth { details: args.details, next };
    let style = app.ui.style();
    let text = match answer {
        Answer::Workload(advice) => muster_report::advise::advice(advice, &depth, &style),
        Answer::Site(advice) => muster_report::advise::site(advice, &depth, &style),
    };
    Ok(app.ui.data(&text)?)
}

/// Says whether the answer is the committed one.
fn compare(app: &App, args: &Args, answer: &Answer, path: &Path) -> Result<u8> {
    let mut expected = expect::read(path)?;
    // A decision is committed with the figures that stood beside it; they are no part of it.
    if let Some(answer) = expected.as_object_mut() {
        answer.remove("proof");
    }
    let differences = expect::differences(&expected, &answer.value()?, args.fields.as_deref());
    let differences = expect::Differences::from(differences);
    if differences.is_empty() {
        let headline = muster_report::advise::headline(&answer.advice().label);
        app.ui.status(&format!("as {} expects: {headline}", path.display()));
        return Ok(0);
    }
    Err(expect::failure(path, &differences, &expect::again(&expected)).into())
}

fn batch(app: &App, args: &Args) -> Result<u8> {
    if !args.facts.is_empty() {
        return Err(Failure::usage("in a batch every line brings its own facts")
            .hint("--rule and --ruleset apply to all lines")
            .into());
    }
    // A mistake in `--rule` is told once, and before anything is read.
    args.rules.apply(&mut Workload::default().thresholds)?;
    let batch = Batch::new(&args.rules, args.fields.as_deref());
    if io::stdin().is_terminal() {
        app.ui.status("one JSON object per line, such as {\"nodes\": 4}; Ctrl-D ends");
    }
    let Some(path) = &args.expect else {
        let count = batch.print()?;
        say_refused(app, count);
        return Ok(if count.refused > 0 { USAGE } else { 0 });
    };
    let mut expected = expect::Lines::open(path, args.fields.as_deref())?;
    let count = batch.each(|answer, _| expected.compare(answer))?;
    expected.finish()?;
    say_refused(app, count);
    if expected.differences.is_empty() {
        let lines = muster_report::amount::count(count.lines as u64, "line");
        app.ui.status(&format!("as {} expects: {lines}", path.display()));
        return Ok(0);
    }
    Err(expect::failure(path, &expected.differences, &expect::again(&expected.first)).into())
}

fn say_refused(app: &App, count: Count) {
    if count.refused > 0 {
        let lines = muster_report::amount::count(count.lines as u64, "line");
        app.ui.warning(&format!(
            "{} of {lines} refused; the answer in its place says why",
            count.refused
        ));
    }
}

#[cfg(test)]
mod tests {
    use muster_model::advice::{Fact, Ruleset, Thresholds};
    use muster_report::Style;

    use super::*;

    /// Every answer to one workload fits one screen, with everything that must be seen at once.
    #[test]
    fn every_answer_fits_one_screen() {
        let flags = &Fact::WORKLOAD[1..];
        let mut tallest = 0;
        for combination in 0..1u32 << flags.len() {
            for nodes in [1, 2, 8, 16] {
                let mut facts = Facts::default().with(Fact::Nodes, nodes);
                for (bit, flag) in flags.iter().enumerate() {
                    facts.set(*flag, combination >> bit & 1);
                }
                let advice =
                    muster_advise::advise(&facts, &Thresholds::default(), Ruleset::Corrected);
                let depth = Depth { details: false, next: next::steps(&advice, false, false) };
                for width in [80, 100] {
                    let style = Style::plain().with_width(width);
                    let text = muster_report::advise::advice(&advice, &depth, &style);
                    assert!(
                        text.lines().all(|line| line.chars().count() <= width),
                        "{width}:\n{text}"
                    );
                    assert!(
                        !advice.label.addon.contains("REQUIRED") || text.contains("\n  required "),
                        "{text}"
                    );
                    assert!(text.contains("\n  because ") && text.contains("\n  stack "), "{text}");
                    tallest = tallest.max(text.lines().count());
                }
            }
        }
        assert!(tallest < 24, "{tallest} lines: the prompt needs one");
    }
}
