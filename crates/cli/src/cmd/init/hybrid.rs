//! `muster init hybrid`: divides a cluster into a Slurm pool for batch jobs and a Kubernetes pool
//! for services, and writes the configuration of each with its own nodes only.

use std::path::PathBuf;

use anyhow::{Context, Result};
use muster_kubernetes as kubernetes;
use muster_model::{NodeSpec, hostlist};
use muster_slurm::pool;
use muster_spec::{
    Cluster, ClusterNotes, ClusterPartition, PartitionError, ServiceNodes, parse_cluster,
    partition, write_cluster,
};

use super::{boundary, check};
use crate::app::App;
use crate::args::whole_number;
use crate::cmd::inventory::{summary, unwritable};
use crate::exit::{FAILURE, Failure, USAGE};
use crate::output_files;
use crate::source;

const EXAMPLES: &str = "\
Examples:
  muster init hybrid --cluster cluster.yaml --services 2
  muster init hybrid --cluster cluster.yaml --services-nodes 'node[07-08]' -o site
  muster init hybrid --cluster cluster.yaml --label pool=services --dry-run
  muster init hybrid --check site";

/// Divide a cluster into a Slurm pool for batch jobs and a Kubernetes pool for services
///
/// Each node is in exactly one pool. With --services the nodes are chosen so that as few topology
/// domains as possible have nodes in both pools, whole domains first. Read the files and install
/// them; BOUNDARY.md says where, and how to move a node later.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct InitHybridArgs {
    /// Cluster file; `muster inventory` writes one. With --check: all nodes of the site, in place
    /// of cluster-all.yaml
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    cluster: Option<PathBuf>,
    /// Number of nodes for services
    #[arg(long, value_name = "N", group = "choice", allow_negative_numbers = true, value_parser = whole_number(0, u32::MAX))]
    services: Option<u32>,
    /// Nodes for services, such as 'node[01-02],node07'
    #[arg(long, value_name = "LIST", group = "choice")]
    services_nodes: Option<String>,
    /// Label of the nodes for services
    #[arg(long, value_name = "NAME=VALUE", group = "choice", value_parser = label)]
    label: Option<(String, String)>,
    /// Directory for the files
    #[arg(
        short = 'o',
        long,
        value_name = "DIR",
        default_value = "hybrid",
        conflicts_with = "check"
    )]
    output: PathBuf,
    /// Overwrite files that exist
    #[arg(long, conflicts_with = "check")]
    force: bool,
    /// Print the files without writing them
    #[arg(long, conflicts_with = "check")]
    dry_run: bool,
    /// Only check the files in this directory: exit with 1 if a node is in both pools, in neither,
    /// or partially moved
    #[arg(long, value_name = "DIR", conflicts_with = "choice")]
    check: Option<PathBuf>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    pair.map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "expected a label and its value, such as pool=services".to_owned())
}

/// Runs `muster init hybrid`; returns its exit code.
pub fn run(app: &App, args: &InitHybridArgs) -> Result<u8> {
    let given = args.cluster.as_ref().map(|path| source::read(path)).transpose()?;
    if let Some(dir) = &args.check {
        let mut texts = check::read(dir)?;
        if let Some(given) = given {
            texts.insert(boundary::ALL, given.source);
        }
        return report(app, &dir.display().to_string(), &texts);
    }

    if args.output.as_os_str() == "-" {
        return Err(Failure::usage("-o takes a directory, since there are several files")
            .hint("--dry-run prints them")
            .into());
    }

    // 1. Divide the nodes.
    let given = given.context("--cluster is required without --check")?;
    let cluster = parse_cluster(&given.source, given.file.as_deref()).map_err(Failure::from)?;
    let whole = cluster_text(&cluster, "every node of the site")?;
    let parts = partition(cluster, &choice(args)?).map_err(partition_failure)?;

    // 2. Render the files, and check them as --check does.
    let files = files(&parts, whole)?;
    let texts = files.iter().filter(|(name, _)| check::FILES.contains(name));
    let texts = texts.map(|(name, text)| (*name, text.clone())).collect();
    let findings = check::findings(&texts)?;
    if let Some(finding) = findings.first() {
        return Err(Failure::new(format!(
            "bug in muster: the files that it renders are inconsistent: {finding}"
        ))
        .into());
    }

    // 3. Write the files.
    if args.dry_run {
        for (name, text) in &files {
            app.ui.data(&format!("==> {name} <==\n{text}\n"))?;
        }
    } else {
        output_files::write_all(&args.output, &files, args.force)?;
    }
    print_pools(app, &parts);
    if !args.dry_run {
        let dir = args.output.display();
        app.ui.status(&format!("wrote {} files to {dir}; nothing was run", files.len()));
        app.ui.hint(&format!(
            "read {dir}/{}; it says where each file goes and how to move a node",
            boundary::DOCUMENT
        ));
    }
    Ok(0)
}

fn choice(args: &InitHybridArgs) -> Result<ServiceNodes> {
    match (args.services, &args.services_nodes, &args.label) {
        (Some(count), ..) => Ok(ServiceNodes::Count(count as usize)),
        (_, Some(list), _) => Ok(ServiceNodes::Names(list.clone())),
        (_, _, Some((name, value))) => {
            Ok(ServiceNodes::Label { name: name.clone(), value: value.clone() })
        }
        _ => Err(Failure::usage("the nodes for services are not given")
            .hint("add --services 2, --services-nodes 'node[01-02]', or --label pool=services")
            .into()),
    }
}

fn partition_failure(error: PartitionError) -> Failure {
    let failure = Failure { code: USAGE, ..Failure::new(error.to_string()) };
    match error {
        PartitionError::NoBatch { .. } => {
            failure.hint("services alone need no Slurm pool and no boundary")
        }
        PartitionError::NoServices { .. } => {
            failure.hint("batch jobs alone need no Kubernetes pool and no boundary")
        }
        PartitionError::Names { why, .. } => why.hint.into_iter().fold(failure, Failure::hint),
        PartitionError::UnknownNode { .. } | PartitionError::UnknownLabel { .. } => failure,
    }
}

/// Returns all files by name, in reading order.
fn files(parts: &ClusterPartition, whole: String) -> Result<Vec<(&'static str, String)>> {
    let batch = &parts.batch.nodes;
    let services = &parts.services.nodes;
    Ok(vec![
        (boundary::DOCUMENT, boundary::document(parts)),
        (boundary::SLURM_NODES, pool::nodes(batch)),
        (boundary::SLURM_GRES, pool::gres(batch)),
        (boundary::KUBERNETES, kubernetes::pool::script(services, batch)),
        (boundary::BATCH, cluster_text(&parts.batch, "the batch pool: nodes of Slurm")?),
        (
            boundary::SERVICES,
            cluster_text(&parts.services, "the services pool: nodes of Kubernetes")?,
        ),
        (boundary::ALL, whole),
    ])
}

fn cluster_text(cluster: &Cluster, what: &str) -> Result<String> {
    let heading = vec![format!("{what}; {}", summary(&cluster.nodes))];
    let notes = ClusterNotes { heading, ..ClusterNotes::default() };
    Ok(write_cluster(cluster, &notes).map_err(unwritable)?)
}

fn print_pools(app: &App, parts: &ClusterPartition) {
    for (pool, nodes) in [("batch", &parts.batch.nodes), ("services", &parts.services.nodes)] {
        app.ui.status(&format!("{pool:9} {}: {}", summary(nodes), names(nodes)));
    }
    let broken = boundary::split_domains(parts);
    if !broken.is_empty() {
        app.ui.warning(&format!("topology domains with nodes in both pools: {broken}"));
    }
}

fn names(nodes: &[NodeSpec]) -> String {
    hostlist::folded(nodes.iter().map(|node| node.name.as_str()))
}

fn report(app: &App, dir: &str, texts: &check::Texts) -> Result<u8> {
    let findings = check::findings(texts)?;
    for finding in &findings {
        app.ui.data(&format!("{finding}\n"))?;
    }
    match findings.len() {
        0 => {
            let count = |name| {
                parse_cluster(texts.get(name).map_or("", String::as_str), None)
                    .map_or(0, |it| it.nodes.len())
            };
            let batch = count(boundary::BATCH);
            let services = count(boundary::SERVICES);
            app.ui.status(&format!(
                "{dir}: {} nodes, {batch} batch and {services} services; each is in exactly one pool",
                batch + services
            ));
            Ok(0)
        }
        count => {
            app.ui.error(&format!("{dir}: {count} finding{}", if count == 1 { "" } else { "s" }));
            app.ui.hint(&format!("{} says how to move a node", boundary::DOCUMENT));
            Ok(FAILURE)
        }
    }
}
