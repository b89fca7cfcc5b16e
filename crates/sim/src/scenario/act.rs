//! Lines carried out: what happens becomes inputs of one step of the daemon, and orders to the
//! backend. It must not hold a choice that the engine makes.

use std::sync::Arc;

use muster_model::{
    Drain, ElementId, Event, JobSpec, NodeName, NodeSpec, Observation, Payload, Target, TaskExit,
};
use muster_report::Style;
use muster_report::reason;
use muster_runtime::engine::Refusal;
use muster_runtime::{Draft, Input, Submission};
use muster_spec::{Checked, Document, Site};

use super::command::{
    Arrangement, Command, Conduct, Crash, Deed, Happening, NodeChange, Request, Who,
};
use super::host::Host;
use super::journal::Fault;
use super::mistake::Mistake;
use super::script::Step;
use super::story::clock_of;
use super::world::{Known, World, no_daemon};

/// What became of one line before its step: its inputs, and whose answers belong to which jobs.
#[derive(Default)]
struct Batch {
    inputs: Vec<Input>,
    /// Refused before the daemon was asked.
    lines: Vec<String>,
    /// Elements of which to say why they wait.
    asked: Vec<ElementId>,
}

impl World {
    /// Carries out a step and tells what came of it.
    pub(crate) fn perform(&mut self, step: &Step) -> Result<Vec<String>, Mistake> {
        let Some((line, first)) = step.commands.first() else { return Ok(Vec::new()) };
        let line = *line;
        let broken = |message: String| Mistake::at(line, message);
        let lines = match first {
            Command::Happens(_) => self.happen(step)?,
            Command::Arrange(arrangement) => {
                self.arrange(line, arrangement)?;
                self.tell()
            }
            Command::Advance(span) => self.pass(self.now + *span).map_err(broken)?,
            Command::Until(seconds) => {
                self.pass(self.next_time_of_day(*seconds)).map_err(broken)?
            }
            Command::UntilIdle => self.advance(None).map_err(broken)?,
            Command::Restart => {
                self.restart().map_err(broken)?;
                self.tell()
            }
            Command::Ask(question) => self.answer(line, question)?,
        };
        self.audit().map_err(broken)?;
        Ok(lines)
    }

    fn pass(&mut self, to: muster_model::Time) -> Result<Vec<String>, String> {
        let lines = self.advance(Some(to))?;
        Ok(if lines.is_empty() { vec![format!("nothing until {}", clock_of(to))] } else { lines })
    }

    /// One instant: all inputs, then one step, then what follows.
    fn happen(&mut self, step: &Step) -> Result<Vec<String>, Mistake> {
        let mut batch = Batch::default();
        let mut at = 0;
        for (line, command) in &step.commands {
            let Command::Happens(happening) = command else { continue };
            self.prepare(*line, happening, &mut batch)?;
            at = *line;
        }
        let broken = |message: String| Mistake::at(at, message);
        let is_down = self.runtime.is_none();
        if is_down && batch.inputs.iter().any(|input| !is_report(input)) {
            return Err(no_daemon(at));
        }
        // What tasks do takes effect in the world first; the daemon hears of it when it listens.
        let seen = self.backend.take_due(self.now).into_iter();
        let mut inputs: Vec<Input> = seen.map(|one| Input::Event(Event::Task(one))).collect();
        let reports = inputs.len();
        inputs.extend(batch.inputs);
        let asked = inputs.len();
        let answers = self.settle(inputs).map_err(broken)?;
        let mut lines = batch.lines;
        if is_down {
            return Ok(lines);
        }
        if answers.len() < asked {
            self.drafts.clear();
            lines.push(self.unanswered());
            return Ok(lines);
        }
        self.drafts.clear();
        // Reports kept from before come first.
        let first = answers.len() - asked + reports;
        let refused = answers.iter().skip(first).filter_map(|answer| answer.as_ref().err());
        lines.extend(refused.map(|refused| self.refused(&refused.refusal)));
        self.asked.extend(batch.asked);
        lines.extend(self.tell());
        Ok(lines)
    }

    fn unanswered(&self) -> String {
        match self.runtime.is_none() {
            true => "the daemon dies before it answers".to_owned(),
            false => "refused: the disk is full".to_owned(),
        }
    }

    /// Turns a line into inputs.
    fn prepare(
        &mut self,
        line: usize,
        happening: &Happening,
        batch: &mut Batch,
    ) -> Result<(), Mistake> {
        match happening {
            Happening::Cluster(cluster) => {
                if !cluster.levels.is_empty() && cluster.levels != self.levels {
                    self.levels.clone_from(&cluster.levels);
                    batch.inputs.push(Input::Event(Event::LevelsSet(cluster.levels.clone())));
                }
                for node in &cluster.nodes {
                    self.join(node);
                    batch.inputs.push(Input::Event(Event::NodeJoined(Box::new(node.clone()))));
                }
            }
            Happening::Queues(tree) => {
                if self.jobs.is_empty() && self.hosts.is_empty() {
                    self.tree = tree.clone();
                }
                batch.inputs.push(Input::Event(Event::QueuesSet(Box::new(tree.clone()))));
            }
            Happening::Submit { user, conduct, documents } => {
                self.submit(line, user, conduct, documents, batch)?;
            }
            Happening::Request { verb, who } => {
                let target = self.target(line, who)?;
                let element = self.element(line, who)?;
                let event = match verb {
                    Request::Cancel { by } => {
                        let owner = self.jobs.get(&target.job).map(|known| known.spec.user.clone());
                        let by = by
                            .as_deref()
                            .map(Into::into)
                            .or(owner)
                            .unwrap_or_else(|| "admin".into());
                        Event::Cancel { target, by }
                    }
                    Request::Hold => Event::Hold(target),
                    Request::Release => Event::Release(target),
                    Request::Requeue => Event::Requeue(target),
                    Request::Scale { replicas, by } => {
                        let owner = self.jobs.get(&target.job).map(|known| known.spec.user.clone());
                        let by = by
                            .as_deref()
                            .map(Into::into)
                            .or(owner)
                            .unwrap_or_else(|| "admin".into());
                        Event::Scaled { job: target.job, replicas: *replicas, by }
                    }
                };
                match verb {
                    Request::Cancel { .. } => {}
                    Request::Scale { replicas, .. } => {
                        let replica = |index| ElementId { job: target.job, index };
                        batch.asked.extend((0..replicas.ceiling).map(replica));
                    }
                    Request::Hold | Request::Release | Request::Requeue => {
                        batch.asked.push(element)
                    }
                }
                batch.inputs.push(Input::Event(event));
            }
            Happening::Tasks { who, deed } => self.tasks(line, who, deed)?,
            Happening::Reserve { window, after } => {
                let mut window = window.clone();
                window.times.start = self.now + *after;
                batch.inputs.push(Input::Event(Event::WindowSet(window)));
            }
            Happening::Unreserve { name } => {
                let dropped =
                    Event::WindowDropped { window: name.as_str().into(), by: Some("root".into()) };
                batch.inputs.push(Input::Event(dropped));
            }
            Happening::Nodes { names, change } => {
                for name in names {
                    let event = self.change_node(line, name, change)?;
                    // A daemon that is down finds out when it comes back.
                    if self.runtime.is_some()
                        || !matches!(change, NodeChange::Down | NodeChange::Up)
                    {
                        batch.inputs.push(Input::Event(event));
                    }
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, node: &NodeSpec) {
        if !self.hosts.contains_key(&node.name) {
            self.joined.push(node.name.clone());
        }
        let host = self.hosts.entry(node.name.clone()).or_insert_with(|| Host::new(node.clone()));
        (host.spec, host.up) = (node.clone(), true);
    }

    fn submit(
        &mut self,
        line: usize,
        user: &str,
        conduct: &Conduct,
        documents: &[Document],
        batch: &mut Batch,
    ) -> Result<(), Mistake> {
        let checked = match self.checked(line, user, documents)? {
            Ok(checked) => checked,
            Err(refused) => {
                batch.lines.push(refused);
                return Ok(());
            }
        };
        let mut drafts = Vec::new();
        for (job, document) in checked {
            let name = job.spec.name.to_string();
            if self.names.contains_key(&name) || self.drafts.contains_key(&name) {
                return Err(Mistake::at(
                    line,
                    format!("two jobs of this scenario are named {name}"),
                ));
            }
            let payload = Payload {
                commands: job.commands,
                env: job.env,
                workdir: "/".into(),
                umask: 0,
                identity: muster_model::payload::Identity {
                    user: user.into(),
                    uid: 1000,
                    gid: 1000,
                },
                interactive: false,
                files: muster_model::OutputFiles::default(),
            };
            let spec = JobSpec { begin: job.begin.map(|begin| begin.at(self.now)), ..job.spec };
            let known = Known { spec: Arc::new(spec.clone()), conduct: conduct.clone(), document };
            self.drafts.insert(name, known);
            drafts.push(Draft { spec, payload, after: Vec::new() });
        }
        self.submissions += 1;
        let key = format!("scenario-{}", self.submissions);
        let submission = Submission { user: user.into(), key, drafts, warnings: Vec::new() };
        batch.inputs.push(Input::Submission(submission));
        Ok(())
    }

    /// Documents against the site; dependencies by name are on earlier jobs of the script, which is
    /// one file.
    pub(crate) fn checked(
        &self,
        line: usize,
        user: &str,
        documents: &[Document],
    ) -> Result<Result<Vec<(Checked, Document)>, String>, Mistake> {
        let runtime = self.runtime.as_ref().ok_or_else(|| no_daemon(line))?;
        let tree = runtime.queues().ok_or_else(|| no_daemon(line))?;
        let engine = self.engine(line)?;
        let site = Site::new(user.into(), self.hosts.values().map(|host| &host.spec), tree)
            .with_levels(self.levels.iter().cloned())
            .with_windows(engine.windows(self.now).into_iter().map(|window| window.name));
        // 1. Earlier jobs that this site would still take; others cannot be named any more.
        let (mut earlier, mut numbers) = (Vec::new(), Vec::new());
        for (job, known) in &self.jobs {
            earlier.push(known.document.clone());
            match muster_spec::check_all(&earlier, &site) {
                Ok(_) => numbers.push(*job),
                Err(_) => drop(earlier.pop()),
            }
        }
        // 2. These, with them.
        let before = earlier.len();
        earlier.extend(documents.iter().cloned());
        let checked = match muster_spec::check_all(&earlier, &site) {
            Ok(checked) => checked,
            Err(diagnostics) => {
                let lines = diagnostics.iter().map(|one| match one.label.is_empty() {
                    true => one.message.clone(),
                    false => format!("{}: {}", one.message, one.label),
                });
                return Ok(Err(format!("refused: {}", lines.collect::<Vec<_>>().join("; "))));
            }
        };
        let mut jobs = Vec::new();
        for (mut job, document) in checked.into_iter().skip(before).zip(documents) {
            for (kind, position) in std::mem::take(&mut job.after_documents) {
                let Some(number) = numbers.get(position) else {
                    return Err(Mistake::at(line, "a job can wait for jobs of earlier lines only"));
                };
                job.spec.after.push(muster_model::Dependency { kind, job: *number });
            }
            jobs.push((job, document.clone()));
        }
        Ok(Ok(jobs))
    }

    /// A refusal as a line.
    pub(crate) fn refused(&self, refusal: &Refusal) -> String {
        match refusal {
            Refusal::Never(why) | Refusal::TooMany(why) => {
                format!("refused: {}", reason::short(why, self.now, &Style::plain()))
            }
            other => format!("refused: {other}"),
        }
    }

    fn target(&self, line: usize, who: &Who) -> Result<Target, Mistake> {
        let known = self.names.keys().map(String::as_str);
        match self.names.get(&who.job) {
            Some(job) => Ok(Target { job: *job, index: who.index }),
            None => {
                Err(Mistake::at(line, format!("no job is named `{}`", who.job))
                    .near(&who.job, known))
            }
        }
    }

    /// The element that is meant: of an array without an index, the first.
    pub(crate) fn element(&self, line: usize, who: &Who) -> Result<ElementId, Mistake> {
        let target = self.target(line, who)?;
        let first = || {
            let array = self.jobs.get(&target.job).and_then(|known| known.spec.array.as_ref());
            array.map_or(0, |array| array.head.first)
        };
        Ok(ElementId { job: target.job, index: target.index.unwrap_or_else(first) })
    }

    fn tasks(&mut self, line: usize, who: &Who, deed: &Deed) -> Result<(), Mistake> {
        let target = self.target(line, who)?;
        let mut elements = self.backend.running(target.job);
        elements.retain(|element| target.index.is_none_or(|index| element.index == index));
        let (what, rank) = match deed {
            Deed::End => (Observation::Exited(TaskExit::Code { code: 0 }), None),
            Deed::Idle => {
                let known = self.jobs.get(&target.job);
                let after = known.and_then(|known| known.spec.idle()).ok_or_else(|| {
                    Mistake::at(line, format!("nobody stops `{}` for being idle", who.job))
                })?;
                (Observation::Exited(TaskExit::Idle { after }), None)
            }
            Deed::Fail(exit) => (Observation::Exited(exit.clone()), who.rank.or(Some(0))),
            Deed::Lose => (
                Observation::Lost { reason: "its supervisor is gone".into() },
                who.rank.or(Some(0)),
            ),
            Deed::Save(save) => {
                let saved = elements
                    .iter()
                    .map(|element| self.backend.save(self.now, *element, who.rank, save));
                return at_least_one(saved.sum(), line, who);
            }
        };
        let forced =
            elements.iter().map(|element| self.backend.force(self.now, *element, rank, &what));
        at_least_one(forced.sum(), line, who)
    }

    /// A node changes; what the daemon is told of it.
    fn change_node(
        &mut self,
        line: usize,
        name: &str,
        change: &NodeChange,
    ) -> Result<Event, Mistake> {
        let node = NodeName::from(name);
        let known = self.hosts.keys().map(NodeName::as_str);
        let unknown = Mistake::at(line, format!("no node is named `{name}`")).near(name, known);
        let id = self.joined.iter().position(|joined| *joined == node);
        let id = id.map(|at| muster_model::NodeId(at as u32));
        let host = self.hosts.get_mut(&node).ok_or(unknown)?;
        Ok(match change {
            NodeChange::Down => {
                host.up = false;
                let reason: Arc<str> = format!("{name} is down").into();
                if let Some(id) = id {
                    self.backend.lose_node(id, &reason);
                }
                Event::NodeLost { node, reason }
            }
            NodeChange::Up => {
                host.up = true;
                Event::NodeJoined(Box::new(host.spec.clone()))
            }
            NodeChange::Drain { gpus, after, stop, reason } => {
                let (from, reason) = (self.now + *after, reason.clone());
                let drain = Some(Drain { from, by: Some("root".into()), reason, stop: *stop });
                Event::DrainSet { node, devices: *gpus, drain }
            }
            NodeChange::Undrain { gpus } => Event::DrainSet { node, devices: *gpus, drain: None },
            NodeChange::Foreign { gpus, cpus, memory } => {
                host.foreign.devices = gpus.iter().copied().collect();
                (host.foreign.cpus, host.foreign.memory) = (*cpus, *memory);
                Event::ForeignUse { node, foreign: host.foreign.clone() }
            }
        })
    }

    fn arrange(&mut self, line: usize, arrangement: &Arrangement) -> Result<(), Mistake> {
        match arrangement {
            Arrangement::Starts { names, how } => {
                for name in names {
                    let host = self.hosts.get_mut(&NodeName::from(name.as_str()));
                    let host = host
                        .ok_or_else(|| Mistake::at(line, format!("no node is named `{name}`")))?;
                    host.starts = how.clone();
                }
                Ok(())
            }
            Arrangement::Crash(Crash::Now) => {
                self.engine(line)?;
                self.die();
                Ok(())
            }
            Arrangement::Crash(Crash::BeforeWrite) => self.set_fault(line, Fault::BeforeWrite),
            Arrangement::Crash(Crash::AfterWrite) => self.set_fault(line, Fault::AfterWrite),
            Arrangement::Disk { full: true } => self.set_fault(line, Fault::Full),
            Arrangement::Disk { full: false } => {
                self.set_fault(line, Fault::None)?;
                self.settle(Vec::new()).map_err(|message| Mistake::at(line, message))?;
                Ok(())
            }
        }
    }
}

fn at_least_one(tasks: usize, line: usize, who: &Who) -> Result<(), Mistake> {
    match tasks {
        0 => Err(Mistake::at(line, format!("no such task of `{}` runs now", who.job))),
        _ => Ok(()),
    }
}

/// Tasks go on without a daemon, and so do nodes.
fn is_report(input: &Input) -> bool {
    matches!(input, Input::Event(Event::Task(_)))
}
