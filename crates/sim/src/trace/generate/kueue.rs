//! Workloads of Kueue's generator of performance tests
//! (test/performance/scheduler/runner/generator): all sets of all queues in parallel, a workload
//! after each interval of its set. Nothing is random.

use std::sync::Arc;

use muster_model::Time;
use muster_spec::recipe::KueueQueue;
use muster_spec::{JobEnd, TraceJob};

/// Returns all workloads in order of creation. The class stands in for the user, who is unknown, so
/// that classes can be distinguished.
pub(super) fn jobs(queues: &[KueueQueue]) -> Vec<TraceJob> {
    let mut jobs = Vec::new();
    for queue in queues {
        for (set_number, set) in queue.sets.iter().enumerate() {
            let mut now = Time(0);
            for round in 0..set.count {
                for (number, (class, pods, task, runtime, priority)) in
                    set.workloads.iter().enumerate()
                {
                    now = now + set.interval;
                    jobs.push(TraceJob {
                        id: format!("{}/{class}-{set_number}-{round}-{number}", queue.name).into(),
                        submit: now,
                        runtime: Some(*runtime),
                        requested: None,
                        tasks: *pods,
                        task: task.clone(),
                        user: Some(Arc::clone(class)),
                        queue: Some(Arc::clone(&queue.name)),
                        priority: *priority,
                        started: None,
                        ended: JobEnd::Completed,
                    });
                }
            }
        }
    }
    jobs.sort_by_key(|job| job.submit);
    jobs
}

#[cfg(test)]
mod tests {
    use muster_spec::recipe::parse_recipe;

    use super::super::generate;

    #[test]
    fn workloads_are_created_an_interval_apart_in_every_queue() {
        let text = "
            resourceFlavor: {name: f}
            cohorts:
            - className: cohort
              count: 2
              queuesSets:
              - className: cq
                count: 1
                nominalQuota: \"20\"
                workloadsSets:
                - count: 2
                  creationIntervalMs: 100
                  workloads:
                  - {className: small, runtimeMs: 200, priority: 50, request: 500m, podCount: 2, tasLevel: rack}
                  - {className: odd, runtimeMs: 300, request: 1, podCount: 3}";
        let recipe = parse_recipe(text, None).unwrap();
        let jobs: Vec<_> = generate(&recipe, 0, None).collect();
        let shown: Vec<(&str, u64, u32, u32)> =
            jobs.iter().map(|job| (&*job.id, job.submit.0, job.tasks, job.task.cpus.0)).collect();
        assert_eq!(
            shown[..3],
            [
                ("cq-0-0-cohort-0/small-0-0-0", 100, 2, 500),
                ("cq-0-0-cohort-1/small-0-0-0", 100, 2, 500),
                ("cq-0-0-cohort-0/odd-0-0-1", 200, 1, 1000),
            ]
        );
        assert_eq!((shown.len(), shown[7].1, jobs[7].user.as_deref()), (8, 400, Some("odd")));
    }
}
