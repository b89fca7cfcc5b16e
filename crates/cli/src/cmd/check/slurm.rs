//! `muster check slurm`: options, where evidence comes from, and what the answer looks like. Rules
//! are in `muster-doctor`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use muster_doctor::{Evidence, baseline, check, explain, ids, known_in, kubernetes_nodes, sarif};
use muster_model::check::{CheckReport, ProbeOutcome, Severity};

use super::{collect, probes};
use crate::app::App;
use crate::exit::{FAILURE, Failure};
use crate::output_files;
use crate::source::text;

/// Largest list of nodes of Kubernetes, as in `muster inventory`.
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

/// Find what is wrong with a Slurm cluster
///
/// Asks the cluster that this machine belongs to, and reads the files that it names; with --conf it
/// reads files only. Each rule has one of three outcomes: passed, failed, or not tested, when what
/// it needs was not given. With --prove probe jobs run, too.
///
/// Exits 0 when nothing at or above --fail-on is wrong that the baseline does not hold, 1 when
/// something is or a probe failed, 2 when the command line or a file is wrong.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Read this file, or the files of this folder, in place of asking the cluster; `-` is stdin;
    /// may be repeated
    #[arg(long, value_name = "PATH")]
    conf: Vec<PathBuf>,
    /// Nodes that Kubernetes has: `kubectl get nodes -o json`, `-o name`, or a name a line; `-` is
    /// stdin
    #[arg(long, value_name = "FILE")]
    kubernetes_nodes: Option<PathBuf>,
    /// Findings that are accepted, as --write-baseline wrote them
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write all findings to this file, to be accepted from now on, and exit 0; `-` is stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["baseline", "json", "format"])]
    write_baseline: Option<PathBuf>,
    /// Exit 1 on findings of this severity and above
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = FailOn::Medium)]
    fail_on: FailOn,
    /// Also list what passed, and what the rest needs to be tested
    #[arg(long)]
    all: bool,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// How to answer
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    format: Format,
    /// Also run probe jobs where no configuration is proof; each takes seconds, and none waits for
    /// room
    #[arg(long, conflicts_with_all = ["conf", "write_baseline"])]
    prove: bool,
    #[command(flatten)]
    place: probes::Where,
    /// List the rules, and check nothing
    #[arg(long, conflicts_with = "explain")]
    rules: bool,
    /// Say what a rule is about, and check nothing
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FailOn {
    /// Only what breaks a promise of the cluster
    High,
    /// Also what treats jobs or people wrongly now and then
    Medium,
    /// Anything
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs: a `CheckReport`
    Json,
    /// For code hosts: SARIF 2.1.0
    Sarif,
}

/// Runs the verb.
pub async fn run(app: &App, args: &Args) -> Result<u8> {
    // 1. Questions on the rules themselves.
    if args.rules {
        app.ui.data(&listed())?;
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

    // 2. Evidence.
    let known = args.baseline.as_ref().map_or(Ok(BTreeSet::new()), |path| accepted(path))?;
    let sources = match args.conf.is_empty() {
        true => collect::live(app).await?,
        false => collect::offline(&args.conf)?,
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
            || Failure::usage(format!("{name} names no node")).hint("kubectl get nodes -o name");
        evidence = evidence.with_kubernetes(&name, kubernetes_nodes(&text).ok_or_else(unread)?);
    }

    // 3. The answer.
    let mut report = check(&evidence, &known);
    if args.prove {
        report.probes = probes::run(app, &evidence, &args.place).await;
    }
    if let Some(path) = &args.write_baseline {
        return write_baseline(app, path, &report);
    }
    match if args.json { Format::Json } else { args.format } {
        Format::Text => {
            app.ui.data(&muster_report::check::check(&report, args.all, &app.ui.style()))?
        }
        Format::Json => app.ui.json(&report)?,
        Format::Sarif => app.ui.json(&sarif(&report, env!("CARGO_PKG_VERSION")))?,
    }
    Ok(code(&report, args.fail_on.severity()))
}

/// A rule a line.
fn listed() -> String {
    let width = ids().map(|(id, ..)| id.len()).max().unwrap_or_default();
    let mut text = String::new();
    for (id, severity, title) in ids() {
        let _ = writeln!(text, "{id:<width$}  {severity:<6}  {title}");
    }
    text
}

fn accepted(path: &Path) -> Result<BTreeSet<String>> {
    let (name, text) = text(path, MAX_BYTES)?;
    let wrong = |line| {
        Failure::usage(format!("{name}:{line} does not begin with a fingerprint"))
            .hint("`muster check slurm --write-baseline FILE` writes such a file")
    };
    Ok(known_in(&text).map_err(wrong)?)
}

/// Over what is there: a baseline is written anew whenever findings change.
fn write_baseline(app: &App, path: &Path, report: &CheckReport) -> Result<u8> {
    let text = baseline(report);
    match path.as_os_str() == "-" {
        true => app.ui.data(&text)?,
        false => output_files::write(path, &text, true)?,
    }
    app.ui.status(&format!(
        "{} findings are accepted from now on, with --baseline",
        report.findings.len()
    ));
    Ok(0)
}

fn code(report: &CheckReport, fail_on: Severity) -> u8 {
    let found = report.findings.iter().any(|finding| !finding.known && finding.severity >= fail_on);
    let disproved = report.probes.iter().any(|probe| probe.outcome == ProbeOutcome::Failed);
    if found || disproved { FAILURE } else { 0 }
}
