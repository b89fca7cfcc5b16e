//! `muster whatif`: what would become of a site if something about it were different. Decided in `muster-sim`, written in
//! `muster-report`; here are the snapshot, files and threads.

mod change;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use muster_api::query::{JobFilter, SnapshotQuery};
use muster_model::simulation::{FleetFigures, FleetUnit, Past, Starts, Waiting, WhatIf};
use muster_model::view::JobView;
use muster_model::{JobId, Reason, SiteSnapshot, Span};
use muster_sim::fleet::{Failures, Fleet, Scheduler, Terms, figures};
use muster_sim::whatif::{Forecast, Situation, Usual, WhatIfError, load, waited, waiting};
use muster_spec::quantity::parse_span;

use super::simulate::watch::{self, Watch};
use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::{Failure, INTERRUPTED};
use change::ChangeArgs;

/// Say what would become of this site with more nodes, another quota or another policy
///
/// Takes the state of the daemon and what has run, and asks the engine twice: as it is, and with the change. What waits now is
/// told when it starts, if nobody submits anything more; what has run is run once more from an idle site. JSON: a `WhatIf`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
    /// Ask a snapshot that was written before, in place of the daemon
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Write the snapshot: no names of people, hosts or jobs are in it, so that it can be given to others
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    snapshot_out: Option<PathBuf>,
    /// What was submitted so long ago, and since, is what has run
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "30d")]
    since: Span,
    /// How long jobs are taken to run that wait or run now: as those of their users usually did, or up to their limits
    #[arg(long, value_name = "WHOSE", value_enum, default_value_t = Runtimes::Usual)]
    runtimes: Runtimes,
    #[command(flatten)]
    output: Output,
}

/// Whose word is taken for how long a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Runtimes {
    /// Nobody's: as much of its limit as its user's jobs use
    Usual,
    /// The user's
    Limit,
}

fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|malformed| malformed.label)
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    if args.change.is_none() && args.snapshot_out.is_none() {
        return Err(Failure::usage("what is to be different?")
            .hint("for example `--add-nodes 2`, `--quota research=16` or `--queues new-queues.yaml`")
            .into());
    }
    // 1. The site.
    let snapshot = match &args.snapshot {
        Some(path) => read(path)?,
        None => taken(app, &args).await?,
    };
    if let Some(path) = &args.snapshot_out {
        let text = serde_json::to_vec(&snapshot)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        app.ui.status(&format!(
            "{} has the state and {} runs, without names",
            path.display(),
            snapshot.past.len()
        ));
    }
    if args.change.is_none() {
        return Ok(0);
    }
    let as_it_is = Situation::read(snapshot).map_err(unanswered)?;
    let as_it_is = as_it_is.since(args.since);
    // 2. The change.
    let (change, words) = args.change.to(&as_it_is)?;
    let changed = as_it_is.with(&change).map_err(unanswered)?;
    // 3. Both answers.
    let answer = Question { as_it_is, changed, words, runtimes: args.runtimes }.answered(app).await?;
    let answer = if args.snapshot.is_none() { named(app, answer).await? } else { answer };
    match args.output.json() {
        true => app.ui.json(&answer)?,
        false => app.ui.data(&muster_report::whatif::whatif(&answer, &app.ui.style()))?,
    }
    Ok(if answer.is_partial { INTERRUPTED } else { 0 })
}

/// The state of the daemon now.
async fn taken(app: &App, args: &Args) -> Result<SiteSnapshot> {
    let client = connect::find(&app.global)?;
    let query = SnapshotQuery { past_secs: Some(args.since.0.div_ceil(1000)) };
    Ok(client.snapshot(query).await.map_err(Failure::from)?)
}

fn read(path: &Path) -> Result<SiteSnapshot> {
    let text = std::fs::read(path)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    let snapshot = serde_json::from_slice(&text).map_err(|error| {
        Failure::usage(format!("{} is no snapshot: {error}", path.display()))
            .hint("`muster whatif --snapshot-out FILE` writes one")
    })?;
    Ok(snapshot)
}

fn unanswered(error: WhatIfError) -> Failure {
    match error {
        WhatIfError::Newer { .. } | WhatIfError::Malformed(_) | WhatIfError::Contradicts(_) => {
            Failure::usage(format!("the snapshot cannot be used: {error}"))
        }
        WhatIfError::Refused { .. } => Failure::usage(error.to_string()),
        WhatIfError::BadPlan(_) => Failure::new(error.to_string()),
    }
}

/// A question to a site.
struct Question {
    as_it_is: Situation,
    changed: Situation,
    words: Vec<String>,
    runtimes: Runtimes,
}

/// The answer of one of the two.
struct Answer {
    starts: Starting,
    /// Why what does not start at once waits.
    reasons: BTreeMap<JobId, Reason>,
    past: Option<FleetFigures>,
    is_partial: bool,
}

/// When jobs that wait start.
type Starting = BTreeMap<JobId, Starts>;

impl Question {
    async fn answered(self, app: &App) -> Result<WhatIf> {
        let total = 2 * self.as_it_is.past.len() as u64;
        watch::jobs(app, total, move |watch| self.asked(watch)).await?
    }

    fn asked(&self, watch: &Watch) -> Result<WhatIf> {
        let Self { as_it_is, changed, .. } = self;
        let usual = match self.runtimes {
            Runtimes::Usual => Usual::of(&as_it_is.past),
            Runtimes::Limit => Usual::by_limit(),
        };
        let asked = watch::on_all_cores(&[as_it_is, changed], |one| answer(watch, one, &usual));
        let [one, other] =
            <[Result<Answer>; 2]>::try_from(asked).unwrap_or_else(|_| unreachable!("two were asked"));
        let (one, other) = (one?, other?);
        let jobs = as_it_is.engine().jobs(as_it_is.taken).into_iter();
        let waits = jobs.filter_map(|job| {
            let (as_it_is, changed) = (*one.starts.get(&job.job)?, *other.starts.get(&job.job)?);
            let elements = waiting(&job);
            let still = other.reasons.get(&job.job).cloned();
            let JobView { job, name, user, queue, gpus, submitted, .. } = job;
            Some(Waiting { job, name, user, queue, gpus, submitted, elements, as_it_is, changed, still })
        });
        let waits = waits.collect();
        Ok(WhatIf {
            taken: as_it_is.taken,
            changes: self.words.clone(),
            waiting: waits,
            past: one.past.zip(other.past).map(|(one, other)| self.past(one, other)),
            is_partial: one.is_partial || other.is_partial,
        })
    }

    fn past(&self, as_it_is: FleetFigures, changed: FleetFigures) -> Past {
        let situation = &self.as_it_is;
        Past {
            since: situation.past.first().map_or(situation.since, |run| run.submitted),
            runs: situation.past.len() as u64,
            replayed: as_it_is.arrived,
            unit: if situation.site().has_gpus() { FleetUnit::Gpu } else { FleetUnit::Cpu },
            waited_secs: waited(&situation.past),
            as_it_is,
            changed,
        }
    }
}

/// What comes next, and what the past would have been.
fn answer(watch: &Watch, situation: &Situation, usual: &Usual) -> Result<Answer> {
    // 1. What waits.
    let mut forecast = Forecast::of(situation, usual);
    forecast.begin()?;
    let waits = forecast.starts().iter().filter(|(_, starts)| starts.begun == 0);
    let reasons = waits.filter_map(|(job, _)| Some((*job, forecast.reason(*job)?))).collect();
    while !watch.is_stopped() && forecast.step()? {}
    let starts = forecast.starts().clone();
    // 2. What has run.
    let site = situation.site();
    let jobs = load(&situation.past, &site).jobs;
    if jobs.is_empty() {
        return Ok(Answer { starts, reasons, past: None, is_partial: watch.is_stopped() });
    }
    let terms = Terms { checkpoint_every: None, saves_when_told: false, restart: Span(0) };
    let failures = Failures { node_mtbf: None, gpu_mtbf: None, repair: Span(0), seed: 0 };
    let plane = Scheduler::Muster.begin(&site, 0)?;
    let mut fleet = Fleet::new(&site, plane, jobs, terms, failures);
    let is_over = watch::play(watch, &mut fleet, None, |_| Ok(()))?;
    let past = Some(figures(Scheduler::Muster, fleet.desk(), !is_over));
    Ok(Answer { starts, reasons, past, is_partial: !is_over })
}

/// The same with names, of which the snapshot has none and the daemon knows.
async fn named(app: &App, mut answer: WhatIf) -> Result<WhatIf> {
    let client = connect::find(&app.global)?;
    let jobs = client.jobs(JobFilter::default()).await.map_err(Failure::from)?.jobs;
    let jobs: BTreeMap<JobId, JobView> = jobs.into_iter().map(|job| (job.job, job)).collect();
    for waiting in &mut answer.waiting {
        if let Some(job) = jobs.get(&waiting.job) {
            waiting.name.clone_from(&job.name);
            waiting.user.clone_from(&job.user);
        }
    }
    Ok(answer)
}
