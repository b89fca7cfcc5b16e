//! Jobs of a mix. Each kind gets its share of the GPU-hours exactly: runtimes are drawn until their
//! sum comes nearest to it, then all are scaled. Arrivals are uniform over the window, as those of
//! a Poisson process are once their number is known.

use std::sync::Arc;

use muster_model::advice::{Fact, ProvedKind, SiteProfile};
use muster_model::job::{GpuRequest, Resources};
use muster_model::{QueueSpec, Span, Time};
use muster_spec::recipe::RuntimeDistribution;
use muster_spec::{JobEnd, TraceJob};

use super::NotSimulated;
use super::kinds::{WorkKind, kinds};
use super::machines::cpus_of_gpus;
use crate::arrivals::overestimated;
use crate::fleet::FleetSite;
use crate::rng::Rng;
use crate::trace::draw::{Weighted, length};

/// Most jobs that are generated.
const MOST_JOBS: usize = 1_000_000;
/// Maximum number of simulated users: more would not change the figures shown.
const MOST_USERS: u32 = 10_000;

/// Amount of work to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadRequest {
    /// Requested GPU-hours, in percent of the available ones.
    pub demand_percent: u32,
    /// Days on which jobs are submitted.
    pub days: u32,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Generated jobs of a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Jobs, in order of arrival.
    pub jobs: Vec<TraceJob>,
    /// Totals by kind of work.
    pub kinds: Vec<ProvedKind>,
}

/// Generates the jobs of a mix on a site; what is assumed is added to `assumed`.
///
/// # Errors
/// The site has no GPU, or there would be too many jobs.
pub fn work(
    profile: &SiteProfile,
    site: &FleetSite,
    asked: LoadRequest,
    assumed: &mut Vec<String>,
) -> Result<Work, NotSimulated> {
    // 1. Available GPU time.
    if !site.has_gpus() {
        return Err(NotSimulated::NoGpus);
    }
    let window = Span::from_secs(u64::from(asked.days) * 86_400);
    let there = site.size_milli() as f64 / 1000.0 * window.0 as f64;
    let demand = f64::from(asked.demand_percent) / 100.0;

    // 2. Jobs of each kind.
    let mut rng = Rng::new(asked.seed);
    let owners = Owners::new(profile, site);
    let mut work = Work { jobs: Vec::new(), kinds: Vec::new() };
    for kind in kinds(profile, &site.nodes, assumed) {
        let most = MOST_JOBS - work.jobs.len();
        let sizes = match &kind.runs {
            Some(runs) => drawn(&kind, runs, there * demand * kind.part, most, &mut rng)?,
            None => services(&kind, there * demand * kind.part, window),
        };
        work.kinds.push(ProvedKind {
            name: kind.name.to_string(),
            jobs: sizes.len() as u64,
            tasks: kind.tasks,
            gpus_per_task: kind.gpus,
            gpu_hours: sizes
                .iter()
                .map(|size| f64::from(kind.tasks * size.gpus) * size.runtime.0 as f64 / 3.6e6)
                .sum(),
        });
        for (at, size) in sizes.into_iter().enumerate() {
            work.jobs.push(owners.job(&kind, at, size, window, &mut rng));
        }
    }

    // 3. Sorted by arrival; jobs of one instant in the order of the mix.
    work.jobs.sort_by_key(|job| job.submit);
    assumed.push(format!(
        "jobs request {} % of the GPU-hours of {} days; they arrive at the same rate day and night",
        asked.demand_percent, asked.days
    ));
    assumed.push(format!(
        "{}; time limits are 1 to 5 times the runtime, services have none",
        owners.described()
    ));
    Ok(work)
}

/// Size of one job.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// GPUs of each task.
    gpus: u32,
    runtime: Span,
}

/// Returns jobs with random runtimes that take `target` GPU-milliseconds together; at least one
/// job.
fn drawn(
    kind: &WorkKind,
    runs: &RuntimeDistribution,
    target: f64,
    most: usize,
    rng: &mut Rng,
) -> Result<Vec<Size>, NotSimulated> {
    let target = target / (f64::from(kind.tasks) * f64::from(kind.gpus));
    let mut lengths = Vec::new();
    let mut sum = 0.0;
    while sum < target {
        if lengths.len() == most {
            return Err(NotSimulated::TooManyJobs { most: MOST_JOBS });
        }
        let next = length(rng, runs).0 as f64;
        if !lengths.is_empty() && sum + next - target > target - sum {
            break;
        }
        sum += next;
        lengths.push(next);
    }
    let stretched = |length: f64| Span((length * target / sum).round().max(1.0) as u64);
    Ok(lengths
        .into_iter()
        .map(|length| Size { gpus: kind.gpus, runtime: stretched(length) })
        .collect())
}

/// Returns services that take `target` GPU-milliseconds at most: whole nodes and a part of one, at
/// least one GPU. They run all the time, so their number must not depend on random runtimes.
fn services(kind: &WorkKind, target: f64, window: Span) -> Vec<Size> {
    let gpus = ((target / window.0 as f64) as u32).max(1);
    let whole = std::iter::repeat_n(kind.gpus, (gpus / kind.gpus) as usize);
    let sizes = whole.chain(Some(gpus % kind.gpus).filter(|rest| *rest > 0));
    sizes.map(|gpus| Size { gpus, runtime: window }).collect()
}

/// Users, and the queues they submit to.
struct Owners {
    users: u32,
    weights: Weighted,
    leaves: Vec<Arc<str>>,
}

impl Owners {
    fn new(profile: &SiteProfile, site: &FleetSite) -> Self {
        let users = profile.facts.get(Fact::Users).min(MOST_USERS);
        let mut leaves = Vec::new();
        gather(&site.tree.queues, "", &mut leaves);
        // Zipf: the second user submits half as much as the first, the third a third.
        Self {
            users,
            weights: Weighted::new((1..=users).map(|user| 1.0 / f64::from(user))),
            leaves,
        }
    }

    fn described(&self) -> String {
        let users =
            if self.users == 1 { "one user".to_owned() } else { format!("{} users", self.users) };
        let busy = if self.users == 1 {
            ""
        } else {
            ", the second submits half as much as the first, the third a third"
        };
        match self.leaves.len() {
            1 => format!("{users}{busy}"),
            queues => format!("{users}{busy}, assigned to {queues} queues in turn"),
        }
    }

    /// Returns job number `at` of a kind. Services start with the window, belong to a user of their
    /// own, and are distributed over the queues.
    fn job(&self, kind: &WorkKind, at: usize, size: Size, window: Span, rng: &mut Rng) -> TraceJob {
        let Size { gpus, runtime } = size;
        let (submit, owner, user, requested) = match kind.runs {
            None => (Time(0), at, Arc::clone(&kind.name), None),
            Some(_) => {
                let submit = Time((rng.unit() * window.0 as f64) as u64);
                let owner = self.weights.draw(rng);
                (submit, owner, format!("u{}", owner + 1).into(), Some(overestimated(runtime, rng)))
            }
        };
        TraceJob {
            id: format!("{}-{}", kind.name, at + 1).into(),
            submit,
            runtime: Some(runtime),
            requested,
            tasks: kind.tasks,
            task: Resources {
                gpu: GpuRequest::whole(gpus),
                cpus: cpus_of_gpus(gpus),
                ..Resources::default()
            },
            user: Some(user),
            queue: self.leaves.get(owner % self.leaves.len().max(1)).cloned(),
            priority: 0,
            started: None,
            ended: JobEnd::Completed,
        }
    }
}

/// Collects the paths of leaf queues.
fn gather(queues: &[QueueSpec], above: &str, leaves: &mut Vec<Arc<str>>) {
    for queue in queues {
        let path = if above.is_empty() {
            queue.name.to_string()
        } else {
            format!("{above}/{}", queue.name)
        };
        if queue.queues.is_empty() {
            leaves.push(path.into())
        } else {
            gather(&queue.queues, &path, leaves)
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_model::QueueTree;
    use muster_spec::parse_site;

    use super::super::machines;
    use super::*;
    use crate::flat::Estimates;
    use crate::fleet::FleetLoad;

    const LAB: &str = "
        fleet: {nodes: 16, gpus: 128}
        people: {users: 25, teams: 3}
        mix:
          - {name: pretraining, share: 55, facts: {nodes: 8, tightly_coupled: true}}
          - {name: dynamics, share: 20, facts: {nodes: 4, tightly_coupled: true}}
          - {name: sweeps, share: 15, facts: {nodes: 1}}
          - {name: endpoints, share: 10, facts: {long_lived_services: true}}";

    fn made(text: &str, asked: LoadRequest) -> (Work, FleetSite, Vec<String>) {
        let profile = parse_site(text, None).unwrap();
        let mut assumed = Vec::new();
        let nodes = machines::nodes(&profile, &mut assumed).unwrap();
        let tree = machines::queues(&profile, &mut assumed);
        let site = FleetSite { nodes, levels: Vec::new(), tree };
        let work = work(&profile, &site, asked, &mut assumed).unwrap();
        (work, site, assumed)
    }

    const WEEK: LoadRequest = LoadRequest { demand_percent: 90, days: 7, seed: 1 };

    #[test]
    fn every_job_class_gets_its_share_of_the_gpu_hours() {
        for seed in 1..6 {
            let (work, site, _) = made(LAB, LoadRequest { seed, ..WEEK });
            let there = 128.0 * 7.0 * 24.0;
            for (kind, share) in work.kinds.iter().zip([0.55, 0.20, 0.15, 0.10]) {
                let part = kind.gpu_hours / (there * 0.9);
                assert!(
                    (part / share - 1.0).abs() < 0.05,
                    "seed {seed}, {}: {part}, not {share}",
                    kind.name
                );
            }
            // Every job can run, and the totals by kind are correct.
            let load = FleetLoad::of(&work.jobs, &site, Estimates::Requested, true);
            let never = load.never_ran;
            let large = load.too_large;
            let strange = load.strangers;
            assert_eq!((never, large, strange, load.jobs.len()), (0, 0, 0, work.jobs.len()));
            let hours = |job: &crate::fleet::FleetJob| {
                job.width_milli(true) as f64 * job.runtime.0 as f64 / 3.6e9
            };
            let asked: f64 = load.jobs.iter().map(hours).sum();
            let described: f64 = work.kinds.iter().map(|kind| kind.gpu_hours).sum();
            assert!((asked / described - 1.0).abs() < 1e-6, "{asked}, not {described}");
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_jobs_and_another_others() {
        let (one, _, described) = made(LAB, WEEK);
        assert_eq!((&one, &described), (&made(LAB, WEEK).0, &made(LAB, WEEK).2));
        assert_ne!(one.jobs, made(LAB, LoadRequest { seed: 2, ..WEEK }).0.jobs);
    }

    #[test]
    fn jobs_come_over_the_days_and_services_are_there_before() {
        let (work, _, _) = made(LAB, LoadRequest { days: 30, ..WEEK });
        let end = Span::from_secs(30 * 86_400);
        assert!(
            work.jobs.is_sorted_by_key(|job| job.submit)
                && work.jobs.iter().all(|job| job.submit.0 < end.0)
        );
        let (services, others): (Vec<_>, Vec<_>) =
            work.jobs.iter().partition(|job| job.id.starts_with("endpoints-"));
        assert!(services.iter().all(|job| job.submit == Time(0) && job.runtime == Some(end)));
        assert!(services.iter().all(|job| job.requested.is_none()));
        let early = others.iter().filter(|job| job.submit.0 < end.0 / 2).count() as f64
            / others.len() as f64;
        assert!((early - 0.5).abs() < 0.05, "{early} of the jobs in the first half");
        assert!(others.iter().all(|job| job.requested >= job.runtime));
    }

    #[test]
    fn users_submit_to_the_queue_of_their_team() {
        let (work, site, _) = made(LAB, WEEK);
        let queues: Vec<&str> = site.tree.queues.iter().map(|queue| &*queue.name).collect();
        assert_eq!(queues, ["team-1", "team-2", "team-3"]);
        let of = |user: &str| {
            let jobs = work.jobs.iter().filter(|job| job.user.as_deref() == Some(user));
            jobs.map(|job| job.queue.as_deref().unwrap()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(of("u1").into_iter().collect::<Vec<_>>(), ["team-1"]);
        assert_eq!(of("u2").into_iter().collect::<Vec<_>>(), ["team-2"]);
        // Eleven GPUs are one node and a part of another.
        assert_eq!(of("endpoints").len(), 2);
    }

    #[test]
    fn too_many_jobs_or_gpus_per_node_are_refused() {
        let text =
            "{fleet: {nodes: 12000, gpus: 96000}, people: {users: 9}, needs: {short-runs: true}}";
        let profile = parse_site(text, None).unwrap();
        let nodes = machines::nodes(&profile, &mut Vec::new()).unwrap();
        let site = FleetSite { nodes, levels: Vec::new(), tree: QueueTree::single() };
        let refused = work(&profile, &site, WEEK, &mut Vec::new());
        assert_eq!(refused, Err(NotSimulated::TooManyJobs { most: MOST_JOBS }));
        let none = FleetSite { nodes: Vec::new(), ..site };
        assert_eq!(work(&profile, &none, WEEK, &mut Vec::new()), Err(NotSimulated::NoGpus));
        let text = "{fleet: {nodes: 1, gpus: 200, elastic: true}, people: {users: 9}}";
        let dense = machines::nodes(&parse_site(text, None).unwrap(), &mut Vec::new());
        assert_eq!(dense, Err(NotSimulated::TooDense { nodes: 1, gpus: 200 }));
    }
}
