//! Would a window be accepted, and a job that names one? Reads only.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::{
    JobSpec, QueueSpec, Reason, Span, Time, Window, WindowName, WindowPlace, WindowTimes,
    WindowWhat,
};

use super::{Placed, admits, times};
use crate::plan::window;
use crate::refusal::Refusal;
use crate::state::State;

/// Instants of windows stay well below the end of time: some three million years after the epoch.
const LATEST: u64 = 1 << 56;

impl State {
    /// Would a window be accepted as things stand?
    pub(in crate::state) fn judge_window(&self, window: &Window) -> Result<(), Refusal> {
        let now = self.pool.seen();
        // 1. Does it make sense?
        if let Some(known) = self.windows.get(&window.name) {
            let is_same = *known.window == *window;
            return if is_same { Ok(()) } else { Err(Refusal::WindowExists(window.name.clone())) };
        }
        judge_times(&window.times, now).map_err(Refusal::BadWindow)?;
        if window.users.is_empty() && window.queues.is_empty() {
            return Err(Refusal::BadWindow("nobody may use it"));
        }
        for queue in &window.queues {
            let mut level = &self.policy.tree().queues;
            for part in queue.as_str().split('/') {
                let known = level.iter().find(|known: &&QueueSpec| *known.name == *part);
                level = &known.ok_or_else(|| Refusal::NoQueue(queue.clone()))?.queues;
            }
        }
        // 2. Can it have what it asks for?
        let all: Vec<Placed> = self.windows.iter().cloned().collect();
        let WindowWhat::Nodes(nodes) = &window.what else {
            return self.judge_gpus(window, now, &all);
        };
        if nodes.is_empty() {
            return Err(Refusal::BadWindow("it sets nothing aside"));
        }
        for name in nodes {
            self.judge_node(name)?;
            let other = all.iter().find(|one| {
                times::collide(&one.window.times, &window.times)
                    && one.places.iter().any(|place| place.node == *name)
            });
            if let Some(other) = other {
                let (node, other) = (name.clone(), other.window.name.clone());
                return Err(Refusal::WindowOverlaps { node, other });
            }
        }
        let places = nodes.iter().map(|node| WindowPlace { node: node.clone(), devices: None });
        let placed = Placed { window: Arc::new(window.clone()), places: places.collect() };
        let begin = times::at_or_after(&window.times, now).map_or(now, |(begin, _)| begin.max(now));
        let in_way = window::strangers(self, &placed, begin, now);
        match window.stop || in_way.is_empty() {
            true => Ok(()),
            false => Err(Refusal::WindowTaken { gpus: None, in_way: in_way.into_iter().collect() }),
        }
    }

    fn judge_gpus(&self, window: &Window, now: Time, all: &[Placed]) -> Result<(), Refusal> {
        let WindowWhat::Gpus { count, .. } = &window.what else { return Ok(()) };
        if *count == 0 {
            return Err(Refusal::BadWindow("it sets nothing aside"));
        }
        let picked = window::pick(self, window, now, all);
        let (found, in_way) =
            picked.map_or((0, BTreeSet::new()), |picked| (picked.found, picked.in_way));
        match found >= *count {
            true => Ok(()),
            false => {
                let in_way = in_way.into_iter().collect();
                Err(Refusal::WindowTaken { gpus: Some((*count, found)), in_way })
            }
        }
    }

    pub(in crate::state) fn judge_drop(&self, name: &WindowName) -> Result<(), Refusal> {
        match self.windows.get(name) {
            Some(_) => Ok(()),
            None => Err(Refusal::UnknownWindow(name.clone())),
        }
    }

    /// Could a job run in the window that it names, as far as times and permission tell?
    pub(in crate::state) fn judge_inside(&self, spec: &JobSpec) -> Result<(), Refusal> {
        let Some(name) = &spec.constraint.window else { return Ok(()) };
        let known = self.windows.get(name).ok_or_else(|| Refusal::UnknownWindow(name.clone()))?;
        let window = &known.window;
        if !admits(window, &spec.user, &spec.queue) {
            return Err(Refusal::NotForYou(name.clone()));
        }
        let from = self.pool.seen().max(spec.begin.unwrap_or(Time(0)));
        let length = times::longest_from(&window.times, from).unwrap_or(Span(0));
        let asked = spec.time_limit.map(|limit| limit + spec.grace);
        match asked.is_some_and(|asked| asked <= length) {
            true => Ok(()),
            false => {
                let window = name.clone();
                Err(Refusal::Never(Reason::WindowTooShort { window, asked, length }))
            }
        }
    }
}

fn judge_times(times: &WindowTimes, now: Time) -> Result<(), &'static str> {
    let every = times.every.unwrap_or(Span(0));
    match () {
        () if times.length == Span(0) => Err("it is open for no time"),
        () if times.start.0.max(times.length.0).max(every.0) > LATEST => {
            Err("it lies too far ahead")
        }
        () if times.every.is_some_and(|every| every < times.length) => {
            Err("it begins again before it has ended")
        }
        () if times::at_or_after(times, now).is_none() => Err("it is over already"),
        () => Ok(()),
    }
}
