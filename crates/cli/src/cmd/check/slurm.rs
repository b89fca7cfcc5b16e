//! `muster check slurm`: options, sources of evidence, and output. The rules are in
//! `muster-doctor`.

use std::path::PathBuf;

use anyhow::Result;
use muster_doctor::{check, kubernetes_nodes, rule_texts};
use muster_slurm::conf::evidence::Evidence;

use super::nodes_of_cluster_file;
use super::report_args::ReportArgs;
use super::{collect, probes};
use crate::app::App;
use crate::exit::Failure;
use crate::source::text;

/// Command in messages, and the name of the tool in SARIF.
const COMMAND: &str = "muster check slurm";

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
    /// Nodes of a Kubernetes cluster: output of `kubectl get nodes -o json` or `-o name`, a cluster
    /// file, or one name per line; `-` is stdin
    #[arg(long, value_name = "FILE")]
    kubernetes_nodes: Option<PathBuf>,
    /// Also run probe jobs to test what configuration files cannot show; each takes seconds, and is
    /// cancelled if it does not start at once
    #[arg(long, conflicts_with_all = ["conf", "write_baseline"])]
    prove: bool,
    #[command(flatten)]
    place: probes::ProbePlacement,
    #[command(flatten)]
    report: ReportArgs,
}

/// Runs `muster check slurm`; returns its exit code.
pub async fn run(app: &App, args: &CheckSlurmArgs) -> Result<u8> {
    // 1. List or explain rules.
    if args.report.describe(app, rule_texts(), COMMAND)? {
        return Ok(0);
    }

    // 2. Collect evidence.
    let known = args.report.known()?;
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
        let nodes = nodes_of_cluster_file(&text).or_else(|| kubernetes_nodes(&text));
        evidence = evidence.with_kubernetes(&name, nodes.ok_or_else(unread)?);
    }

    // 3. Check and print the report.
    let mut report = check(&evidence, &known);
    if args.prove {
        report.probes = probes::run(app, &evidence, &args.place).await;
    }
    args.report.print(app, &report, &rule_texts().collect::<Vec<_>>(), COMMAND)
}
