//! `muster schema`.

use anyhow::Result;
use muster_model::advice::{Advice, Comparison, SiteAdvice, answer_schema};
use muster_model::check::CheckReport;
use muster_model::imported::ImportReport;
use muster_model::proof::{GangOrders, GangProof, GangSweep};
use muster_model::simulation::{
    FlatComparison, FleetComparison, FleetEvent, FleetInstant, PackingComparison, PolicyAnswer,
    PolicyState, WhatIf,
};
use muster_model::trace::TraceSummary;
use muster_model::verify::VerifyReport;

use crate::app::App;

/// Print the JSON Schema of an input file or of an output
///
/// For editors that complete and validate YAML, and for programs that parse output. The same
/// schemas are in docs/schema.
#[derive(Debug, clap::Args)]
pub struct SchemaArgs {
    /// File or output that the schema describes
    #[arg(value_enum, default_value_t = SchemaKind::Job)]
    kind: SchemaKind,
}

/// Input files, and outputs of subcommands that need no daemon.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SchemaKind {
    /// Job file, for `muster run`
    Job,
    /// Queue file, for `muster serve --queues`
    Queues,
    /// Cluster file, for `muster simulate --cluster`
    Cluster,
    /// Facts of one workload, for `muster advise --facts`; also each line of `--batch`
    Facts,
    /// Site file, for `muster advise --site`
    Site,
    /// Output of `muster advise --json` for a workload
    Advice,
    /// Output of `muster advise --json` for a site
    SiteAdvice,
    /// Output of `muster compare --json`
    Comparison,
    /// Output of `muster simulate --json`
    FlatComparison,
    /// Output of `muster simulate --cluster --json`
    FleetComparison,
    /// Line of the file of `muster simulate --events-out`
    FleetEvent,
    /// Element of the list of `muster simulate --at --json`
    FleetInstant,
    /// Line that a policy of `muster simulate --scheduler exec:COMMAND` reads
    PolicyState,
    /// Line that it writes
    PolicyAnswer,
    /// Output of `muster whatif --json`
    WhatIf,
    /// Output of `muster simulate --no-departures --json`
    PackingComparison,
    /// Output of `muster prove gang --json`
    GangProof,
    /// Output of `muster prove gang --all-orders --json`
    GangOrders,
    /// Output of `muster prove gang --sweep --json`
    GangSweep,
    /// Output of `muster check slurm --json`
    CheckReport,
    /// Output of `muster verify --json`
    VerifyReport,
    /// Output of `muster import --json`
    ImportReport,
    /// Recipe file, for `muster trace generate`
    TraceRecipe,
    /// Output of `muster trace summary --json`
    TraceSummary,
}

/// Runs `muster schema`; returns its exit code.
pub fn run(app: &App, args: &SchemaArgs) -> Result<u8> {
    let schema = match args.kind {
        SchemaKind::Job => muster_spec::schema(),
        SchemaKind::Queues => muster_spec::queues_schema(),
        SchemaKind::Cluster => muster_spec::cluster_schema(),
        SchemaKind::Facts => muster_spec::facts_schema(),
        SchemaKind::Site => muster_spec::site_schema(),
        SchemaKind::Advice => answer_schema::<Advice>(),
        SchemaKind::SiteAdvice => answer_schema::<SiteAdvice>(),
        SchemaKind::Comparison => answer_schema::<Comparison>(),
        SchemaKind::FlatComparison => answer_schema::<FlatComparison>(),
        SchemaKind::FleetComparison => answer_schema::<FleetComparison>(),
        SchemaKind::FleetEvent => answer_schema::<FleetEvent>(),
        SchemaKind::FleetInstant => answer_schema::<FleetInstant>(),
        SchemaKind::PolicyState => answer_schema::<PolicyState>(),
        SchemaKind::PolicyAnswer => answer_schema::<PolicyAnswer>(),
        SchemaKind::WhatIf => answer_schema::<WhatIf>(),
        SchemaKind::PackingComparison => answer_schema::<PackingComparison>(),
        SchemaKind::GangProof => answer_schema::<GangProof>(),
        SchemaKind::GangOrders => answer_schema::<GangOrders>(),
        SchemaKind::GangSweep => answer_schema::<GangSweep>(),
        SchemaKind::CheckReport => answer_schema::<CheckReport>(),
        SchemaKind::VerifyReport => answer_schema::<VerifyReport>(),
        SchemaKind::ImportReport => answer_schema::<ImportReport>(),
        SchemaKind::TraceRecipe => muster_spec::recipe_schema(),
        SchemaKind::TraceSummary => answer_schema::<TraceSummary>(),
    };
    app.ui.json(&schema)?;
    Ok(0)
}
