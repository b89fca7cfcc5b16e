//! Who held which GPUs when, as far as this process has seen it: Slurm forgets the devices of a job
//! with its end. It asks nobody.

use std::collections::BTreeSet;

use muster_api::query::TimelineQuery;
use muster_api::types::Timeline;
use muster_model::view::{Bar, ElementView, JobView};
use muster_model::{NodeName, Time};

/// What lists have shown.
#[derive(Debug, Default)]
pub(super) struct Seen {
    bars: Vec<Bar>,
}

impl Seen {
    /// Takes in a list. Who is not in it has ended where it `is_whole`, else is as it was: Slurm
    /// forgets who has ended.
    pub(super) fn look(&mut self, jobs: &[JobView], is_whole: bool, now: Time) {
        let is_gone = |bar: &Bar| is_whole && !jobs.iter().any(|job| job.job == bar.element.job);
        for bar in self.bars.iter_mut().filter(|bar| bar.to.is_none() && is_gone(bar)) {
            bar.to = Some(now);
        }
        for job in jobs {
            let held: Vec<Bar> = job.elements.iter().flat_map(held).collect();
            // 1. What it held and does not hold any more, or holds anew in another attempt. Of an
            //    array, elements that have ended are not shown.
            let own =
                self.bars.iter_mut().filter(|bar| bar.element.job == job.job && bar.to.is_none());
            for bar in own.filter(|bar| !held.contains(bar)) {
                let element = job.elements.iter().find(|element| element.element == bar.element);
                bar.to = Some(element.and_then(|element| element.ended).unwrap_or(now));
            }
            // 2. What it holds.
            let new: Vec<Bar> = held.into_iter().filter(|bar| !self.bars.contains(bar)).collect();
            self.bars.extend(new);
        }
    }

    /// Bars that reach past an instant, on the devices that were ever held.
    pub(super) fn timeline(&self, query: TimelineQuery, now: Time) -> Timeline {
        let devices: BTreeSet<(NodeName, u16)> =
            self.bars.iter().map(|bar| (bar.node.clone(), bar.device)).collect();
        let reaches =
            |bar: &&Bar| query.since.is_none_or(|since| bar.to.is_none_or(|to| to > since));
        Timeline {
            now,
            devices: devices.into_iter().collect(),
            bars: self.bars.iter().filter(reaches).cloned().collect(),
            reservations: Vec::new(),
        }
    }
}

/// A bar for each device that an element holds now.
fn held(element: &ElementView) -> Vec<Bar> {
    let Some(from) = element.started.filter(|_| !element.state.is_final()) else {
        return Vec::new();
    };
    let places = element
        .tasks
        .iter()
        .flat_map(|task| task.devices.iter().map(|device| (&task.node, *device)));
    let mut bars: Vec<Bar> = places
        .map(|(node, device)| Bar {
            node: node.clone(),
            device,
            element: element.element,
            from,
            to: None,
        })
        .collect();
    // Ranks that share a node hold its devices together.
    bars.sort_by(|one, other| (&one.node, one.device).cmp(&(&other.node, other.device)));
    bars.dedup();
    bars
}

#[cfg(test)]
mod tests {
    use muster_model::view::{State, TaskStage, TaskView};
    use muster_model::{ElementId, GpuMilli, JobId, Rank};

    use super::*;

    /// Job 7, which since then runs on these devices of a node, or has ended then.
    fn job(state: State, at: u64, devices: &[u16]) -> JobView {
        let task = TaskView {
            rank: Rank(0),
            group: "main".to_owned(),
            node: "n1".into(),
            devices: devices.to_vec(),
            share: GpuMilli(1000),
            stage: TaskStage::Running,
            ready: false,
            exit: None,
        };
        let element = ElementView {
            started: Some(Time(at)),
            ended: state.is_final().then_some(Time(at)),
            tasks: if devices.is_empty() { Vec::new() } else { vec![task] },
            ..ElementView::blank(ElementId::single(JobId(7)), state)
        };
        let view = JobView::blank(JobId(7), "j".into(), "u".into(), state, Time(0));
        JobView { elements: vec![element], ..view }
    }

    #[test]
    fn bars_begin_with_what_is_seen_and_end_with_the_job_or_the_attempt() {
        let mut seen = Seen::default();
        seen.look(&[job(State::Running, 10, &[0, 1])], true, Time(12));
        seen.look(&[job(State::Running, 10, &[0, 1])], true, Time(13));
        seen.look(&[job(State::Running, 30, &[1])], true, Time(31));
        seen.look(&[job(State::Done, 50, &[])], true, Time(60));
        let timeline = seen.timeline(TimelineQuery { since: None }, Time(61));
        let bars: Vec<(u16, u64, Option<u64>)> = timeline
            .bars
            .iter()
            .map(|bar| (bar.device, bar.from.0, bar.to.map(|to| to.0)))
            .collect();
        assert_eq!(bars, [(0, 10, Some(31)), (1, 10, Some(31)), (1, 30, Some(50))]);
        assert_eq!(timeline.devices, [("n1".into(), 0), ("n1".into(), 1)]);
        assert_eq!(seen.timeline(TimelineQuery { since: Some(Time(40)) }, Time(61)).bars.len(), 1);
    }

    #[test]
    fn who_is_not_in_a_whole_list_any_more_has_ended() {
        let mut seen = Seen::default();
        seen.look(&[job(State::Running, 10, &[0])], true, Time(12));
        let end = |seen: &Seen| seen.timeline(TimelineQuery { since: None }, Time(61)).bars[0].to;
        seen.look(&[], false, Time(20));
        assert_eq!(end(&seen), None);
        seen.look(&[], true, Time(30));
        assert_eq!(end(&seen), Some(Time(30)));
    }
}
