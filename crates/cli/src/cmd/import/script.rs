//! `muster import SCRIPT`: from a script for sbatch to a job file. How a script is read is known in
//! `muster-backends`; that the job file holds is checked here, by the same reader that `muster run`
//! uses.

use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_backends::slurm::import::{self, Submission};
use muster_model::check::Severity;
use muster_model::imported::{Becomes, ImportReport};
use muster_model::{QueueName, UserName};
use muster_spec::Site;
use serde_json::Map;

use crate::app::App;
use crate::exit::{FAILURE, Failure, USAGE};
use crate::output_files;
use crate::source::text;

/// Largest script: sbatch takes no more than 4 MiB where a site does not raise max_script_size
/// (slurm.conf(5)).
const MAX_BYTES: u64 = 4 << 20;

pub const EXAMPLES: &str = "\
Examples:
  muster import train.sbatch > train.yaml
  muster import train.sbatch -o train.yaml --force
  muster import - < train.sbatch
  muster import train.sbatch --strict > /dev/null
  muster import train.sbatch --cure processes-squared > train.yaml
  muster import train.sbatch -- config.yaml 7 > train.yaml
  muster import --slurm-conf /etc/slurm --sacctmgr accounts.cfg -o mine
  muster import train.sbatch --json | jq '.findings[] | {rule, line, cure}'";

/// Options of the verb.
#[derive(Debug, clap::Args)]
pub struct ScriptArgs {
    /// A script for sbatch; `-` is stdin
    #[arg(value_name = "SCRIPT", required_unless_present = "slurm_conf")]
    script: Option<PathBuf>,
    /// Write the job file here in place of stdout, which `-` is too; of a cluster, both files into
    /// this folder
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Write over the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
    /// Answer with everything as JSON: `muster schema import-report`
    #[arg(long)]
    json: bool,
    /// Exit 1 when an option is not mapped, or a finding is high
    #[arg(long)]
    strict: bool,
    /// Write the cure of this finding into the job; without it the job is what the script says
    #[arg(long, value_name = "RULE", value_parser = clap::builder::PossibleValuesParser::new(import::CURES))]
    cure: Vec<String>,
    /// What sbatch would be given behind the script's name: `$1`, `$@`
    #[arg(value_name = "ARGUMENT", last = true)]
    arguments: Vec<String>,
}

impl ScriptArgs {
    /// Where to write, if not to stdout.
    pub fn output(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Whether to write over what is there.
    pub fn force(&self) -> bool {
        self.force
    }
}

/// Runs the verb.
pub fn run(app: &App, args: &ScriptArgs) -> Result<u8> {
    // 1. Read, and check what was made of it.
    let path = args.script.as_ref().expect("a script is required where no cluster is named");
    let (name, script) = text(path, MAX_BYTES)?;
    let given = Submission { arguments: args.arguments.clone(), cures: args.cure.clone() };
    let report = imported(app, &script, &name, &given)?;
    // 2. Data on stdout, the rest on stderr.
    if args.json {
        app.ui.json(&report)?;
    } else {
        match args.output.as_deref().filter(|path| *path != Path::new("-")) {
            Some(path) => output_files::write(path, &report.job, args.force)?,
            None => app.ui.bytes(report.job.as_bytes())?,
        }
        app.ui.status(muster_report::imported::import(&report, &app.ui.status_style()).trim_end());
    }
    let is_lossy = report.options.iter().any(|option| option.becomes == Becomes::NotMapped);
    let is_wrong = report.findings.iter().any(|finding| finding.severity == Severity::High);
    Ok(if args.strict && (is_lossy || is_wrong) { FAILURE } else { 0 })
}

/// Reads a script and checks the job file that it becomes; warns of variables of the environment
/// that overrule it.
pub fn imported(app: &App, script: &str, name: &str, given: &Submission) -> Result<ImportReport> {
    let report = import::import(script, name, given).map_err(|error| Failure {
        code: USAGE,
        ..Failure::new(format!("{name} is not imported: {error}")).hint(error.hint())
    })?;
    check(&report)?;
    let overruled = import::overruled(&report, |name| std::env::var(name).ok());
    overruled.iter().for_each(|told| app.ui.warning(told));
    Ok(report)
}

/// What is printed always holds: a job file that `muster run` would refuse is not given out.
fn check(report: &ImportReport) -> Result<(), Failure> {
    let queue = QueueName::from("default");
    let refused = |diagnostics: muster_spec::Diagnostics| {
        let refused = Failure::from(diagnostics);
        let why = refused.rendered.unwrap_or(refused.message);
        let message = format!(
            "error: the job file made of {} would be refused\n{}",
            report.script,
            why.trim_end()
        );
        Failure { rendered: Some(message), ..Failure::new(String::new()) }
            .hint("the option that is named there cannot be imported: take it out of the script, and add it by hand")
    };
    let documents =
        muster_spec::parse(&report.job, Some("job.yaml"), &Map::new()).map_err(refused)?;
    muster_spec::check_all(&documents, &Site::unknown(UserName::from("nobody"), &queue))
        .map_err(refused)?;
    Ok(())
}
