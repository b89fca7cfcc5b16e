//! Several variants of a site under the same load. Only jobs that every variant can host are
//! replayed, on all of them alike, so that their means are over the same jobs.

use muster_model::simulation::{
    Figure, FigureChange, FleetFigures, JobsChange, SiteVariant, VariantDifference,
};
use muster_spec::TraceJob;

use super::load::{FleetLoad, Loading};

/// Builder of the load of each variant from one trace.
pub struct SharedLoading<'s> {
    loadings: Vec<Loading<'s>>,
    left_out: Vec<u64>,
    unhosted: u64,
    not_replayed: u64,
}

/// Load of one variant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedLoad {
    /// Jobs that every variant can host; `too_large` counts those that this one cannot.
    pub load: FleetLoad,
    /// Jobs that this variant can host, left out because another cannot.
    pub left_out: u64,
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
        Self { left_out: vec![0; loadings.len()], loadings, unhosted: 0, not_replayed: 0 }
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
            // A job that a variant cannot host is only counted there.
            if all_host || !hosts {
                loading.add(job);
            } else {
                *left_out += 1;
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
                SharedLoad { load, left_out, unhosted, not_replayed }
            })
            .collect()
    }
}

/// Returns the differences of each variant to the first, scheduler by scheduler. Interrupted runs
/// are not compared.
#[must_use]
pub fn differences(variants: &[SiteVariant], runs: &[FleetFigures]) -> Vec<VariantDifference> {
    let Some(first) = variants.first() else { return Vec::new() };
    let others = runs.iter().filter(|run| run.variant != first.name);
    others
        .filter_map(|here| {
            let there = runs
                .iter()
                .find(|run| run.variant == first.name && run.scheduler == here.scheduler)?;
            let variant = variants.iter().find(|variant| variant.name == here.variant)?;
            (!here.is_partial && !there.is_partial)
                .then(|| difference((first, there), (variant, here)))
        })
        .collect()
}

/// A variant and its results under one scheduler.
type VariantRun<'r> = (&'r SiteVariant, &'r FleetFigures);

fn difference(
    (first, there): VariantRun<'_>,
    (variant, here): VariantRun<'_>,
) -> VariantDifference {
    let change = |name: &str| {
        let before = Figure::of(there, name);
        let after = Figure::of(here, name);
        FigureChange {
            first: before.value,
            here: after.value,
            may_be_chance: before.may_equal(after),
        }
    };
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
            may_be_chance: false,
        },
        refused: JobsChange { first: there.refused, here: here.refused },
        left: JobsChange { first: there.left, here: here.left },
    }
}
