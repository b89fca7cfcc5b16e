//! Notices of time limits that are near.

use muster_model::JobId;
use muster_model::notice::NoticeEvent;
use muster_model::unit::Time;
use muster_model::view::{JobState, JobView};

use crate::store::{NumberedRules, TimedEvent};

/// Returns the events of jobs whose time limits are near. A job of an array has one, for its first
/// element. A limit not longer than the time before it has none.
pub(super) fn near(
    now: Time,
    jobs: &[JobView],
    rules: &[(JobId, NumberedRules)],
) -> Vec<TimedEvent> {
    let mut events = Vec::new();
    for (id, rules) in rules {
        let Some(job) = jobs.iter().find(|job| job.job == *id) else { continue };
        let Some(limit) = job.time_limit else { continue };
        for (index, rule) in rules {
            if !rule.sends(NoticeEvent::Limit) || rule.before_limit >= limit {
                continue;
            }
            let runs = job.elements.iter().filter(|element| element.state == JobState::Running);
            let mut near = runs.filter_map(|element| {
                let end = element.started? + limit;
                (end <= now + rule.before_limit).then_some((element, end))
            });
            let Some((element, end)) = near.next() else { continue };
            let mark = match job.array {
                None => element.attempt.to_string(),
                Some(_) => String::new(),
            };
            let place = match job.array {
                None => String::new(),
                Some(_) => format!("element {}: ", element.element.index),
            };
            let text = format!("{place}reaches its time limit of {limit} in {}", end.since(now));
            events.push(TimedEvent {
                job: *id,
                event: NoticeEvent::Limit,
                rule: Some(*index),
                mark,
                text,
            });
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use muster_model::ElementId;
    use muster_model::notice::{NoticeAddress, NoticeRule};
    use muster_model::unit::Span;
    use muster_model::view::ElementView;

    use super::*;

    fn minutes(n: u64) -> Time {
        Time(n * 60_000)
    }

    #[test]
    fn a_limit_is_told_in_time_and_for_each_attempt() {
        let id = JobId(1);
        let rule = |on, minutes: u64| NoticeRule {
            on: vec![on],
            to: NoticeAddress::Mail("a@example.org".to_owned()),
            before_limit: Span::from_secs(minutes * 60),
        };
        let rules = vec![(
            id,
            vec![
                (0, rule(NoticeEvent::End, 15)),
                (1000, rule(NoticeEvent::Limit, 15)),
                // Longer than the limit: it would come with the start.
                (1001, rule(NoticeEvent::Limit, 60)),
            ],
        )];
        let mut job = JobView::blank(id, "a".to_owned(), "ann".into(), JobState::Running, Time(0));
        job.time_limit = Some(Span::from_secs(3600));
        let mut element = ElementView::blank(ElementId::single(id), JobState::Running);
        element.started = Some(minutes(10));
        element.attempt = 2;
        job.elements = vec![element];
        let jobs = [job];
        assert_eq!(near(minutes(54), &jobs, &rules), []);
        let events = near(minutes(55), &jobs, &rules);
        assert_eq!(events.len(), 1);
        assert_eq!((events[0].rule, events[0].mark.as_str()), (Some(1000), "2"));
        assert_eq!(events[0].text, "reaches its time limit of 1h in 15m");
        let mut waits = jobs;
        waits[0].elements[0].state = JobState::Pending;
        assert_eq!(near(minutes(69), &waits, &rules), []);
    }
}
