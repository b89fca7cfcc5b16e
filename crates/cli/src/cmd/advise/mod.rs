//! `muster advise`: recommends a control plane for a workload or site. `muster-advise` decides,
//! `muster-report` renders the answer.

mod answer;
mod ask;
mod ask_site;
mod batch;
mod dialogue;
mod expect;
mod next;
mod prove;
mod questions;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_model::QueueTree;
use muster_model::advice::{Fact, Facts, SiteAdvice, SiteProfile};
use muster_model::payload::TaskCommand;
use muster_report::advise::AdviceOptions;
use serde_json::json;

use self::answer::{AdviceAnswer, AnswerField, SelectedFields};
use self::batch::{AdviseBatch, BatchCounts};
use self::dialogue::InterviewEnd;
use self::next::NextInput;
use self::prove::AdviseProveArgs;
use crate::app::App;
use crate::args::OutputFormat;
use crate::exit::{Failure, INTERRUPTED, USAGE};
use crate::facts::{FactArgs, RuleArgs, Workload};
use crate::{points_file, source};

/// Last section of the help.
const EXAMPLES: &str = "\
Examples:
  muster advise                                              asks, one question at a time
  muster advise --nodes 4 --tightly-coupled --bare-metal
  muster advise --facts facts.yaml --multi-tenant=false      options override the file
  muster advise --job train.yaml --bare-metal                a fact that the job does not show
  muster advise --ask --site site.yaml                       asks for a site, and writes the file
  muster advise --site site.yaml --more                      everything in short; --details adds sources
  muster advise --site site.yaml --prove --gpu-hour-price 2.5
  muster advise --batch --fields primary,addon,hybrid < facts.jsonl
  muster advise --facts facts.yaml --json > decision.json    commit both; then, in CI:
  muster advise --facts facts.yaml --expect decision.json

A facts file has the facts by name, such as `nodes: 4`, and may set thresholds of rules under `rules:`. \
`muster schema` prints the schemas of input and output: facts, site, advice, site-advice. Every [id] is \
explained in docs/advise.md.

Exit codes: 1 if the answer differs from --expect, 2 if facts are invalid (in a batch, those of any line).";

/// Recommend a control plane for a workload or a site, with the reasons and what would change the
/// answer
///
/// The answer is Slurm, Kubernetes, k3s, Ray on one of them, or, for a site, none. By default a
/// workload has one node and all other facts are false. The same facts always give the same answer;
/// no daemon is needed. Without any facts, on a terminal, the command asks for them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct AdviseArgs {
    #[command(flatten)]
    facts: FactArgs,

    /// Take the number of nodes and the coupling from a Muster job file; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with = "facts", help_heading = "Other inputs")]
    job: Option<PathBuf>,
    /// Advise a site, described in a YAML file: fleet, people, needs and workload mix; - is stdin
    #[arg(long, value_name = "FILE", group = "input", conflicts_with_all = ["facts", "job"], help_heading = "Other inputs")]
    site: Option<PathBuf>,
    /// Read facts from stdin, one JSON object per line, and answer each with a line of JSON
    #[arg(long, group = "input", conflicts_with_all = ["facts", "job"], help_heading = "Other inputs")]
    batch: bool,
    /// Ask for the facts that are not given and can still change the answer; with --site ask for a
    /// site, and write its file
    #[arg(long, conflicts_with = "batch", help_heading = "Other inputs")]
    ask: bool,

    #[command(flatten)]
    rules: RuleArgs,

    #[command(flatten)]
    prove: AdviseProveArgs,

    /// Show everything: sources, symptoms and fixes of failures, and what each page says where
    /// pages disagree
    #[arg(long, conflicts_with = "form", conflicts_with = "batch", help_heading = "Output")]
    details: bool,
    /// Show every reason, flip, dispute and failure, without sources, symptoms and fixes
    #[arg(long, conflicts_with_all = ["form", "batch", "details"], help_heading = "Output")]
    more: bool,
    /// Write JSON, as described by docs/schema/advice.schema.json
    #[arg(long, group = "form", help_heading = "Output")]
    json: bool,
    /// Format of the output
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", help_heading = "Output")]
    output: Option<OutputFormat>,
    /// Write only these keys, as one line of JSON, in the order of the answer: primary, addon,
    /// hybrid, rules, warnings, composition, flips, disputes; for a site also asked, staying,
    /// workloads, sharing, notebooks, operations, first-week
    #[arg(
        long,
        value_enum,
        value_name = "KEY,...",
        value_delimiter = ',',
        group = "form",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    fields: Option<Vec<AnswerField>>,
    /// Write the composition (which layer runs on which) as a mermaid flow chart
    #[arg(long, conflicts_with_all = ["form", "output", "batch", "expect"], help_heading = "Output")]
    mermaid: bool,
    /// Compare with an answer that --json or --fields wrote (in a batch, with such lines); if they
    /// differ, print the differences and exit with 1
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    expect: Option<PathBuf>,

    /// Positional arguments, which are errors.
    #[arg(hide = true, value_name = "WORD")]
    stray: Vec<String>,
}

/// Runs `muster advise`; returns its exit code.
pub async fn run(app: &App, args: &AdviseArgs) -> Result<u8> {
    if let Some(word) = args.stray.first() {
        return Err(unexpected_argument(word).into());
    }
    if let (true, Some(path)) = (args.ask, &args.site)
        && let InterviewEnd::Left = ask_site::interview(app, path, &args.rules)?
    {
        return Ok(INTERRUPTED);
    }
    if args.prove.prove {
        return advise_with_proof(app, args).await;
    }
    if args.expect.as_ref().is_some_and(|path| path.as_os_str() == "-") && args.reads_stdin() {
        return Err(Failure::usage("facts and --expect cannot both be read from stdin")
            .hint("give --expect a file")
            .into());
    }
    if args.batch {
        return batch(app, args);
    }
    let Some((answer, site)) = answer(app, args)? else { return Ok(INTERRUPTED) };
    match &args.expect {
        Some(path) => compare(app, args, &answer, path),
        None => {
            print(app, args, &answer, site.as_ref())?;
            Ok(0)
        }
    }
}

/// Prints advice on a site with a simulation of it.
async fn advise_with_proof(app: &App, args: &AdviseArgs) -> Result<u8> {
    let Some(path) = &args.site else {
        return Err(Failure::usage(
            "`--prove` needs a site: a single workload does not describe the fleet or its load",
        )
        .hint("`muster advise --site site.yaml --prove`; docs/site.md describes the file")
        .into());
    };
    if path.as_os_str() == "-" && args.prove.reads_stdin() {
        return Err(Failure::usage("--site and --trace cannot both be read from stdin").into());
    }
    let (profile, mut advice) = site(args, path)?;
    if args.writes_json() {
        let is_whole = prove::run(app, &args.prove, &profile, &mut advice).await?;
        print(app, args, &AdviceAnswer::Site(Box::new(advice)), Some(&profile))?;
        return Ok(if is_whole { 0 } else { INTERRUPTED });
    }
    // The advice does not depend on the figures, so it is shown while they are computed.
    let details = args.details || args.more;
    let input = NextInput { site: Some(&profile), site_file: Some(path), job: None, details };
    let depth = AdviceOptions {
        details: args.details,
        more: args.more,
        rows: app.ui.height(),
        next: Vec::new(),
    };
    app.ui.data(&muster_report::advise::site(&advice, &depth, app.ui.context()))?;
    let is_whole = prove::run(app, &args.prove, &profile, &mut advice).await?;
    let depth = AdviceOptions { next: next::steps(&advice.advice, input), ..depth };
    app.ui.data(&muster_report::advise::site_proof(&advice, &depth, app.ui.context()))?;
    Ok(if is_whole { 0 } else { INTERRUPTED })
}

impl AdviseArgs {
    /// Returns whether the answer is written as JSON.
    fn writes_json(&self) -> bool {
        self.json || self.output == Some(OutputFormat::Json)
    }

    /// Returns whether facts are read from stdin.
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

/// Returns an error for a positional argument, with the option that was probably meant.
fn unexpected_argument(word: &str) -> Failure {
    let failure = Failure::usage(format!("unexpected argument `{word}`"));
    let is_flag = |word: &str| ["true", "false", "yes", "no", "on", "off"].contains(&word);
    let is_file = |word: &str| Path::new(word).extension().is_some() || Path::new(word).exists();
    match word {
        word if is_flag(&word.to_lowercase()) => {
            failure.hint("the value of a flag follows `=`: --bare-metal=false")
        }
        word if word.parse::<f64>().is_ok() => {
            failure.hint(format!("for the number of nodes of a job: --nodes {word}"))
        }
        word if is_file(word) => failure.hint("a file follows --facts, --site or --job"),
        _ => failure
            .hint("facts are options, such as --bare-metal; `muster advise --help` lists them"),
    }
}

/// Returns the advice on the given workload, or on a site and the site; `None` if the user left the interview.
fn answer(app: &App, args: &AdviseArgs) -> Result<Option<(AdviceAnswer, Option<SiteProfile>)>> {
    if let Some(path) = &args.site {
        let (profile, advice) = site(args, path)?;
        return Ok(Some((AdviceAnswer::Site(Box::new(advice)), Some(profile))));
    }
    let nothing = args.facts.is_empty() && args.job.is_none();
    let is_interactive = io::stdin().is_terminal() && app.ui.status_is_terminal();
    let (mut workload, ask) = if !nothing || args.ask {
        (workload(app, args)?, args.ask)
    } else if is_interactive {
        (Workload::default(), true)
    } else {
        return Err(Failure::usage("no facts of the workload are given")
            .hint("for example `muster advise --nodes 4 --tightly-coupled`; `muster advise --help` lists the facts")
            .hint("`muster advise --ask` asks for them")
            .into());
    };
    args.rules.apply(&mut workload.thresholds)?;
    if ask {
        let end = ask::interview(app, &mut workload, &args.rules)?;
        let again = ask::as_options(&workload, args.rules.ruleset());
        match end {
            InterviewEnd::Answered => {
                app.ui.status(&format!("same answer without questions: muster advise {again}\n"))
            }
            InterviewEnd::Left => {
                app.ui.status("\nquit; no advice was given");
                app.ui.hint(&format!("`muster advise {again}` takes the other facts as false"));
                return Ok(None);
            }
        }
    }
    let advice = muster_advise::advise(&workload.facts, &workload.thresholds, args.rules.ruleset());
    Ok(Some((AdviceAnswer::Workload(Box::new(advice)), None)))
}

fn site(args: &AdviseArgs, path: &Path) -> Result<(SiteProfile, SiteAdvice)> {
    if !args.facts.is_empty() {
        return Err(Failure::usage("facts of a workload cannot be combined with --site")
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

/// Reads the facts from files and options.
fn workload(app: &App, args: &AdviseArgs) -> Result<Workload> {
    let Some(path) = &args.job else { return args.facts.read() };
    let mut workload = Workload::default();
    for (fact, why) in job_facts(path, &mut workload.facts)? {
        workload.set_given(fact, workload.facts.get(fact));
        let value = workload.facts.value(fact);
        app.ui.status(&format!("{}: {fact} {value}: {why}", path.display()));
    }
    args.facts.apply(&mut workload)?;
    let open = muster_advise::UNSEEN.iter().filter(|fact| !workload.given.contains(fact));
    let open: Vec<&str> = open.map(|fact| fact.name()).collect();
    if !open.is_empty() && !args.ask {
        app.ui.status(&format!(
            "not in a job file, so false unless given as options: {}",
            open.join(", ")
        ));
    }
    Ok(workload)
}

/// Sets the facts of the one job in a file. Returns the facts that it shows, each with the reason.
fn job_facts(path: &Path, facts: &mut Facts) -> Result<Vec<(Fact, &'static str)>> {
    let text = source::read(path)?;
    // Only the daemon has the queues, and they do not matter for these facts.
    let queues = QueueTree::single();
    let queue = json!({ "queue": queues.default_queue.0 });
    let overrides = queue.as_object().cloned().unwrap_or_default();
    let documents = points_file::parse(&text.source, text.file.as_deref(), overrides)?;
    let site = muster_spec::SubmissionSite::new("advise".into(), [], &queues);
    let checked = muster_spec::check_all(&documents, &site).map_err(Failure::from)?;
    let [job] = checked.as_slice() else {
        return Err(Failure::usage(format!(
            "{} holds {} jobs, but advice takes one",
            path.display(),
            checked.len()
        ))
        .hint("use one job per file, or --batch with one line of facts per job")
        .into());
    };
    let (read, mut reported) = muster_advise::facts_of(&job.spec);
    *facts = read;
    if job.commands.values().any(|command| matches!(command, TaskCommand::Ray(_))) {
        facts.set(Fact::PythonNativePipeline, 1);
        reported.push((Fact::PythonNativePipeline, "its kind is `ray`"));
    }
    Ok(reported)
}

fn print(
    app: &App,
    args: &AdviseArgs,
    answer: &AdviceAnswer,
    site: Option<&SiteProfile>,
) -> Result<()> {
    if let Some(fields) = &args.fields {
        return Ok(app.ui.bytes(
            (serde_json::to_string(&SelectedFields::of(answer, fields))? + "\n").as_bytes(),
        )?);
    }
    if args.writes_json() {
        return app.ui.json(answer);
    }
    if args.mermaid {
        return Ok(app.ui.data(&muster_report::advise::mermaid(&answer.advice().composition))?);
    }
    let details = args.details || args.more;
    let input =
        NextInput { site, site_file: args.site.as_deref(), job: args.job.as_deref(), details };
    let next = next::steps(answer.advice(), input);
    let depth =
        AdviceOptions { details: args.details, more: args.more, rows: app.ui.height(), next };
    let context = app.ui.context();
    let text = match answer {
        AdviceAnswer::Workload(advice) => muster_report::advise::advice(advice, &depth, context),
        AdviceAnswer::Site(advice) => muster_report::advise::site(advice, &depth, context),
    };
    Ok(app.ui.data(&text)?)
}

/// Compares the answer with a committed one.
fn compare(app: &App, args: &AdviseArgs, answer: &AdviceAnswer, path: &Path) -> Result<u8> {
    let mut expected = expect::read(path)?;
    // The figures of a proof are committed with a decision but are not part of it.
    if let Some(answer) = expected.as_object_mut() {
        answer.remove("proof");
    }
    let differences = expect::differences(&expected, &answer.value()?, args.fields.as_deref());
    // The decision fails; the rest is listed, unless its keys were asked for.
    let (decision, notes): (Vec<String>, Vec<String>) = differences
        .into_iter()
        .partition(|difference| args.fields.is_some() || expect::is_of_decision(difference));
    for note in notes.iter().take(expect::SHOWN) {
        app.ui.status(&format!("note: {note}"));
    }
    if notes.len() > expect::SHOWN {
        app.ui.status(&format!("note: and {} more", notes.len() - expect::SHOWN));
    }
    let differences = expect::Differences::from(decision);
    if differences.is_empty() {
        let headline = muster_report::advise::headline(&answer.advice().label);
        app.ui.status(&format!("as {} expects: {headline}", path.display()));
        return Ok(0);
    }
    Err(expect::failure(path, &differences, &expect::command_line(&expected)).into())
}

fn batch(app: &App, args: &AdviseArgs) -> Result<u8> {
    if !args.facts.is_empty() {
        return Err(Failure::usage("in a batch every line has its own facts")
            .hint("--rule and --ruleset apply to all lines")
            .into());
    }
    // An error in `--rule` is reported once, before any line is read.
    args.rules.apply(&mut Workload::default().thresholds)?;
    let batch = AdviseBatch::new(&args.rules, args.fields.as_deref());
    if io::stdin().is_terminal() {
        app.ui.status("one JSON object per line, such as {\"nodes\": 4}; Ctrl-D ends");
    }
    let Some(path) = &args.expect else {
        let count = batch.print()?;
        warn_of_refused(app, count);
        return Ok(if count.refused > 0 { USAGE } else { 0 });
    };
    let mut expected = expect::ExpectedLines::open(path, args.fields.as_deref())?;
    let count = batch.each(|answer, _| expected.compare(answer))?;
    expected.finish()?;
    warn_of_refused(app, count);
    if expected.differences.is_empty() {
        let lines = muster_report::amount::count(count.lines as u64, "line");
        app.ui.status(&format!("as {} expects: {lines}", path.display()));
        return Ok(0);
    }
    Err(expect::failure(path, &expected.differences, &expect::command_line(&expected.first)).into())
}

fn warn_of_refused(app: &App, count: BatchCounts) {
    if count.refused > 0 {
        let lines = muster_report::amount::count(count.lines as u64, "line");
        app.ui.warning(&format!(
            "{} of {lines} rejected; its line of the output says why",
            count.refused
        ));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use muster_model::advice::{ControlPlane, Label, Ruleset, Thresholds};
    use muster_report::RenderContext;

    use super::*;

    /// Checks that a suggested command is one of this binary, with the letters that stand for a number.
    fn parses(command: &str) {
        let (command, _) = command.split_once(" # ").unwrap_or((command, ""));
        let words = command.replace("… ", "").replace(" N", " 2");
        let parsed = crate::cmd::Cli::try_parse_from(words.split_whitespace());
        assert!(parsed.is_ok(), "{command}: {}", parsed.err().unwrap());
    }

    /// Suggested commands of sites have the site's numbers, and say where Ray runs.
    #[test]
    fn every_next_step_of_a_site_is_a_command() {
        let check = |site: &str, job: Option<&str>, expected: &[&str]| {
            let site = muster_spec::parse_site(site, None).unwrap();
            let advice = muster_advise::advise_site(&site, Ruleset::Corrected).advice;
            let job = job.map(Path::new);
            let input = NextInput { site: Some(&site), job, details: true, ..NextInput::default() };
            let next = next::steps(&advice, input);
            next.iter().for_each(|command| parses(command));
            for command in expected {
                assert!(next.iter().any(|one| one == command), "{command}: {next:?}");
            }
        };
        let small =
            "fleet: {nodes: 2, gpus: 12}\npeople: {users: 4, talk: true}\nneeds: {rl: true}";
        check(
            small,
            None,
            &[
                "muster init none --nodes 2 --gpus 12 --users 4",
                "muster init ray --cluster cluster.yaml --on local",
                "muster check ray --on local",
            ],
        );
        let slurm = "fleet: {nodes: 16, gpus: 128, hosting: bare-metal}\n\
             people: {users: 30, hpc-fluent: true, operates: slurm, works: true}\n\
             needs: {rl: true, coupled-training: true, mainly-coupled: true}";
        let on_slurm = [
            "muster init ray --cluster cluster.yaml --on slurm",
            "muster run --on slurm tune.yaml",
        ];
        check(slurm, Some("tune.yaml"), &on_slurm);
        let kubernetes = "fleet: {nodes: 16, gpus: 128}\n\
             people: {users: 30, kubernetes-fluent: true, operates: kubernetes, works: true, platform-fte: 2}\n\
             needs: {rl: true, services: true}";
        let on_kubernetes = [
            "muster init ray --cluster cluster.yaml --on kubernetes",
            "muster export kuberay tune.yaml",
            "muster check kubernetes --prove",
        ];
        check(kubernetes, Some("tune.yaml"), &on_kubernetes);
        let gangs = |product: &str| {
            format!(
                "fleet: {{nodes: 16, gpus: 128}}\n\
                 people: {{users: 30, teams: 4, operates: {product}, works: true, platform-fte: 2}}\n\
                 needs: {{coupled-training: true, services: true}}"
            )
        };
        let kueue = "muster init kueue --cluster cluster.yaml # --queues FILE for teams";
        let prove = "muster check kubernetes --prove";
        let volcano = "muster init volcano --cluster cluster.yaml";
        check(&gangs("kubernetes"), None, &[volcano, kueue, prove]);
        let kai = "muster init kai --cluster cluster.yaml # --queues FILE for teams";
        check(&gangs("[kubernetes, kai]"), None, &[kai, prove]);
        check(&gangs("runai"), None, &[prove]);
        let label = |addon: &str| Label {
            primary: ControlPlane::Slurm,
            addon: addon.to_owned(),
            hybrid: Some("two pools".to_owned()),
        };
        let mut advice =
            muster_advise::advise(&Facts::default(), &Thresholds::default(), Ruleset::Corrected);
        advice.label = label("slurmdbd + Ray inside a Slurm allocation");
        let next = next::steps(&advice, NextInput::default());
        let in_pool = "muster init ray --cluster hybrid/cluster-batch.yaml --on slurm";
        assert!(next.iter().any(|one| one == in_pool), "{next:?}");
        advice.label = label("KServe or Ray Serve");
        let next = next::steps(&advice, NextInput::default());
        assert!(!next.iter().any(|one| one.contains("init ray")), "{next:?}");
    }

    /// A site without shares gets a number, and only two pools get the files of a boundary.
    #[test]
    fn a_site_without_shares_gets_commands_to_paste() {
        let steps = |people: &str, needs: &str| {
            let site = format!(
                "fleet: {{nodes: 32, gpus: 256, hosting: bare-metal}}\n\
                 people: {{users: 40, teams: 4, works: true, {people}}}\nneeds: {{{needs}}}"
            );
            let site = muster_spec::parse_site(&site, None).unwrap();
            let advice = muster_advise::advise_site(&site, Ruleset::Corrected);
            let input = NextInput {
                site: Some(&site),
                site_file: Some(Path::new("our site.yaml")),
                ..NextInput::default()
            };
            let next = next::steps(&advice.advice, input);
            assert_eq!(next[0], "muster advise --site 'our site.yaml' --more");
            for command in &next[1..] {
                assert!(!command.contains(['…', 'N']), "{command}");
                parses(command);
            }
            (next.join("\n"), advice.first_week.join("\n"))
        };
        let both = "services: true, coupled-training: true";
        let (next, week) = steps("platform-fte: 1, operates: slurm", both);
        assert!(
            next.contains("init hybrid --cluster cluster.yaml --services 8 # a start"),
            "{next}"
        );
        assert!(week.contains("muster init hybrid"), "{week}");
        // Slurm runs inside Kubernetes, or has the services in a partition of its own.
        for people in ["platform-fte: 1, operates: slinky", "operates: slurm"] {
            let (next, week) = steps(people, both);
            assert!(!next.contains("init hybrid"), "{next}");
            assert!(!week.contains("init hybrid"), "{week}");
        }
    }

    /// Every answer to one workload fits on one screen.
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
                let next = next::steps(&advice, NextInput::default());
                next.iter().for_each(|command| parses(command));
                let has_ray_step = next.iter().any(|command| command.contains(" init ray "));
                assert!(advice.label.primary != ControlPlane::Ray || has_ray_step, "{next:?}");
                let depth = AdviceOptions { next, ..AdviceOptions::default() };
                for width in [80, 100] {
                    let context = RenderContext::plain().with_width(width);
                    let text = muster_report::advise::advice(&advice, &depth, context);
                    assert!(
                        text.lines().all(|line| line.chars().count() <= width),
                        "{width}:\n{text}"
                    );
                    assert!(
                        !advice.label.addon.contains("REQUIRED") || text.contains("\n  required "),
                        "{text}"
                    );
                    assert!(text.contains("\n  because ") && text.contains(" stack "), "{text}");
                    tallest = tallest.max(text.lines().count());
                }
            }
        }
        assert!(tallest < 24, "{tallest} lines: the prompt needs one");
    }
}
