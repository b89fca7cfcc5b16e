//! The starvation test at the end of some runs: small jobs without a time limit keep arriving, and
//! a gang at the head of its queue must still start within a bound. It is checked without the
//! engine.

use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::queue::Backfill;
use muster_model::{
    CommandTarget, ElementId, Event, GpuModel, JobId, JobSpec, QueueTree, Restart, Span, TaskExit,
    TaskGroup,
};
use muster_runtime::StepInput;

use super::ledger::ElementPhase;
use super::site::MODELS;
use super::world::{DstWorld, START_LIMIT, SentSubmission};
use super::{feasibility, jobs};
use crate::scenario::command::ScriptedBehaviour;

/// Patience of the queues in the starvation test.
const PATIENCE: Span = Span::from_secs(60);
/// Longest runtime of a small job, in milliseconds.
const LONGEST: u64 = 30_000;
/// Number of small jobs that are pending at any time.
const WAITING: usize = 3;
/// Most instants of the starvation test; more means a defect of the test.
const MOST_INSTANTS: usize = 5_000;
const GANG: &str = "gang";

impl DstWorld {
    /// Runs the starvation test on an idle cluster.
    pub(crate) fn test_starvation(&mut self) -> Result<(), String> {
        if !self.features.starvation || !self.ledger.reservations.is_empty() {
            return Ok(());
        }
        // 1. Cancel everything; one queue.
        let mut tree = QueueTree { patience: Some(PATIENCE), ..QueueTree::single() };
        tree.backfill =
            *self.rng.pick(&[Backfill::Easy, Backfill::None, Backfill::Conservative { depth: 4 }]);
        let cancel = |job: &JobId| Event::Cancel {
            target: CommandTarget { job: *job, index: None },
            by: "root".into(),
        };
        let mut inputs: Vec<StepInput> =
            self.ledger.jobs.keys().map(|job| StepInput::Event(cancel(job))).collect();
        inputs.push(StepInput::Event(Event::QueuesSet(Box::new(tree))));
        self.step_until_stable(inputs, &[])?;
        self.run_until_idle()?;
        let Some(widest) = self.widest() else { return Ok(()) };
        self.transcript
            .line(|| format!("starvation test with a gang of {} tasks", widest.min_tasks));
        self.coverage.starvation_tests += 1;
        // 2. Small jobs take every GPU and more are pending; then the gang arrives.
        let devices: usize = self.hosts.iter().map(|host| host.spec.devices.len()).sum();
        for _ in 0..devices {
            self.submit_small()?;
        }
        let gang = self.next_job();
        let behaviour = ScriptedBehaviour {
            lasts: Some(Span::from_secs(5)),
            exit: TaskExit::Code { code: 0 },
            stubborn: false,
        };
        self.send_plain(GANG, widest, behaviour)?;
        // 3. The gang starts while small jobs keep arriving, even if the daemon crashes.
        self.submit_small_jobs(ElementId { job: gang, index: 0 })?;
        self.run_until_idle()?;
        if self.ledger.jobs.is_empty() {
            Ok(())
        } else {
            Err("jobs are left after the starvation test".to_owned())
        }
    }

    /// Returns the widest gang that fits the nodes as they are, if it needs more than one small job
    /// frees.
    fn widest(&mut self) -> Option<TaskGroup> {
        let gpus = *self.rng.pick(&[1, 1, 2]);
        let models: Vec<GpuModel> = MODELS.iter().map(|model| GpuModel::from(*model)).collect();
        let of = |tasks| {
            let task = Resources { gpu: GpuRequest::whole(gpus), ..Resources::default() };
            TaskGroup::of("one", tasks, task)
        };
        let fits = |tasks: &u32| {
            let spec = JobSpec::plain(GANG, "ann", vec![of(*tasks)]);
            feasibility::fits(&self.ledger.nodes, &spec, &models) == Some(true)
        };
        (1..=16).rev().find(fits).filter(|tasks| tasks * gpus > 1).map(of)
    }

    /// Submits a small job.
    fn submit_small(&mut self) -> Result<(), String> {
        let name = format!("small-{}", self.sent.len());
        let task = Resources { gpu: GpuRequest::whole(1), ..Resources::default() };
        let lasts = Some(Span(self.rng.between(1_000, LONGEST)));
        let behaviour =
            ScriptedBehaviour { lasts, exit: TaskExit::Code { code: 0 }, stubborn: false };
        self.send_plain(&name, TaskGroup::of("one", 1, task), behaviour)
    }

    /// Submits a job of one group, without a time limit or other terms.
    fn send_plain(
        &mut self,
        name: &str,
        group: TaskGroup,
        behaviour: ScriptedBehaviour,
    ) -> Result<(), String> {
        let key = format!("starvation-{}", self.sent.len());
        let user = "ann";
        let name: Arc<str> = name.into();
        let site = (&self.ledger.queues, &self.ledger.reservations);
        let next = self.next_job();
        let mut draft =
            jobs::draft(&mut self.rng, &self.templates.job, site, self.now, next, (&name, user));
        let payload = draft.spec.payload;
        draft.spec = JobSpec {
            payload,
            restart: Restart::NEVER,
            ..JobSpec::plain(Arc::clone(&name), user, vec![group])
        };
        draft.payload.commands.retain(|role, _| &**role == "one");
        self.behaviours.insert(name, behaviour);
        self.sent.push(SentSubmission { key, user, drafts: vec![draft], answer: None });
        let which = self.sent.len() - 1;
        let inputs = self.envelope(which).into_iter().collect();
        self.step_until_stable(inputs, &[which])
    }

    /// Submits small jobs as fast as others end, until the gang starts.
    fn submit_small_jobs(&mut self, gang: ElementId) -> Result<(), String> {
        let mut begun = self.now;
        // Every job that ran when the patience ended has ended, plus the time that a start takes.
        let bound = PATIENCE + Span(LONGEST) + START_LIMIT + self.stands_still();
        let dies_at = self.rng.chance(50).then(|| begun + Span(self.rng.roll(PATIENCE.0)));
        let mut has_died = false;
        for _ in 0..MOST_INSTANTS {
            if self.ledger.attempt(gang).is_some() {
                return Ok(());
            }
            // The gang is not the head while an older small job is pending, as happens where GPUs
            // are out of service.
            if self.waits_before(gang.job) {
                begun = self.now;
            }
            let since = self.now.since(begun);
            if since > bound {
                return Err(format!(
                    "{gang} is the head and has been pending for {since}; the bound is {bound}"
                ));
            }
            while self.pending_small() < WAITING {
                self.submit_small()?;
            }
            if !has_died && dies_at.is_some_and(|at| at <= self.now) {
                has_died = true;
                self.die("dies in the starvation test");
                self.restart()?;
            }
            let due = self.next_due().ok_or("nothing is due in the starvation test")?;
            self.now = self.now.max(due);
            let inputs = self.arrivals();
            self.step_until_stable(inputs, &[])?;
        }
        Err("livelock: the starvation test does not end".to_owned())
    }

    /// Returns whether a job that was submitted earlier is pending.
    fn waits_before(&self, gang: JobId) -> bool {
        let older = self.ledger.jobs.range(..gang).flat_map(|(_, job)| job.elements.values());
        older.into_iter().any(|element| matches!(element.phase, ElementPhase::Pending { .. }))
    }

    fn pending_small(&self) -> usize {
        let small = self.ledger.jobs.values().filter(|job| &*job.spec.name != GANG);
        let elements = small.flat_map(|job| job.elements.values());
        elements.filter(|element| matches!(element.phase, ElementPhase::Pending { .. })).count()
    }
}
