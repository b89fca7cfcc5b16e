//! Random events of a run: users submit and change requests, administrators change queues and
//! nodes, and tasks, nodes, disks, clocks and the daemon fail. The choices do not depend on the
//! engine's decisions.

use std::sync::Arc;

use muster_model::{
    CommandTarget, CpuMilli, DependencyKind, DeviceSet, Drain, ElementId, Event, Foreign, JobId,
    NodeId, Observation, Span, TaskExit,
};
use muster_runtime::StepInput;

use super::RUN_START;
use super::jobs::{self, USERS};
use super::site;
use super::world::{DstWorld, SentSubmission};
use crate::StoreFault;
use crate::scenario::command::StartBehaviour;

/// Inputs of one instant, and the submissions among them.
#[derive(Default)]
struct RoundInputs {
    inputs: Vec<StepInput>,
    about: Vec<usize>,
}

impl DstWorld {
    pub(crate) fn round(&mut self) -> Result<(), String> {
        self.pass_time();
        self.inject_faults()?;
        if self.runtime.is_none() && self.rng.chance(40) {
            self.restart()?;
        }
        let mut round = RoundInputs::default();
        for _ in 0..self.rng.roll(4) {
            self.play_round(&mut round)?;
        }
        let mut inputs = self.arrivals();
        if self.rng.chance(3) {
            inputs.extend(self.task_reports());
        }
        // Orders and reports of one instant come in any order.
        if self.rng.chance(50) {
            inputs.extend(round.inputs)
        } else {
            inputs = round.inputs.into_iter().chain(inputs).collect()
        }
        if self.runtime.is_some() { self.step_until_stable(inputs, &round.about) } else { Ok(()) }
    }

    fn pass_time(&mut self) {
        let soon = self.now + Span(self.rng.roll(8) * self.rng.roll(4_000));
        self.now = match self.next_due() {
            Some(due) if self.rng.chance(60) => {
                due.max(self.now).min(self.now + Span::from_secs(60))
            }
            _ => soon,
        };
        let at = self.now.0 - RUN_START.0;
        let clock = self.clock().0;
        self.transcript.line(|| format!("{at} ms, the clock shows {clock}"));
    }

    /// Injects faults of disk, daemon and clock.
    fn inject_faults(&mut self) -> Result<(), String> {
        let kind = self.rng.roll(100);
        let depth = self.rng.roll(4);
        let jump = self.rng.between(1, 600_000) as i64;
        let lives = self.runtime.is_some();
        if self.disk().is_some_and(|disk| disk.is_full) {
            self.coverage.full_disk += 1;
            if kind < 40
                && let Some(disk) = self.disk()
            {
                disk.is_full = false;
            }
            return Ok(());
        }
        let Some(disk) = self.disk() else { return Ok(()) };
        match kind {
            0 => disk.is_full = true,
            1 | 2 => disk.set_fault(Some(StoreFault::DieBefore)),
            3 | 4 => disk.set_fault(Some(StoreFault::DieAfter)),
            5 | 6 => {
                let fault = if kind == 5 { StoreFault::FailBefore } else { StoreFault::FailAfter };
                disk.set_fault(Some(fault));
                disk.unreadable = depth.saturating_sub(1) as u32;
            }
            7 | 8 => disk.save_fails = true,
            9 if lives => {
                self.coverage.died_between += 1;
                self.die("dies between steps");
            }
            10 | 11 if lives => {
                self.coverage.died_between += 1;
                self.dies_within = Some(depth as usize);
            }
            12 => {
                (self.skew, self.coverage.clock_forward) =
                    (self.skew + jump, self.coverage.clock_forward + 1)
            }
            13 => {
                (self.skew, self.coverage.clock_back) =
                    (self.skew - jump, self.coverage.clock_back + 1)
            }
            _ => {}
        }
        let clock = self.clock();
        self.transcript
            .line(|| format!("    fault {kind}, depth {depth}, the clock shows {}", clock.0));
        Ok(())
    }

    fn play_round(&mut self, round: &mut RoundInputs) -> Result<(), String> {
        match self.rng.roll(80) {
            0..=27 => self.submit(round),
            28..=30 => self.send_again(round),
            31..=42 => self.ask(round),
            43..=48 => self.fail_task(),
            49..=60 => self.change_node(round),
            61..=63 => self.use_device(round),
            64..=69 => self.change_start_behaviour(),
            70 | 71 => {
                let mut tree = site::tree(&mut self.rng);
                self.features.tree(&mut self.rng, &mut tree);
                round.inputs.push(StepInput::Event(Event::QueuesSet(Box::new(tree))));
                self.coverage.queue_files += 1;
            }
            72..=74 => {
                let event = self.change_reservation();
                round.inputs.push(StepInput::Event(event));
            }
            75 => {
                let event = self.replace_levels();
                round.inputs.push(StepInput::Event(event));
            }
            _ => {}
        }
        Ok(())
    }

    fn submit(&mut self, round: &mut RoundInputs) {
        let user = *self.rng.pick(&USERS);
        let key = format!("key-{}", self.sent.len());
        let mut drafts = Vec::new();
        for at in 0..self.rng.between(1, 5).saturating_sub(3).max(1) {
            let name: Arc<str> = format!("{key}-{at}").into();
            let next = self.next_job();
            let rng = &mut self.rng;
            let who = (&*name, user);
            let site = (&self.ledger.queues, &self.ledger.reservations);
            let mut draft = jobs::draft(rng, &self.templates.job, site, self.now, next, who);
            if at > 0 && rng.chance(50) {
                let kind = *rng.pick(&[
                    DependencyKind::AfterOk,
                    DependencyKind::AfterAny,
                    DependencyKind::After,
                ]);
                draft.after.push((kind, 0));
            }
            self.features.shape(rng, &mut draft.spec);
            self.behaviours.insert(name, jobs::behaviour(rng, &draft.spec.kind));
            drafts.push(draft);
        }
        self.sent.push(SentSubmission { key, user, drafts, answer: None });
        self.send(self.sent.len() - 1, round);
    }

    fn send(&mut self, which: usize, round: &mut RoundInputs) {
        let envelope = self.envelope(which);
        round.about.extend(envelope.is_some().then_some(which));
        round.inputs.extend(envelope);
    }

    /// Sends a submission again: mostly one without an answer.
    fn send_again(&mut self, round: &mut RoundInputs) {
        let waits = |sent: &SentSubmission| sent.answer.is_none();
        let open: Vec<usize> = self
            .sent
            .iter()
            .enumerate()
            .filter(|(_, sent)| waits(sent))
            .map(|(at, _)| at)
            .collect();
        let any = open.is_empty() || self.rng.chance(20);
        if any && self.sent.is_empty() {
            return;
        }
        let which = if any {
            self.rng.roll(self.sent.len() as u64) as usize
        } else {
            *self.rng.pick(&open)
        };
        if matches!(self.sent[which].answer, Some(Err(_))) {
            return;
        }
        self.coverage.resent += 1;
        self.send(which, round);
    }

    /// Generates a user request about a job.
    fn ask(&mut self, round: &mut RoundInputs) {
        if self.features.services && self.rng.chance(40) {
            return self.scale(round);
        }
        let job = JobId(self.rng.between(1, self.next_job().0));
        let index = self.rng.chance(40).then(|| self.rng.roll(6) as u32);
        let target = CommandTarget { job, index };
        let event = match self.rng.roll(14) {
            8..=13 => {
                let busy = self.backend.busy();
                let one = busy.get(self.rng.roll(8) as usize).map(|id| id.element);
                let of = |id: ElementId| CommandTarget { job: id.job, index: Some(id.index) };
                Event::Checkpoint(one.map_or(target, of))
            }
            0 | 1 => Event::Cancel { target, by: (*self.rng.pick(&USERS)).into() },
            2 => Event::Hold(target),
            3 | 4 => Event::Release(target),
            _ => Event::Requeue(target),
        };
        match (&event, self.ledger.jobs.contains_key(&job)) {
            (Event::Requeue(_), true) => self.coverage.requeues += 1,
            (Event::Hold(_), true) => self.coverage.holds += 1,
            _ => {}
        }
        round.inputs.push(StepInput::Event(event));
    }

    fn scale(&mut self, round: &mut RoundInputs) {
        let services = self.ledger.jobs.iter().filter(|(_, job)| job.spec.service().is_some());
        let services: Vec<JobId> = services.map(|(id, _)| *id).collect();
        if services.is_empty() {
            return;
        }
        let job = *self.rng.pick(&services);
        let replicas = jobs::replicas(&mut self.rng);
        let by = (*self.rng.pick(&USERS)).into();
        round.inputs.push(StepInput::Event(Event::Scaled { job, replicas, by }));
    }

    /// Fails a running task, or loses its supervisor.
    fn fail_task(&mut self) {
        let busy = self.backend.busy();
        if busy.is_empty() {
            return;
        }
        let id = *self.rng.pick(&busy);
        if self.rng.chance(20) {
            self.warn(id);
        }
        let element = id.element;
        let what = match self.rng.roll(5) {
            0 => Observation::Lost { reason: "its supervisor is gone".into() },
            1 => Observation::Exited(TaskExit::OutOfMemory),
            2 => Observation::Exited(TaskExit::Code { code: 0 }),
            3 => Observation::Exited(TaskExit::Signal { signal: 9 }),
            _ => Observation::Exited(TaskExit::Code { code: 3 }),
        };
        let rank = self.rng.chance(80).then(|| self.rng.roll(4) as u32);
        self.backend.force(self.now, element, rank, &what);
    }

    fn change_node(&mut self, round: &mut RoundInputs) {
        let at = self.rng.roll(self.hosts.len() as u64) as usize;
        let name = self.hosts[at].spec.name.clone();
        let known = self.ledger.nodes.iter().position(|host| host.spec.name == name);
        match self.rng.roll(15) {
            0 | 1 if self.hosts[at].up => {
                self.coverage.nodes_lost += 1;
                self.hosts[at].up = false;
                let reason: Arc<str> = format!("{name} is down").into();
                if let Some(id) = known {
                    self.backend.lose_node(NodeId(id as u32), &reason);
                    self.notices.push(Event::NodeLost { node: name, reason });
                }
                // Without a daemon, the node may be back before its loss is noticed.
                if self.runtime.is_none() && self.rng.chance(50) {
                    self.hosts[at].up = true;
                }
            }
            // The node comes back after the daemon has noticed its loss: it registers anew.
            2..=8
                if !self.hosts[at].up && known.is_none_or(|known| !self.ledger.nodes[known].up) =>
            {
                self.hosts[at].up = true;
                if self.rng.chance(20) {
                    let spec = &mut self.hosts[at].spec;
                    spec.labels.insert("zone".into(), (*self.rng.pick(&["east", "west"])).into());
                    spec.domains = site::domains(&mut self.rng);
                }
                self.notices.push(Event::NodeJoined(Box::new(self.hosts[at].spec.clone())));
            }
            9 => {
                self.coverage.drains += 1;
                let event =
                    Event::NodeDrained { node: name, drained: true, reason: "for repair".into() };
                round.inputs.push(StepInput::Event(event));
            }
            10 | 11 => {
                let event = Event::NodeDrained { node: name, drained: false, reason: "".into() };
                round.inputs.push(StepInput::Event(event));
            }
            12 => {
                self.coverage.drains += 1;
                let from = self.clock() + Span(self.rng.roll(90_000));
                let devices =
                    self.rng.chance(50).then(|| DeviceSet(u128::from(self.rng.between(1, 15))));
                let all = DeviceSet::first(self.hosts[at].spec.devices.len());
                let devices = devices.map(|some| some.and(all)).filter(|some| !some.is_empty());
                let drain = Drain {
                    from,
                    by: None,
                    reason: "for repair".into(),
                    stop: self.rng.chance(50),
                };
                round.inputs.push(StepInput::Event(Event::DrainSet {
                    node: name,
                    devices,
                    drain: Some(drain),
                }));
            }
            13 | 14 => {
                let devices = Some(DeviceSet::first(self.hosts[at].spec.devices.len()));
                round.inputs.push(StepInput::Event(Event::DrainSet {
                    node: name,
                    devices,
                    drain: None,
                }));
            }
            _ => {}
        }
    }

    fn use_device(&mut self, round: &mut RoundInputs) {
        let at = self.rng.roll(self.hosts.len() as u64) as usize;
        let rng = &mut self.rng;
        let mut foreign = Foreign::default();
        if rng.chance(50) {
            self.coverage.foreign += 1;
            foreign.devices = DeviceSet(u128::from(rng.roll(16)));
            foreign.drained = DeviceSet(u128::from(rng.roll(4)));
            foreign.cpus = CpuMilli(rng.roll(4) as u32 * 1000);
        }
        self.hosts[at].foreign = foreign.clone();
        let node = self.hosts[at].spec.name.clone();
        round.inputs.push(StepInput::Event(Event::ForeignUse { node, foreign }));
    }

    /// Changes how tasks become ready on a node.
    fn change_start_behaviour(&mut self) {
        let at = self.rng.roll(self.hosts.len() as u64) as usize;
        self.hosts[at].starts = match self.rng.roll(8) {
            0 => StartBehaviour::Fails("no space for its log".into()),
            1 => StartBehaviour::Takes(Span(self.rng.roll(5_000))),
            2 => StartBehaviour::Takes(Span::from_secs(self.rng.between(20, 90))),
            3 => StartBehaviour::Mute,
            _ => StartBehaviour::Works,
        };
    }
}
