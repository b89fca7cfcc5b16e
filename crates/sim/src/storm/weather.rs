//! What happens next in a story: people submit and change their minds, administrators change queues
//! and nodes, tasks, nodes, disks, clocks and the daemon fail. Chosen by dice; it must not look at
//! what the engine decides.

use std::sync::Arc;

use muster_model::{
    CpuMilli, DependencyKind, DeviceSet, Drain, ElementId, Event, Foreign, JobId, NodeId,
    Observation, Span, Target, TaskExit,
};
use muster_runtime::Input;

use super::disk::Blow;
use super::jobs::{self, USERS};
use super::site;
use super::world::{Sent, World};
use crate::scenario::command::Starts;

/// What happens at one instant: inputs, and which submissions are among them.
#[derive(Default)]
struct Round {
    inputs: Vec<Input>,
    about: Vec<usize>,
}

impl World {
    /// One round of the storm.
    pub(crate) fn round(&mut self) -> Result<(), String> {
        self.pass_time();
        self.break_things()?;
        if self.runtime.is_none() && self.dice.chance(40) {
            self.restart()?;
        }
        let mut round = Round::default();
        for _ in 0..self.dice.roll(4) {
            self.happen(&mut round)?;
        }
        let mut inputs = self.arrivals();
        if self.dice.chance(3) {
            inputs.extend(self.recall());
        }
        // Orders and reports of one instant come in any order.
        match self.dice.chance(50) {
            true => inputs.extend(round.inputs),
            false => inputs = round.inputs.into_iter().chain(inputs).collect(),
        }
        match self.runtime.is_some() {
            true => self.settle(inputs, &round.about),
            false => Ok(()),
        }
    }

    fn pass_time(&mut self) {
        let soon = self.now + Span(self.dice.roll(8) * self.dice.roll(4_000));
        self.now = match self.next_due() {
            Some(due) if self.dice.chance(60) => {
                due.max(self.now).min(self.now + Span::from_secs(60))
            }
            _ => soon,
        };
        let (at, clock) = (self.now.0 - super::disk::DAWN.0, self.clock().0);
        self.trace.line(|| format!("{at} ms, the clock shows {clock}"));
    }

    /// Faults of disk, daemon and clock.
    fn break_things(&mut self) -> Result<(), String> {
        let kind = self.dice.roll(100);
        let depth = self.dice.roll(4);
        let jump = self.dice.between(1, 600_000) as i64;
        let lives = self.runtime.is_some();
        if self.disk().is_some_and(|disk| disk.is_full) {
            self.cover.full_disk += 1;
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
            1 | 2 => disk.blow = Blow::DieBefore,
            3 | 4 => disk.blow = Blow::DieAfter,
            5 | 6 => {
                disk.blow = if kind == 5 { Blow::FailBefore } else { Blow::FailAfter };
                disk.unreadable = depth.saturating_sub(1) as u32;
            }
            7 | 8 => disk.save_fails = true,
            9 if lives => {
                self.cover.died_between += 1;
                self.die("dies between steps");
            }
            10 | 11 if lives => {
                self.cover.died_between += 1;
                self.dies_within = Some(depth as usize);
            }
            12 => {
                (self.skew, self.cover.clock_forward) =
                    (self.skew + jump, self.cover.clock_forward + 1)
            }
            13 => {
                (self.skew, self.cover.clock_back) = (self.skew - jump, self.cover.clock_back + 1)
            }
            _ => {}
        }
        let clock = self.clock();
        self.trace.line(|| format!("    fault {kind}, depth {depth}, the clock shows {}", clock.0));
        Ok(())
    }

    fn happen(&mut self, round: &mut Round) -> Result<(), String> {
        match self.dice.roll(80) {
            0..=27 => self.submit(round),
            28..=30 => self.send_again(round),
            31..=42 => self.ask(round),
            43..=48 => self.fail_task(),
            49..=60 => self.change_node(round),
            61..=63 => self.use_device(round),
            64..=69 => self.spoil_starts(),
            70 | 71 => {
                let mut tree = site::tree(&mut self.dice);
                self.beyond.tree(&mut self.dice, &mut tree);
                round.inputs.push(Input::Event(Event::QueuesSet(Box::new(tree))));
                self.cover.queue_files += 1;
            }
            72..=74 => {
                let event = self.change_window();
                round.inputs.push(Input::Event(event));
            }
            75 => {
                let event = self.replace_levels();
                round.inputs.push(Input::Event(event));
            }
            _ => {}
        }
        Ok(())
    }

    fn submit(&mut self, round: &mut Round) {
        let user = *self.dice.pick(&USERS);
        let key = format!("key-{}", self.sent.len());
        let mut drafts = Vec::new();
        for at in 0..self.dice.between(1, 5).saturating_sub(3).max(1) {
            let name: Arc<str> = format!("{key}-{at}").into();
            let next = self.next_job();
            let dice = &mut self.dice;
            let who = (&*name, user);
            let site = (&self.book.queues, &self.book.windows);
            let mut draft = jobs::draft(dice, &self.patterns.job, site, self.now, next, who);
            if at > 0 && dice.chance(50) {
                let kind = *dice.pick(&[
                    DependencyKind::AfterOk,
                    DependencyKind::AfterAny,
                    DependencyKind::After,
                ]);
                draft.after.push((kind, 0));
            }
            self.beyond.shape(dice, &mut draft.spec);
            self.conducts.insert(name, jobs::conduct(dice, &draft.spec.kind));
            drafts.push(draft);
        }
        self.sent.push(Sent { key, user, drafts, answer: None });
        self.send(self.sent.len() - 1, round);
    }

    fn send(&mut self, which: usize, round: &mut Round) {
        let envelope = self.envelope(which);
        round.about.extend(envelope.is_some().then_some(which));
        round.inputs.extend(envelope);
    }

    /// Who got no answer asks again, and some who got one.
    fn send_again(&mut self, round: &mut Round) {
        let waits = |sent: &Sent| sent.answer.is_none();
        let open: Vec<usize> = self
            .sent
            .iter()
            .enumerate()
            .filter(|(_, sent)| waits(sent))
            .map(|(at, _)| at)
            .collect();
        let which = match open.is_empty() || self.dice.chance(20) {
            true if self.sent.is_empty() => return,
            true => self.dice.roll(self.sent.len() as u64) as usize,
            false => *self.dice.pick(&open),
        };
        if matches!(self.sent[which].answer, Some(Err(_))) {
            return;
        }
        self.cover.resent += 1;
        self.send(which, round);
    }

    /// Somebody asks for something about a job.
    fn ask(&mut self, round: &mut Round) {
        if self.beyond.services && self.dice.chance(40) {
            return self.scale(round);
        }
        let job = JobId(self.dice.between(1, self.next_job().0));
        let index = self.dice.chance(40).then(|| self.dice.roll(6) as u32);
        let target = Target { job, index };
        let event = match self.dice.roll(14) {
            8..=13 => {
                let busy = self.backend.busy();
                let one = busy.get(self.dice.roll(8) as usize).map(|id| id.element);
                let of = |id: ElementId| Target { job: id.job, index: Some(id.index) };
                Event::Checkpoint(one.map_or(target, of))
            }
            0 | 1 => Event::Cancel { target, by: (*self.dice.pick(&USERS)).into() },
            2 => Event::Hold(target),
            3 | 4 => Event::Release(target),
            _ => Event::Requeue(target),
        };
        match (&event, self.book.jobs.contains_key(&job)) {
            (Event::Requeue(_), true) => self.cover.requeues += 1,
            (Event::Hold(_), true) => self.cover.holds += 1,
            _ => {}
        }
        round.inputs.push(Input::Event(event));
    }

    /// A service gets other numbers.
    fn scale(&mut self, round: &mut Round) {
        let services = self.book.jobs.iter().filter(|(_, job)| job.spec.service().is_some());
        let services: Vec<JobId> = services.map(|(id, _)| *id).collect();
        if services.is_empty() {
            return;
        }
        let job = *self.dice.pick(&services);
        let (replicas, by) = (jobs::replicas(&mut self.dice), (*self.dice.pick(&USERS)).into());
        round.inputs.push(Input::Event(Event::Scaled { job, replicas, by }));
    }

    /// A task that runs fails by itself, or its supervisor is gone.
    fn fail_task(&mut self) {
        let busy = self.backend.busy();
        if busy.is_empty() {
            return;
        }
        let id = *self.dice.pick(&busy);
        if self.dice.chance(20) {
            self.warn(id);
        }
        let element = id.element;
        let what = match self.dice.roll(5) {
            0 => Observation::Lost { reason: "its supervisor is gone".into() },
            1 => Observation::Exited(TaskExit::OutOfMemory),
            2 => Observation::Exited(TaskExit::Code { code: 0 }),
            3 => Observation::Exited(TaskExit::Signal { signal: 9 }),
            _ => Observation::Exited(TaskExit::Code { code: 3 }),
        };
        let rank = self.dice.chance(80).then(|| self.dice.roll(4) as u32);
        self.backend.force(self.now, element, rank, &what);
    }

    fn change_node(&mut self, round: &mut Round) {
        let at = self.dice.roll(self.hosts.len() as u64) as usize;
        let name = self.hosts[at].spec.name.clone();
        let known = self.book.nodes.iter().position(|host| host.spec.name == name);
        match self.dice.roll(15) {
            0 | 1 if self.hosts[at].up => {
                self.cover.nodes_lost += 1;
                self.hosts[at].up = false;
                let reason: Arc<str> = format!("{name} is down").into();
                if let Some(id) = known {
                    self.backend.lose_node(NodeId(id as u32), &reason);
                    self.notices.push(Event::NodeLost { node: name, reason });
                }
                // Without a daemon it may be back before anybody looks.
                if self.runtime.is_none() && self.dice.chance(50) {
                    self.hosts[at].up = true;
                }
            }
            // It comes back when the daemon has heard that it was gone: it registers anew.
            2..=8 if !self.hosts[at].up && known.is_none_or(|known| !self.book.nodes[known].up) => {
                self.hosts[at].up = true;
                if self.dice.chance(20) {
                    let spec = &mut self.hosts[at].spec;
                    spec.labels.insert("zone".into(), (*self.dice.pick(&["east", "west"])).into());
                    spec.domains = site::domains(&mut self.dice);
                }
                self.notices.push(Event::NodeJoined(Box::new(self.hosts[at].spec.clone())));
            }
            9 => {
                self.cover.drains += 1;
                let event =
                    Event::NodeDrained { node: name, drained: true, reason: "for repair".into() };
                round.inputs.push(Input::Event(event));
            }
            10 | 11 => {
                let event = Event::NodeDrained { node: name, drained: false, reason: "".into() };
                round.inputs.push(Input::Event(event));
            }
            12 => {
                self.cover.drains += 1;
                let from = self.clock() + Span(self.dice.roll(90_000));
                let devices =
                    self.dice.chance(50).then(|| DeviceSet(u128::from(self.dice.between(1, 15))));
                let all = DeviceSet::first(self.hosts[at].spec.devices.len());
                let devices = devices.map(|some| some.and(all)).filter(|some| !some.is_empty());
                let drain = Drain {
                    from,
                    by: None,
                    reason: "for repair".into(),
                    stop: self.dice.chance(50),
                };
                round.inputs.push(Input::Event(Event::DrainSet {
                    node: name,
                    devices,
                    drain: Some(drain),
                }));
            }
            13 | 14 => {
                let devices = Some(DeviceSet::first(self.hosts[at].spec.devices.len()));
                round.inputs.push(Input::Event(Event::DrainSet {
                    node: name,
                    devices,
                    drain: None,
                }));
            }
            _ => {}
        }
    }

    fn use_device(&mut self, round: &mut Round) {
        let at = self.dice.roll(self.hosts.len() as u64) as usize;
        let dice = &mut self.dice;
        let mut foreign = Foreign::default();
        if dice.chance(50) {
            self.cover.foreign += 1;
            foreign.devices = DeviceSet(u128::from(dice.roll(16)));
            foreign.drained = DeviceSet(u128::from(dice.roll(4)));
            foreign.cpus = CpuMilli(dice.roll(4) as u32 * 1000);
        }
        self.hosts[at].foreign = foreign.clone();
        let node = self.hosts[at].spec.name.clone();
        round.inputs.push(Input::Event(Event::ForeignUse { node, foreign }));
    }

    /// How tasks become ready on a node from now on.
    fn spoil_starts(&mut self) {
        let at = self.dice.roll(self.hosts.len() as u64) as usize;
        self.hosts[at].starts = match self.dice.roll(8) {
            0 => Starts::Fails("no space for its log".into()),
            1 => Starts::Takes(Span(self.dice.roll(5_000))),
            2 => Starts::Takes(Span::from_secs(self.dice.between(20, 90))),
            3 => Starts::Mute,
            _ => Starts::Works,
        };
    }
}
