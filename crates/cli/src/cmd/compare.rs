//! `muster compare`: two control planes, dimension by dimension. Compared in `muster-advise`,
//! written in `muster-report`.

use anyhow::Result;
use muster_model::advice::Plane;
use muster_report::compare::{Detail, compare};

use crate::app::App;
use crate::args::Output;
use crate::exit::Failure;
use crate::facts::{FactArgs, RuleArgs};

/// Compare two control planes, dimension by dimension
///
/// Each stands native, with an add-on, weak or none, as the page that is named has it; where a page
/// has aged, what is true today stands below with its own source. With facts of a workload, the
/// dimensions that matter for it come first, and the end says what `muster advise` makes of both.
/// JSON: a `Comparison`, always with everything.
///
///   muster compare slurm kubernetes
///   muster compare slurm kubernetes --nodes 8 --tightly-coupled --bare-metal
///   muster compare ray slurm --facts workload.yaml
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// One of none, slurm, kubernetes, k3s, ray
    #[arg(value_enum, ignore_case = true, hide_possible_values = true)]
    one: PlaneArg,
    /// Another one
    #[arg(value_enum, ignore_case = true, hide_possible_values = true)]
    other: PlaneArg,
    /// Write out also what does not matter for the facts
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    facts: FactArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    output: Output,
}

/// A plane by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PlaneArg {
    /// People, ssh and conventions
    #[value(aliases = ["ssh", "nothing"])]
    None,
    /// The batch workload manager
    Slurm,
    /// Kubernetes with its add-ons
    #[value(aliases = ["k8s", "kube"])]
    Kubernetes,
    /// Kubernetes in one binary
    K3s,
    /// The Python-native runtime
    Ray,
}

impl From<PlaneArg> for Plane {
    fn from(plane: PlaneArg) -> Self {
        match plane {
            PlaneArg::None => Plane::None,
            PlaneArg::Slurm => Plane::Slurm,
            PlaneArg::Kubernetes => Plane::Kubernetes,
            PlaneArg::K3s => Plane::K3s,
            PlaneArg::Ray => Plane::Ray,
        }
    }
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    let planes = [Plane::from(args.one), Plane::from(args.other)];
    if planes[0] == planes[1] {
        let others: Vec<&str> = Plane::ALL
            .iter()
            .filter(|plane| **plane != planes[0])
            .map(|plane| plane.name())
            .collect();
        return Err(Failure::usage(format!("{} is compared with itself", planes[0]))
            .hint(format!("name another one: {}", others.join(", ")))
            .into());
    }
    let mut workload = args.facts.read()?;
    args.rules.apply(&mut workload.thresholds)?;
    let facts = (!args.facts.is_empty()).then_some(&workload.facts);
    let comparison =
        muster_advise::compare(planes, facts, &workload.thresholds, args.rules.ruleset());
    if args.output.json() {
        app.ui.json(&comparison)?;
        return Ok(0);
    }
    let detail = if args.all { Detail::All } else { Detail::Matters };
    app.ui.data(&compare(&comparison, detail, &app.ui.style()))?;
    Ok(0)
}
