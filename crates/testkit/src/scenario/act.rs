//! Execution of script lines: events become inputs of one step of the daemon, and orders to the
//! backend. It must not make scheduling decisions.

use std::sync::Arc;

use muster_model::{
    CommandTarget, Drain, ElementId, Event, JobSpec, NodeName, NodeSpec, Observation, Payload,
    TaskExit,
};
use muster_report::RenderContext;
use muster_report::reason;
use muster_runtime::engine::EventRefusal;
use muster_runtime::{JobDraft, JobSubmission, StepInput};
use muster_spec::{CheckedJob, Cluster, ParsedJob, SubmissionSite};

use super::command::{
    CrashPoint, JobRequest, NodeChange, ScriptCommand, ScriptJobRef, ScriptedBehaviour, TaskEvent,
    WorldEvent, WorldSetting,
};
use super::host::SimHost;
use super::script::ScriptStep;
use super::script_error::ScriptError;
use super::time_of_day::format_time;
use super::world::{ScenarioWorld, SubmittedJob, no_daemon};
use crate::StoreFault;

/// Inputs of a step, and what must be reported about its jobs.
#[derive(Default)]
struct LineInputs {
    inputs: Vec<StepInput>,
    /// Refusals before the daemon was asked.
    lines: Vec<String>,
    /// Elements whose reasons to be pending are reported.
    asked: Vec<ElementId>,
}

impl ScenarioWorld {
    /// Executes a step and returns its transcript.
    pub(crate) fn perform(&mut self, step: &ScriptStep) -> Result<Vec<String>, ScriptError> {
        let Some((line, first)) = step.commands.first() else { return Ok(Vec::new()) };
        let line = *line;
        let broken = |message: String| ScriptError::at(line, message);
        let lines = match first {
            ScriptCommand::Happens(_) => self.play_step(step)?,
            ScriptCommand::Arrange(arrangement) => {
                self.arrange(line, arrangement)?;
                self.take_transcript()
            }
            ScriptCommand::Advance(span) => self.pass(self.now + *span).map_err(broken)?,
            ScriptCommand::Until(seconds) => {
                self.pass(self.next_time_of_day(*seconds)).map_err(broken)?
            }
            ScriptCommand::UntilIdle => self.advance(None).map_err(broken)?,
            ScriptCommand::Restart => {
                self.restart().map_err(broken)?;
                self.take_transcript()
            }
            ScriptCommand::Ask(question) => self.answer(line, question)?,
        };
        self.audit().map_err(broken)?;
        Ok(lines)
    }

    fn pass(&mut self, to: muster_model::Time) -> Result<Vec<String>, String> {
        let lines = self.advance(Some(to))?;
        Ok(if lines.is_empty() {
            vec![format!("nothing until {}", format_time(to))]
        } else {
            lines
        })
    }

    /// Plays one instant: all inputs, then one step, then what follows.
    fn play_step(&mut self, step: &ScriptStep) -> Result<Vec<String>, ScriptError> {
        let mut batch = LineInputs::default();
        let mut at = 0;
        for (line, command) in &step.commands {
            let ScriptCommand::Happens(event) = command else { continue };
            self.prepare(*line, event, &mut batch)?;
            at = *line;
        }
        let broken = |message: String| ScriptError::at(at, message);
        let is_down = self.runtime.is_none();
        if is_down && batch.inputs.iter().any(|input| !is_report(input)) {
            return Err(no_daemon(at));
        }
        // Tasks act first; the daemon receives their reports with its next step.
        let seen = self.backend.take_due(self.now).into_iter();
        let mut inputs: Vec<StepInput> =
            seen.map(|one| StepInput::Event(Event::Task(one))).collect();
        let reports = inputs.len();
        inputs.extend(batch.inputs);
        let asked = inputs.len();
        let answers = self.step_until_stable(inputs).map_err(broken)?;
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
        lines.extend(self.take_transcript());
        Ok(lines)
    }

    fn unanswered(&self) -> String {
        if self.runtime.is_none() {
            "the daemon dies before it answers".to_owned()
        } else {
            "refused: the disk is full".to_owned()
        }
    }

    /// Converts a line to inputs.
    fn prepare(
        &mut self,
        line: usize,
        event: &WorldEvent,
        batch: &mut LineInputs,
    ) -> Result<(), ScriptError> {
        match event {
            WorldEvent::Cluster(cluster) => self.set_cluster(cluster, batch),
            WorldEvent::Queues(tree) => {
                if self.jobs.is_empty() && self.hosts.is_empty() {
                    self.tree = tree.clone();
                }
                batch.inputs.push(StepInput::Event(Event::QueuesSet(Box::new(tree.clone()))));
            }
            WorldEvent::Submit { user, behaviour, documents } => {
                self.submit(line, user, behaviour, documents, batch)?;
            }
            WorldEvent::JobRequest { verb, who } => self.request(line, verb, who, batch)?,
            WorldEvent::Tasks { who, task_event } => self.tasks(line, who, task_event)?,
            WorldEvent::Reserve { window, after } => {
                let mut window = window.clone();
                window.times.start = self.now + *after;
                batch.inputs.push(StepInput::Event(Event::AdvanceReservationSet(window)));
            }
            WorldEvent::Unreserve { name } => {
                let dropped = Event::AdvanceReservationRemoved {
                    advance_reservation: name.as_str().into(),
                    by: Some("root".into()),
                };
                batch.inputs.push(StepInput::Event(dropped));
            }
            WorldEvent::Nodes { names, change } => self.change_nodes(line, names, change, batch)?,
        }
        Ok(())
    }

    /// Joins the nodes of a cluster file, and sets its topology levels.
    fn set_cluster(&mut self, cluster: &Cluster, batch: &mut LineInputs) {
        if !cluster.levels.is_empty() && cluster.levels != self.levels {
            self.levels.clone_from(&cluster.levels);
            batch.inputs.push(StepInput::Event(Event::LevelsSet(cluster.levels.clone())));
        }
        for node in &cluster.nodes {
            self.join(node);
            batch.inputs.push(StepInput::Event(Event::NodeJoined(Box::new(node.clone()))));
        }
    }

    /// Converts a user request about a job.
    fn request(
        &mut self,
        line: usize,
        verb: &JobRequest,
        who: &ScriptJobRef,
        batch: &mut LineInputs,
    ) -> Result<(), ScriptError> {
        let target = self.target(line, who)?;
        let element = self.element(line, who)?;
        let owner = self.jobs.get(&target.job).map(|known| known.spec.user.clone());
        let requester = |by: &Option<String>| {
            by.as_deref().map(Into::into).or(owner).unwrap_or_else(|| "admin".into())
        };
        let event = match verb {
            JobRequest::Cancel { by } => Event::Cancel { target, by: requester(by) },
            JobRequest::Hold => Event::Hold(target),
            JobRequest::Release => Event::Release(target),
            JobRequest::Requeue => Event::Requeue(target),
            JobRequest::Scale { replicas, by } => {
                Event::Scaled { job: target.job, replicas: *replicas, by: requester(by) }
            }
        };
        match verb {
            JobRequest::Cancel { .. } => {}
            JobRequest::Scale { replicas, .. } => {
                let replica = |index| ElementId { job: target.job, index };
                batch.asked.extend((0..replicas.max).map(replica));
            }
            JobRequest::Hold | JobRequest::Release | JobRequest::Requeue => {
                batch.asked.push(element)
            }
        }
        batch.inputs.push(StepInput::Event(event));
        Ok(())
    }

    /// Changes nodes. A daemon that is down notices failures and repairs at its restart.
    fn change_nodes(
        &mut self,
        line: usize,
        names: &[String],
        change: &NodeChange,
        batch: &mut LineInputs,
    ) -> Result<(), ScriptError> {
        let is_reported =
            self.runtime.is_some() || !matches!(change, NodeChange::Down | NodeChange::Up);
        for name in names {
            let event = self.change_node(line, name, change)?;
            if is_reported {
                batch.inputs.push(StepInput::Event(event));
            }
        }
        Ok(())
    }

    fn join(&mut self, node: &NodeSpec) {
        if !self.hosts.contains_key(&node.name) {
            self.joined.push(node.name.clone());
        }
        let host =
            self.hosts.entry(node.name.clone()).or_insert_with(|| SimHost::new(node.clone()));
        (host.spec, host.up) = (node.clone(), true);
    }

    fn submit(
        &mut self,
        line: usize,
        user: &str,
        behaviour: &ScriptedBehaviour,
        documents: &[ParsedJob],
        batch: &mut LineInputs,
    ) -> Result<(), ScriptError> {
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
                return Err(ScriptError::at(
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
                sweep: None,
                notices: Vec::new(),
                environment: muster_model::TaskEnvironment::default(),
            };
            let spec = JobSpec { begin: job.begin.map(|begin| begin.at(self.now)), ..job.spec };
            let known = SubmittedJob {
                spec: Arc::new(spec.clone()),
                behaviour: behaviour.clone(),
                document,
            };
            self.drafts.insert(name, known);
            drafts.push(JobDraft { spec, payload, after: Vec::new() });
        }
        self.submissions += 1;
        let key = format!("scenario-{}", self.submissions);
        let submission = JobSubmission { user: user.into(), key, drafts, warnings: Vec::new() };
        batch.inputs.push(StepInput::Submission(submission));
        Ok(())
    }

    /// Checks documents against the site; dependencies by name refer to earlier jobs of the script,
    /// which counts as one file.
    pub(crate) fn checked(
        &self,
        line: usize,
        user: &str,
        documents: &[ParsedJob],
    ) -> Result<Result<Vec<(CheckedJob, ParsedJob)>, String>, ScriptError> {
        let runtime = self.runtime.as_ref().ok_or_else(|| no_daemon(line))?;
        let tree = runtime.queues().ok_or_else(|| no_daemon(line))?;
        let engine = self.engine(line)?;
        let site =
            SubmissionSite::new(user.into(), self.hosts.values().map(|host| &host.spec), tree)
                .with_levels(self.levels.iter().cloned())
                .with_windows(
                    engine.advance_reservations(self.now).into_iter().map(|window| window.name),
                );
        // 1. Earlier jobs that this site would still accept; others can no longer be named.
        let mut earlier = Vec::new();
        let mut numbers = Vec::new();
        for (job, known) in &self.jobs {
            earlier.push(known.document.clone());
            match muster_spec::check_all(&earlier, &site) {
                Ok(_) => numbers.push(*job),
                Err(_) => drop(earlier.pop()),
            }
        }
        // 2. These documents together with them.
        let before = earlier.len();
        earlier.extend(documents.iter().cloned());
        let checked = match muster_spec::check_all(&earlier, &site) {
            Ok(checked) => checked,
            Err(diagnostics) => {
                let lines = diagnostics.iter().map(|one| {
                    if one.label.is_empty() {
                        one.message.clone()
                    } else {
                        format!("{}: {}", one.message, one.label)
                    }
                });
                return Ok(Err(format!("refused: {}", lines.collect::<Vec<_>>().join("; "))));
            }
        };
        let mut jobs = Vec::new();
        for (mut job, document) in checked.into_iter().skip(before).zip(documents) {
            for (kind, position) in std::mem::take(&mut job.after_documents) {
                let Some(number) = numbers.get(position) else {
                    return Err(ScriptError::at(
                        line,
                        "a job can wait for jobs of earlier lines only",
                    ));
                };
                job.spec.after.push(muster_model::Dependency { kind, job: *number });
            }
            jobs.push((job, document.clone()));
        }
        Ok(Ok(jobs))
    }

    /// Formats a refusal as a line.
    pub(crate) fn refused(&self, refusal: &EventRefusal) -> String {
        match refusal {
            EventRefusal::NeverStarts(why) | EventRefusal::TooManyPending(why) => {
                format!("refused: {}", reason::short(why, RenderContext::plain().at(self.now)))
            }
            other => format!("refused: {other}"),
        }
    }

    fn target(&self, line: usize, who: &ScriptJobRef) -> Result<CommandTarget, ScriptError> {
        let known = self.names.keys().map(String::as_str);
        match self.names.get(&who.job) {
            Some(job) => Ok(CommandTarget { job: *job, index: who.index }),
            None => Err(ScriptError::at(line, format!("no job is named `{}`", who.job))
                .with_suggestion(&who.job, known)),
        }
    }

    /// Returns the selected element; of an array without an index, the first.
    pub(crate) fn element(
        &self,
        line: usize,
        who: &ScriptJobRef,
    ) -> Result<ElementId, ScriptError> {
        let target = self.target(line, who)?;
        let first = || {
            let array = self.jobs.get(&target.job).and_then(|known| known.spec.array.as_ref());
            array.map_or(0, |array| array.head.first)
        };
        Ok(ElementId { job: target.job, index: target.index.unwrap_or_else(first) })
    }

    fn tasks(
        &mut self,
        line: usize,
        who: &ScriptJobRef,
        task_event: &TaskEvent,
    ) -> Result<(), ScriptError> {
        let target = self.target(line, who)?;
        let mut elements = self.backend.running(target.job);
        elements.retain(|element| target.index.is_none_or(|index| element.index == index));
        let (what, rank) = match task_event {
            TaskEvent::End => (Observation::Exited(TaskExit::Code { code: 0 }), None),
            TaskEvent::Idle => {
                let known = self.jobs.get(&target.job);
                let after = known.and_then(|known| known.spec.idle()).ok_or_else(|| {
                    ScriptError::at(line, format!("`{}` has no idle limit", who.job))
                })?;
                (Observation::Exited(TaskExit::Idle { after }), None)
            }
            TaskEvent::Fail(exit) => (Observation::Exited(exit.clone()), who.rank.or(Some(0))),
            TaskEvent::Lose => (
                Observation::Lost { reason: "its supervisor is gone".into() },
                who.rank.or(Some(0)),
            ),
            TaskEvent::ScriptCheckpoint(save) => {
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

    /// Changes a node and returns the event for the daemon.
    fn change_node(
        &mut self,
        line: usize,
        name: &str,
        change: &NodeChange,
    ) -> Result<Event, ScriptError> {
        let node = NodeName::from(name);
        let known = self.hosts.keys().map(NodeName::as_str);
        let unknown = ScriptError::at(line, format!("no node is named `{name}`"))
            .with_suggestion(name, known);
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
                let from = self.now + *after;
                let reason = reason.clone();
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

    fn arrange(&mut self, line: usize, arrangement: &WorldSetting) -> Result<(), ScriptError> {
        match arrangement {
            WorldSetting::StartBehaviour { names, how } => {
                for name in names {
                    let host = self.hosts.get_mut(&NodeName::from(name.as_str()));
                    let host = host.ok_or_else(|| {
                        ScriptError::at(line, format!("no node is named `{name}`"))
                    })?;
                    host.starts = how.clone();
                }
                Ok(())
            }
            WorldSetting::CrashPoint(CrashPoint::Now) => {
                self.engine(line)?;
                self.die();
                Ok(())
            }
            WorldSetting::CrashPoint(CrashPoint::BeforeWrite) => {
                self.store(line)?.set_fault(Some(StoreFault::DieBefore));
                Ok(())
            }
            WorldSetting::CrashPoint(CrashPoint::AfterWrite) => {
                self.store(line)?.set_fault(Some(StoreFault::DieAfter));
                Ok(())
            }
            WorldSetting::Disk { full: true } => {
                self.store(line)?.is_full = true;
                Ok(())
            }
            WorldSetting::Disk { full: false } => {
                self.store(line)?.is_full = false;
                self.step_until_stable(Vec::new())
                    .map_err(|message| ScriptError::at(line, message))?;
                Ok(())
            }
        }
    }
}

fn at_least_one(tasks: usize, line: usize, who: &ScriptJobRef) -> Result<(), ScriptError> {
    match tasks {
        0 => Err(ScriptError::at(line, format!("no such task of `{}` runs now", who.job))),
        _ => Ok(()),
    }
}

/// Returns whether the input is a report, which needs no daemon: tasks run on without one.
fn is_report(input: &StepInput) -> bool {
    matches!(input, StepInput::Event(Event::Task(_)))
}
