//! `muster init kueue`, `volcano` and `kai`: writes the queues of another scheduler of Kubernetes.
//! `muster-kubernetes` renders the files.

use std::path::{Path, PathBuf};

use anyhow::Result;
use muster_kubernetes::init::{self, Plane, QueueFilesInput};
use muster_model::QueueTree;
use muster_spec::{parse_cluster, parse_queues};

use super::generated::{self, EarlierFiles, GeneratedFile, OtherFiles};
use crate::app::App;
use crate::cmd::inventory::summary;
use crate::exit::{Failure, USAGE};
use crate::source;

/// Arguments of the three commands.
#[derive(Debug, clap::Args)]
pub struct InitQueueObjectsArgs {
    /// Cluster file; `kubectl get nodes -o json | muster inventory --from -` writes one
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,
    /// Queue file; by default there is one queue, `default`
    #[arg(long, value_name = "FILE")]
    queues: Option<PathBuf>,
    /// Namespace of the jobs of queues without `users`, which are namespaces here
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Directory for the files, by default the name of the scheduler; - prints them without writing
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    earlier: EarlierFiles,
}

/// Runs one of the commands; returns its exit code.
pub fn run(app: &App, plane: Plane, args: &InitQueueObjectsArgs) -> Result<u8> {
    // 1. Read the cluster and the queues.
    let given = source::read(&args.cluster)?;
    let cluster = parse_cluster(&given.source, given.file.as_deref()).map_err(Failure::from)?;
    let queues = match &args.queues {
        Some(path) => {
            let text = source::read(path)?;
            parse_queues(&text.source, text.file.as_deref()).map_err(Failure::from)?
        }
        None => QueueTree::single(),
    };

    // 2. Render the files.
    let input = QueueFilesInput {
        nodes: &cluster.nodes,
        levels: &cluster.levels,
        queues: &queues,
        namespace: &args.namespace,
    };
    let made = init::render(plane, &input).map_err(|error| {
        Failure { code: USAGE, ..Failure::new(error.to_string()) }.hint(error.hint())
    })?;
    let word = plane.name().to_ascii_lowercase();
    let new = |(name, text): &(&'static str, String)| GeneratedFile::new(&word, name, text);
    let files: Vec<GeneratedFile> = made.files.iter().map(new).collect();

    // 3. Write them.
    let dir = args.output.clone().unwrap_or_else(|| PathBuf::from(&word));
    let of = summary(&cluster.nodes);
    if let Some(code) = generated::deliver(app, &dir, &files, args.earlier, OtherFiles::Keep, &of)?
    {
        return Ok(code);
    }
    for line in &made.unsupported {
        app.ui.warning(&format!("{}: {line}", plane.name()));
    }
    if dir != Path::new("-") {
        app.ui.hint(&format!(
            "they are for {} {}; read them, then apply them in the order {}; `muster check kubernetes` checks the cluster afterwards",
            plane.name(),
            plane.version(),
            made.files.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
        ));
    }
    Ok(0)
}
