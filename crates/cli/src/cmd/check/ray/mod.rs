//! `muster check ray`: options, sources of evidence, and output. The rules are in `muster-doctor`.

mod host;
mod limits;
mod names;
mod scripts;
mod sockets;

use std::path::PathBuf;

use anyhow::Result;
use muster_doctor::kubernetes::complete_ray;
use muster_doctor::{
    RuleText, check_ray_host, check_ray_objects, check_ray_scripts, failed_rules,
    ray_host_rule_texts, ray_object_rule_texts,
};
use muster_model::ClusterName;

use super::report_args::ReportArgs;
use super::{kubernetes, snapshot};
use crate::app::App;
use crate::on::{self, On};

/// Command in messages, and the name of the tool in SARIF.
const COMMAND: &str = "muster check ray";

const EXAMPLES: &str = "\
Examples:
  muster check ray
  sudo muster check ray --all
  muster check ray cluster.yaml
  muster check ray --on kubernetes
  muster check ray --on slurm
  kubectl get rayclusters,rayjobs,rayservices,services,deployments,resourcequotas -A -o json | muster check ray -
  muster check ray --write-baseline accepted.txt
  muster check ray --baseline accepted.txt --format sarif > check.sarif";

/// Check the Ray clusters of this machine, or those of Kubernetes
///
/// Finds the processes of Ray on this machine: clusters outside every job, nodes that offer more
/// than their job has, servers that are open to the network, and what failed starts leave. Reads the
/// processes of other users as far as the caller may; root reads all. With files, or with --on
/// kubernetes, the objects of KubeRay are checked: RayClusters, RayJobs, RayServices and what is
/// around them. With --on slurm, the scripts of running jobs are checked for Ray clusters, as
/// `muster import` does; the processes are on the nodes: `srun -w NODES muster check ray`. Each rule
/// passes, fails, or is not tested if its input is missing.
///
/// Exits with 0 if there is no finding at or above --fail-on that is not in the baseline, with 1 if
/// there is one, with 2 if the command line or a file is wrong, with 5 if the API server does not
/// answer.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct CheckRayArgs {
    /// Read these files in place of this machine: manifests, output of `kubectl get -o json`, or a
    /// folder of such files; `-` is stdin
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

/// Runs `muster check ray`; returns its exit code.
pub async fn run(app: &App, args: &CheckRayArgs) -> Result<u8> {
    // 1. List or explain rules.
    let rules = || ray_host_rule_texts().chain(ray_object_rule_texts());
    if args.report.describe(app, rules(), COMMAND)? {
        return Ok(0);
    }

    // 2. Read the files, the cluster, or this machine; and check.
    let known = args.report.known()?;
    let report = if !args.files.is_empty() {
        let mut objects = snapshot::of_files(&args.files)?;
        complete_ray(&mut objects);
        check_ray_objects(&objects, &known)
    } else if let Some(context) = app.global.on.as_ref().and_then(On::kubernetes) {
        let cluster = kubernetes::connect(None, context).await?;
        check_ray_objects(&snapshot::live(&cluster, context).await, &known)
    } else if matches!(app.global.on, Some(On::Cluster(ClusterName::Slurm))) && on::is_typed() {
        let scripts = scripts::read().await?;
        check_ray_scripts(&scripts.imported, &scripts.unread, &known)
    } else {
        check_ray_host(&tokio::task::spawn_blocking(host::read).await?, &known)
    };

    // 3. Print the report.
    let rules: Vec<RuleText> = rules().chain(failed_rules(&report)).collect();
    args.report.print(app, &report, &rules, COMMAND)
}
