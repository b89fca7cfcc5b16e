//! `muster import FILE`: converts an sbatch script, objects of Kubernetes, or an experiment of Determined to a
//! job file. `muster-slurm`, `muster-kubernetes` and `muster-determined` do the conversion; here the job file is
//! checked by the parser that `muster run` uses.

use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_doctor::{failed_rules, of_import};
use muster_model::check::Severity;
use muster_model::imported::{ImportOutcome, ImportReport};
use muster_model::{QueueName, UserName};
use muster_slurm::import::{self, ImportInput};
use muster_spec::{Cluster, SubmissionSite};
use serde_json::Map;

use crate::app::App;
use crate::cmd::findings::{BaselineArgs, FindingsFormat, write_sarif};
use crate::exit::{FAILURE, Failure, USAGE};
use crate::output_files;
use crate::source::text;

/// Largest file in bytes: sbatch accepts 4 MiB unless a site raises max_script_size
/// (slurm.conf(5)).
const MAX_BYTES: u64 = 4 << 20;

pub const EXAMPLES: &str = "\
Examples:
  muster import train.sbatch > train.yaml
  muster import train.sbatch -o train.yaml --force
  muster import - < train.sbatch
  muster import train.sbatch --strict > /dev/null
  muster import train.sbatch --format sarif > train.sarif
  muster import train.sbatch --write-baseline accepted.txt
  muster import train.sbatch --baseline accepted.txt --strict > train.yaml
  muster import train.sbatch --cure processes-squared > train.yaml
  muster import train.sbatch -- config.yaml 7 > train.yaml
  muster import job.yaml --cluster cluster.yaml > train.yaml
  kubectl get jobset train -o yaml | muster import - > train.yaml
  muster import adaptive.yaml > sweep.yaml
  muster import --slurm-conf /etc/slurm --sacctmgr accounts.cfg -o mine
  muster import train.sbatch --json | jq '.findings[] | {rule, line, cure}'";

/// Options for a script, or for objects.
#[derive(Debug, clap::Args)]
pub struct ScriptArgs {
    /// sbatch script, objects of Kubernetes in YAML or JSON, or an experiment of Determined; `-` is stdin
    #[arg(value_name = "FILE", required_unless_present = "slurm_conf")]
    script: Option<PathBuf>,
    /// Write the job file to this file; `-` is stdout, the default; with --slurm-conf: write both
    /// files to this folder
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long, requires = "output")]
    force: bool,
    /// Write the whole report as JSON, as described by `muster schema import-report`
    #[arg(long)]
    json: bool,
    /// Format of the report; sarif goes to stdout, and the job file to the file of -o
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = FindingsFormat::Text, conflicts_with = "json")]
    format: FindingsFormat,
    #[command(flatten)]
    baseline: BaselineArgs,
    /// Cluster file, to find pods and gangs for which the nodes are too small; for objects of
    /// Kubernetes
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// Exit with 1 if an option or field is not converted, or a finding is of high severity
    #[arg(long)]
    strict: bool,
    /// Apply the fix of this finding to the job; by default the script is converted as it is
    #[arg(long, value_name = "RULE", value_parser = clap::builder::PossibleValuesParser::new(import::CURES))]
    cure: Vec<String>,
    /// Arguments of the script, as after the script's name for sbatch: `$1`, `$@`
    #[arg(value_name = "ARGUMENT", last = true)]
    arguments: Vec<String>,
}

impl ScriptArgs {
    /// Returns the output file; `None` is stdout.
    pub fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Returns whether to overwrite existing files.
    pub fn force(&self) -> bool {
        self.force
    }
}

/// Runs `muster import SCRIPT`; returns its exit code.
pub fn run(app: &App, args: &ScriptArgs) -> Result<u8> {
    // 1. Convert the file and check the result.
    let path = args.script.as_ref().expect("a file is required where no configuration is named");
    let (name, source) = text(path, MAX_BYTES)?;
    let mut report = if muster_kubernetes::import::is_objects(&source) {
        of_objects(args, &source, &name)?
    } else if muster_determined::is_experiment(&source) {
        of_experiment(args, &source, &name)?
    } else {
        let given = ImportInput { arguments: args.arguments.clone(), cures: args.cure.clone() };
        convert(app, &source, &name, &given)?
    };
    // 2. Write the baseline, or leave out its findings.
    let checked = of_import(&report, &args.baseline.known()?);
    if args.baseline.write(app, &checked)? {
        return Ok(0);
    }
    let mut known = checked.findings.iter().map(|finding| finding.known);
    report.findings.retain(|_| known.next() != Some(true));
    // 3. Write the job file and the report.
    if args.json || args.format == FindingsFormat::Json {
        app.ui.json(&report)?;
    } else {
        let is_sarif = args.format == FindingsFormat::Sarif;
        match args.output.as_deref().filter(|path| *path != Path::new("-")) {
            Some(path) => output_files::write(path, &report.job, args.force)?,
            None if is_sarif => {}
            None => app.ui.bytes(report.job.as_bytes())?,
        }
        if is_sarif {
            write_sarif(app, &checked, &failed_rules(&checked), "muster import")?;
        } else {
            let text = muster_report::imported::import(&report, app.ui.status_context());
            app.ui.status(text.trim_end());
        }
    }
    let is_lossy = report.options.iter().any(|option| option.becomes == ImportOutcome::NotMapped);
    let is_wrong = report.findings.iter().any(|finding| finding.severity == Severity::High);
    Ok(if args.strict && (is_lossy || is_wrong) { FAILURE } else { 0 })
}

/// Converts a script and checks the resulting job file; warns of environment variables that
/// override options of the script.
pub fn convert(app: &App, script: &str, name: &str, given: &ImportInput) -> Result<ImportReport> {
    let report = import::import(script, name, given).map_err(|error| Failure {
        code: USAGE,
        ..Failure::new(format!("cannot import {name}: {error}")).hint(error.hint())
    })?;
    check(&report)?;
    let overruled = import::overruled(&report, |name| std::env::var(name).ok());
    overruled.iter().for_each(|reported| app.ui.warning(reported));
    Ok(report)
}

/// Converts objects of Kubernetes and checks the resulting job file.
fn of_objects(args: &ScriptArgs, source: &str, name: &str) -> Result<ImportReport> {
    refuse_script_options(args, name, "objects of Kubernetes")?;
    let cluster = args.cluster.as_deref().map(read_cluster).transpose()?;
    let nodes = cluster.as_ref().map(|cluster| &cluster.nodes[..]);
    let report = muster_kubernetes::import::import(source, name, nodes).map_err(|error| {
        Failure::usage(format!("cannot import {name}: {error}")).hint(error.hint())
    })?;
    check(&report)?;
    Ok(report)
}

/// Converts an experiment of Determined and checks the resulting job file.
fn of_experiment(args: &ScriptArgs, source: &str, name: &str) -> Result<ImportReport> {
    refuse_script_options(args, name, "an experiment of Determined")?;
    if args.cluster.is_some() {
        let message = "--cluster is for objects of Kubernetes";
        return Err(Failure::usage(format!("{message}, but {name} holds an experiment")).into());
    }
    let report = muster_determined::import(source, name).map_err(|error| {
        Failure::usage(format!("cannot import {name}: {error}")).hint(error.hint())
    })?;
    check(&report)?;
    Ok(report)
}

/// Returns an error if an option is given that only scripts have.
fn refuse_script_options(args: &ScriptArgs, name: &str, what: &str) -> Result<(), Failure> {
    for (option, is_given) in
        [("--cure", !args.cure.is_empty()), ("--", !args.arguments.is_empty())]
    {
        if is_given {
            return Err(Failure::usage(format!(
                "{option} is for scripts, but {name} holds {what}"
            )));
        }
    }
    Ok(())
}

fn read_cluster(path: &Path) -> Result<Cluster> {
    let text = crate::source::read(path)?;
    Ok(muster_spec::parse_cluster(&text.source, text.file.as_deref()).map_err(Failure::from)?)
}

/// Returns an error if `muster run` would reject the job file, so that no invalid file is written.
fn check(report: &ImportReport) -> Result<(), Failure> {
    let queue = QueueName::from("default");
    let refused = |diagnostics: muster_spec::Diagnostics| {
        let refused = Failure::from(diagnostics);
        let why = refused.rendered.unwrap_or(refused.message);
        let message = format!(
            "error: the job file converted from {} is invalid\n{}",
            report.script,
            why.trim_end()
        );
        Failure { rendered: Some(message), ..Failure::new(String::new()) }
            .hint("the option named there cannot be imported: remove it from the file, then edit the job file by hand")
    };
    let documents =
        muster_spec::parse(&report.job, Some("job.yaml"), &Map::new()).map_err(refused)?;
    muster_spec::check_all(&documents, &SubmissionSite::unknown(UserName::from("nobody"), &queue))
        .map_err(refused)?;
    Ok(())
}
