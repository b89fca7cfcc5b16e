//! The state of a simulated fleet at an instant: `muster simulate --at`.

use muster_model::Span;
use muster_model::simulation::{FleetInstant, FleetWaiting};

use crate::RenderContext;
use crate::amount::count;
use crate::style::clean;
use crate::table::Table;

/// Returns the scheduler, what runs and is held, and the waiting jobs with their reasons.
#[must_use]
pub fn instant(instant: &FleetInstant, after: Span, context: RenderContext) -> String {
    let FleetInstant {
        scheduler,
        arrived,
        ended,
        running,
        waiting,
        size_milli,
        held_milli,
        jobs,
        ..
    } = instant;
    let percent = held_milli * 100 / (*size_milli).max(1);
    let text = format!(
        "{scheduler}, {after} after the first submission: {} arrived, {ended} ended, {running} run, {waiting} wait; \
         {percent} % is held\n",
        count(*arrived, "job")
    );
    if jobs.is_empty() {
        return text;
    }
    text + &Table::of(jobs)
        .left("JOB", |job| clean(&job.job))
        .left("USER", |job| clean(&job.user))
        .right("TASKS", |job| format!("{}/{}", job.placed, job.tasks))
        .right("WAITED", |job| Span(job.waited_ms).to_string())
        .left("", |job| state(job, instant.at_ms))
        .render(context)
}

fn state(job: &FleetWaiting, now_ms: u64) -> String {
    let since = |then: u64| Span(now_ms.saturating_sub(then));
    match (job.ended_ms, job.running_since_ms) {
        (Some(ended), _) => format!("ended {} ago", since(ended)),
        (None, Some(began)) => format!("has run for {}", since(began)),
        (None, None) => clean(&job.why).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_shown_with_why() {
        let job = |job: &str, placed, why: &str| FleetWaiting {
            job: job.to_owned(),
            user: "ann".to_owned(),
            queue: "default".to_owned(),
            tasks: 5,
            placed,
            waited_ms: 61_000,
            running_since_ms: (placed == 5).then_some(60_000),
            ended_ms: None,
            why: why.to_owned(),
        };
        let shown = FleetInstant {
            scheduler: "kube-default".to_owned(),
            at_ms: 100_000,
            arrived: 2,
            ended: 0,
            running: 1,
            waiting: 1,
            size_milli: 8_000,
            held_milli: 8_000,
            jobs: vec![job("b", 3, "3 of its 5 pods have a node and hold it"), job("a", 5, "")],
        };
        insta::assert_snapshot!(instant(&shown, Span::from_secs(100), RenderContext::plain()));
    }
}
