//! `muster advise --prove`: the advised control plane and others on the site's work. What is made
//! of the site, and what the figures say, is decided in `muster-sim`; here are options, files and
//! threads. The advice is not changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use muster_model::advice::{
    ProvedKind, ProvedPlane, RuleEffect, SiteAdvice, SiteProfile, SiteProof,
};
use muster_model::simulation::Hours;
use muster_model::{QueueTree, Time};
use muster_report::amount::count;
use muster_sim::advised::{self, Asked, Contender, NotSimulated};
use muster_sim::flat::Estimates;
use muster_sim::fleet::{
    Failures, Finished, Fleet, FleetLoad, Loading, Site, Terms, figures, size_name,
    to_common_horizon,
};

use crate::app::App;
use crate::args::whole;
use crate::cmd::simulate::watch::{self, Watch};
use crate::cmd::simulate::{cluster, warn_of_bad_rows};
use crate::exit::Failure;
use crate::trace_file::Opened;

/// Rules on which waits and idle GPUs bear: those about who is started together, and who queues.
/// All others are about people, operations, services, or what is there.
const SEEN: [&str; 4] = ["site-gang-required", "runai-gang", "runai", "kueue"];

/// What is asked of a proof.
#[derive(Debug, clap::Args)]
pub struct ProveArgs {
    /// Simulate the advised control plane and others on the site's mix of work, and show figures
    /// beside the reasons
    ///
    /// Waits, GPU use and idle GPU-hours of the advised one, of those that flips lead to, of all
    /// others that have a model, and of Muster's own engine. What the site does not say is assumed,
    /// and told. Ctrl-C shows what had come of it by then.
    #[arg(long, conflicts_with_all = ["fields", "mermaid", "expect", "batch"], help_heading = HEADING)]
    pub prove: bool,
    /// Replay this trace in place of the mix; any that `muster simulate` reads, - is stdin
    #[arg(long, value_name = "FILE", requires = "prove", help_heading = HEADING)]
    trace: Option<PathBuf>,
    /// Nodes from a cluster file or a node list, in place of the fleet
    #[arg(long, value_name = "FILE", requires = "prove", help_heading = HEADING)]
    cluster: Option<PathBuf>,
    /// Queues, quotas and policies, in place of equal teams; without it a trace has one queue
    #[arg(long, value_name = "FILE", requires = "prove", help_heading = HEADING)]
    queues: Option<PathBuf>,
    /// What a GPU-hour costs, such as 2.5: shows what the idle ones cost
    #[arg(long, value_name = "PRICE", value_parser = price, requires = "prove", help_heading = HEADING)]
    gpu_hour_price: Option<f64>,
    /// Days on which jobs of the mix are submitted [default: 7]
    #[arg(long, value_name = "N", value_parser = whole(1, 365), requires = "prove", conflicts_with = "trace", help_heading = HEADING)]
    days: Option<u32>,
    /// GPU-hours that the mix asks for, in percent of those that there are [default: 90]
    #[arg(long, value_name = "PERCENT", value_parser = whole(1, 300), requires = "prove", conflicts_with = "trace", help_heading = HEADING)]
    demand: Option<u32>,
    /// What chance is drawn from, first [default: 1]
    #[arg(long, value_name = "N", requires = "prove", help_heading = HEADING)]
    seed: Option<u64>,
    /// So many runs of each, with as many seeds, and confidence intervals [default: 5]
    ///
    /// The mix is drawn anew for each seed. A trace is the same for all: only what models leave to
    /// chance changes, and those that leave nothing to it run once.
    #[arg(long, value_name = "N", value_parser = whole(1, 100), requires = "prove", help_heading = HEADING)]
    seeds: Option<u32>,
}

const HEADING: &str = "Proving it on the site's work";
const USUAL: Asked = Asked { demand_percent: 90, days: 7, seed: 1 };
const USUAL_SEEDS: u32 = 5;

impl ProveArgs {
    /// Whether the trace comes from stdin.
    pub fn reads_stdin(&self) -> bool {
        self.trace.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}

fn price(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(price) if price >= 0.0 && price.is_finite() => Ok(price),
        _ => Err("a price is a number, 0 or more, such as 2.5".to_owned()),
    }
}

/// What all runs have in common.
struct Given {
    site: Site,
    /// What the load is drawn from anew with each seed; nothing where it is a trace, which stays
    /// the same.
    mix: Option<(SiteProfile, Asked)>,
    /// The load of the first seed.
    first: Load,
    seeds: Vec<u64>,
    /// Rows that could not be read.
    bad_rows: u64,
    assumed: Vec<String>,
}

/// What arrives with a seed.
struct Load {
    load: FleetLoad,
    /// From when until when use is counted.
    counted: (Time, Time),
    /// Kinds of work, where the load is made from the mix.
    kinds: Vec<ProvedKind>,
}

/// One run of one control plane.
struct Task {
    /// Which of those that are tried.
    contender: usize,
    seed: u64,
}

/// Runs it, and puts the proof beside the advice. False when it was interrupted.
pub async fn run(
    app: &App,
    args: &ProveArgs,
    profile: &SiteProfile,
    advice: &mut SiteAdvice,
) -> Result<bool> {
    // 1. The site, the load, and who is tried.
    let mut given = given(app, args, profile)?;
    let contenders = advised::contenders(&advice.advice.label, &advice.advice.flips);
    let jobs = given.first.load.jobs.len();
    let proof = SiteProof { unseen: unseen(advice), ..about(args, &mut given) };

    // 2. The runs: all planes with the first seed before any with the next, so that who interrupts
    //    them sees all planes.
    let tasks = tasks(&given, &contenders);
    let total = (jobs * tasks.len()) as u64;
    let price = args.gpu_hour_price;
    let tried = contenders.clone();
    let runs =
        move |watch: &Watch| watch::on_all_cores(&tasks, |task| one(watch, &given, &tried, task));
    let mut played: Vec<Played> =
        watch::jobs(app, total, runs).await?.into_iter().collect::<Result<_>>()?;

    // 3. What they come to. On one load jobs that never end count equally long under all planes; a
    //    trace is the same load with every seed.
    let is_same = proof.trace.is_some();
    for seed in &proof.seeds {
        let on_load = played.iter_mut().filter(|run| is_same || run.seed == *seed);
        to_common_horizon(on_load.map(|run| &mut run.end));
    }
    let mut rows: Vec<Vec<ProvedPlane>> = vec![Vec::new(); contenders.len()];
    for Played { contender, counted, end, .. } in &played {
        let row =
            advised::row(&contenders[*contender], counted, end.figures(), &proof.largest, price);
        rows[*contender].push(row);
    }
    let planes: Vec<ProvedPlane> = rows.iter().map(|rows| advised::over_seeds(rows)).collect();
    let is_whole = planes.iter().all(|plane| !plane.is_partial);
    let verdict = advised::verdict(&planes, proof.gpu_hours);
    advice.proof = Some(SiteProof { planes, verdict, ..proof });
    Ok(is_whole)
}

/// Every plane with every seed. Where nothing depends on the seed, the first says it all.
fn tasks(given: &Given, contenders: &[Contender]) -> Vec<Task> {
    let is_same = given.mix.is_none();
    let mut tasks = Vec::new();
    for (at, seed) in given.seeds.iter().enumerate() {
        let depends = |contender: &Contender| !is_same || contender.scheduler.leaves_to_chance();
        let run =
            contenders.iter().enumerate().filter(|(_, contender)| at == 0 || depends(contender));
        tasks.extend(run.map(|(contender, _)| Task { contender, seed: *seed }));
    }
    tasks
}

/// What is said of the site and the load, before anything has run.
fn about(args: &ProveArgs, given: &mut Given) -> SiteProof {
    let Load { load, counted: (first, until), kinds } = &given.first;
    let widths = load.jobs.iter().map(|job| job.width_milli(true));
    let counted_hours = until.since(*first).0 as f64 / 3.6e6;
    let gpus = given.site.size_milli() / 1000;
    SiteProof {
        trace: named(args.trace.as_deref()),
        cluster: named(args.cluster.as_deref()),
        queues: named(args.queues.as_deref()),
        seed: given.seeds[0],
        seeds: given.seeds.clone(),
        nodes: given.site.nodes.len() as u64,
        gpus,
        jobs: load.jobs.len() as u64,
        never_ran: load.never_ran,
        too_large: load.too_large,
        strangers: load.strangers,
        bad_rows: given.bad_rows,
        asked_gpu_hours: advised::gpu_hours(&load.jobs),
        counted_hours,
        gpu_hours: counted_hours * gpus as f64,
        gpu_hour_price: args.gpu_hour_price,
        kinds: kinds.clone(),
        assumed: std::mem::take(&mut given.assumed),
        largest: size_name(widths.max().unwrap_or_default()).to_owned(),
        planes: Vec::new(),
        verdict: advised::verdict(&[], 0.0),
        unseen: Vec::new(),
    }
}

fn named(path: Option<&Path>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

/// Ids of the reasons that waits and idle GPUs say nothing about.
fn unseen(advice: &SiteAdvice) -> Vec<String> {
    let weighs = advice.advice.rules.iter().filter(|rule| rule.effect != RuleEffect::Reason);
    weighs.map(|rule| rule.id.to_owned()).filter(|id| !SEEN.contains(&id.as_str())).collect()
}

/// The site and the load, from files where they are given.
fn given(app: &App, args: &ProveArgs, profile: &SiteProfile) -> Result<Given> {
    let mut assumed = Vec::new();
    let (mut levels, mut bad_rows) = (Vec::new(), 0);
    // 1. Nodes and queues.
    let nodes = match &args.cluster {
        Some(path) => {
            let cluster = cluster::read(path, false)?;
            cluster::warn_of_bad_nodes(app, &cluster.bad);
            (levels, bad_rows) = (cluster.levels, cluster.bad.len() as u64);
            cluster.nodes
        }
        None => advised::nodes(profile, &mut assumed).map_err(|refusal| refused(&refusal))?,
    };
    let tree = match &args.queues {
        Some(path) => cluster::queues(path)?,
        // Which of its jobs are of which team no trace says in the words of the site.
        None if args.trace.is_some() => QueueTree::single(),
        None => advised::queues(profile, &mut assumed),
    };
    let site = Site { nodes, levels, tree };
    if !site.has_gpus() {
        return Err(refused(&NotSimulated::NoGpus).into());
    }
    // 2. Jobs.
    let seed = args.seed.unwrap_or(USUAL.seed);
    let seeds =
        (0..args.seeds.unwrap_or(USUAL_SEEDS)).map(|at| seed.wrapping_add(u64::from(at))).collect();
    let (mix, mut first) = match &args.trace {
        Some(path) => {
            let trace = Opened::at(path, None)?;
            let as_tasks = trace.format().names_tasks();
            let mut loading = Loading::new(&site, Estimates::Requested, as_tasks);
            let read = trace.stream(false, &mut |job| loading.add(&job))?;
            warn_of_bad_rows(app, &read.bad, read.bad_count);
            bad_rows += read.bad_count;
            let load = loading.done();
            let counted = advised::counted(&load.jobs, &site, 0);
            (None, Load { load, counted, kinds: Vec::new() })
        }
        None => {
            let asked = Asked {
                demand_percent: args.demand.unwrap_or(USUAL.demand_percent),
                days: args.days.unwrap_or(USUAL.days),
                seed,
            };
            let load = drawn(profile, &site, asked, &mut assumed)?;
            (Some((profile.clone(), asked)), load)
        }
    };
    let load = &mut first.load;
    if args.queues.is_none() {
        // As in `muster simulate`: nothing is there for them to be strangers to.
        load.strangers = 0;
    }
    if load.jobs.is_empty() {
        let hint = format!(
            "{} never ran where they come from, {} not even the idle cluster could host",
            count(load.never_ran, "job"),
            count(load.too_large, "job")
        );
        return Err(Failure::usage("no job can run on this cluster").hint(hint).into());
    }
    let endless = load.jobs.iter().filter(|job| job.estimate.is_none()).count();
    if args.trace.is_some() && endless > 0 {
        let all = count(load.jobs.len() as u64, "job");
        assumed.push(format!(
            "{endless} of {all} name no time limit, so the figures rest on assumed limits: slurm plans with one of 7 days, muster \
             with none; with the limits that users set, planes can differ several times less"
        ));
    }
    Ok(Given { site, mix, first, seeds, bad_rows, assumed })
}

/// The mix as jobs, and what was assumed of it.
fn drawn(
    profile: &SiteProfile,
    site: &Site,
    asked: Asked,
    assumed: &mut Vec<String>,
) -> Result<Load> {
    let work = advised::work(profile, site, asked, assumed).map_err(|refusal| refused(&refusal))?;
    let load = FleetLoad::of(&work.jobs, site, Estimates::Requested, true);
    let counted = advised::counted(&load.jobs, site, asked.days);
    Ok(Load { load, counted, kinds: work.kinds })
}

fn refused(refusal: &NotSimulated) -> Failure {
    let failure = Failure::usage(format!("this site cannot be simulated: {refusal}"));
    failure.hint(match refusal {
        NotSimulated::TooManyJobs { .. } => "fewer `--days`, or a smaller `--cluster`",
        NotSimulated::NoGpus => "`--cluster` takes one with GPUs",
        NotSimulated::TooLarge { .. } | NotSimulated::TooDense { .. } => {
            "`--cluster` takes the part of it that matters, as `muster simulate` does"
        }
    })
}

/// What a run came to.
struct Played {
    /// Where the hours went in the time that is counted.
    counted: Hours,
    end: Finished,
    /// Which of those that are tried.
    contender: usize,
    seed: u64,
}

fn one(watch: &Watch, given: &Given, tried: &[Contender], task: &Task) -> Result<Played> {
    let Task { contender, seed } = *task;
    let scheduler = tried[contender].scheduler;
    // 1. What arrives. It is drawn again for each plane, since all loads of all seeds may be more
    //    than memory holds; and not at all where nothing is to begin any more.
    let again = match &given.mix {
        Some((profile, asked)) if seed != asked.seed && !watch.is_stopped() => {
            Some(drawn(profile, &given.site, Asked { seed, ..*asked }, &mut Vec::new())?)
        }
        _ => None,
    };
    let Load { load, counted: (_, until), .. } = again.as_ref().unwrap_or(&given.first);
    let jobs = if scheduler.gives_shares() { Arc::clone(&load.jobs) } else { load.in_whole_gpus() };
    // 2. Until what counts is over, and until the end.
    let plane = scheduler.begin(&given.site, seed)?;
    let mut fleet = Fleet::new(&given.site, plane, jobs, Terms::default(), Failures::default());
    if watch::play(watch, &mut fleet, Some(*until), |_| Ok(()))? {
        fleet.rest_until(*until);
    }
    let counted = figures(scheduler, fleet.desk(), true).hours;
    let is_over = watch::play(watch, &mut fleet, None, |_| Ok(()))?;
    watch.count(load.jobs.len() - fleet.desk().jobs().len());
    Ok(Played { counted, end: Finished::of(scheduler, fleet, !is_over), contender, seed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_are_seen_are_reasons() {
        let known = muster_advise::anchors();
        assert!(SEEN.iter().all(|id| known.contains(id)), "{SEEN:?}");
    }

    #[test]
    fn a_price_is_nothing_or_more() {
        assert_eq!((price("2.5"), price("0")), (Ok(2.5), Ok(0.0)));
        assert!(["-1", "two", "NaN", "inf", "$2"].iter().all(|text| price(text).is_err()));
    }
}
