//! `muster compare`: compares two control planes, or Muster with one. `muster-advise` makes the comparison and
//! `muster-report` renders it.

use anyhow::Result;
use clap::ValueEnum as _;
use muster_model::advice::{ComparedSystem, ControlPlane};
use muster_report::compare::{CompareDetail, compare};

use crate::app::App;
use crate::args::OutputArgs;
use crate::exit::Failure;
use crate::facts::{FactArgs, RuleArgs};

/// Compare two control planes, or Muster with one of them, dimension by dimension
///
/// Support is native, by an add-on, weak or none, according to the cited page; if a page is
/// outdated, the present state follows with its own source. With facts of a workload, the
/// dimensions that matter for it come first, and the end shows what `muster advise` says about
/// both. JSON: a `Comparison`, always complete.
///
///   muster compare slurm kubernetes
///   muster compare slurm kubernetes --nodes 8 --tightly-coupled --bare-metal
///   muster compare ray slurm --facts workload.yaml
///   muster compare muster slurm
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct CompareArgs {
    /// First system: muster, none, slurm, kubernetes, k3s or ray
    #[arg(value_enum, ignore_case = true, hide_possible_values = true)]
    one: SystemArg,
    /// Second system, another one of these
    #[arg(value_enum, ignore_case = true, hide_possible_values = true)]
    other: SystemArg,
    /// Include dimensions that do not matter for the facts
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    facts: FactArgs,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// System by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum SystemArg {
    /// This program, with what it rides on
    Muster,
    /// No scheduler: ssh and conventions
    #[value(aliases = ["ssh", "nothing"])]
    None,
    /// The batch workload manager
    Slurm,
    /// Kubernetes with its add-ons
    #[value(aliases = ["k8s", "kube"])]
    Kubernetes,
    /// Kubernetes in one binary
    K3s,
    /// The Python-native distributed runtime
    Ray,
}

impl From<SystemArg> for ComparedSystem {
    fn from(system: SystemArg) -> Self {
        match system {
            SystemArg::Muster => ComparedSystem::Muster,
            SystemArg::None => ControlPlane::None.into(),
            SystemArg::Slurm => ControlPlane::Slurm.into(),
            SystemArg::Kubernetes => ControlPlane::Kubernetes.into(),
            SystemArg::K3s => ControlPlane::K3s.into(),
            SystemArg::Ray => ControlPlane::Ray.into(),
        }
    }
}

/// Runs `muster compare`; returns its exit code.
pub fn run(app: &App, args: &CompareArgs) -> Result<u8> {
    let planes = [ComparedSystem::from(args.one), ComparedSystem::from(args.other)];
    if planes[0] == planes[1] {
        let all = SystemArg::value_variants().iter().map(|system| ComparedSystem::from(*system));
        let others: Vec<&str> =
            all.filter(|system| *system != planes[0]).map(ComparedSystem::name).collect();
        return Err(Failure::usage(format!("cannot compare {} with itself", planes[0]))
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
    let detail = if args.all { CompareDetail::All } else { CompareDetail::Matters };
    app.ui.data(&compare(&comparison, detail, app.ui.context()))?;
    Ok(0)
}
