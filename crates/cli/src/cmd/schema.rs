//! `muster schema`.

use anyhow::Result;
use muster_model::advice::{Advice, Comparison, SiteAdvice, answer_schema};
use muster_model::check::CheckReport;
use muster_model::imported::ImportReport;
use muster_model::proof::{GangOrders, GangProof, GangSweep};
use muster_model::simulation::{
    FlatComparison, FleetComparison, FleetEvent, FleetInstant, PackingComparison, WhatIf,
};
use muster_model::trace::TraceSummary;
use muster_model::verify::VerifyReport;

use crate::app::App;

/// Print the JSON Schema of a file that Muster reads, or of an answer that it gives
///
/// For editors that complete and check YAML, and for programs that read answers. The same schemas
/// are in docs/schema.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What it describes
    #[arg(value_enum, default_value_t = Kind::Job)]
    kind: Kind,
}

/// Files that Muster reads, and answers that need no daemon.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Kind {
    /// What to run
    Job,
    /// Who may use how much
    Queues,
    /// What there is
    Cluster,
    /// One workload, for `muster advise --facts`; also each line of `--batch`
    Facts,
    /// A whole site, for `muster advise --site`
    Site,
    /// The answer of `muster advise --json` to a workload
    Advice,
    /// The answer to a site
    SiteAdvice,
    /// The answer of `muster compare --json`
    Comparison,
    /// The answer of `muster simulate --json`
    FlatComparison,
    /// The same, with --cluster
    FleetComparison,
    /// A line of `muster simulate --events-out`
    FleetEvent,
    /// One of what `muster simulate --at --json` lists
    FleetInstant,
    /// The answer of `muster whatif --json`
    WhatIf,
    /// The answer of `muster simulate --no-departures --json`
    PackingComparison,
    /// The answer of `muster prove gang --json`
    GangProof,
    /// The same, with --all-orders
    GangOrders,
    /// The same, with --sweep
    GangSweep,
    /// The answer of `muster check slurm --json`
    CheckReport,
    /// The answer of `muster verify --json`
    VerifyReport,
    /// The answer of `muster import --json`
    ImportReport,
    /// How a trace is made, for `muster trace generate`
    TraceRecipe,
    /// The answer of `muster trace summary --json`
    TraceSummary,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    let schema = match args.kind {
        Kind::Job => muster_spec::schema(),
        Kind::Queues => muster_spec::queues_schema(),
        Kind::Cluster => muster_spec::cluster_schema(),
        Kind::Facts => muster_spec::facts_schema(),
        Kind::Site => muster_spec::site_schema(),
        Kind::Advice => answer_schema::<Advice>(),
        Kind::SiteAdvice => answer_schema::<SiteAdvice>(),
        Kind::Comparison => answer_schema::<Comparison>(),
        Kind::FlatComparison => answer_schema::<FlatComparison>(),
        Kind::FleetComparison => answer_schema::<FleetComparison>(),
        Kind::FleetEvent => answer_schema::<FleetEvent>(),
        Kind::FleetInstant => answer_schema::<FleetInstant>(),
        Kind::WhatIf => answer_schema::<WhatIf>(),
        Kind::PackingComparison => answer_schema::<PackingComparison>(),
        Kind::GangProof => answer_schema::<GangProof>(),
        Kind::GangOrders => answer_schema::<GangOrders>(),
        Kind::GangSweep => answer_schema::<GangSweep>(),
        Kind::CheckReport => answer_schema::<CheckReport>(),
        Kind::VerifyReport => answer_schema::<VerifyReport>(),
        Kind::ImportReport => answer_schema::<ImportReport>(),
        Kind::TraceRecipe => muster_spec::recipe_schema(),
        Kind::TraceSummary => answer_schema::<TraceSummary>(),
    };
    app.ui.json(&schema)?;
    Ok(0)
}
