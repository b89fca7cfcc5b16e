//! `muster advise --prove`: simulates the recommended control plane and alternatives on the site's
//! workload. `muster-sim` builds the site and computes the figures; here are options, files and
//! threads. The advice itself is not changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use muster_model::advice::{
    ProvedKind, ProvedPlane, RuleEffect, SiteAdvice, SiteProfile, SiteProof,
};
use muster_model::simulation::FleetHours;
use muster_model::{QueueTree, Time};
use muster_report::amount::count;
use muster_sim::advice_proof::{self, Candidate, LoadRequest, NotSimulated};
use muster_sim::flat::Estimates;
use muster_sim::fleet::{
    Failures, Finished, Fleet, FleetLoad, FleetSite, Loading, StopCosts, figures, size_name,
    to_common_horizon,
};

use crate::app::App;
use crate::args::whole_number;
use crate::cmd::simulate::watch::{self, SimulationProgress};
use crate::cmd::simulate::{cluster, warn_of_bad_rows};
use crate::exit::Failure;
use crate::trace_file::{self, Opened};

/// Rules that waiting times and idle GPUs can confirm: those about gang scheduling and queueing.
/// All others are about people, operations, services or existing systems.
const CONFIRMABLE: [&str; 4] = ["site-gang-required", "runai-gang", "runai", "kueue"];

/// Options of a proof.
#[derive(Debug, clap::Args)]
pub struct AdviseProveArgs {
    /// Simulate the recommended control plane and alternatives on the site's workload mix, and show
    /// the figures with the reasons
    ///
    /// Waiting times, GPU utilisation and idle GPU-hours of the recommended control plane, of those
    /// that flips lead to, of all others that have a model, and of Muster's own scheduler.
    /// Assumptions about the site are listed. Ctrl-C shows the results so far.
    #[arg(long, conflicts_with_all = ["fields", "mermaid", "expect", "batch"], help_heading = HEADING)]
    pub prove: bool,
    /// Replay this trace in place of the mix, in any format of `muster simulate`; - is stdin
    #[arg(long, value_name = "FILE", requires = "prove", help_heading = HEADING)]
    trace: Option<PathBuf>,
    /// Take the nodes from a cluster file or node list, in place of the site's fleet
    #[arg(long, value_name = "FILE", requires = "prove", help_heading = HEADING)]
    cluster: Option<PathBuf>,
    /// Queue file with queues, quotas and policies, in place of equal teams; by default a trace has
    /// one queue
    #[arg(long, value_name = "FILE", requires = "prove", help_heading = HEADING)]
    queues: Option<PathBuf>,
    /// Price of a GPU-hour, such as 2.5, to show the cost of idle GPU-hours
    #[arg(long, value_name = "PRICE", value_parser = price, requires = "prove", help_heading = HEADING)]
    gpu_hour_price: Option<f64>,
    /// Number of days during which jobs of the mix are submitted [default: 7]
    #[arg(long, value_name = "N", value_parser = whole_number(1, 365), requires = "prove", conflicts_with = "trace", help_heading = HEADING)]
    days: Option<u32>,
    /// GPU-hours requested by the mix, in percent of those of the fleet [default: 90]
    #[arg(long, value_name = "PERCENT", value_parser = whole_number(1, 300), requires = "prove", conflicts_with = "trace", help_heading = HEADING)]
    demand: Option<u32>,
    /// First random seed [default: 1]
    #[arg(long, value_name = "N", requires = "prove", help_heading = HEADING)]
    seed: Option<u64>,
    /// Number of runs of each control plane, each with its own seed, for confidence intervals
    /// [default: 5]
    ///
    /// The mix is generated anew for each seed. A trace is the same for all seeds, so control
    /// planes whose models are deterministic run once.
    #[arg(long, value_name = "N", value_parser = whole_number(1, 100), requires = "prove", help_heading = HEADING)]
    seeds: Option<u32>,
    /// Stop after this many seconds, and show the results so far
    #[arg(long, value_name = "SECONDS", value_parser = whole_number(1, 86_400), requires = "prove", help_heading = HEADING)]
    budget: Option<u32>,
}

const HEADING: &str = "Proof by simulation of the site";
const USUAL: LoadRequest = LoadRequest { demand_percent: 90, days: 7, seed: 1 };
const USUAL_SEEDS: u32 = 5;

impl AdviseProveArgs {
    /// Returns whether the trace is read from stdin.
    pub fn reads_stdin(&self) -> bool {
        self.trace.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}

fn price(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(price) if price >= 0.0 && price.is_finite() => Ok(price),
        _ => Err("expected a number of at least 0, such as 2.5".to_owned()),
    }
}

/// Input that all runs share.
struct ProofSetup {
    site: FleetSite,
    /// Site and parameters from which the load is generated for each seed; `None` for a trace,
    /// which is the same for all seeds.
    mix: Option<(SiteProfile, LoadRequest)>,
    /// Load of the first seed.
    first: Load,
    seeds: Vec<u64>,
    /// Number of rows that could not be parsed.
    bad_rows: u64,
    assumed: Vec<String>,
}

/// Load of one seed.
struct Load {
    load: FleetLoad,
    /// Interval in which utilisation is measured.
    counted: (Time, Time),
    /// Kinds of workload, if the load is generated from the mix.
    kinds: Vec<ProvedKind>,
}

/// Run to do: a control plane and a seed.
struct ProofRun {
    /// Index of the control plane.
    contender: usize,
    seed: u64,
}

/// Runs the simulations and adds the proof to the advice. Returns false if interrupted.
pub async fn run(
    app: &App,
    args: &AdviseProveArgs,
    profile: &SiteProfile,
    advice: &mut SiteAdvice,
) -> Result<bool> {
    // 1. Set up the site, the load and the control planes.
    let mut given = setup(app, args, profile)?;
    let contenders = advice_proof::candidates(&advice.advice.label, &advice.advice.flips);
    let jobs = given.first.load.jobs.len();
    let proof = SiteProof { unseen: unconfirmed_reasons(advice), ..description(args, &mut given) };

    // 2. Run all control planes with the first seed before any with the next, so that an interrupt
    //    still leaves results for all of them.
    let tasks = tasks(&given, &contenders);
    let total = (jobs * tasks.len()) as u64;
    let price = args.gpu_hour_price;
    let budget = args.budget.map(|secs| Duration::from_secs(secs.into()));
    let began = Instant::now();
    let tried = contenders.clone();
    let runs = move |watch: &SimulationProgress| {
        watch::on_all_cores(&tasks, |task| run_one(watch, &given, &tried, task))
    };
    let mut played: Vec<ProofRunResult> =
        watch::within(app, total, budget, runs).await?.into_iter().collect::<Result<_>>()?;

    // 3. Compute the figures. For the same load, jobs that never end are counted up to the same
    //    time under all control planes; a trace is the same load for every seed.
    let is_same = proof.trace.is_some();
    for seed in &proof.seeds {
        let on_load = played.iter_mut().filter(|run| is_same || run.seed == *seed);
        to_common_horizon(on_load.map(|run| &mut run.end));
    }
    let mut rows: Vec<Vec<ProvedPlane>> = vec![Vec::new(); contenders.len()];
    for ProofRunResult { contender, counted, end, .. } in &played {
        let row = advice_proof::row(
            &contenders[*contender],
            counted,
            end.figures(),
            &proof.largest,
            price,
        );
        rows[*contender].push(row);
    }
    let planes: Vec<ProvedPlane> = rows.iter().map(|rows| advice_proof::over_seeds(rows)).collect();
    // A budget that is spent is no interrupt.
    let is_spent = budget.is_some_and(|budget| began.elapsed() >= budget);
    let is_whole = is_spent || planes.iter().all(|plane| !plane.is_partial);
    let verdict = advice_proof::verdict(&planes, proof.gpu_hours);
    advice.proof = Some(SiteProof { planes, verdict, ..proof });
    Ok(is_whole)
}

/// Returns the runs: every control plane with every seed, or with the first seed only if nothing
/// depends on the seed.
fn tasks(given: &ProofSetup, contenders: &[Candidate]) -> Vec<ProofRun> {
    let is_same = given.mix.is_none();
    let mut tasks = Vec::new();
    for (at, seed) in given.seeds.iter().enumerate() {
        let depends = |contender: &Candidate| !is_same || contender.scheduler.is_random();
        let run =
            contenders.iter().enumerate().filter(|(_, contender)| at == 0 || depends(contender));
        tasks.extend(run.map(|(contender, _)| ProofRun { contender, seed: *seed }));
    }
    tasks
}

/// Returns a proof with the description of site and load, without results.
fn description(args: &AdviseProveArgs, given: &mut ProofSetup) -> SiteProof {
    let Load { load, counted: (first, until), kinds } = &given.first;
    let widths = load.jobs.iter().map(|job| job.width_milli(true));
    let counted_hours = until.since(*first).0 as f64 / 3.6e6;
    let gpus = given.site.size_milli() / 1000;
    SiteProof {
        trace: path_text(args.trace.as_deref()),
        cluster: path_text(args.cluster.as_deref()),
        queues: path_text(args.queues.as_deref()),
        seed: given.seeds[0],
        seeds: given.seeds.clone(),
        nodes: given.site.nodes.len() as u64,
        gpus,
        jobs: load.jobs.len() as u64,
        never_ran: load.never_ran,
        too_large: load.too_large,
        strangers: load.strangers,
        bad_rows: given.bad_rows,
        asked_gpu_hours: advice_proof::gpu_hours(&load.jobs),
        counted_hours,
        gpu_hours: counted_hours * gpus as f64,
        gpu_hour_price: args.gpu_hour_price,
        kinds: kinds.clone(),
        assumed: std::mem::take(&mut given.assumed),
        largest: size_name(widths.max().unwrap_or_default()).to_owned(),
        planes: Vec::new(),
        verdict: advice_proof::verdict(&[], 0.0),
        unseen: Vec::new(),
    }
}

fn path_text(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// Returns the ids of the reasons that waiting times and idle GPUs cannot confirm.
fn unconfirmed_reasons(advice: &SiteAdvice) -> Vec<String> {
    let weighs = advice.advice.rules.iter().filter(|rule| rule.effect != RuleEffect::Reason);
    weighs.map(|rule| rule.id.to_owned()).filter(|id| !CONFIRMABLE.contains(&id.as_str())).collect()
}

/// Sets up the site and the load, from files if they are given.
fn setup(app: &App, args: &AdviseProveArgs, profile: &SiteProfile) -> Result<ProofSetup> {
    let mut assumed = Vec::new();
    // 1. Nodes and queues.
    let (site, bad_nodes) = fleet_site(app, args, profile, &mut assumed)?;
    // 2. Jobs.
    let seed = args.seed.unwrap_or(USUAL.seed);
    let seeds =
        (0..args.seeds.unwrap_or(USUAL_SEEDS)).map(|at| seed.wrapping_add(u64::from(at))).collect();
    let mut bad_rows = bad_nodes;
    let (mix, mut first) = match &args.trace {
        Some(path) => {
            let (load, bad) = trace_load(app, path, &site)?;
            bad_rows += bad;
            (None, load)
        }
        None => {
            let asked = LoadRequest {
                demand_percent: args.demand.unwrap_or(USUAL.demand_percent),
                days: args.days.unwrap_or(USUAL.days),
                seed,
            };
            let load = generated_load(profile, &site, asked, &mut assumed)?;
            (Some((profile.clone(), asked)), load)
        }
    };
    if args.queues.is_none() {
        // As in `muster simulate`: without a queue file, queues of the trace cannot be unknown.
        first.load.strangers = 0;
    }
    // 3. What is left out and assumed.
    check_jobs(&first.load)?;
    let jobs = &first.load.jobs;
    let endless = jobs.iter().filter(|job| job.estimate.is_none()).count();
    if args.trace.is_some() && endless > 0 {
        let all = count(jobs.len() as u64, "job");
        assumed.push(format!(
            "{endless} of {all} have no time limit, so the figures depend on assumed limits: slurm plans with 7 days, muster without \
             a limit; with limits set by users, the differences between control planes can be several times smaller"
        ));
    }
    Ok(ProofSetup { site, mix, first, seeds, bad_rows, assumed })
}

/// Returns the nodes and queues of the site, and the number of nodes that cannot be parsed.
fn fleet_site(
    app: &App,
    args: &AdviseProveArgs,
    profile: &SiteProfile,
    assumed: &mut Vec<String>,
) -> Result<(FleetSite, u64)> {
    let mut levels = Vec::new();
    let mut bad_nodes = 0;
    let nodes = match &args.cluster {
        Some(path) => {
            let cluster = cluster::read(path, false)?;
            cluster::warn_of_bad_nodes(app, &cluster.bad);
            levels = cluster.levels;
            bad_nodes = cluster.bad.len() as u64;
            cluster.nodes
        }
        None => advice_proof::nodes(profile, assumed).map_err(|refusal| not_simulated(&refusal))?,
    };
    let tree = match &args.queues {
        Some(path) => cluster::queues(path)?,
        // A trace does not say which of its jobs belong to which team of the site.
        None if args.trace.is_some() => QueueTree::single(),
        None => advice_proof::queues(profile, assumed),
    };
    let site = FleetSite { nodes, levels, tree };
    if !site.has_gpus() {
        return Err(not_simulated(&NotSimulated::NoGpus).into());
    }
    Ok((site, bad_nodes))
}

/// Returns the load of a trace, and the number of rows that cannot be parsed.
fn trace_load(app: &App, path: &Path, site: &FleetSite) -> Result<(Load, u64)> {
    let trace = Opened::at(path, None)?;
    let as_tasks = trace.format().names_tasks();
    let mut loading = Loading::new(site, Estimates::Requested, as_tasks);
    let read = trace.stream(false, &mut |job| loading.add(&job))?;
    warn_of_bad_rows(app, &read.bad, read.bad_count);
    trace_file::warn_of_duplicate_ids(app, read.duplicate_ids);
    let load = loading.done();
    let counted = advice_proof::counted(&load.jobs, site, 0);
    Ok((Load { load, counted, kinds: Vec::new() }, read.bad_count))
}

/// Rejects a load without any job that can run.
fn check_jobs(load: &FleetLoad) -> Result<(), Failure> {
    if !load.jobs.is_empty() {
        return Ok(());
    }
    let hint = format!(
        "{} without a known runtime, {} that would not fit on the idle cluster",
        count(load.never_ran, "job"),
        count(load.too_large, "job")
    );
    Err(Failure::usage("no job can run on this cluster").hint(hint))
}

/// Generates jobs from the mix, and records the assumptions.
fn generated_load(
    profile: &SiteProfile,
    site: &FleetSite,
    asked: LoadRequest,
    assumed: &mut Vec<String>,
) -> Result<Load> {
    let work = advice_proof::work(profile, site, asked, assumed)
        .map_err(|refusal| not_simulated(&refusal))?;
    let load = FleetLoad::of(&work.jobs, site, Estimates::Requested, true);
    let counted = advice_proof::counted(&load.jobs, site, asked.days);
    Ok(Load { load, counted, kinds: work.kinds })
}

fn not_simulated(refusal: &NotSimulated) -> Failure {
    let failure = Failure::usage(format!("this site cannot be simulated: {refusal}"));
    failure.hint(match refusal {
        NotSimulated::TooManyJobs { .. } => "use fewer `--days`, or a smaller `--cluster`",
        NotSimulated::NoGpus => "use a `--cluster` with GPUs",
        NotSimulated::TooLarge { .. } | NotSimulated::TooDense { .. } => {
            "give the relevant part of it with `--cluster`, as for `muster simulate`"
        }
    })
}

/// Result of a run.
struct ProofRunResult {
    /// Use of the GPU-hours in the measured interval.
    counted: FleetHours,
    end: Finished,
    /// Index of the control plane.
    contender: usize,
    seed: u64,
}

fn run_one(
    watch: &SimulationProgress,
    given: &ProofSetup,
    tried: &[Candidate],
    task: &ProofRun,
) -> Result<ProofRunResult> {
    let ProofRun { contender, seed } = *task;
    let scheduler = tried[contender].scheduler;
    // 1. Generate the load. It is generated again for each control plane, since the loads of all
    //    seeds together may not fit into memory; not at all if the runs are being stopped.
    let again = match &given.mix {
        Some((profile, asked)) if seed != asked.seed && !watch.is_stopped() => Some(
            generated_load(profile, &given.site, LoadRequest { seed, ..*asked }, &mut Vec::new())?,
        ),
        _ => None,
    };
    let Load { load, counted: (_, until), .. } = again.as_ref().unwrap_or(&given.first);
    let jobs = if scheduler.gives_shares() { Arc::clone(&load.jobs) } else { load.in_whole_gpus() };
    // 2. Run to the end of the measured interval, then to the end of the load.
    let plane = scheduler.begin(&given.site, seed)?;
    let mut fleet = Fleet::new(&given.site, plane, jobs, StopCosts::default(), Failures::default());
    if watch::play(watch, &mut fleet, Some(*until), |_| Ok(()))? {
        fleet.rest_until(*until);
    }
    let counted = figures(scheduler, fleet.cluster(), true).hours;
    let is_over = watch::play(watch, &mut fleet, None, |_| Ok(()))?;
    watch.count(load.jobs.len() - fleet.cluster().jobs().len());
    Ok(ProofRunResult { counted, end: Finished::of(scheduler, fleet, !is_over), contender, seed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_are_seen_are_reasons() {
        let known = muster_advise::anchors();
        assert!(CONFIRMABLE.iter().all(|id| known.contains(id)), "{CONFIRMABLE:?}");
    }

    #[test]
    fn a_price_is_nothing_or_more() {
        assert_eq!((price("2.5"), price("0")), (Ok(2.5), Ok(0.0)));
        assert!(["-1", "two", "NaN", "inf", "$2"].iter().all(|text| price(text).is_err()));
    }
}
