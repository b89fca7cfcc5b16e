//! `muster check kubernetes`: options, sources of the snapshot, and output. The rules are in
//! `muster-doctor`.

use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_api::ClientError;
use muster_delegate::kubernetes::CheckedCluster;
use muster_doctor::kubernetes::slurm_nodes;
use muster_doctor::{check_kubernetes, kubernetes_rule_texts};

use super::gang_probes::{self, GangProbeArgs};
use super::nodes_of_cluster_file;
use super::report_args::ReportArgs;
use super::snapshot;
use crate::app::App;
use crate::exit::Failure;
use crate::on::On;
use crate::source::text;

/// Command in messages, and the name of the tool in SARIF.
const COMMAND: &str = "muster check kubernetes";

/// Largest list of Slurm nodes in bytes: `scontrol show node` of ten thousand nodes is some 15 MB.
const MAX_BYTES: u64 = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  muster check kubernetes
  muster check kubernetes --context production --all
  muster check kubernetes --prove --namespace ops
  kubectl get nodes,pods,deployments -A -o json | muster check kubernetes -
  muster check kubernetes --save dump
  kubectl cluster-info dump -A --output-directory=dump
  muster check kubernetes dump
  sinfo -hN -o %N | muster check kubernetes --slurm-nodes -
  muster check kubernetes --write-baseline accepted.txt
  muster check kubernetes --baseline accepted.txt --format sarif > check.sarif";

/// Check the configuration and the state of a Kubernetes cluster
///
/// Lists the objects of the cluster that kubectl would ask, with the rights of the caller; with
/// files, reads files only. Each rule passes, fails, or is not tested if its input is missing or
/// may not be listed. Secrets and ConfigMaps are never read. With --prove, two gangs are submitted
/// in addition.
///
/// Exits with 0 if there is no finding at or above --fail-on that is not in the baseline, with 1 if
/// there is one or a probe failed, with 2 if the command line or a file is wrong, with 5 if the API
/// server does not answer.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CheckKubernetesArgs {
    /// Read these files in place of listing the cluster: output of `kubectl get -o json` or
    /// `kubectl cluster-info dump`, a KubeSchedulerConfiguration as JSON, or a folder of such files;
    /// `-` is stdin
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// kubeconfig file; by default $KUBECONFIG, ~/.kube/config, or the pod's service account
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; by default the current one
    #[arg(long, value_name = "NAME", conflicts_with = "files")]
    context: Option<String>,
    /// Also write what was listed to files in this folder, which this command reads
    #[arg(long, value_name = "DIR", conflicts_with = "files")]
    save: Option<PathBuf>,
    /// Nodes of a Slurm cluster: output of `sinfo -hN -o %N` or `scontrol show nodes`, slurm.conf, a
    /// cluster file, or one name per line; `-` is stdin
    #[arg(long, value_name = "FILE")]
    slurm_nodes: Option<PathBuf>,
    /// Also submit a gang that must get no node, since one pod too many is in it, and one that must
    /// get its nodes, and remove both; takes about half a minute
    #[arg(long, conflicts_with_all = ["files", "write_baseline"])]
    prove: bool,
    #[command(flatten)]
    gang: GangProbeArgs,
    #[command(flatten)]
    report: ReportArgs,
}

/// Runs `muster check kubernetes`; returns its exit code.
pub async fn run(app: &App, args: &CheckKubernetesArgs) -> Result<u8> {
    // 1. List or explain rules.
    if args.report.describe(app, kubernetes_rule_texts(), COMMAND)? {
        return Ok(0);
    }

    // 2. Take the snapshot.
    let known = args.report.known()?;
    let cluster =
        if args.files.is_empty() { Some(connect_as_asked(app, args).await?) } else { None };
    let mut taken = match &cluster {
        Some((cluster, context)) => snapshot::live(cluster, context.as_deref()).await,
        None => snapshot::of_files(&args.files)?,
    };
    if let Some(dir) = &args.save {
        snapshot::save(&taken, dir)?;
    }
    if let Some(path) = &args.slurm_nodes {
        let (name, text) = text(path, MAX_BYTES)?;
        let unread =
            || Failure::usage(format!("{name} lists no node of Slurm")).hint("sinfo -hN -o %N");
        taken.slurm_nodes =
            Some(nodes_of_cluster_file(&text).or_else(|| slurm_nodes(&text)).ok_or_else(unread)?);
        taken.read.push(name);
    }

    // 3. Check and print the report.
    let mut report = check_kubernetes(&taken, &known);
    if let Some((cluster, _)) = cluster.filter(|_| args.prove) {
        report.probes = gang_probes::run(app, &cluster, &taken, &args.gang).await?;
    }
    args.report.print(app, &report, &kubernetes_rule_texts().collect::<Vec<_>>(), COMMAND)
}

/// Connects to the cluster that the options name; returns its context, too.
async fn connect_as_asked(
    app: &App,
    args: &CheckKubernetesArgs,
) -> Result<(CheckedCluster, Option<String>)> {
    let of_on = app.global.on.as_ref().and_then(On::kubernetes).flatten();
    let context = args.context.clone().or_else(|| of_on.map(str::to_owned));
    let cluster = connect(args.kubeconfig.as_deref(), context.as_deref()).await?;
    Ok((cluster, context))
}

/// Connects to the cluster of a kubeconfig and context; `None` for those that kubectl would use.
pub(super) async fn connect(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<CheckedCluster> {
    let cluster = CheckedCluster::connect(kubeconfig, context).await;
    Ok(cluster.map_err(|body| Failure::from(ClientError::Api(body)))?)
}
