//! `muster import --slurm-conf`: converts the configuration of a Slurm cluster to a cluster file
//! and a queue file. `muster-slurm` converts them.

use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_model::{GpuModel, NodeSpec};
use muster_slurm::conf::source::{CheckSource, SourceKind};
use muster_slurm::import_conf::{self, ConfImportError};
use muster_slurm::sacctmgr::AccountingDump;
use muster_spec::{Cluster, ClusterNotes, UnwritableQueues, write_cluster, write_queues};

use crate::app::App;
use crate::cmd::check::collect;
use crate::cmd::inventory::{summary, unwritable};
use crate::exit::Failure;
use crate::{output_files, source};

/// Largest dump of accounts in bytes.
const MAX_BYTES: u64 = 64 << 20;
/// Name of the cluster file in the folder of `-o`.
const CLUSTER: &str = "cluster.yaml";
/// Name of the queue file in the folder of `-o`.
const QUEUES: &str = "queues.yaml";

/// Options for a cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SlurmConfArgs {
    /// Convert the configuration of a Slurm cluster to a cluster file and a queue file: its
    /// slurm.conf, its folder with gres.conf and topology.conf, or saved output of `scontrol show
    /// node -o -d`. -o names the folder for the two files
    #[arg(long, value_name = "PATH", conflicts_with_all = ["script", "json", "format", "baseline", "write_baseline", "strict", "arguments", "cluster"], help_heading = "A cluster")]
    slurm_conf: Option<PathBuf>,
    /// Accounts and QOS of the cluster, for the queues: `sacctmgr dump CLUSTER file=FILE`,
    /// `sacctmgr -P show assoc` with ParentName, `sacctmgr -P show qos`, or a script of such
    /// commands; may be repeated
    #[arg(long, value_name = "FILE", requires = "slurm_conf", help_heading = "A cluster")]
    sacctmgr: Vec<PathBuf>,
    /// Names of the switch levels in topology.conf, the widest first
    #[arg(
        long,
        value_name = "NAME,..",
        value_delimiter = ',',
        requires = "slurm_conf",
        help_heading = "A cluster"
    )]
    levels: Vec<String>,
    /// Model of GPUs whose type is in no file
    #[arg(long, value_name = "MODEL", requires = "slurm_conf", help_heading = "A cluster")]
    gpu: Option<String>,
}

impl SlurmConfArgs {
    /// Returns the path of the cluster's files; `None` if a script is imported.
    pub fn path(&self) -> Option<&Path> {
        self.slurm_conf.as_deref()
    }
}

/// Converts the configuration of a cluster; returns the exit code.
pub fn run(
    app: &App,
    path: &Path,
    args: &SlurmConfArgs,
    output: Option<&Path>,
    force: bool,
) -> Result<u8> {
    // 1. Read the sources.
    let sources = sources(path)?;
    let entered = read_accounting(&args.sacctmgr)?;

    // 2. Convert nodes and queues, and collect what cannot be expressed.
    let gpu = args.gpu.as_ref().map(|model| GpuModel::from(model.to_lowercase().as_str()));
    let made = import_conf::import(&sources, &entered, &args.levels, gpu.as_ref())
        .map_err(conf_failure)?;
    let nodes: Vec<NodeSpec> = made.nodes.iter().map(|listed| listed.node.clone()).collect();
    let lost = made.lost;

    // 3. Write two files; the writers check that they parse to the same value.
    let whole = summary(&nodes);
    let heading = vec![format!("{whole}, from {}; written by muster import", path.display())];
    let notes = ClusterNotes {
        heading: heading.clone(),
        nodes: made
            .nodes
            .iter()
            .map(|listed| (listed.node.name.clone(), listed.notes.clone()))
            .collect(),
    };
    let cluster =
        write_cluster(&Cluster { levels: made.levels, nodes }, &notes).map_err(unwritable)?;
    let reported = lost.iter().map(|lost| format!("not as in Slurm: {lost}"));
    let heading: Vec<String> = heading.into_iter().chain(reported).collect();
    let queues = write_queues(&made.queues, &heading).map_err(queues_failure)?;
    let files = [(CLUSTER, cluster), (QUEUES, queues)];
    match output.filter(|path| *path != Path::new("-")) {
        Some(dir) => {
            output_files::write_all(dir, &files, force)?;
            app.ui.status(&format!("{}: {CLUSTER} and {QUEUES}, {whole}", dir.display()));
        }
        None => {
            for (name, text) in &files {
                app.ui.data(&format!("==> {name} <==\n{text}\n"))?;
            }
        }
    }
    lost.iter().for_each(|lost| app.ui.warning(&format!("not as in Slurm: {lost}")));
    Ok(0)
}

/// Reads the files of a folder, or slurm.conf with the files in its folder and those it includes.
fn sources(path: &Path) -> Result<Vec<CheckSource>> {
    let mut paths = vec![path.to_path_buf()];
    if !path.is_dir() {
        let beside = path.parent().unwrap_or(Path::new(""));
        let names = ["gres.conf", "topology.conf"].map(|name| beside.join(name));
        paths.extend(names.into_iter().filter(|other| other.is_file() && other != path));
    }
    let sources = collect::offline(&paths)?;
    let is_cluster =
        |source: &CheckSource| matches!(source.kind, SourceKind::SlurmConf | SourceKind::Nodes);
    if sources.iter().any(is_cluster) {
        Ok(sources)
    } else {
        Err(Failure::usage(format!("{} contains no slurm.conf", path.display()))
            .hint("name slurm.conf or its folder, such as /etc/slurm")
            .into())
    }
}

fn read_accounting(paths: &[PathBuf]) -> Result<AccountingDump> {
    let mut entered = AccountingDump::default();
    for path in paths {
        let (name, text) = source::text(path, MAX_BYTES)?;
        if !entered.read(&text) {
            return Err(Failure::usage(format!("{name} is not output or input of sacctmgr"))
                .hint("`sacctmgr dump CLUSTER file=FILE` writes accounts, `sacctmgr -P show qos > FILE` writes QOS")
                .into());
        }
    }
    Ok(entered)
}

fn conf_failure(error: ConfImportError) -> Failure {
    error.hint().into_iter().fold(Failure::usage(error.to_string()), Failure::hint)
}

fn queues_failure(error: UnwritableQueues) -> Failure {
    match error {
        UnwritableQueues::Refused(diagnostics) => Failure::from(*diagnostics),
        UnwritableQueues::Differs => Failure::new(error.to_string()),
    }
}
