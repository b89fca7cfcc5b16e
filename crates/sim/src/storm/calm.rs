//! The end of a story: faults stop, arrivals stop, time runs. Everything that can run must end
//! within a bound, and what is left must wait for a reason that is true; both are judged without
//! the engine.

use muster_model::queue::Backfill;
use muster_model::{
    DependencyKind, DeviceSet, ElementId, Event, Foreign, GpuModel, NodeId, QueueSpec, Reason,
    Span, Target, Time, TopologyRule,
};
use muster_runtime::Input;
use muster_runtime::engine::Engine;

use super::book::{Job, Phase};
use super::fit;
use super::holdings::{Host, path_of};
use super::site::MODELS;
use super::topology::{self, Domain};
use super::world::{START_LIMIT, World};
use super::{budget, site};
use crate::scenario::command::Starts;

/// Instants of a calm after which something is due again and again.
const MOST_INSTANTS: usize = 20_000;
/// Attempts that a calm can see of one element: its restarts and the retries of a failed start.
const MOST_ATTEMPTS: u64 = 8;
/// The longest that an attempt of a story takes: program or limit, and grace.
const LONGEST: Span = Span::from_secs(125);
/// The longest wait before a restart in a story.
const LONGEST_WAIT: Span = Span::from_secs(80);

impl World {
    /// Calms everything, lets time run, and judges what is left.
    pub(crate) fn calm_down(&mut self) -> Result<(), String> {
        self.trace.line(|| "calm".to_owned());
        self.book.claims.went.clear();
        self.lay()?;
        self.run_out()?;
        self.judge_rest()?;
        self.besiege()
    }

    /// Ends all faults but some that last: a node that stays away, drained, or in use by others.
    fn lay(&mut self) -> Result<(), String> {
        self.calm = true;
        self.dies_within = None;
        if let Some(disk) = self.disk() {
            (disk.is_full, disk.unreadable, disk.save_fails) = (false, 0, false);
            disk.blow = Default::default();
        }
        // 1. Programs that would run for ever end.
        self.backend.end_endless(self.now + Span::from_secs(30));
        for conduct in self.conducts.values_mut() {
            conduct.lasts.get_or_insert(Span::from_secs(30));
        }
        // 2. A daemon, and everything that was under way.
        self.restart()?;
        let inputs = self.arrivals();
        self.settle(inputs, &[])?;
        // 3. Nodes.
        let mut inputs = Vec::new();
        for at in 0..self.hosts.len() {
            let lasting = self.dice.roll(8);
            let name = self.hosts[at].spec.name.clone();
            let known = self.book.nodes.iter().position(|host| host.spec.name == name);
            let host = &mut self.hosts[at];
            host.starts = Starts::Works;
            host.foreign = Foreign::default();
            if lasting == 0 {
                host.foreign.devices = DeviceSet(0b101);
            }
            if lasting == 1 && host.up {
                host.up = false;
                if let Some(known) = known {
                    self.backend.lose_node(NodeId(known as u32), &"it is gone".into());
                }
            } else if lasting != 1 {
                host.up = true;
            }
            let drained = lasting == 2;
            let (node, all) = (name.clone(), DeviceSet::first(host.spec.devices.len()));
            let devices = (!all.is_empty()).then_some(all);
            inputs.push(Input::Event(Event::DrainSet { node, devices, drain: None }));
            inputs.push(Input::Event(Event::NodeDrained {
                node: name,
                drained,
                reason: "for good".into(),
            }));
        }
        inputs.extend(self.open_all());
        inputs.extend(self.cancel_services());
        let mut nodes = self.nodes_now();
        nodes.append(&mut inputs);
        nodes.extend(self.recall());
        self.settle(nodes, &[])
    }

    /// What comes back after every end is cancelled.
    fn cancel_services(&self) -> Vec<Input> {
        let services = self.book.jobs.iter().filter(|(_, job)| job.spec.restart.always);
        let target = |job| Target { job, index: None };
        let cancel = |job| Input::Event(Event::Cancel { target: target(job), by: "root".into() });
        services.map(|(id, _)| cancel(*id)).collect()
    }

    /// Time runs until nothing is due.
    pub(super) fn run_out(&mut self) -> Result<(), String> {
        let begun = self.now;
        let bound = self.bound();
        for _ in 0..MOST_INSTANTS {
            let Some(due) = self.next_due() else { return Ok(()) };
            self.now = self.now.max(due);
            let since = self.now.since(begun);
            self.trace.line(|| format!("calm for {} ms", since.0));
            if since > bound {
                let left = self.left()?;
                return Err(format!(
                    "after {since} of calm something is still due, the bound is {bound}: {left}"
                ));
            }
            let inputs = self.arrivals();
            self.settle(inputs, &[])?;
            self.judge_evictions()?;
        }
        Err("in the calm something is due again and again".to_owned())
    }

    /// What still waits, and for what.
    fn left(&mut self) -> Result<String, String> {
        let mut runtime = self.runtime.take().ok_or("there is no daemon in the calm")?;
        let at = runtime.instant(self.clock());
        let engine = runtime.engine_mut().ok_or("the state cannot be read")?;
        let elements = self.book.jobs.iter().flat_map(|(job, known)| {
            let waits = known
                .elements
                .iter()
                .filter(|(_, element)| matches!(element.phase, Phase::Waits { .. }));
            waits.map(|(index, _)| ElementId { job: *job, index: *index })
        });
        let told = elements
            .map(|id| format!("{id} {:?}", engine.explain(at, id).map(|told| told.reasons)));
        let told: Vec<String> = told.collect();
        self.runtime = Some(runtime);
        Ok(told.join("; "))
    }

    /// Nobody goes round in circles. A claimant that ends leaves the places to others, and waits
    /// again only when it restarts or has to go itself, for which somebody else needs a right of
    /// his own; so with nobody new, of each two the one goes for the other at most as often as
    /// there are elements.
    fn judge_evictions(&self) -> Result<(), String> {
        let elements: usize = self.book.jobs.values().map(|job| job.elements.len()).sum();
        let most = (elements as u32 + 1) * MOST_ATTEMPTS as u32;
        match self.book.claims.went.iter().find(|(_, times)| **times > most) {
            Some(((victim, by), times)) => {
                Err(format!("{victim} goes for {by} for the {times}th time"))
            }
            None => Ok(()),
        }
    }

    /// By when everything must be over: as if all that is left ran one after the other, each as
    /// often and as long as it may.
    fn bound(&self) -> Span {
        let waits = |phase: &Phase| !matches!(phase, Phase::Ended(_));
        let elements = self.book.jobs.values().flat_map(|job| job.elements.values());
        let left = elements.filter(|element| waits(&element.phase)).count() as u64;
        let begins =
            self.book.jobs.values().filter_map(|job| job.spec.begin).max().unwrap_or_default();
        let behind = if self.skew < 0 { Span(self.skew.unsigned_abs()) } else { Span(0) };
        let ahead =
            self.runtime.as_ref().map_or(Span(0), |runtime| runtime.last().since(self.clock()));
        // Each may have to wait for a budget to be refilled.
        let refill = site::LONGEST_BUDGET;
        let each = (LONGEST.0 + LONGEST_WAIT.0 + refill.0 + 2 * START_LIMIT.0) * MOST_ATTEMPTS;
        Span(left * each) + begins.since(self.now) + behind + ahead + START_LIMIT + LONGEST
    }

    /// What is left waits, holds nothing, and for a reason that is true.
    fn judge_rest(&mut self) -> Result<(), String> {
        if let Some(id) = self.book.claims.of.keys().next() {
            return Err(format!("{id} was promised places and never starts"));
        }
        if let Some((_, attempt)) = self.book.active().next() {
            return Err(format!("{} never ends", attempt.id));
        }
        if let Some(id) = self.backend.busy().first() {
            return Err(format!("{id} goes on when all is over"));
        }
        let mut runtime = self.runtime.take().ok_or("there is no daemon in the calm")?;
        let at = runtime.instant(self.clock());
        let engine = runtime.engine_mut().ok_or("the state cannot be read")?;
        let before = format!("{:?}", engine.snapshot());
        let judged = self.judge_waiting(engine, at);
        let is_same = format!("{:?}", engine.snapshot()) == before;
        self.runtime = Some(runtime);
        self.cover.left_waiting += judged?;
        match is_same {
            true => Ok(()),
            false => Err("explaining has changed the state".to_owned()),
        }
    }

    fn judge_waiting(&self, engine: &mut Engine, at: Time) -> Result<u64, String> {
        let mut left = 0;
        for (id, job) in &self.book.jobs {
            for (index, element) in &job.elements {
                let Phase::Waits { held, .. } = element.phase else { continue };
                let id = ElementId { job: *id, index: *index };
                let told =
                    engine.explain(at, id).ok_or_else(|| format!("{id} cannot be explained"))?;
                if !told.reasons.iter().any(|reason| self.is_true(job, held, reason)) {
                    let (reasons, spec, queues) =
                        (&told.reasons, &job.spec, &self.book.queues.queues);
                    return Err(format!(
                        "{id} waits for ever, and not for {reasons:?}: {spec:?}, in {queues:?}"
                    ));
                }
                left += 1;
            }
        }
        Ok(left)
    }

    /// Does this keep an element of the job for ever from starting, when nothing else runs?
    fn is_true(&self, job: &Job, held: bool, reason: &Reason) -> bool {
        let path = path_of(&self.book, job);
        match reason {
            Reason::Held => held,
            Reason::HeldByAdmin { .. } => false,
            Reason::Dependency { on, kind } => {
                let named = job.spec.after.iter().any(|one| one.job == *on && one.kind == *kind);
                // `after` may be met by a job that has begun and waits again.
                named
                    && self.book.jobs.contains_key(on)
                    && (*kind == DependencyKind::After || !self.book.is_free(job))
            }
            // Only what does not come back may be missing: nodes that stay away, what its queues
            // never get.
            Reason::NeverFits(_)
            | Reason::NeverInTopology(_)
            | Reason::Capacity(_)
            | Reason::Topology(_)
            | Reason::Quota { .. }
            | Reason::MayNotBorrow { .. }
            | Reason::BorrowedTime { .. } => !self.could_start(job),
            Reason::Behind { element } => {
                let first = self.book.jobs.get(&element.job);
                let blocks = |first: &Job| first.leaf == job.leaf && !self.could_start(first);
                self.book.queues.backfill == Backfill::None && first.is_some_and(blocks)
            }
            Reason::GpusPerUser { .. } => {
                let most = path.iter().filter_map(|(_, queue)| queue.limits.gpus_per_user).min();
                most.is_some_and(|most| job.spec.min_gpus() > most * 1000)
            }
            Reason::TimeLimit { .. } => {
                let most = path.iter().filter_map(|(_, queue)| queue.limits.time).min();
                most.is_some_and(|most| job.spec.time_limit.is_none_or(|limit| limit > most))
            }
            Reason::Priority { .. } => path.iter().any(|(_, queue)| {
                queue.priority.is_some_and(|(low, high)| !(low..=high).contains(&job.spec.priority))
            }),
            Reason::Budget { .. } => budget::is_beyond(&self.book, job),
            Reason::WindowOver { window } => {
                job.spec.constraint.window.as_ref() == Some(window)
                    && !self.book.windows.contains_key(window)
            }
            // These pass: when nothing runs, none of them is true.
            _ => false,
        }
    }

    /// Could the job certainly start alone, on the nodes as they are, within what its queues own?
    /// No when nobody knows.
    fn could_start(&self, job: &Job) -> bool {
        let path = path_of(&self.book, job);
        let is_sure = |model: &GpuModel| {
            let owned: Vec<Option<&u64>> =
                path.iter().map(|(_, queue)| queue.quota.get(model)).collect();
            let all = job.spec.min_gpus();
            match owned.last() {
                Some(Some(_)) => owned.into_iter().flatten().all(|owned| owned * 1000 >= all),
                _ => !self.book.queues.queues.iter().any(|queue| is_shared(queue, model)),
            }
        };
        let models: Vec<GpuModel> =
            MODELS.iter().map(|model| GpuModel::from(*model)).filter(is_sure).collect();
        let (levels, hosts) = (&self.book.levels, &self.book.nodes);
        let Some(wish) = &job.spec.constraint.topology else {
            return fit::fits(hosts, &job.spec, &models) == Some(true);
        };
        match &wish.rule {
            // Nobody knows of slices: that takes a search of its own.
            _ if wish.segment.is_some() => false,
            TopologyRule::Required(level) => {
                let ids = (0..hosts.len() as u32).map(NodeId);
                let domain = |(id, host)| topology::domain(levels, host, id, level);
                let of_all: Vec<Option<Domain>> = ids.zip(hosts).map(domain).collect();
                of_all.iter().flatten().any(|one| {
                    let inside =
                        hosts.iter().zip(&of_all).filter(|(_, of)| of.as_ref() == Some(one));
                    let inside: Vec<Host> = inside.map(|(host, _)| host.clone()).collect();
                    fit::fits(&inside, &job.spec, &models) == Some(true)
                })
            }
            TopologyRule::Anywhere | TopologyRule::Preferred(_) | TopologyRule::Spread(_) => {
                fit::fits(hosts, &job.spec, &models) == Some(true)
            }
        }
    }
}

/// True when somebody below owns something of the model, so that who owns nothing lives on what is
/// left.
fn is_shared(queue: &QueueSpec, model: &GpuModel) -> bool {
    queue.quota.contains_key(model) || queue.queues.iter().any(|child| is_shared(child, model))
}
