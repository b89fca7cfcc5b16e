//! `muster check slurm`: options, sources of evidence, and output. The rules are in
//! `muster-doctor`.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use muster_doctor::{check, explain, kubernetes_nodes, rule_texts};
use muster_model::check::{CheckReport, ProbeOutcome, Severity};
use muster_report::RenderContext;
use muster_report::table::Table;
use muster_slurm::conf::evidence::Evidence;

use super::{collect, probes};
use crate::app::App;
use crate::cmd::findings::{BaselineArgs, FindingsFormat, write_sarif};
use crate::exit::{FAILURE, Failure};
use crate::source::text;

/// Largest list of Kubernetes nodes in bytes, as in `muster inventory`.
const MAX_BYTES: u64 = 256 << 20;

const EXAMPLES: &str = "\
Examples:
  muster check slurm
  muster check slurm --prove
  muster check slurm --conf /etc/slurm
  muster check slurm --conf slurm.conf --conf gres.conf --format sarif > check.sarif
  scontrol show config | muster check slurm --conf -
  muster check slurm --write-baseline accepted.txt
  muster check slurm --baseline accepted.txt --fail-on high
  kubectl get nodes -o name | muster check slurm --kubernetes-nodes -";

/// Check the configuration of a Slurm cluster
///
/// Queries the cluster that this machine belongs to, and reads its configuration files; with
/// --conf, reads files only. Each rule passes, fails, or is not tested if its input is missing.
/// With --prove, probe jobs are run in addition.
///
/// Exits with 0 if there is no finding at or above --fail-on that is not in the baseline, with 1 if
/// there is one or a probe failed, with 2 if the command line or a file is wrong.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CheckSlurmArgs {
    /// Read this file, or the files of this folder, in place of querying the cluster; `-` is stdin;
    /// may be repeated
    #[arg(long, value_name = "PATH")]
    conf: Vec<PathBuf>,
    /// Nodes of a Kubernetes cluster: output of `kubectl get nodes -o json` or `-o name`, or one
    /// name per line; `-` is stdin
    #[arg(long, value_name = "FILE")]
    kubernetes_nodes: Option<PathBuf>,
    #[command(flatten)]
    baseline: BaselineArgs,
    /// Exit with 1 on findings of this severity or above
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = FailOn::Medium)]
    fail_on: FailOn,
    /// Also list rules that passed, and what is needed to test the others
    #[arg(long)]
    all: bool,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Format of the report
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = FindingsFormat::Text)]
    format: FindingsFormat,
    /// Also run probe jobs to test what configuration files cannot show; each takes seconds, and is
    /// cancelled if it does not start at once
    #[arg(long, conflicts_with_all = ["conf", "write_baseline"])]
    prove: bool,
    #[command(flatten)]
    place: probes::ProbePlacement,
    /// List the rules, without checking
    #[arg(long, conflicts_with = "explain")]
    rules: bool,
    /// Explain a rule, without checking
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FailOn {
    /// Only findings that break a guarantee of the cluster
    High,
    /// Also findings that sometimes treat jobs or users wrongly
    Medium,
    /// Findings of any severity
    Low,
}

impl FailOn {
    fn severity(self) -> Severity {
        match self {
            Self::High => Severity::High,
            Self::Medium => Severity::Medium,
            Self::Low => Severity::Low,
        }
    }
}

/// Runs `muster check slurm`; returns its exit code.
pub async fn run(app: &App, args: &CheckSlurmArgs) -> Result<u8> {
    // 1. List or explain rules.
    if args.rules {
        app.ui.data(&rule_list())?;
        return Ok(0);
    }
    if let Some(id) = &args.explain {
        let unknown = || {
            Failure::usage(format!("no rule is named `{id}`"))
                .hint("`muster check slurm --rules` lists them")
        };
        app.ui.data(&explain(id).ok_or_else(unknown)?)?;
        return Ok(0);
    }

    // 2. Collect evidence.
    let known = args.baseline.known()?;
    let sources = if args.conf.is_empty() {
        collect::live(app).await?
    } else {
        collect::offline(&args.conf)?
    };
    let mut evidence = Evidence::of(&sources);
    if let Some((name, mode)) = collect::dbd_mode(&sources) {
        evidence = evidence.with_dbd_mode(&name, mode);
    }
    if args.conf.is_empty() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let names = muster_backends::gpu::nvml::describe().into_iter().map(|gpu| gpu.name);
        evidence = evidence.with_devices(&host, names.collect());
    }
    if let Some(path) = &args.kubernetes_nodes {
        let (name, text) = text(path, MAX_BYTES)?;
        let unread =
            || Failure::usage(format!("{name} lists no node")).hint("kubectl get nodes -o name");
        evidence = evidence.with_kubernetes(&name, kubernetes_nodes(&text).ok_or_else(unread)?);
    }

    // 3. Check and print the report.
    let mut report = check(&evidence, &known);
    if args.prove {
        report.probes = probes::run(app, &evidence, &args.place).await;
    }
    if args.baseline.write(app, &report)? {
        return Ok(0);
    }
    match if args.json { FindingsFormat::Json } else { args.format } {
        FindingsFormat::Text => {
            app.ui.data(&muster_report::check::check(&report, args.all, app.ui.context()))?
        }
        FindingsFormat::Json => app.ui.json(&report)?,
        FindingsFormat::Sarif => {
            write_sarif(app, &report, &rule_texts().collect::<Vec<_>>(), "muster check slurm")?
        }
    }
    Ok(code(&report, args.fail_on.severity()))
}

/// Returns the list of rules, one per line.
fn rule_list() -> String {
    let rules: Vec<_> = rule_texts().collect();
    Table::of(&rules)
        .left("", |rule| rule.id)
        .left("", |rule| rule.severity.name())
        .left("", |rule| rule.title)
        .render(RenderContext::plain())
}

fn code(report: &CheckReport, fail_on: Severity) -> u8 {
    let found = report.findings.iter().any(|finding| !finding.known && finding.severity >= fail_on);
    let disproved = report.probes.iter().any(|probe| probe.outcome == ProbeOutcome::Failed);
    if found || disproved { FAILURE } else { 0 }
}
