//! Transcript lines: facts in, sentences with names out.

use std::collections::BTreeMap;

use muster_model::hostlist::folded;
use muster_model::view::JobState;
use muster_model::{
    AttemptId, ElementId, EvictionCause, JobId, JobSpec, NodeId, Outcome, Reason, TaskPlacement,
};
use muster_report::{RenderContext, amount, reason};
use muster_runtime::engine::{AccountingFact, Engine};

use super::time_of_day::format_time;
use super::world::ScenarioWorld;

impl ScenarioWorld {
    /// Returns an element's name in the script.
    pub(crate) fn element_name(&self, element: ElementId) -> String {
        match self.jobs.get(&element.job) {
            Some(known) if known.spec.array.is_some() || known.spec.service().is_some() => {
                format!("{}[{}]", known.spec.name, element.index)
            }
            Some(known) => known.spec.name.to_string(),
            None => element.to_string(),
        }
    }

    /// Describes the facts of one instant.
    pub(crate) fn accounting_lines(&self, facts: &[AccountingFact]) -> Vec<String> {
        let ran = |id: &AttemptId| {
            facts.iter().any(
                |fact| matches!(fact, AccountingFact::Running { id: other, .. } if other == id),
            )
        };
        let placed = |id: &AttemptId| {
            facts.iter().any(
                |fact| matches!(fact, AccountingFact::Started { id: other, .. } if other == id),
            )
        };
        let over =
            |id: &AttemptId| facts.iter().filter_map(ended_attempt).any(|other| other == *id);
        let ended = |element: &ElementId| {
            facts.iter().filter_map(ended_element).any(|other| other == *element)
        };
        let line = |fact: &AccountingFact| match fact {
            AccountingFact::Started { id, placement, .. } if ran(id) => {
                Some(self.start(*id, "starts on", placement))
            }
            AccountingFact::Started { id, .. } if over(id) => None,
            AccountingFact::Started { id, placement, .. } => {
                Some(self.start(*id, "is placed and gets ready on", placement))
            }
            AccountingFact::Running { id, .. } if placed(id) => None,
            AccountingFact::Running { id, .. } => {
                Some(format!("{} runs", self.element_name(id.element)))
            }
            AccountingFact::Evicted { id, by, cause, .. } => {
                Some(self.eviction(id.element, *by, *cause))
            }
            AccountingFact::AttemptEnded { id, running_from: None, placement, .. } => {
                Some(self.start(*id, "does not start on", placement))
            }
            AccountingFact::AttemptEnded { id, .. } if ended(&id.element) => None,
            AccountingFact::AttemptEnded { id, .. } => {
                Some(format!("{} stops and goes back to its queue", self.element_name(id.element)))
            }
            AccountingFact::ElementEnded { element, outcome, .. } => {
                Some(format!("{} {}", self.element_name(*element), how_it_ends(outcome)))
            }
            AccountingFact::RestEnded { job, count, first, last, outcome, .. } => {
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
            AccountingFact::Queued { .. } | AccountingFact::JobEnded { .. } => None,
        };
        facts.iter().filter_map(line).collect()
    }

    fn eviction(&self, evicted: ElementId, by: ElementId, cause: EvictionCause) -> String {
        let why = match cause {
            EvictionCause::Grown => {
                return format!(
                    "{} is stopped to restart with more tasks",
                    self.element_name(evicted)
                );
            }
            EvictionCause::Reclaimed => ", which reclaims its quota",
            EvictionCause::Outranked => "",
            EvictionCause::Shrunk => ", and continues with fewer tasks",
            EvictionCause::Moved => ", and continues elsewhere",
            EvictionCause::Opportunistic => ", as it ran on idle resources",
        };
        format!("{} is preempted by {}{why}", self.element_name(evicted), self.element_name(by))
    }

    fn start(&self, id: AttemptId, verb: &str, placement: &[TaskPlacement]) -> String {
        let mut text = format!(
            "{} {verb} {}",
            self.element_name(id.element),
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

    /// Formats places: `n1: 0-4`, `n[1-4]: 0-7 each`, `trainer n1: 0-3; rollout n1: 4-7`.
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
        // 1. Devices by node, in order of rank.
        let mut nodes: Vec<(NodeId, Vec<&TaskPlacement>)> = Vec::new();
        for task in tasks {
            match nodes.last_mut() {
                Some((node, held)) if *node == task.node => held.push(task),
                _ => nodes.push((task.node, vec![task])),
            }
        }
        // 2. Neighbours with the same devices, together.
        let mut runs: Vec<(Vec<String>, String)> = Vec::new();
        for (node, held) in &nodes {
            let name = self.node_name(*node);
            let what = devices(held);
            match runs.last_mut() {
                Some((names, same)) if *same == what => names.push(name),
                _ => runs.push((vec![name], what)),
            }
        }
        // 3. As text.
        let text = |(names, what): &(Vec<String>, String)| {
            let folded = folded(names.iter().map(String::as_str));
            let each = if names.len() > 1 { " each" } else { "" };
            if what.is_empty() { folded } else { format!("{folded}: {what}{each}") }
        };
        runs.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    /// Describes why an element is pending, and when it starts at the latest.
    pub(crate) fn waiting(&self, engine: &mut Engine, element: ElementId) -> Option<String> {
        let known = engine.explain(self.now, element)?;
        let why = known
            .reasons
            .first()
            .map_or_else(|| "it was not considered yet".to_owned(), |reason| self.why(reason));
        let by = known
            .eta
            .map(|eta| {
                let by = if eta.predicted { "is predicted to start at" } else { "starts by" };
                format!("; {by} {}", format_time(eta.start))
            })
            .unwrap_or_default();
        match known.state {
            JobState::Held => Some(format!("{} is held", self.element_name(element))),
            JobState::Pending => Some(format!("{} waits: {why}{by}", self.element_name(element))),
            _ => None,
        }
    }

    /// Formats a reason with names in place of numbers.
    pub(crate) fn why(&self, why: &Reason) -> String {
        let context = RenderContext::plain().at(self.now);
        let name = |job: JobId| {
            self.jobs.get(&job).map_or(job.to_string(), |known| known.spec.name.to_string())
        };
        match why {
            Reason::Reserved { element, start, predicted, .. } => {
                let starts = if *predicted { "is predicted to start" } else { "starts" };
                format!(
                    "would delay {}, which {starts} at {}",
                    self.element_name(*element),
                    format_time(*start)
                )
            }
            Reason::HeadReserved { element, .. } => {
                format!(
                    "free resources are reserved for {}, which has been first for too long",
                    self.element_name(*element)
                )
            }
            Reason::Behind { element } => {
                format!("behind {} in strict order", self.element_name(*element))
            }
            Reason::Dependency { on, .. } => {
                reason::short(why, context).replacen(&on.to_string(), &name(*on), 1)
            }
            _ => reason::short(why, context),
        }
    }
}

/// Formats devices of tasks on one node: `0-4`, `0.5 of 3`, or nothing.
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

fn ended_attempt(fact: &AccountingFact) -> Option<AttemptId> {
    let AccountingFact::AttemptEnded { id, .. } = fact else { return None };
    Some(*id)
}

fn ended_element(fact: &AccountingFact) -> Option<ElementId> {
    let AccountingFact::ElementEnded { element, .. } = fact else { return None };
    Some(*element)
}

fn how_it_ends(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Succeeded => "ends".to_owned(),
        Outcome::Idle { .. } | Outcome::StoppedEarly { .. } | Outcome::IdleGpus { .. } => {
            format!("ends: {outcome}")
        }
        Outcome::Cancelled { by } => format!("is cancelled by {by}"),
        other => format!("fails: {other}"),
    }
}
