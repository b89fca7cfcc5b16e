//! The siege that some stories end with: small jobs without a time limit keep coming, and a gang
//! that is first in its queue must start within a bound all the same. Judged without the engine. It
//! must not look at what the engine keeps for whom.

use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::queue::Backfill;
use muster_model::{
    ElementId, Event, GpuModel, JobId, JobSpec, QueueTree, Restart, Span, Target, TaskExit,
    TaskGroup,
};
use muster_runtime::Input;

use super::book::Phase;
use super::site::MODELS;
use super::world::{START_LIMIT, Sent, World};
use super::{fit, jobs};
use crate::scenario::command::Conduct;

/// The queues' patience in a siege.
const PATIENCE: Span = Span::from_secs(60);
/// No small job lasts longer.
const LONGEST: u64 = 30_000;
/// So many small jobs wait at any time.
const WAITING: usize = 3;
/// Instants of a siege after which something is wrong with the story.
const MOST_INSTANTS: usize = 5_000;
const GANG: &str = "gang";

impl World {
    /// Besieges a cluster on which nothing runs.
    pub(crate) fn besiege(&mut self) -> Result<(), String> {
        if !self.beyond.siege || !self.book.windows.is_empty() {
            return Ok(());
        }
        // 1. Nothing waits, in one queue.
        let mut tree = QueueTree { patience: Some(PATIENCE), ..QueueTree::single() };
        tree.backfill =
            *self.dice.pick(&[Backfill::Easy, Backfill::None, Backfill::Conservative { depth: 4 }]);
        let cancel = |job: &JobId| Event::Cancel {
            target: Target { job: *job, index: None },
            by: "root".into(),
        };
        let mut inputs: Vec<Input> =
            self.book.jobs.keys().map(|job| Input::Event(cancel(job))).collect();
        inputs.push(Input::Event(Event::QueuesSet(Box::new(tree))));
        self.settle(inputs, &[])?;
        self.run_out()?;
        let Some(widest) = self.widest() else { return Ok(()) };
        self.trace.line(|| format!("siege of {} tasks", widest.min_tasks));
        self.cover.sieges += 1;
        // 2. Every GPU is taken by small jobs and more wait; then comes the gang.
        let devices: usize = self.hosts.iter().map(|host| host.spec.devices.len()).sum();
        for _ in 0..devices {
            self.send_small()?;
        }
        let gang = self.next_job();
        let conduct = Conduct {
            lasts: Some(Span::from_secs(5)),
            exit: TaskExit::Code { code: 0 },
            stubborn: false,
        };
        self.send_plain(GANG, widest, conduct)?;
        // 3. It starts while they keep coming, whatever becomes of the daemon.
        self.keep_coming(ElementId { job: gang, index: 0 })?;
        self.run_out()?;
        match self.book.jobs.is_empty() {
            true => Ok(()),
            false => Err("something is left of a siege".to_owned()),
        }
    }

    /// The widest gang that fits the nodes as they are, if it needs more than one small job leaves.
    fn widest(&mut self) -> Option<TaskGroup> {
        let gpus = *self.dice.pick(&[1, 1, 2]);
        let models: Vec<GpuModel> = MODELS.iter().map(|model| GpuModel::from(*model)).collect();
        let of = |tasks| {
            let task = Resources { gpu: GpuRequest::whole(gpus), ..Resources::default() };
            TaskGroup::of("one", tasks, task)
        };
        let fits = |tasks: &u32| {
            let spec = JobSpec::plain(GANG, "ann", vec![of(*tasks)]);
            fit::fits(&self.book.nodes, &spec, &models) == Some(true)
        };
        (1..=16).rev().find(fits).filter(|tasks| tasks * gpus > 1).map(of)
    }

    /// A small job is submitted.
    fn send_small(&mut self) -> Result<(), String> {
        let name = format!("small-{}", self.sent.len());
        let task = Resources { gpu: GpuRequest::whole(1), ..Resources::default() };
        let lasts = Some(Span(self.dice.between(1_000, LONGEST)));
        let conduct = Conduct { lasts, exit: TaskExit::Code { code: 0 }, stubborn: false };
        self.send_plain(&name, TaskGroup::of("one", 1, task), conduct)
    }

    /// Submits a job of one group that asks for nothing else, and has no time limit.
    fn send_plain(&mut self, name: &str, group: TaskGroup, conduct: Conduct) -> Result<(), String> {
        let (key, user) = (format!("siege-{}", self.sent.len()), "ann");
        let name: Arc<str> = name.into();
        let (site, next) = ((&self.book.queues, &self.book.windows), self.next_job());
        let mut draft =
            jobs::draft(&mut self.dice, &self.patterns.job, site, self.now, next, (&name, user));
        let payload = draft.spec.payload;
        draft.spec = JobSpec {
            payload,
            restart: Restart::NEVER,
            ..JobSpec::plain(Arc::clone(&name), user, vec![group])
        };
        draft.payload.commands.retain(|role, _| &**role == "one");
        self.conducts.insert(name, conduct);
        self.sent.push(Sent { key, user, drafts: vec![draft], answer: None });
        let which = self.sent.len() - 1;
        let inputs = self.envelope(which).into_iter().collect();
        self.settle(inputs, &[which])
    }

    /// Small jobs come as fast as they end, until the gang starts.
    fn keep_coming(&mut self, gang: ElementId) -> Result<(), String> {
        let mut begun = self.now;
        // All that ran when its patience was over ends, and what it takes to start is over.
        let bound = PATIENCE + Span(LONGEST) + START_LIMIT;
        let dies_at = self.dice.chance(50).then(|| begun + Span(self.dice.roll(PATIENCE.0)));
        let mut has_died = false;
        for _ in 0..MOST_INSTANTS {
            if self.book.attempt(gang).is_some() {
                return Ok(());
            }
            // The gang is not first while an older small job waits, as happens where GPUs are out
            // of service.
            if self.waits_before(gang.job) {
                begun = self.now;
            }
            let since = self.now.since(begun);
            if since > bound {
                return Err(format!("{gang} is first and waits for {since}; the bound is {bound}"));
            }
            while self.small_waiting() < WAITING {
                self.send_small()?;
            }
            if !has_died && dies_at.is_some_and(|at| at <= self.now) {
                has_died = true;
                self.die("dies in the siege");
                self.restart()?;
            }
            let due = self.next_due().ok_or("nothing is due in a siege")?;
            self.now = self.now.max(due);
            let inputs = self.arrivals();
            self.settle(inputs, &[])?;
        }
        Err("something is due again and again in a siege".to_owned())
    }

    /// True while a job that was submitted before this one waits.
    fn waits_before(&self, gang: JobId) -> bool {
        let older = self.book.jobs.range(..gang).flat_map(|(_, job)| job.elements.values());
        older.into_iter().any(|element| matches!(element.phase, Phase::Waits { .. }))
    }

    fn small_waiting(&self) -> usize {
        let small = self.book.jobs.values().filter(|job| &*job.spec.name != GANG);
        let elements = small.flat_map(|job| job.elements.values());
        elements.filter(|element| matches!(element.phase, Phase::Waits { .. })).count()
    }
}
