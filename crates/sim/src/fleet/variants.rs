//! Several variants of a site under the same load. Only jobs that every variant can host are
//! replayed, on all of them alike, so that their means are over the same jobs.

use muster_model::simulation::{
    Figure, FigureChange, FleetFigures, JobsChange, SiteVariant, VariantDifference,
};
use muster_spec::TraceJob;

use super::intervals::interval;
use super::load::{FleetLoad, Loading};

/// Builder of the load of each variant from one trace.
pub struct SharedLoading<'s> {
    loadings: Vec<Loading<'s>>,
    /// Counts of left-out jobs of each variant, in the order of `loadings`.
    left_out: Vec<LeftOut>,
    unhosted: u64,
    not_replayed: u64,
}

/// Jobs that a variant can host, left out because another cannot.
#[derive(Clone, Copy, Debug, Default)]
struct LeftOut {
    jobs: u64,
    /// Their GPU time, in thousandths × milliseconds.
    time: u128,
    /// GPU time of all jobs that the variant can host.
    hosted_time: u128,
}

/// Load of one variant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedLoad {
    /// Jobs that every variant can host; `too_large` counts those that this one cannot.
    pub load: FleetLoad,
    /// Jobs that this variant can host, left out because another cannot.
    pub left_out: u64,
    /// Share, from 0 to 1, of the GPU time (or CPU time) of these in that of all jobs that this
    /// variant can host.
    pub left_out_share: f64,
    /// Jobs that at least one variant cannot host.
    pub unhosted: u64,
    /// Jobs that started in the trace and are replayed in no variant: at least one cannot host
    /// them, or their runtime is unknown.
    pub not_replayed: u64,
}

impl<'s> SharedLoading<'s> {
    /// Starts with one builder per variant.
    #[must_use]
    pub fn new(loadings: Vec<Loading<'s>>) -> Self {
        let left_out = vec![LeftOut::default(); loadings.len()];
        Self { left_out, loadings, unhosted: 0, not_replayed: 0 }
    }

    /// Adds a job to all variants, or to none if one of them cannot host it.
    pub fn add(&mut self, job: &TraceJob) {
        if job.runtime.is_none() {
            self.not_replayed += u64::from(job.started.is_some());
            self.loadings.iter_mut().for_each(|loading| loading.add(job));
            return;
        }
        let hosts: Vec<bool> =
            self.loadings.iter_mut().map(|loading| loading.can_host(job)).collect();
        let all_host = !hosts.contains(&false);
        self.unhosted += u64::from(!all_host);
        self.not_replayed += u64::from(!all_host && job.started.is_some());
        for ((loading, left_out), hosts) in
            self.loadings.iter_mut().zip(&mut self.left_out).zip(hosts)
        {
            let time = if hosts { loading.gpu_time(job) } else { 0 };
            left_out.hosted_time += time;
            // A job that a variant cannot host is only counted there.
            if all_host || !hosts {
                loading.add(job);
            } else {
                left_out.jobs += 1;
                left_out.time += time;
            }
        }
    }

    /// Returns the load of each variant, in order.
    #[must_use]
    pub fn done(self) -> Vec<SharedLoad> {
        let Self { unhosted, not_replayed, .. } = self;
        let loads = self.loadings.into_iter().zip(self.left_out);
        loads
            .map(|(loading, left_out)| {
                let load = loading.done();
                let LeftOut { jobs, time, hosted_time } = left_out;
                let left_out_share = time as f64 / hosted_time.max(1) as f64;
                SharedLoad { load, left_out: jobs, left_out_share, unhosted, not_replayed }
            })
            .collect()
    }
}

/// Returns the differences of each variant to the first, scheduler by scheduler. Each of `runs` has
/// the results of one scheduler on one variant, by seed, with the same seeds everywhere. Interrupted
/// runs are not compared.
#[must_use]
pub fn differences(variants: &[SiteVariant], runs: &[Vec<FleetFigures>]) -> Vec<VariantDifference> {
    let Some(first) = variants.first() else { return Vec::new() };
    let is_whole = |seeds: &[FleetFigures]| !seeds.iter().any(|run| run.is_partial);
    let others = runs.iter().filter_map(|here| {
        let FleetFigures { scheduler, variant, .. } = here.first()?;
        let variant = variants[1..].iter().find(|other| other.name == *variant)?;
        let there = runs.iter().find(|there| {
            there
                .first()
                .is_some_and(|run| run.variant == first.name && run.scheduler == *scheduler)
        })?;
        (is_whole(here) && is_whole(there)).then(|| difference((first, there), (variant, here)))
    });
    others.collect()
}

/// A variant and its results under one scheduler, at least one, by seed.
type VariantRuns<'r> = (&'r SiteVariant, &'r [FleetFigures]);

fn difference(
    (first, there): VariantRuns<'_>,
    (variant, here): VariantRuns<'_>,
) -> VariantDifference {
    let change = |name: &str| {
        let values = |runs: &[FleetFigures]| -> Vec<f64> {
            runs.iter().map(|run| Figure::of(run, name).value).collect()
        };
        change(&values(there), &values(here))
    };
    let there = &there[0];
    let here = &here[0];
    VariantDifference {
        scheduler: here.scheduler.clone(),
        variant: variant.name.clone(),
        first: first.name.clone(),
        turnaround_secs: change("turnaround_secs.mean"),
        waited_secs: change("waited_secs.mean"),
        stranded_hours: change("hours.stranded"),
        capacity_hours: FigureChange {
            first: first.capacity_hours,
            here: variant.capacity_hours,
            margin: None,
            may_be_chance: false,
        },
        refused: JobsChange { first: there.refused, here: here.refused },
        left: JobsChange { first: there.left, here: here.left },
    }
}

/// Returns the change of a figure from its values by seed. A seed draws the same failures in both
/// variants, so the interval is that of the differences seed by seed.
fn change(first: &[f64], here: &[f64]) -> FigureChange {
    if let ([first], [here]) = (first, here) {
        return FigureChange { first: *first, here: *here, margin: None, may_be_chance: false };
    }
    let mean = |values: &[f64]| interval("", values.iter().copied()).mean;
    let by_seed = interval("", first.iter().zip(here).map(|(first, here)| here - first));
    FigureChange {
        first: mean(first),
        here: mean(here),
        margin: Some(by_seed.margin),
        may_be_chance: by_seed.mean.abs() <= by_seed.margin,
    }
}
