//! What happened, as lines of a transcript: facts in, sentences with names out. It must not judge
//! what happened.

use std::collections::BTreeMap;

use muster_model::view::State;
use muster_model::{
    AttemptId, ElementId, EvictionCause, JobId, JobSpec, NodeId, Outcome, Reason, TaskPlacement,
    Time,
};
use muster_report::{Style, amount, clock, reason};
use muster_runtime::engine::{Engine, Fact};
use muster_spec::fold_names;

use super::journal::NOON;
use super::world::World;

/// Time of day as scenarios print it, with the date on other days than the first.
pub(crate) fn clock_of(now: Time) -> String {
    let style = Style::plain();
    let time = clock::time(now, now, &style);
    let far = clock::time(now, NOON, &style);
    match far.rsplit_once(' ') {
        Some((day, _)) => format!("{day} {time}"),
        None => time,
    }
}

impl World {
    /// An element as the script calls it.
    pub(crate) fn called(&self, element: ElementId) -> String {
        match self.jobs.get(&element.job) {
            Some(known) if known.spec.array.is_some() || known.spec.service().is_some() => {
                format!("{}[{}]", known.spec.name, element.index)
            }
            Some(known) => known.spec.name.to_string(),
            None => element.to_string(),
        }
    }

    /// What the facts of one instant come to, and who of them waits again.
    pub(crate) fn told(&self, facts: &[Fact]) -> Vec<String> {
        let ran = |id: &AttemptId| {
            facts.iter().any(|fact| matches!(fact, Fact::Running { id: other, .. } if other == id))
        };
        let placed = |id: &AttemptId| {
            facts.iter().any(|fact| matches!(fact, Fact::Started { id: other, .. } if other == id))
        };
        let over = |id: &AttemptId| {
            facts
                .iter()
                .any(|fact| matches!(fact, Fact::AttemptEnded { id: other, .. } if other == id))
        };
        let ended = |element: &ElementId| {
            facts
                .iter()
                .any(|fact| matches!(fact, Fact::ElementEnded { element: other, .. } if other == element))
        };
        let line = |fact: &Fact| match fact {
            Fact::Started { id, placement, .. } if ran(id) => {
                Some(self.start(*id, "starts on", placement))
            }
            Fact::Started { id, .. } if over(id) => None,
            Fact::Started { id, placement, .. } => {
                Some(self.start(*id, "is placed and gets ready on", placement))
            }
            Fact::Running { id, .. } if placed(id) => None,
            Fact::Running { id, .. } => Some(format!("{} runs", self.called(id.element))),
            Fact::Evicted { id, cause: EvictionCause::Grown, .. } => {
                Some(format!("{} makes room for itself with more tasks", self.called(id.element)))
            }
            Fact::Evicted { id, by, cause, .. } => {
                let why = match cause {
                    EvictionCause::Reclaimed => ", which takes its quota back",
                    EvictionCause::Outranked | EvictionCause::Grown => "",
                    EvictionCause::Shrunk => ", and goes on with fewer tasks",
                    EvictionCause::Moved => ", and goes on elsewhere",
                    EvictionCause::Yielded => ", as it ran in what was idle",
                };
                Some(format!(
                    "{} makes room for {}{why}",
                    self.called(id.element),
                    self.called(*by)
                ))
            }
            Fact::AttemptEnded { id, running_from: None, placement, .. } => {
                Some(self.start(*id, "does not start on", placement))
            }
            Fact::AttemptEnded { id, .. } if ended(&id.element) => None,
            Fact::AttemptEnded { id, .. } => {
                Some(format!("{} stops and goes back to its queue", self.called(id.element)))
            }
            Fact::ElementEnded { element, outcome, .. } => {
                Some(format!("{} {}", self.called(*element), how_it_ends(outcome)))
            }
            Fact::RestEnded { job, count, first, last, outcome, .. } => {
                let name = self
                    .jobs
                    .get(job)
                    .map_or_else(|| job.to_string(), |known| known.spec.name.to_string());
                Some(format!(
                    "{name}[{first}-{last}], {} not started, {}",
                    count,
                    how_it_ends(outcome)
                ))
            }
            Fact::Queued { .. } | Fact::JobEnded { .. } => None,
        };
        facts.iter().filter_map(line).collect()
    }

    fn start(&self, id: AttemptId, verb: &str, placement: &[TaskPlacement]) -> String {
        let mut text = format!(
            "{} {verb} {}",
            self.called(id.element),
            self.places(id.element.job, placement)
        );
        if id.attempt.0 > 1 {
            text.push_str(&format!(", attempt {}", id.attempt.0));
        }
        if self.is_backfilled(id) {
            text.push_str(", backfilled");
        }
        text
    }

    /// `n1: 0-4`, `n[1-4]: 0-7 each`, `trainer n1: 0-3; rollout n1: 4-7`.
    pub(crate) fn places(&self, job: JobId, placement: &[TaskPlacement]) -> String {
        let spec = self.jobs.get(&job).map(|known| &*known.spec);
        let groups = spec.map_or(1, |spec| spec.groups.len());
        let part = |group: usize| {
            let tasks: Vec<&TaskPlacement> =
                placement.iter().filter(|task| usize::from(task.group) == group).collect();
            let places = self.places_of_group(&tasks);
            let name = |spec: &JobSpec| spec.groups[group].name.to_string();
            if groups > 1 {
                format!("{} {places}", spec.map_or(String::new(), name))
            } else {
                places
            }
        };
        (0..groups).map(part).collect::<Vec<_>>().join("; ")
    }

    fn places_of_group(&self, tasks: &[&TaskPlacement]) -> String {
        // 1. What is held, by node in order of rank.
        let mut nodes: Vec<(NodeId, Vec<&TaskPlacement>)> = Vec::new();
        for task in tasks {
            match nodes.last_mut() {
                Some((node, held)) if *node == task.node => held.push(task),
                _ => nodes.push((task.node, vec![task])),
            }
        }
        // 2. Neighbours that hold the same, together.
        let mut runs: Vec<(Vec<String>, String)> = Vec::new();
        for (node, held) in &nodes {
            let (name, what) = (self.node_name(*node), devices(held));
            match runs.last_mut() {
                Some((names, same)) if *same == what => names.push(name),
                _ => runs.push((vec![name], what)),
            }
        }
        // 3. As text.
        let text = |(names, what): &(Vec<String>, String)| {
            let folded = fold_names(names.iter().map(String::as_str)).join(",");
            let each = if names.len() > 1 { " each" } else { "" };
            if what.is_empty() { folded } else { format!("{folded}: {what}{each}") }
        };
        runs.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    /// Why an element waits, and from when on it does not.
    pub(crate) fn waiting(&self, engine: &mut Engine, element: ElementId) -> Option<String> {
        let known = engine.explain(self.now, element)?;
        let style = Style::plain();
        let why = known
            .reasons
            .first()
            .map_or_else(|| "its turn has not come".to_owned(), |reason| self.why(reason, &style));
        let by =
            known.eta.map(|eta| format!("; starts by {}", clock_of(eta.start))).unwrap_or_default();
        match known.state {
            State::Held => Some(format!("{} is held", self.called(element))),
            State::Pending => Some(format!("{} waits: {why}{by}", self.called(element))),
            _ => None,
        }
    }

    /// A reason with names in place of numbers.
    pub(crate) fn why(&self, why: &Reason, style: &Style) -> String {
        let name = |job: JobId| {
            self.jobs.get(&job).map_or(job.to_string(), |known| known.spec.name.to_string())
        };
        match why {
            Reason::Reserved { element, start, .. } => {
                format!(
                    "would delay {}, which starts at {}",
                    self.called(*element),
                    clock_of(*start)
                )
            }
            Reason::Kept { element, .. } => {
                format!(
                    "what is free is kept for {}, which was first for too long",
                    self.called(*element)
                )
            }
            Reason::Behind { element } => {
                format!("behind {} in strict order", self.called(*element))
            }
            Reason::Dependency { on, .. } => {
                reason::short(why, self.now, style).replacen(&on.to_string(), &name(*on), 1)
            }
            _ => reason::short(why, self.now, style),
        }
    }
}

/// Devices of tasks on one node: `0-4`, `0.5 of 3`, or nothing.
fn devices(tasks: &[&TaskPlacement]) -> String {
    let mut whole: Vec<u32> = Vec::new();
    let mut shares: BTreeMap<(usize, u32), u32> = BTreeMap::new();
    for task in tasks {
        for device in task.devices.iter() {
            match task.share.0 {
                1000 => whole.push(device as u32),
                share => *shares.entry((device, share)).or_default() += 1,
            }
        }
    }
    whole.sort_unstable();
    let mut parts = Vec::new();
    if !whole.is_empty() {
        parts.push(amount::ranges(&whole));
    }
    for ((device, share), count) in shares {
        let times = if count > 1 { format!("{count} × ") } else { String::new() };
        parts.push(format!("{times}{} of {device}", muster_model::GpuMilli(share)));
    }
    parts.join(" and ")
}

fn how_it_ends(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded => "ends".to_owned(),
        Outcome::Idle { .. } => format!("ends: {outcome}"),
        Outcome::Cancelled { by } => format!("is cancelled by {by}"),
        other => format!("fails: {other}"),
    }
}
