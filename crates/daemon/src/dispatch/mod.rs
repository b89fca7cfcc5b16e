//! Dispatcher: the one thread that owns the runtime. Requests, backend reports and timers are
//! queued here. Everything that is queued at one moment is one step: judged, applied, planned,
//! journalled, and only then answered and carried out. Queries are answered after the step, so a
//! client reads its own writes.

mod answer;
mod boot;
mod effects;
mod handle;
mod input;
mod metrics;
mod refusal;
mod selection;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::JobAction;
use muster_api::types::ActionResponse;
use muster_backends::driver::{Backend, Report};
use muster_model::sweep::MetricReport;
use muster_model::unit::{Span, Time};
use muster_model::view::DaemonCounters;
use muster_model::{
    AttemptId, CommandTarget, Effect, Event, Foreign, JobId, NodeName, NodeSpec, Observation,
    QueueTree, Replicas,
};
use muster_runtime::{
    Receipt, RefusedInput, Runtime, StepFailure, StepInput as Cause, StepResult, StoreError,
};
use muster_spec::access;
use tokio::sync::{mpsc, watch};

pub(crate) use handle::Handle;
use input::{DispatcherInput, Query, Reply};
pub(crate) use input::{PlannedTimeline, on_node};
pub(crate) use selection::{ListSelection, ListedJobs, PAGE};

use crate::auth::{Caller, OwnerAccount};
use crate::clock::Clock;
use crate::failure::ApiFailure;
use crate::store::{HistoryReader, Retention, StateStore};
use effects::PayloadCache;
use metrics::Comparisons;

/// Most inputs in one step: bounds how long the first of them waits for its response.
const STEP_INPUTS: usize = 1024;

/// Longest sleep. Sleeps do not count suspended time and a test's clock may jump; reading the clock
/// this often costs nothing.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// Shortest sleep before a wake time: a plan that is rejected must not cause a busy loop.
const SHORTEST_SLEEP: Duration = Duration::from_millis(2);

/// First and longest wait before the store is tried again after an error.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Interval between checks of the retention times while nothing is due.
const PRUNE_EVERY: Span = Span::from_secs(600);

/// Nodes and queues that specs are checked against; republished on change.
#[derive(Debug)]
pub(crate) struct SiteFacts {
    /// Specs of all nodes.
    pub(crate) nodes: Vec<NodeSpec>,
    /// Queue tree of the site.
    pub(crate) queues: QueueTree,
}

/// Values that other tasks may watch.
pub(crate) struct Published {
    /// Nodes and queues that specs are checked against.
    pub(crate) site: watch::Sender<Arc<SiteFacts>>,
    /// Revision, which grows with every durable change.
    pub(crate) revision: watch::Sender<u64>,
}

/// State of the dispatcher thread.
pub(crate) struct Dispatcher<S> {
    pub(super) runtime: Runtime<S>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reader: HistoryReader,
    pub(super) inputs: mpsc::UnboundedReceiver<DispatcherInput>,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    pub(super) published: Published,
    pub(super) payloads: PayloadCache,
    pub(super) comparisons: Comparisons,
    /// Time limit of jobs that set none, where the queues set none either; independent of queue
    /// changes.
    pub(super) default_time: Option<Span>,
    pub(super) retention: Retention,
    /// Events for the next step: those that the store could not write, and those of the daemon
    /// itself.
    pub(super) pending: Vec<Event>,
    /// Last foreign use of each node that was part of a step.
    pub(super) foreign: BTreeMap<NodeName, Foreign>,
    pub(super) store_failure: Option<StoreFailure>,
    pub(super) violations: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// Work since the daemon started.
    pub(super) counters: DaemonCounters,
    pub(super) pruned: Time,
    /// Latest instant that was returned to a caller.
    pub(super) latest: Time,
}

/// Failure of the store, with the time until the next attempt.
#[derive(Clone, Debug)]
pub(crate) struct StoreFailure {
    error: StoreError,
    backoff: Duration,
}

/// Inputs that are taken from the queue at one moment.
#[derive(Default)]
struct StepInputs {
    causes: Vec<Cause>,
    /// Metrics that elements of sweeps report.
    reports: Vec<(AttemptId, MetricReport)>,
    waiters: Vec<InputWaiter>,
    asks: Vec<Query>,
    stop: bool,
}

/// Caller that waits for the result of an input.
enum InputWaiter {
    /// No caller: reports have none.
    None,
    Receipt(Reply<Receipt>),
    Word(Reply<ActionResponse>, Cow<'static, str>),
}

impl<S: StateStore> Dispatcher<S> {
    /// Runs until it is stopped, or until no handle is left.
    pub(crate) async fn run(mut self) {
        loop {
            let first = self.wait().await;
            let inputs = self.collect_inputs(first);
            let stop = inputs.stop;
            self.run_step(inputs);
            if stop {
                break;
            }
        }
    }

    async fn wait(&mut self) -> DispatcherInput {
        let timeout = self.time_until_due();
        tokio::select! {
            input = self.inputs.recv() => input.unwrap_or(DispatcherInput::Stop),
            Some(report) = self.reports.recv() => DispatcherInput::Report(report),
            () = tokio::time::sleep(timeout) => DispatcherInput::Wake,
        }
    }

    /// Returns the time until the next input is due.
    fn time_until_due(&self) -> Duration {
        if let Some(failure) = &self.store_failure {
            return failure.backoff;
        }
        if !self.pending.is_empty() {
            return Duration::ZERO;
        }
        let wake = self.runtime.engine().and_then(|engine| engine.next_wake());
        let until = wake.map(|wake| Duration::from_millis(wake.since(self.clock.now()).0));
        until.unwrap_or(LONGEST_SLEEP).clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
    }

    /// Takes everything that is queued by now.
    fn collect_inputs(&mut self, first: DispatcherInput) -> StepInputs {
        let mut inputs = StepInputs::default();
        self.take(first, &mut inputs);
        while inputs.causes.len() < STEP_INPUTS && inputs.asks.len() < STEP_INPUTS {
            let next = self
                .inputs
                .try_recv()
                .ok()
                .or_else(|| self.reports.try_recv().ok().map(DispatcherInput::Report));
            match next {
                Some(input) => self.take(input, &mut inputs),
                None => break,
            }
        }
        inputs
    }

    fn take(&mut self, input: DispatcherInput, inputs: &mut StepInputs) {
        let (event, waiter) = match input {
            DispatcherInput::Submit { submission, reply } => {
                inputs.causes.push(Cause::Submission(submission));
                inputs.waiters.push(InputWaiter::Receipt(reply));
                return;
            }
            DispatcherInput::Act { caller, job, index, action, reply } => {
                match self.check_permission(&caller, job, action) {
                    Ok(()) => {
                        let (event, word) = self.act(&caller, CommandTarget { job, index }, action);
                        (event, InputWaiter::Word(reply, word))
                    }
                    Err(failure) => return answer::send(reply, failure.into_answer()),
                }
            }
            DispatcherInput::SetQueues { tree, reply } => {
                (Event::QueuesSet(tree), InputWaiter::Word(reply, "the queues are set".into()))
            }
            DispatcherInput::Apply { event, word, reply } => {
                (event, InputWaiter::Word(reply, word.into()))
            }
            DispatcherInput::Report(Report::Task(report)) => {
                if matches!(report.observation, Observation::Refused { .. }) {
                    self.counters.refused_starts += 1;
                }
                (Event::Task(report), InputWaiter::None)
            }
            DispatcherInput::Report(Report::Metric { id, report }) => {
                return inputs.reports.push((id, report));
            }
            DispatcherInput::Report(Report::Foreign { node, foreign }) => {
                if !self.has_changed(&node, &foreign) {
                    return;
                }
                (Event::ForeignUse { node, foreign }, InputWaiter::None)
            }
            DispatcherInput::NoticeTried { tried, reply } => {
                return self
                    .write_aside(reply, |store, now| store.write_notice_tries(now, &[*tried]));
            }
            DispatcherInput::TimedEvents { events, reply } => {
                return self
                    .write_aside(reply, |store, now| store.write_timed_notices(now, &events));
            }
            DispatcherInput::SetQueueNotices { notices, reply } => {
                return self.write_aside(reply, |store, _| store.write_queue_notices(&notices));
            }
            DispatcherInput::GpuUse { sums, reply } => {
                return self.write_aside(reply, |store, _| store.write_gpu_use(&sums));
            }
            DispatcherInput::Ask(ask) => return inputs.asks.push(ask),
            DispatcherInput::Wake => return,
            DispatcherInput::Stop => return inputs.stop = true,
        };
        inputs.causes.push(Cause::Event(event));
        inputs.waiters.push(waiter);
    }

    /// Writes what is no part of the state that is planned with.
    fn write_aside(
        &mut self,
        reply: Reply<()>,
        write: impl FnOnce(&mut S, Time) -> Result<(), StoreError>,
    ) {
        let now = self.now();
        answer::send(reply, write(self.runtime.store_mut(), now).map_err(ApiFailure::Store));
    }

    /// Takes one step and sends its responses and effects; then answers the queries.
    fn run_step(&mut self, inputs: StepInputs) {
        let now = self.now();
        let due = self
            .runtime
            .engine()
            .and_then(|engine| engine.next_wake())
            .is_some_and(|wake| wake <= now);
        let again = self.store_failure.is_some() || !self.pending.is_empty();
        let (reports, stops) = self.compare_reports(inputs.reports);
        if due || again || !inputs.causes.is_empty() || !stops.is_empty() {
            let postponed = std::mem::take(&mut self.pending);
            let mut waiters: Vec<InputWaiter> =
                postponed.iter().map(|_| InputWaiter::None).collect();
            waiters.extend(inputs.waiters);
            waiters.extend(stops.iter().map(|_| InputWaiter::None));
            let postponed = postponed.into_iter().map(Cause::Event);
            let stops = stops.into_iter().map(Cause::Event);
            let causes: Vec<Cause> = postponed.chain(inputs.causes).chain(stops).collect();
            let site_changes = causes.iter().any(changes_site);
            let began = Instant::now();
            let result = self.runtime.step(now, causes);
            self.count_pass(began.elapsed());
            match result {
                Ok(step) => self.step_done(step, waiters, site_changes),
                Err(failure) => self.step_failed(failure, waiters),
            }
        }
        self.store_reports(&reports);
        for ask in inputs.asks {
            self.answer(ask);
        }
        self.prune_when_due(now);
    }

    fn count_pass(&mut self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.counters.passes += 1;
        self.counters.pass_micros += micros;
        self.counters.longest_pass_micros = self.counters.longest_pass_micros.max(micros);
    }

    fn count_effects(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::Prepare { .. } => self.counters.starts += 1,
                Effect::Stop { .. } => self.counters.stops += 1,
                Effect::Go { .. } | Effect::Checkpoint { .. } | Effect::Forget { .. } => {}
            }
        }
    }

    fn step_done(&mut self, step: StepResult, waiters: Vec<InputWaiter>, site_changes: bool) {
        if self.store_failure.take().is_some() {
            tracing::info!("the state can be written again");
        }
        if let Some(error) = &step.snapshot_error {
            tracing::warn!(%error, "a snapshot could not be written; the journal is still complete");
        }
        if !step.violations.is_empty() {
            self.counters.refused_plans += 1;
            self.violations = step.violations.iter().map(ToString::to_string).collect();
            tracing::error!(violations = ?step.violations, "a plan failed its verification and was dropped");
        }
        for (waiter, answer) in waiters.into_iter().zip(step.answers) {
            respond(waiter, answer);
        }
        self.count_effects(&step.effects);
        self.carry_out(step.effects);
        if site_changes {
            self.publish_site();
        }
        if step.changed {
            self.published.revision.send_modify(|revision| *revision += 1);
        }
    }

    fn step_failed(&mut self, failure: StepFailure, waiters: Vec<InputWaiter>) {
        let StepFailure { error, retry, effects } = failure;
        self.counters.store_failures += 1;
        let backoff = self
            .store_failure
            .as_ref()
            .map_or(RETRY.0, |failure| (failure.backoff * 2).min(RETRY.1));
        if self.store_failure.is_none() {
            tracing::error!(%error, hint = error.hint(), "the state cannot be written; requests are rejected until it can");
        }
        for waiter in waiters {
            match waiter {
                InputWaiter::None => {}
                InputWaiter::Receipt(reply) => {
                    answer::send(reply, Err(ApiFailure::Store(error.clone())))
                }
                InputWaiter::Word(reply, _) => {
                    answer::send(reply, Err(ApiFailure::Store(error.clone())))
                }
            }
        }
        self.pending = retry;
        self.store_failure = Some(StoreFailure { error, backoff });
        self.carry_out(effects);
    }

    /// Checks permissions and existence; the engine judges the action in the step.
    fn check_permission(
        &self,
        caller: &Caller,
        job: JobId,
        action: JobAction,
    ) -> Result<(), ActionRefusal> {
        let Some(engine) = self.runtime.engine() else { return Err(self.unavailable().into()) };
        if let Some(spec) = engine.job_spec(job) {
            if !caller.may_touch(&OwnerAccount::of_job(&spec)) {
                return Err(ApiFailure::not_yours(job).into());
            }
            if let (JobAction::Scale(wanted), Some(service), false) =
                (action, spec.service(), caller.admin)
            {
                access::check_scale(engine.tree(), &spec.queue, (service.replicas, wanted))
                    .map_err(ApiFailure::from)?;
            }
            return Ok(());
        }
        let ended = self
            .reader
            .ended(job)
            .map_err(ApiFailure::Store)?
            .ok_or_else(|| ApiFailure::no_job(job))?;
        if !caller.may_touch(&OwnerAccount::of_view(&ended.view)) {
            return Err(ApiFailure::not_yours(job).into());
        }
        let state = ended.view.state.word();
        match action {
            JobAction::Cancel => {
                Err(ActionRefusal::Word(format!("job {job} had already ended: {state}")))
            }
            JobAction::Checkpoint => Err(ApiFailure::conflict(
                format!("job {job} has ended: {state}"),
                "only running jobs can save their progress",
            )
            .into()),
            JobAction::Hold | JobAction::Release | JobAction::Requeue | JobAction::Scale(_) => {
                Err(ApiFailure::conflict(
                    format!("job {job} has ended: {state}"),
                    "submit it again to run it again",
                )
                .into())
            }
        }
    }

    /// Returns the event for an action, and the message when the engine accepts it.
    fn act(
        &self,
        caller: &Caller,
        target: CommandTarget,
        action: JobAction,
    ) -> (Event, Cow<'static, str>) {
        let engine = self.runtime.engine();
        let spec = engine.and_then(|engine| engine.job_spec(target.job));
        let is_admin =
            caller.admin && spec.is_some_and(|spec| !caller.is_owner(&OwnerAccount::of_job(&spec)));
        let over = engine.and_then(|engine| engine.admin_hold(target));
        let by = caller.identity.user.clone();
        match (action, over) {
            // An administrator holds jobs of their own like any user.
            (JobAction::Hold, _) if is_admin => {
                (Event::AdminHold { target, by }, "held; its user cannot release it".into())
            }
            (JobAction::Hold, Some((admin, _))) => (
                Event::Hold(target),
                format!("held; {admin}, an administrator, holds it too").into(),
            ),
            (JobAction::Release, Some((_, true))) if caller.admin => (
                Event::AdminRelease { target, by },
                "released; its user holds it too, so it stays held".into(),
            ),
            (JobAction::Release, over) if is_admin || caller.admin && over.is_some() => {
                (Event::AdminRelease { target, by }, "released".into())
            }
            _ => act(caller, target, action),
        }
    }

    /// Returns true when the foreign use has changed: every poll of a backend reports it, but only
    /// changes concern the engine.
    fn has_changed(&mut self, node: &NodeName, foreign: &Foreign) -> bool {
        if self.foreign.get(node) == Some(foreign) {
            return false;
        }
        self.foreign.insert(node.clone(), foreign.clone());
        true
    }

    /// Returns the present instant, which never goes back behind the journal or behind an instant
    /// that a client has seen.
    pub(super) fn now(&mut self) -> Time {
        self.latest = self.runtime.instant(self.clock.now()).max(self.latest);
        self.latest
    }

    pub(super) fn unavailable(&self) -> ApiFailure {
        match &self.store_failure {
            Some(failure) => ApiFailure::Store(failure.error.clone()),
            None => ApiFailure::stopping(),
        }
    }
}

/// Response to an action that needs no step.
enum ActionRefusal {
    /// The action is rejected.
    Failure(ApiFailure),
    /// The action has no effect; message for the user.
    Word(String),
}

impl ActionRefusal {
    fn into_answer(self) -> Result<ActionResponse, ApiFailure> {
        match self {
            ActionRefusal::Failure(failure) => Err(failure),
            ActionRefusal::Word(message) => Ok(ActionResponse { message }),
        }
    }
}

impl From<ApiFailure> for ActionRefusal {
    fn from(failure: ApiFailure) -> Self {
        ActionRefusal::Failure(failure)
    }
}

fn act(caller: &Caller, target: CommandTarget, action: JobAction) -> (Event, Cow<'static, str>) {
    match action {
        JobAction::Cancel => {
            (Event::Cancel { target, by: caller.identity.user.clone() }, "cancelled".into())
        }
        JobAction::Hold => (Event::Hold(target), "held".into()),
        JobAction::Release => (Event::Release(target), "released".into()),
        JobAction::Requeue => (Event::Requeue(target), "requeued".into()),
        JobAction::Checkpoint => (Event::Checkpoint(target), "asked for a checkpoint".into()),
        JobAction::Scale(replicas) => {
            let Replicas { guaranteed, max } = replicas;
            let word =
                if guaranteed == max { format!("{max}") } else { format!("{guaranteed}..{max}") };
            let by = caller.identity.user.clone();
            (Event::Scaled { job: target.job, replicas, by }, format!("scaled to {word}").into())
        }
    }
}

fn changes_site(cause: &Cause) -> bool {
    matches!(
        cause,
        Cause::Event(Event::NodeJoined(_) | Event::NodeLost { .. } | Event::QueuesSet(_))
    )
}

fn respond(waiter: InputWaiter, answer: Result<Receipt, RefusedInput>) {
    match waiter {
        InputWaiter::None => {
            if let Err(refused) = answer {
                tracing::debug!(?refused, "the engine ignores a report");
            }
        }
        InputWaiter::Receipt(reply) => answer::send(reply, answer.map_err(refusal::failure)),
        InputWaiter::Word(reply, word) => {
            let word = answer.map(|_| ActionResponse { message: word.into_owned() });
            answer::send(reply, word.map_err(refusal::failure));
        }
    }
}
