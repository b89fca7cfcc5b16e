//! GPU use over time, as far as this process has observed it in lists: Slurm forgets the devices of
//! a job when it ends. Sends no queries.

use std::collections::BTreeSet;

use muster_api::query::TimelineQuery;
use muster_api::types::Timeline;
use muster_model::view::{DeviceBar, ElementView, JobView};
use muster_model::{NodeName, Time};

/// Bars collected from lists.
#[derive(Debug, Default)]
pub(super) struct UsageSamples {
    bars: Vec<DeviceBar>,
}

impl UsageSamples {
    /// Adds a list. Jobs that are missing have ended where the list `is_whole`, else they are
    /// unchanged: Slurm forgets ended jobs.
    pub(super) fn add_list(&mut self, jobs: &[JobView], is_whole: bool, now: Time) {
        let is_gone =
            |bar: &DeviceBar| is_whole && !jobs.iter().any(|job| job.job == bar.element.job);
        for bar in self.bars.iter_mut().filter(|bar| bar.to.is_none() && is_gone(bar)) {
            bar.to = Some(now);
        }
        for job in jobs {
            let held: Vec<DeviceBar> = job.elements.iter().flat_map(held).collect();
            // 1. End the bars of devices that it no longer holds, or holds in another attempt.
            // Ended elements of an array are not in the list.
            let own =
                self.bars.iter_mut().filter(|bar| bar.element.job == job.job && bar.to.is_none());
            for bar in own.filter(|bar| !held.contains(bar)) {
                let element = job.elements.iter().find(|element| element.element == bar.element);
                bar.to = Some(element.and_then(|element| element.ended).unwrap_or(now));
            }
            // 2. Begin bars for the devices that it holds now.
            let new: Vec<DeviceBar> =
                held.into_iter().filter(|bar| !self.bars.contains(bar)).collect();
            self.bars.extend(new);
        }
    }

    /// Returns bars that reach past an instant, for all devices that were ever held.
    pub(super) fn timeline(&self, query: TimelineQuery, now: Time) -> Timeline {
        let devices: BTreeSet<(NodeName, u16)> =
            self.bars.iter().map(|bar| (bar.node.clone(), bar.device)).collect();
        let reaches =
            |bar: &&DeviceBar| query.since.is_none_or(|since| bar.to.is_none_or(|to| to > since));
        Timeline {
            now,
            devices: devices.into_iter().collect(),
            bars: self.bars.iter().filter(reaches).cloned().collect(),
            reservations: Vec::new(),
        }
    }
}

/// Returns a bar for each device that an element holds now.
fn held(element: &ElementView) -> Vec<DeviceBar> {
    let Some(from) = element.started.filter(|_| !element.state.is_final()) else {
        return Vec::new();
    };
    let places = element
        .tasks
        .iter()
        .flat_map(|task| task.devices.iter().map(|device| (&task.node, *device)));
    let mut bars: Vec<DeviceBar> = places
        .map(|(node, device)| DeviceBar {
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
    use muster_model::view::{JobState, TaskStage, TaskView};
    use muster_model::{ElementId, GpuMilli, JobId, Rank};

    use super::*;

    /// Returns job 7 as running on these devices since `at`, or as ended at `at`.
    fn job(state: JobState, at: u64, devices: &[u16]) -> JobView {
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
        let mut seen = UsageSamples::default();
        seen.add_list(&[job(JobState::Running, 10, &[0, 1])], true, Time(12));
        seen.add_list(&[job(JobState::Running, 10, &[0, 1])], true, Time(13));
        seen.add_list(&[job(JobState::Running, 30, &[1])], true, Time(31));
        seen.add_list(&[job(JobState::Done, 50, &[])], true, Time(60));
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
        let mut seen = UsageSamples::default();
        seen.add_list(&[job(JobState::Running, 10, &[0])], true, Time(12));
        let end =
            |seen: &UsageSamples| seen.timeline(TimelineQuery { since: None }, Time(61)).bars[0].to;
        seen.add_list(&[], false, Time(20));
        assert_eq!(end(&seen), None);
        seen.add_list(&[], true, Time(30));
        assert_eq!(end(&seen), Some(Time(30)));
    }
}
