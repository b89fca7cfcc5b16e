//! Queue files that are written read back as the same tree, and look as a person would have written
//! them.

use muster_model::notice::NoticeEvent;
use muster_model::queue::IdleAction;
use muster_spec::access::idle_policy;
use muster_spec::{parse_queue_file, parse_queues, write_queues};

/// Reads, writes and compares with what is expected, which must read as the same.
fn check(given: &str, expected: &str) {
    let tree = parse_queues(given, None).unwrap();
    let written = write_queues(&tree, &[]).unwrap();
    assert_eq!(written, expected);
    assert_eq!(parse_queues(&written, None).unwrap(), tree);
}

#[test]
fn trees_are_written_as_they_are_read() {
    check(
        "queues: [{name: default}]",
        "half-life: 7d\npreemption: all\ndefault-queue: default\nqueues:\n  - {name: default}\n",
    );
    check(
        "half-life: 36h\nbackfill: conservative\npreemption: none\nplacement: spread\nestimates: predicted\ndefragment: {gpu-hours: 20, every: 1d}\n\
         default-queue: lab/b\nqueues:\n- {name: lab, weight: 3, quota: {H100: 8}, limits: {time: 2d}, queues: [{name: a, priority: [-5, 5], \
         protect: 30m}, {name: b, quota: {h100: 4}, borrow: 2, lend: 1, limits: {running-jobs: 1, gpus-per-user: 2, pending-jobs: 3, \
         borrowed-time: 90m}}]}\n- {name: 'true', budget: {gpu-hours: 9, gpu-hours-per-user: 2, every: 30d, start: 2026-11-01}, protect: always}",
        "half-life: 1d12h\nbackfill: conservative\nbackfill-depth: 16\npreemption: none\nplacement: spread\nestimates: predicted\ndefragment: {gpu-hours: 20, every: 1d}\n\
         default-queue: lab/b\nqueues:\n  - name: lab\n    weight: 3\n    quota: {h100: 8}\n    limits: {time: 2d}\n    queues:\n      \
         - {name: a, priority: [-5, 5], protect: 30m}\n      - {name: b, quota: {h100: 4}, borrow: 2, lend: 1, limits: {running-jobs: 1, \
         gpus-per-user: 2, pending-jobs: 3, borrowed-time: 1h30m}}\n  - {name: \"true\", budget: {gpu-hours: 9, gpu-hours-per-user: 2, every: 30d, \
         start: \"2026-11-01T00:00:00Z\"}, protect: always}\n",
    );
}

#[test]
fn the_policy_for_idle_jobs_is_inherited() {
    check(
        "queues: [{name: a, idle: {action: cancel}}, {name: b, idle: {after: 90s}}]",
        "half-life: 7d\npreemption: all\ndefault-queue: a\nqueues:\n  - {name: a, idle: {after: 30m, action: cancel}}\n  \
         - {name: b, idle: {after: 1m30s, action: notify}}\n",
    );
    let tree = "queues: [{name: lab, idle: {after: 1h, action: requeue}, queues: [{name: a}, {name: b, idle: {}}]}, {name: c}]";
    let tree = parse_queues(tree, None).unwrap();
    let of = |queue: &str| {
        idle_policy(&tree, &queue.into()).map(|policy| (policy.after.as_secs(), policy.action))
    };
    assert_eq!(of("lab/a"), Some((3600, IdleAction::Requeue)));
    assert_eq!(of("lab/b"), Some((1800, IdleAction::Notify)));
    assert_eq!(of("c"), None);
}

#[test]
fn notices_of_queues_are_beside_the_tree() {
    let text = "queues:
- {name: lab, notify: [a@example.org], queues: [{name: x}, {name: y, notify: {mail: y@example.org, on: failure}}, {name: z, notify: none}]}
- {name: other}
";
    let file = parse_queue_file(text, None).unwrap();
    let told: Vec<_> = file
        .notices
        .iter()
        .flat_map(|(queue, rules)| rules.iter().map(move |rule| (queue.as_str(), rule.to.label())))
        .collect();
    assert_eq!(
        told,
        [("lab/x", "a@example.org".to_owned()), ("lab/y", "y@example.org".to_owned())]
    );
    assert_eq!(file.notices[&"lab/y".into()][0].on, [NoticeEvent::Failure]);
    // The tree is as without them.
    let plain = "queues: [{name: lab, queues: [{name: x}, {name: y}, {name: z}]}, {name: other}]";
    assert_eq!(file.tree, parse_queues(plain, None).unwrap());
}

#[test]
fn comments_stand_above_and_what_no_file_can_say_is_refused() {
    let mut tree = parse_queues("queues: [{name: a}]", None).unwrap();
    let text = write_queues(&tree, &["from here".to_owned()]).unwrap();
    assert!(text.starts_with("# from here\nhalf-life"), "{text}");
    tree.queues[0].name = "a b".into();
    assert!(write_queues(&tree, &[]).is_err());
}
