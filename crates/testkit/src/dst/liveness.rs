//! The liveness phase at the end of a run: faults and arrivals stop and time advances. Everything
//! that can run must end within a bound, and every job that is still pending must have a true
//! reason. Both are checked without the engine.

use muster_model::queue::Backfill;
use muster_model::{
    CommandTarget, DependencyKind, DeviceSet, ElementId, Event, Foreign, GpuModel, NodeId,
    QueueSpec, Reason, Span, Time, TopologyRule,
};
use muster_runtime::StepInput;
use muster_runtime::engine::Engine;

use super::feasibility;
use super::ledger::budget;
use super::ledger::nodes::LedgerNode;
use super::ledger::queue_path::path_of;
use super::ledger::topology::{self, LedgerDomain};
use super::ledger::{ElementPhase, LedgerJob};
use super::site;
use super::site::MODELS;
use super::world::{DstWorld, START_LIMIT};
use crate::scenario::command::StartBehaviour;

/// Most instants of the liveness phase; more means a livelock.
const MOST_INSTANTS: usize = 20_000;
/// Most attempts of one element in the liveness phase: its restarts and the retries of a failed
/// start.
const MOST_ATTEMPTS: u64 = 8;
/// Longest duration of an attempt in a run: program or limit, plus grace.
const LONGEST: Span = Span::from_secs(125);
/// Longest back-off before a restart in a run.
const LONGEST_WAIT: Span = Span::from_secs(80);

impl DstWorld {
    /// Stops all faults, advances time until idle, and checks what remains.
    pub(crate) fn run_liveness_phase(&mut self) -> Result<(), String> {
        self.transcript.line(|| "liveness phase".to_owned());
        self.ledger.nominations.evictions.clear();
        self.stop_faults()?;
        self.run_until_idle()?;
        self.check_remaining()?;
        self.test_starvation()
    }

    /// Stops all faults except lasting ones: a node that stays down, drained, or partly used by
    /// others.
    fn stop_faults(&mut self) -> Result<(), String> {
        self.in_liveness_phase = true;
        self.dies_within = None;
        if let Some(disk) = self.disk() {
            (disk.is_full, disk.unreadable, disk.save_fails) = (false, 0, false);
            disk.set_fault(None);
        }
        // 1. Give endless programs an end.
        self.backend.end_endless(self.now + Span::from_secs(30));
        for behaviour in self.behaviours.values_mut() {
            behaviour.lasts.get_or_insert(Span::from_secs(30));
        }
        // 2. Restart the daemon and deliver everything in flight.
        self.restart()?;
        let inputs = self.arrivals();
        self.step_until_stable(inputs, &[])?;
        // 3. Nodes.
        let mut inputs = Vec::new();
        for at in 0..self.hosts.len() {
            let lasting = self.rng.roll(8);
            let name = self.hosts[at].spec.name.clone();
            let known = self.ledger.nodes.iter().position(|host| host.spec.name == name);
            let host = &mut self.hosts[at];
            host.starts = StartBehaviour::Works;
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
            let node = name.clone();
            let all = DeviceSet::first(host.spec.devices.len());
            let devices = (!all.is_empty()).then_some(all);
            inputs.push(StepInput::Event(Event::DrainSet { node, devices, drain: None }));
            inputs.push(StepInput::Event(Event::NodeDrained {
                node: name,
                drained,
                reason: "for good".into(),
            }));
        }
        inputs.extend(self.drop_reservations());
        inputs.extend(self.cancel_services());
        let mut nodes = self.nodes_now();
        nodes.append(&mut inputs);
        nodes.extend(self.task_reports());
        self.step_until_stable(nodes, &[])
    }

    /// Cancels jobs that restart after every end.
    fn cancel_services(&self) -> Vec<StepInput> {
        let services = self.ledger.jobs.iter().filter(|(_, job)| job.spec.restart.always);
        let target = |job| CommandTarget { job, index: None };
        let cancel =
            |job| StepInput::Event(Event::Cancel { target: target(job), by: "root".into() });
        services.map(|(id, _)| cancel(*id)).collect()
    }

    /// Advances time until nothing is due.
    pub(super) fn run_until_idle(&mut self) -> Result<(), String> {
        let begun = self.now;
        let bound = self.bound();
        for _ in 0..MOST_INSTANTS {
            let Some(due) = self.next_due() else { return Ok(()) };
            self.now = self.now.max(due);
            let since = self.now.since(begun);
            self.transcript.line(|| format!("liveness phase for {} ms", since.0));
            if since > bound {
                let left = self.left()?;
                return Err(format!(
                    "after {since} without faults something is still due, the bound is {bound}: {left}"
                ));
            }
            let inputs = self.arrivals();
            self.step_until_stable(inputs, &[])?;
            self.check_evictions()?;
        }
        Err("livelock: the liveness phase does not end".to_owned())
    }

    /// Describes the pending elements and their reasons.
    fn left(&mut self) -> Result<String, String> {
        let mut runtime = self.runtime.take().ok_or("no daemon runs in the liveness phase")?;
        let at = runtime.instant(self.clock());
        let engine = runtime.engine_mut().ok_or("the state cannot be read")?;
        let elements = self.ledger.jobs.iter().flat_map(|(job, known)| {
            let waits = known
                .elements
                .iter()
                .filter(|(_, element)| matches!(element.phase, ElementPhase::Pending { .. }));
            waits.map(|(index, _)| ElementId { job: *job, index: *index })
        });
        let reported = elements.map(|id| {
            format!("{id} {:?}", engine.explain(at, id).map(|reported| reported.reasons))
        });
        let reported: Vec<String> = reported.collect();
        self.runtime = Some(runtime);
        Ok(reported.join("; "))
    }

    /// Checks that evictions end. A claimant that ends frees its placement, and is pending again
    /// only after a restart or its own eviction, which needs another job's eligibility to preempt
    /// it. So without new jobs, one element evicts another at most as often as there are elements.
    fn check_evictions(&self) -> Result<(), String> {
        let elements: usize = self.ledger.jobs.values().map(|job| job.elements.len()).sum();
        let most = (elements as u32 + 1) * MOST_ATTEMPTS as u32;
        match self.ledger.nominations.evictions.iter().find(|(_, times)| **times > most) {
            Some(((victim, by), times)) => {
                Err(format!("{victim} is evicted for {by} for the {times}th time"))
            }
            None => Ok(()),
        }
    }

    /// Returns the time by which everything must be over: as if all remaining elements ran one
    /// after the other, each as often and as long as it may.
    fn bound(&self) -> Span {
        let waits = |phase: &ElementPhase| !matches!(phase, ElementPhase::Ended(_));
        let elements = self.ledger.jobs.values().flat_map(|job| job.elements.values());
        let left = elements.filter(|element| waits(&element.phase)).count() as u64;
        let begins =
            self.ledger.jobs.values().filter_map(|job| job.spec.begin).max().unwrap_or_default();
        let behind = if self.skew < 0 { Span(self.skew.unsigned_abs()) } else { Span(0) };
        let ahead = self.stands_still();
        // Each element may have to wait for the next refill of a budget.
        let refill = site::LONGEST_BUDGET;
        let each = (LONGEST.0 + LONGEST_WAIT.0 + refill.0 + 2 * START_LIMIT.0) * MOST_ATTEMPTS;
        Span(left * each) + begins.since(self.now) + behind + ahead + START_LIMIT + LONGEST
    }

    /// Checks that every remaining element is pending, holds nothing, and has a true reason.
    fn check_remaining(&mut self) -> Result<(), String> {
        if let Some(id) = self.ledger.nominations.of.keys().next() {
            return Err(format!("{id} has a nomination and never starts"));
        }
        if let Some((_, attempt)) = self.ledger.active().next() {
            return Err(format!("{} never ends", attempt.id));
        }
        if let Some(id) = self.backend.busy().first() {
            return Err(format!("{id} still runs at the end of the liveness phase"));
        }
        let mut runtime = self.runtime.take().ok_or("no daemon runs in the liveness phase")?;
        let at = runtime.instant(self.clock());
        let engine = runtime.engine_mut().ok_or("the state cannot be read")?;
        let before = format!("{:?}", engine.snapshot());
        let found = self.check_waiting(engine, at);
        let is_same = format!("{:?}", engine.snapshot()) == before;
        self.runtime = Some(runtime);
        self.coverage.left_waiting += found?;
        if is_same { Ok(()) } else { Err("explain has changed the state".to_owned()) }
    }

    fn check_waiting(&self, engine: &mut Engine, at: Time) -> Result<u64, String> {
        let mut left = 0;
        for (id, job) in &self.ledger.jobs {
            for (index, element) in &job.elements {
                let ElementPhase::Pending { held, .. } = element.phase else { continue };
                let id = ElementId { job: *id, index: *index };
                let reported =
                    engine.explain(at, id).ok_or_else(|| format!("{id} cannot be explained"))?;
                if !reported.reasons.iter().any(|reason| self.is_true(job, held, reason)) {
                    let reasons = &reported.reasons;
                    let spec = &job.spec;
                    let queues = &self.ledger.queues.queues;
                    return Err(format!(
                        "{id} stays pending for ever, and none of the explained reasons is true: {reasons:?}; {spec:?}, {queues:?}"
                    ));
                }
                left += 1;
            }
        }
        Ok(left)
    }

    /// Returns whether a reason keeps an element of the job pending for ever while nothing else
    /// runs.
    fn is_true(&self, job: &LedgerJob, held: bool, reason: &Reason) -> bool {
        let path = path_of(&self.ledger, job);
        match reason {
            Reason::Held => held,
            Reason::HeldByAdmin { .. } => false,
            Reason::Dependency { on, kind } => {
                let named = job.spec.after.iter().any(|one| one.job == *on && one.kind == *kind);
                // `after` may be satisfied by a job that has begun and is pending again.
                named
                    && self.ledger.jobs.contains_key(on)
                    && (*kind == DependencyKind::After || !self.ledger.is_free(job))
            }
            // Only permanent shortages may remain: nodes that stay down, and resources that the
            // queues never get.
            Reason::NeverFits(_)
            | Reason::NeverInTopology(_)
            | Reason::Capacity(_)
            | Reason::Topology(_)
            | Reason::Quota { .. }
            | Reason::MayNotBorrow { .. }
            | Reason::BorrowedTime { .. } => !self.could_start(job),
            Reason::Behind { element } => {
                let first = self.ledger.jobs.get(&element.job);
                let blocks = |first: &LedgerJob| first.leaf == job.leaf && !self.could_start(first);
                self.ledger.queues.backfill == Backfill::None && first.is_some_and(blocks)
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
            Reason::Budget { .. } => budget::is_beyond(&self.ledger, job),
            Reason::AdvanceReservationOver { advance_reservation: window } => {
                job.spec.constraint.advance_reservation.as_ref() == Some(window)
                    && !self.ledger.reservations.contains_key(window)
            }
            // All other reasons are temporary: none is true while nothing runs.
            _ => false,
        }
    }

    /// Returns whether the job could certainly start alone on the nodes as they are, within its
    /// queues' own quota; false if unknown.
    fn could_start(&self, job: &LedgerJob) -> bool {
        let path = path_of(&self.ledger, job);
        let is_sure = |model: &GpuModel| {
            let owned: Vec<Option<&u64>> =
                path.iter().map(|(_, queue)| queue.quota.get(model)).collect();
            let all = job.spec.min_gpus();
            match owned.last() {
                Some(Some(_)) => owned.into_iter().flatten().all(|owned| owned * 1000 >= all),
                _ => !self.ledger.queues.queues.iter().any(|queue| is_shared(queue, model)),
            }
        };
        let models: Vec<GpuModel> =
            MODELS.iter().map(|model| GpuModel::from(*model)).filter(is_sure).collect();
        let levels = &self.ledger.levels;
        let hosts = &self.ledger.nodes;
        let Some(wish) = &job.spec.constraint.topology else {
            return feasibility::fits(hosts, &job.spec, &models) == Some(true);
        };
        match &wish.rule {
            // Unknown for segments: they would need a search of their own.
            _ if wish.segment.is_some() => false,
            TopologyRule::Required(level) => {
                let ids = (0..hosts.len() as u32).map(NodeId);
                let domain = |(id, host)| topology::domain(levels, host, id, level);
                let of_all: Vec<Option<LedgerDomain>> = ids.zip(hosts).map(domain).collect();
                of_all.iter().flatten().any(|one| {
                    let inside =
                        hosts.iter().zip(&of_all).filter(|(_, of)| of.as_ref() == Some(one));
                    let inside: Vec<LedgerNode> = inside.map(|(host, _)| host.clone()).collect();
                    feasibility::fits(&inside, &job.spec, &models) == Some(true)
                })
            }
            TopologyRule::Anywhere | TopologyRule::Preferred(_) | TopologyRule::Spread(_) => {
                feasibility::fits(hosts, &job.spec, &models) == Some(true)
            }
        }
    }
}

/// Returns whether a queue at or below this one has a quota for the model, so that queues without
/// one use only the rest.
fn is_shared(queue: &QueueSpec, model: &GpuModel) -> bool {
    queue.quota.contains_key(model) || queue.queues.iter().any(|child| is_shared(child, model))
}
