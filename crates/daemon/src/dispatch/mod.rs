//! The one thread that owns the runtime. Requests, backend reports and timers line up here;
//! everything that is queued at one moment is one step: judged, applied, planned, journalled, and
//! only then answered and carried out. Questions are answered after the step, so a client reads
//! what it wrote.

mod answer;
mod boot;
mod effects;
mod handle;
mod input;
mod refusal;
mod wanted;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use muster_api::Action;
use muster_api::types::ActionResponse;
use muster_backends::driver::{Backend, Report};
use muster_model::unit::{Span, Time};
use muster_model::{Event, Foreign, JobId, NodeName, NodeSpec, QueueTree, Replicas, Target};
use muster_runtime::{Input as Cause, Receipt, Refused, Runtime, Step, StepFailure, StoreError};
use muster_spec::access;
use tokio::sync::{mpsc, watch};

pub(crate) use handle::Handle;
use input::{Ask, Input, Reply};
pub(crate) use input::{Planned, on_node};
pub(crate) use wanted::{Listed, PAGE, Wanted};

use crate::auth::{Caller, Owner};
use crate::clock::Clock;
use crate::failure::Failure;
use crate::store::{Reader, Retention, StateStore};
use effects::Payloads;

/// Inputs taken into one step at most: bounds how long the first of them waits for its answer.
const STEP_INPUTS: usize = 1024;

/// The longest sleep. Sleeps do not count suspended time and a test's clock may jump; looking at
/// the clock this often costs nothing.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// The shortest sleep before a time that has come: a plan that is refused must not turn into a busy
/// loop.
const SHORTEST_SLEEP: Duration = Duration::from_millis(2);

/// First and longest wait before the store is tried again after a failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// How often retention is looked at while nothing is due.
const PRUNE_EVERY: Span = Span::from_secs(600);

/// What specs are checked against; republished when it changes.
#[derive(Debug)]
pub(crate) struct SiteFacts {
    /// Every node.
    pub(crate) nodes: Vec<NodeSpec>,
    /// Queues.
    pub(crate) queues: QueueTree,
}

/// What others may watch.
pub(crate) struct Published {
    /// What specs are checked against.
    pub(crate) site: watch::Sender<Arc<SiteFacts>>,
    /// Grows with every durable change.
    pub(crate) revision: watch::Sender<u64>,
}

/// The task.
pub(crate) struct Dispatcher<S> {
    pub(super) runtime: Runtime<S>,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) reader: Reader,
    pub(super) inputs: mpsc::UnboundedReceiver<Input>,
    pub(super) reports: mpsc::UnboundedReceiver<Report>,
    pub(super) published: Published,
    pub(super) payloads: Payloads,
    /// Time limit of jobs that name none, where the queues name none either: whatever queues are
    /// set.
    pub(super) default_time: Option<Span>,
    pub(super) retention: Retention,
    /// For the next step: what the store refused to take, and what the daemon itself found out.
    pub(super) pending: Vec<Event>,
    /// The last foreign use of each node that went into a step.
    pub(super) foreign: BTreeMap<NodeName, Foreign>,
    pub(super) trouble: Option<Trouble>,
    pub(super) defects: Vec<String>,
    pub(super) warnings: Vec<String>,
    pub(super) pruned: Time,
    /// The latest instant that anybody was told.
    pub(super) latest: Time,
}

/// The store fails.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    error: StoreError,
    backoff: Duration,
}

/// Everything taken up at one moment.
#[derive(Default)]
struct Round {
    causes: Vec<Cause>,
    waiters: Vec<Waiter>,
    asks: Vec<Ask>,
    stop: bool,
}

/// Who waits for the answer to an input of the step.
enum Waiter {
    /// A report has no reader.
    Nobody,
    Receipt(Reply<Receipt>),
    Word(Reply<ActionResponse>, Cow<'static, str>),
}

impl<S: StateStore> Dispatcher<S> {
    /// Runs until it is told to stop, or until nobody is left who could tell it anything.
    pub(crate) async fn run(mut self) {
        loop {
            let first = self.wait().await;
            let round = self.gather(first);
            let stop = round.stop;
            self.turn(round);
            if stop {
                break;
            }
        }
    }

    async fn wait(&mut self) -> Input {
        let patience = self.patience();
        tokio::select! {
            input = self.inputs.recv() => input.unwrap_or(Input::Stop),
            Some(report) = self.reports.recv() => Input::Report(report),
            () = tokio::time::sleep(patience) => Input::Wake,
        }
    }

    /// How long nothing can be due.
    fn patience(&self) -> Duration {
        if let Some(trouble) = &self.trouble {
            return trouble.backoff;
        }
        if !self.pending.is_empty() {
            return Duration::ZERO;
        }
        let wake = self.runtime.engine().and_then(|engine| engine.next_wake());
        let until = wake.map(|wake| Duration::from_millis(wake.since(self.clock.now()).0));
        until.unwrap_or(LONGEST_SLEEP).clamp(SHORTEST_SLEEP, LONGEST_SLEEP)
    }

    /// Takes everything that is queued by now.
    fn gather(&mut self, first: Input) -> Round {
        let mut round = Round::default();
        self.take(first, &mut round);
        while round.causes.len() < STEP_INPUTS && round.asks.len() < STEP_INPUTS {
            let next = self
                .inputs
                .try_recv()
                .ok()
                .or_else(|| self.reports.try_recv().ok().map(Input::Report));
            match next {
                Some(input) => self.take(input, &mut round),
                None => break,
            }
        }
        round
    }

    fn take(&mut self, input: Input, round: &mut Round) {
        let (event, waiter) = match input {
            Input::Submit { submission, reply } => {
                round.causes.push(Cause::Submission(submission));
                round.waiters.push(Waiter::Receipt(reply));
                return;
            }
            Input::Act { caller, job, index, action, reply } => {
                match self.admit(&caller, job, action) {
                    Ok(()) => {
                        let (event, word) = self.act(&caller, Target { job, index }, action);
                        (event, Waiter::Word(reply, word))
                    }
                    Err(failure) => return answer::send(reply, failure.into_answer()),
                }
            }
            Input::SetQueues { tree, reply } => {
                (Event::QueuesSet(tree), Waiter::Word(reply, "the queues are set".into()))
            }
            Input::ChangeNode { event, word, reply } => (event, Waiter::Word(reply, word.into())),
            Input::Report(Report::Task(report)) => (Event::Task(report), Waiter::Nobody),
            Input::Report(Report::Foreign { node, foreign }) => match self.is_news(&node, &foreign)
            {
                true => (Event::ForeignUse { node, foreign }, Waiter::Nobody),
                false => return,
            },
            Input::Ask(ask) => return round.asks.push(ask),
            Input::Wake => return,
            Input::Stop => return round.stop = true,
        };
        round.causes.push(Cause::Event(event));
        round.waiters.push(waiter);
    }

    /// One step, its answers, its effects; then the questions.
    fn turn(&mut self, round: Round) {
        let now = self.now();
        let due = self
            .runtime
            .engine()
            .and_then(|engine| engine.next_wake())
            .is_some_and(|wake| wake <= now);
        let again = self.trouble.is_some() || !self.pending.is_empty();
        if due || again || !round.causes.is_empty() {
            let held_back = std::mem::take(&mut self.pending);
            let mut waiters: Vec<Waiter> = held_back.iter().map(|_| Waiter::Nobody).collect();
            waiters.extend(round.waiters);
            let causes =
                held_back.into_iter().map(Cause::Event).chain(round.causes).collect::<Vec<_>>();
            let site_changes = causes.iter().any(changes_site);
            match self.runtime.step(now, causes) {
                Ok(step) => self.settled(step, waiters, site_changes),
                Err(failure) => self.failed(failure, waiters),
            }
        }
        for ask in round.asks {
            self.answer(ask);
        }
        self.prune_when_due(now);
    }

    fn settled(&mut self, step: Step, waiters: Vec<Waiter>, site_changes: bool) {
        if self.trouble.take().is_some() {
            tracing::info!("the state can be written again");
        }
        if let Some(error) = &step.snapshot_error {
            tracing::warn!(%error, "a snapshot could not be kept; the journal still has everything");
        }
        if !step.violations.is_empty() {
            self.defects = step.violations.iter().map(ToString::to_string).collect();
            tracing::error!(violations = ?step.violations, "a plan was refused by its judge and dropped");
        }
        for (waiter, answer) in waiters.into_iter().zip(step.answers) {
            settle(waiter, answer);
        }
        self.carry_out(step.effects);
        if site_changes {
            self.publish_site();
        }
        if step.changed {
            self.published.revision.send_modify(|revision| *revision += 1);
        }
    }

    fn failed(&mut self, failure: StepFailure, waiters: Vec<Waiter>) {
        let StepFailure { error, retry, effects } = failure;
        let backoff =
            self.trouble.as_ref().map_or(RETRY.0, |trouble| (trouble.backoff * 2).min(RETRY.1));
        if self.trouble.is_none() {
            tracing::error!(%error, hint = error.hint(), "the state cannot be written; requests are refused until it can");
        }
        for waiter in waiters {
            match waiter {
                Waiter::Nobody => {}
                Waiter::Receipt(reply) => answer::send(reply, Err(Failure::Store(error.clone()))),
                Waiter::Word(reply, _) => answer::send(reply, Err(Failure::Store(error.clone()))),
            }
        }
        self.pending = retry;
        self.trouble = Some(Trouble { error, backoff });
        self.carry_out(effects);
    }

    /// May they, and is it there? What the engine thinks of it is asked in the step.
    fn admit(&self, caller: &Caller, job: JobId, action: Action) -> Result<(), Refusal> {
        let Some(engine) = self.runtime.engine() else { return Err(self.unavailable().into()) };
        if let Some(spec) = engine.job_spec(job) {
            if !caller.may_touch(&Owner::of_job(&spec)) {
                return Err(Failure::not_yours(job).into());
            }
            if let (Action::Scale(wanted), Some(service), false) =
                (action, spec.service(), caller.admin)
            {
                access::judge_scale(engine.tree(), &spec.queue, (service.replicas, wanted))
                    .map_err(Failure::from)?;
            }
            return Ok(());
        }
        let ended =
            self.reader.ended(job).map_err(Failure::Store)?.ok_or_else(|| Failure::no_job(job))?;
        if !caller.may_touch(&Owner::of_view(&ended.view)) {
            return Err(Failure::not_yours(job).into());
        }
        let state = ended.view.state.word();
        match action {
            Action::Cancel => Err(Refusal::Word(format!("job {job} had already ended: {state}"))),
            Action::Checkpoint => Err(Failure::conflict(
                format!("job {job} has ended: {state}"),
                "only what runs can save its progress",
            )
            .into()),
            Action::Hold | Action::Release | Action::Requeue | Action::Scale(_) => {
                Err(Failure::conflict(
                    format!("job {job} has ended: {state}"),
                    "submit it again to run it again",
                )
                .into())
            }
        }
    }

    /// What an action is to the engine, and the answer where it is accepted.
    fn act(&self, caller: &Caller, target: Target, action: Action) -> (Event, Cow<'static, str>) {
        let engine = self.runtime.engine();
        let spec = engine.and_then(|engine| engine.job_spec(target.job));
        let is_admin = caller.admin && spec.is_some_and(|spec| !caller.is(&Owner::of_job(&spec)));
        let over = engine.and_then(|engine| engine.admin_hold(target));
        let by = caller.identity.user.clone();
        match (action, over) {
            // An administrator holds the own jobs as any user does.
            (Action::Hold, _) if is_admin => {
                (Event::AdminHold { target, by }, "held; its user cannot release it".into())
            }
            (Action::Hold, Some((admin, _))) => (
                Event::Hold(target),
                format!("held; {admin}, an administrator, holds it too").into(),
            ),
            (Action::Release, Some((_, true))) if caller.admin => (
                Event::AdminRelease { target, by },
                "released; its user holds it too, so it stays held".into(),
            ),
            (Action::Release, over) if is_admin || caller.admin && over.is_some() => {
                (Event::AdminRelease { target, by }, "released".into())
            }
            _ => act(caller, target, action),
        }
    }

    /// Every poll of a backend reports foreign use; only changes concern the engine.
    fn is_news(&mut self, node: &NodeName, foreign: &Foreign) -> bool {
        if self.foreign.get(node) == Some(foreign) {
            return false;
        }
        self.foreign.insert(node.clone(), foreign.clone());
        true
    }

    /// The clock, which goes back neither behind the journal nor behind what a client was told.
    pub(super) fn now(&mut self) -> Time {
        self.latest = self.runtime.instant(self.clock.now()).max(self.latest);
        self.latest
    }

    pub(super) fn unavailable(&self) -> Failure {
        match &self.trouble {
            Some(trouble) => Failure::Store(trouble.error.clone()),
            None => Failure::stopping(),
        }
    }
}

/// An action that needs no step.
enum Refusal {
    /// It is refused.
    Failure(Failure),
    /// It has nothing to do.
    Word(String),
}

impl Refusal {
    fn into_answer(self) -> Result<ActionResponse, Failure> {
        match self {
            Refusal::Failure(failure) => Err(failure),
            Refusal::Word(message) => Ok(ActionResponse { message }),
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Refusal::Failure(failure)
    }
}

fn act(caller: &Caller, target: Target, action: Action) -> (Event, Cow<'static, str>) {
    match action {
        Action::Cancel => {
            (Event::Cancel { target, by: caller.identity.user.clone() }, "cancelled".into())
        }
        Action::Hold => (Event::Hold(target), "held".into()),
        Action::Release => (Event::Release(target), "released".into()),
        Action::Requeue => (Event::Requeue(target), "requeued".into()),
        Action::Checkpoint => (Event::Checkpoint(target), "asked for a checkpoint".into()),
        Action::Scale(replicas) => {
            let Replicas { floor, ceiling } = replicas;
            let word =
                if floor == ceiling { format!("{ceiling}") } else { format!("{floor}..{ceiling}") };
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

fn settle(waiter: Waiter, answer: Result<Receipt, Refused>) {
    match waiter {
        Waiter::Nobody => {
            if let Err(refused) = answer {
                tracing::debug!(?refused, "a report that the engine has no use for");
            }
        }
        Waiter::Receipt(reply) => answer::send(reply, answer.map_err(refusal::failure)),
        Waiter::Word(reply, word) => {
            let word = answer.map(|_| ActionResponse { message: word.into_owned() });
            answer::send(reply, word.map_err(refusal::failure));
        }
    }
}
