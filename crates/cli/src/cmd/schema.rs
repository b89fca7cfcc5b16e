//! `muster schema`.

use anyhow::Result;

use crate::app::App;

/// Print the JSON Schema of job, queue or cluster files
///
/// For editors that complete and check YAML.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Which file it describes
    #[arg(value_enum, default_value_t = Kind::Job)]
    kind: Kind,
}

/// The files that Muster reads.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// What to run
    Job,
    /// Who may use how much
    Queues,
    /// What there is
    Cluster,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    let schema = match args.kind {
        Kind::Job => muster_spec::schema(),
        Kind::Queues => muster_spec::queues_schema(),
        Kind::Cluster => muster_spec::cluster_schema(),
    };
    app.ui.json(&schema)?;
    Ok(0)
}
