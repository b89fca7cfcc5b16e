//! The display of `run --watch`: a frame that is redrawn in place, and the summary at the end.

use std::collections::BTreeMap;

use muster_model::view::{JobState, JobView};
use muster_model::{JobId, Time};

use crate::RenderContext;
use crate::amount::count;
use crate::clock;
use crate::ps;
use crate::timeline::{TimelineInput, timeline};

/// Fewest rows of jobs in a frame, even on a lower terminal.
const MIN_JOB_ROWS: usize = 4;

/// Returns the table above and the timeline below, in at most `height` lines: finished jobs are
/// left out first, then waiting ones, then rows of the timeline.
#[must_use]
pub fn frame(
    jobs: &[JobView],
    gantt: &TimelineInput<'_>,
    height: Option<usize>,
    context: RenderContext,
) -> String {
    let mut drawing = timeline(gantt, context);
    if let Some(height) = height {
        let overhead = drawing.lines().count().saturating_sub(gantt.devices.len());
        let space = height.saturating_sub(overhead + 2 * MIN_JOB_ROWS.min(jobs.len()) + 3).max(1);
        if gantt.devices.len() > space {
            drawing = timeline(&TimelineInput { max_rows: space, ..*gantt }, context);
        }
    }
    let space = height.map(|height| height.saturating_sub(drawing.lines().count() + 2));
    let mut rows = jobs.len();
    let mut text = loop {
        let (shown, hidden) = choose(jobs, rows);
        let mut table = ps::table(&shown, gantt.planned, context).indented(2).render(context);
        if hidden > 0 {
            table.push_str(&format!("  … {} more\n", count(hidden as u64, "job")));
        }
        let lines = table.lines().count();
        match space {
            Some(space) if lines > space && rows > MIN_JOB_ROWS => {
                rows = rows.saturating_sub((lines - space).div_ceil(2)).max(MIN_JOB_ROWS);
            }
            _ => break table,
        }
    };
    if !drawing.is_empty() {
        text.push('\n');
        text.push_str(&drawing);
    }
    text
}

/// Returns the most important rows, in job order, and the number of those left out.
fn choose(jobs: &[JobView], space: usize) -> (Vec<JobView>, usize) {
    if jobs.len() <= space {
        return (jobs.to_vec(), 0);
    }
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&place| match jobs[place].state {
        JobState::Starting | JobState::Running | JobState::Stopping => (0, place),
        JobState::Pending | JobState::Held => (1, place),
        _ => (2, jobs.len() - place),
    });
    order.truncate(space);
    order.sort_unstable();
    (order.iter().map(|&place| jobs[place].clone()).collect(), jobs.len() - space)
}

/// Returns the summary at the end of a watch: `4 jobs ended in 45s: all done`.
#[must_use]
pub fn summary(jobs: &[JobView]) -> String {
    let in_state = |state: JobState| jobs.iter().filter(|job| job.state == state).count();
    let from = jobs.iter().map(|job| job.submitted).min().unwrap_or(Time(0));
    let to = jobs.iter().filter_map(|job| job.ended).max().unwrap_or(from);
    let total = count(jobs.len() as u64, "job");
    let ends = [
        JobState::Done,
        JobState::Failed,
        JobState::Cancelled,
        JobState::Preempted,
        JobState::Unknown,
    ];
    let verdict = match ends.map(in_state) {
        [_, 0, 0, 0, 0] if jobs.len() == 1 => "done".to_owned(),
        [_, 0, 0, 0, 0] => "all done".to_owned(),
        counts => {
            let words = counts.iter().zip(ends).filter(|(count, _)| **count > 0);
            words
                .map(|(count, state)| format!("{count} {}", state.word()))
                .collect::<Vec<_>>()
                .join(", ")
        }
    };
    format!("{total} ended in {}: {verdict}\n", clock::elapsed(to.since(from)))
}

/// Returns the names of jobs, for a timeline's legend.
#[must_use]
pub fn names(jobs: &[JobView]) -> BTreeMap<JobId, String> {
    jobs.iter().map(|job| (job.job, job.name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, NOON, after};

    #[test]
    fn a_frame_of_the_contention_example() {
        let devices = sample::devices();
        let bars = sample::bars();
        let planned = sample::planned();
        let jobs = sample::contention();
        let names = names(&jobs);
        let gantt = TimelineInput {
            from: Some(NOON),
            devices: &devices,
            bars: &bars,
            planned: &planned,
            names: &names,
            max_rows: 64,
        };
        let text = frame(&jobs, &gantt, None, RenderContext::plain().at(after(6)).with_width(100));
        insta::assert_snapshot!(text, @r"
        JOB  NAME   STATE    GPUS    WAITED  RAN  NOTE
        1    left   running  0-4     0s      6s   5 of 5 ranks
        2    right  pending  0 of 5  6s           needs 5 GPUs together, 3 are free; starts in about 14s,
                                                  when 1 ends
        3    sweep  running  5,6     1s      5s   7 of 24 done, 2 at a time; backfilled, ends before 2
                                                  starts
        4    quick  done     7       0s      3s   backfilled

        gpu 0 │1111111111111111111111111111111111
        gpu 1 │1111111111111111111111111111111111
        gpu 2 │1111111111111111111111111111111111
        gpu 3 │1111111111111111111111111111111111
        gpu 4 │1111111111111111111111111111111111
        gpu 5 │·····33333333333333333333333333333
        gpu 6 │·····33333333333333333333333333333
        gpu 7 │44444444444444444·················
              └ 12:00:00                        ▏now                                 12:00:20: 2 starts ▸▕
        ");
        for height in 12..40 {
            let lines = frame(
                &jobs,
                &gantt,
                Some(height),
                RenderContext::plain().at(after(6)).with_width(100),
            )
            .lines()
            .count();
            assert!(lines <= height.max(14), "{lines} lines for a height of {height}");
        }
    }

    #[test]
    fn active_jobs_stay_in_sight_longest() {
        let mut jobs = sample::contention();
        jobs.extend((5..50).map(|number| sample::job(number, "later", JobState::Done, 1)));
        let (shown, hidden) = choose(&jobs, 4);
        let numbers: Vec<u64> = shown.iter().map(|job| job.job.0).collect();
        assert_eq!((numbers, hidden), (vec![1, 2, 3, 49], 45));
    }

    #[test]
    fn the_summary_counts_and_says_how_long() {
        let ended = |number, state| JobView {
            ended: Some(after(number * 10)),
            ..sample::job(number, "j", state, 1)
        };
        assert_eq!(summary(&[ended(1, JobState::Done)]), "1 job ended in 10s: done\n");
        assert_eq!(
            summary(&[ended(1, JobState::Done), ended(2, JobState::Done)]),
            "2 jobs ended in 20s: all done\n"
        );
        let mixed =
            [ended(1, JobState::Done), ended(2, JobState::Failed), ended(3, JobState::Cancelled)];
        assert_eq!(summary(&mixed), "3 jobs ended in 30s: 1 done, 1 failed, 1 cancelled\n");
    }
}
